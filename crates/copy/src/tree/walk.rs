//! Directories: made before what they hold, finished after it, with a bounded number of descriptors at any depth.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use haul_sys::inode::Inode;
use haul_sys::rustix::fs::{FileType, Mode, OFlags, openat};

use crate::context::RunContext;
use crate::error::{Error, What};
use crate::publish::Sides;
use crate::tree::entry::{self, Step};
use crate::tree::walker::Walker;
use crate::tree::{precreate, share};
use crate::walk::{Listed, Listing, PathNode, Spot};
use crate::work::frame::Frame;
use crate::work::subject::{Level, Top};

/// Copies the contents of a directory, and of the directories in it, depth first.
pub(crate) fn walk_tree(walker: &mut Walker<'_>, root: Frame, top: &mut Top) {
    let mut stack: Vec<Frame> = vec![root];
    while !stack.is_empty() {
        let stop = top.into_itself || walker.cx.cancelled();
        if !stop {
            share::share_and_rest(walker, &mut stack, top);
        }
        let Some(frame) = stack.last_mut() else { return };
        let listed = if stop || frame.finished { None } else { next_name(walker, frame) };
        match listed {
            Some(listed) => {
                if let Some(child) = visit_child(walker, &stack, &listed, top) {
                    stack.push(*child);
                    close_far_ancestors(&mut stack, walker.open_levels);
                }
            }
            None => {
                if let Some(mut frame) = stack.pop() {
                    precreate::unmake_rest(&mut frame);
                    leave(walker, frame, &mut stack);
                }
            }
        }
    }
}

fn next_name(walker: &mut Walker<'_>, frame: &mut Frame) -> Option<Listed> {
    if frame.sides.is_some()
        && let Some(listed) = frame.listing.next_of_batch()
    {
        return Some(listed);
    }
    let started = Instant::now();
    go_on_after_parts(walker, frame);
    let next = match &frame.sides {
        Some(_) if frame.place.listed.is_some() => Ok((next_listed(walker.cx, &mut frame.listing), false)),
        Some(sides) => frame.listing.read(sides.source.as_fd()).map(|read| (None, read)),
        None => Ok((None, false)),
    };
    walker.worker.report.stats.walk_time += started.elapsed();
    match next {
        Ok((None, true)) => {
            precreate::precreate(walker, frame);
            frame.listing.next_of_batch()
        }
        Ok((listed, _)) => listed,
        Err(errno) => {
            walker.worker.report.problem(Error::new(What::CannotAccess, frame.place.source_path.path()).errno(errno));
            None
        }
    }
}

/// What comes from here on comes after the parts that were given away.
fn go_on_after_parts(walker: &mut Walker<'_>, frame: &mut Frame) {
    if let Some(resume) = frame.resume.take() {
        walker.sink.switch_to(Some(resume));
    }
}

fn visit_child(walker: &mut Walker<'_>, stack: &[Frame], listed: &Listed, top: &mut Top) -> Option<Box<Frame>> {
    let parent = stack.last()?;
    let sides = parent.sides.as_ref()?;
    let place = &parent.place;
    let [mut source_path, mut dest_path] = std::mem::take(&mut walker.worker.paths);
    let (source_shown, dest_shown) =
        (source_path.entry(&place.source_path, &listed.name), dest_path.entry(&place.dest_path, &listed.name));
    let source = Spot::new(sides.source.as_fd(), &listed.name, source_shown);
    let dest = Spot::new(sides.dest.as_fd(), &listed.name, dest_shown);
    let is_regular = listed.kind == Some(FileType::RegularFile);
    let level = Level {
        dir: Some(&place.dir),
        sides: Some(sides),
        ancestors: stack,
        is_regular,
        listed: listed.entry,
        made: listed.made,
    };
    let step = entry::visit(walker, source, dest, place.fresh, &level, top);
    if matches!(step, Step::Done) {
        precreate::unmake(dest, listed);
    }
    walker.worker.paths = [source_path, dest_path];
    match step {
        Step::Enter(frame) => Some(frame),
        Step::Done => None,
    }
}

/// The last entry of a directory is done, as far as it was done here: the way back up is opened, and its attributes
/// are set once nothing of it is in other hands.
fn leave(walker: &mut Walker<'_>, mut frame: Frame, stack: &mut [Frame]) {
    go_on_after_parts(walker, &mut frame);
    if let Some(parent) = stack.last_mut()
        && let Err(error) = reopen(parent, &frame)
    {
        walker.worker.report.problem(error);
        parent.finished = true;
    }
    if frame.is_part {
        return;
    }
    if let Some(frame) = share::wait_for_parts(walker, frame, stack.last_mut()) {
        share::leave_to_queue(walker.cx, &mut walker.worker, frame);
    }
}

/// The next of them.
fn next_listed(cx: RunContext<'_>, listing: &mut Listing) -> Option<Listed> {
    let selection = cx.services.selection.as_ref()?;
    listing.next_of_list(|start, most| selection.beside(start, most))
}

/// Closes the directories that will be needed last, so that any depth does with `open` levels of descriptors.
/// A directory is reopened through the `..` of its child, so one whose child was reached through a link stays open.
fn close_far_ancestors(stack: &mut [Frame], open: usize) {
    let Some(far) = stack.len().checked_sub(open + 1) else { return };
    if stack.get(far + 1).is_some_and(|child| !child.through_link) {
        let frame = &mut stack[far];
        frame.sides = None;
        frame.listing.reopened();
    }
}

/// Opens the descriptors of a directory again, from its child, and makes sure that they are the same directories.
fn reopen(parent: &mut Frame, child: &Frame) -> Result<(), Error> {
    if parent.sides.is_some() {
        return Ok(());
    }
    let up = |fd: BorrowedFd<'_>, flags: OFlags, was: &Inode, path: &PathNode| -> Result<OwnedFd, Error> {
        let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(fd, "..", flags, Mode::empty())
            .and_then(|fd| Ok((Inode::of(fd.as_fd())?, fd)))
            .map_err(|errno| Error::new(What::CannotAccess, path.path()).errno(errno))?;
        if opened.0.is_same_file_as(was) { Ok(opened.1) } else { Err(Error::new(What::DirectoryMoved, path.path())) }
    };
    let Some(sides) = &child.sides else { return Ok(()) };
    let place = &parent.place;
    let source = up(sides.source.as_fd(), OFlags::RDONLY, &place.source_inode, &place.source_path)?;
    let dest = up(sides.dest.as_fd(), OFlags::PATH, &place.dest_inode, &place.dest_path)?;
    parent.sides = Some(Arc::new(Sides::new(source, dest, &place.dest_path)));
    Ok(())
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
