//! Directories: made before what they hold, finished after it, with a bounded number of descriptors at any depth.

use std::os::fd::AsFd;
use std::time::Instant;

use haul_sys::rustix::fs::FileType;

use crate::context::RunContext;
use crate::error::{Error, What};
use crate::tree::entry::{self, Step};
use crate::tree::walker::Walker;
use crate::tree::{precreate, share};
use crate::walk::{Descent, Listed, Listing, Spot};
use crate::work::frame::Frame;
use crate::work::subject::{Level, Top};

/// Copies the contents of a directory, and of the directories in it, depth first.
pub(crate) fn walk_tree(walker: &mut Walker<'_>, root: Frame, top: &mut Top) {
    let mut descent = Descent::new(walker.open_levels);
    descent.enter(root);
    while descent.innermost().is_some() {
        let stop = top.into_itself || walker.cx.cancelled();
        if !stop {
            share::share_and_rest(walker, descent.levels_mut(), top);
        }
        let Some(frame) = descent.innermost() else { return };
        let listed = if stop || frame.finished { None } else { next_name(walker, frame) };
        match listed {
            Some(listed) => {
                if let Some(child) = visit_child(walker, descent.levels(), &listed, top) {
                    descent.enter(*child);
                }
            }
            None => {
                precreate::unmake_rest(frame);
                leave(walker, &mut descent);
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
fn leave(walker: &mut Walker<'_>, descent: &mut Descent<Frame>) {
    if let Some(frame) = descent.innermost() {
        go_on_after_parts(walker, frame);
    }
    let Some((frame, reopened)) = descent.leave() else { return };
    let mut parent = descent.innermost();
    if let Err(error) = reopened {
        walker.worker.report.problem(error);
        parent.iter_mut().for_each(|parent| parent.finished = true);
    }
    if frame.is_part {
        return;
    }
    if let Some(frame) = share::wait_for_parts(walker, frame, parent) {
        share::leave_to_queue(walker.cx, &mut walker.worker, frame);
    }
}

/// The next of them.
fn next_listed(cx: RunContext<'_>, listing: &mut Listing) -> Option<Listed> {
    let selection = cx.services.selection.as_ref()?;
    listing.next_of_list(|start, most| selection.beside(start, most))
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
