//! One operand with everything below it. Directories are made before what they hold and finished after it, with a bounded
//! number of descriptors at any depth.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use haul_sys::Errno;
use haul_sys::filesystem::FilesystemType;
use haul_sys::rustix::fs::FileType;

use crate::context::RunContext;
use crate::error::{Error, What};
use crate::finish::{deletion, moved, naming, written};
use crate::links::DestDir;
use crate::list::Index;
use crate::publish::Sides;
use crate::tree::delete_at_last;
use crate::tree::walker::Walker;
use crate::tree::{dry_run, entry, precreate, share};
use crate::walk::{Descent, Listed, Listing, Operand, Spot};
use crate::work::directory::{Frame, overlap, would_be_within};
use crate::work::entry::{Level, Top};

/// Copies an operand with everything below it. `root` is the directory that holds its copy; one that cannot be opened is
/// none, and making anything there will say why.
pub(crate) fn copy_operand(
    walker: &mut Walker<'_>,
    source: Operand,
    dest: Spot<'_>,
    missing: bool,
    root: Option<&Arc<DestDir>>,
) {
    let cx = walker.worker.cx;
    let Some(listed) = listed_operand(walker) else { return };
    let mut top = Top { source: source.path().to_owned(), dest: dest.path.to_owned(), into_itself: false };
    written::will_write_beside(&mut walker.worker, dest);
    naming::give_names_if_one_is(&mut walker.worker, dest);
    let level = Level { dir: root, ancestors: &[], missing, is_regular: false, listed, made: None };
    let Some(frame) = visit(walker, source.spot(), dest, &level, &mut top) else { return };
    if cx.plan.delete.is_some() && !frame.place.fresh && overlap(&frame) {
        walker.worker.report.problem(Error::new(What::DeletionOverlaps, dest.path).and(&top.source));
        return;
    }
    if cx.plan.moves && may_overlap(cx, &frame, dest) {
        // What is moved, and what was moved already, could not be distinguished.
        let error = Error::new(What::CannotMove, source.path()).and(dest.path).errno(Errno::NOTEMPTY);
        walker.worker.report.problem(error);
        moved::let_stay(&mut walker.worker, &frame.place.source_inode, Some(&frame.place.dir));
        return;
    }
    // A descriptor less while the tree is copied.
    drop(source);
    let tidied = (cx.plan.deletes_at_last() && !frame.place.fresh).then(|| frame.directory());
    // Where a copy changes its own source, the order decides how it ends: that is the order of one thread.
    let pool = walker.pool.filter(|_| !overlap(&frame));
    let pool = std::mem::replace(&mut walker.pool, pool);
    if let Some(pool) = walker.pool {
        pool.fix(
            walker
                .worker
                .mover
                .jobs_of_profile(&cx.plan.data, frame.devices(), || frame.sides.as_deref().map(Sides::both)),
        );
        if cx.services.transfers.probe.has_heads(frame.devices()) {
            pool.start_low();
        } else {
            pool.start_remote_if(|| is_remote(&frame));
        }
    }
    walk_tree(walker, *frame, &mut top);
    cx.services.order.take_back();
    walker.drain();
    cx.services.order.forget();
    walker.pool = pool;
    if let Some(directory) = tidied {
        delete_at_last::delete_at_last(walker, directory);
    }
}

/// Whether a server has one of its two sides.
pub(crate) fn is_remote(frame: &Frame) -> bool {
    // Those that a server has are on no device of this machine: others are not asked.
    let may_be = frame.devices().iter().any(|device| device.major == 0);
    let sides = frame.sides.as_deref().filter(|_| may_be).map(Sides::both);
    sides.into_iter().flatten().any(|side| FilesystemType::of(side).is_ok_and(FilesystemType::is_remote))
}

/// Whether one side is in the other, or that is not certain; also of a directory that a dry run only plans.
fn may_overlap(cx: RunContext<'_>, frame: &Frame, dest: Spot<'_>) -> bool {
    match (&frame.sides, dest.dir()) {
        (Some(sides), Ok(holder)) if cx.plan.dry_run && frame.place.fresh => {
            would_be_within(sides.source.as_fd(), holder)
        }
        _ => overlap(frame),
    }
}

/// The number of the operand in the list, if there is a list; `None` if there is nothing to do in it.
fn listed_operand(walker: &Walker<'_>) -> Option<Option<Index>> {
    match &walker.worker.cx.services.selection {
        None => Some(None),
        Some(selection) => selection.roots.get(walker.operands.current).copied().flatten().map(Some),
    }
}

/// Copies the contents of a directory, and of the directories in it, depth first.
pub(crate) fn walk_tree(walker: &mut Walker<'_>, root: Frame, top: &mut Top) {
    let mut descent = Descent::new(walker.open_levels);
    descent.enter(root);
    while descent.innermost().is_some() {
        let stop = top.into_itself || walker.worker.cx.cancelled();
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
        Some(_) if frame.place.listed.is_some() => Ok((next_listed(walker.worker.cx, &mut frame.listing), false)),
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
            frame.place.unread.store(true, Ordering::Relaxed);
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

/// Copies one entry, or says what a copy would do about it; of a directory whose contents come next, this gives it to the caller.
fn visit(
    walker: &mut Walker<'_>,
    source: Spot<'_>,
    dest: Spot<'_>,
    level: &Level<'_>,
    top: &mut Top,
) -> Option<Box<Frame>> {
    match walker.worker.cx.plan.dry_run {
        true => dry_run::visit(walker, source, dest, level, top),
        false => entry::visit(walker, source, dest, level, top),
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
    let level = Level {
        dir: Some(&place.dir),
        ancestors: stack,
        missing: place.fresh,
        is_regular: listed.kind == Some(FileType::RegularFile),
        listed: listed.entry,
        made: listed.made,
    };
    let entered = visit(walker, source, dest, &level, top);
    if entered.is_none() {
        precreate::unmake(dest, listed);
    }
    walker.worker.paths = [source_path, dest_path];
    entered
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
    let plan = walker.worker.cx.plan;
    if plan.dry_run {
        if !plan.deletes_at_last() {
            deletion::delete_extra(&mut walker.worker, &frame.directory());
        }
        return;
    }
    if let Some(frame) = share::wait_for_parts(walker, frame, parent) {
        share::leave_to_queue(&mut walker.worker, frame);
    }
}

fn next_listed(cx: RunContext<'_>, listing: &mut Listing) -> Option<Listed> {
    let selection = cx.services.selection.as_ref()?;
    listing.next_of_list(|start, most| selection.beside(start, most))
}

#[cfg(test)]
mod operand_tests {
    use std::fs;

    use crate::context::test_support::Bench;
    use crate::plan::{Destination, Durable};
    use crate::tree::operands::copy_operands;
    use crate::tree::test_support::{alone, beside_other, copy_into, make_dir, plan, troubles, whole_tree};

    #[test]
    fn an_operand_finds_a_name_that_waits_for_its_device() {
        let mut bench = Bench::new(plan()).source("file", "first");
        make_dir(bench.source_path("dir"), 0o755);
        fs::write(bench.source_path("dir/file"), "second").unwrap();
        copy_into(&mut bench, &["file", "dir/file"]);
        bench.plan.durable = Durable::File;
        let ran = alone(&bench, |walker| {
            copy_operands(walker);
            walker.drain();
        });
        assert_eq!(troubles(&ran), [r#"error: will not overwrite just-created "dest/file" with "source/dir/file""#]);
        assert_eq!(bench.tree(), ["file: first"]);
    }

    #[test]
    fn names_that_wait_are_given_before_the_next_operand() {
        let mut bench = Bench::new(plan()).source("file", "last");
        make_dir(bench.source_path("dir"), 0o755);
        fs::write(bench.source_path("dir/below"), "first").unwrap();
        copy_into(&mut bench, &["dir", "file"]);
        bench.plan.durable = Durable::File;
        let ran = alone(&bench, |walker| {
            copy_operands(walker);
            bench.tree()
        });
        // That of the last one is given by the end of the run.
        assert_eq!(ran.value.iter().filter(|line| *line == "dir/").count(), 1);
        assert_eq!(fs::read(bench.dest_path("dir/below")).unwrap(), b"first");
        assert!(!ran.value.contains(&"file: last".to_owned()));
    }

    #[test]
    fn one_thread_copies_what_changes_its_own_source() {
        let mut bench = Bench::new(plan());
        fs::create_dir_all(bench.dest_path("d/d/sub")).unwrap();
        for name in ["a", "b", "c"] {
            fs::write(bench.dest_path("d/d/sub").join(name), name).unwrap();
        }
        bench.plan.sources = vec![bench.dest_path("d/d").into()];
        bench.plan.destination = Destination::Directory(bench.dest_path("").into());
        let ran = beside_other(&bench, |walker, _| {
            walker.spawn = &|_| panic!("something is given to another thread");
            copy_operands(walker);
            assert!(walker.pool.is_some(), "the next operand may be shared again");
        });
        assert_eq!(troubles(&ran), [""; 0]);
        assert_eq!(whole_tree(&bench.dest_path("d/sub")), ["a: a", "b: b", "c: c"]);
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
