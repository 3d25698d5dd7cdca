//! Moves the data of an open file, and looks whether it came through whole.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use haul_io::engine::ByteSource;
use haul_io::strategy::SMALL;
use haul_io::transfer::Checkpoints;
use haul_io::verify::Checked;
use haul_sys::inode::{Inode, Kind};
use haul_sys::kernel::can_share;
use haul_sys::rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, ftruncate};
use haul_sys::rustix::io::retry_on_intr;

use crate::context::{RunContext, Worker, free_space};
use crate::error::{Error, What};
use crate::file::check::{self, ReadAgain};
use crate::file::image::{self, Looked};
use crate::file::open::{OpenDest, OpenFiles};
use crate::finish::{resume, undo};
use crate::meta::{self, Object};
use crate::plan::Reflink;
use crate::report::{Reported, Reporter};
use crate::walk::Identity;
use crate::work::entry::{DestState, Subject, Unfinished};
use crate::work::file_data::{Broken, FileData};

/// Gives a destination the contents of its source: its data, or none if only attributes are copied, or just another time if
/// it has them already. Returns the source as it was when its data was copied, and what reading it again has found.
pub(crate) fn contents(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    state: &DestState,
    files: &OpenFiles,
    unfinished: &mut Unfinished,
) -> Result<(Inode, Checked), Reported> {
    let has_them = !files.dest.created && state.identity == Identity::DoubtfulAndFixed;
    let copied = if worker.cx.plan.attributes_only {
        // It is whole as it was made.
        worker.cx.session.partials.done();
        Some((files.source_inode, Checked::default()))
    } else if has_them {
        touch(&mut worker.report, subject, &files.dest.fd).then_some((files.source_inode, Checked::default()))
    } else {
        fill(worker, subject, files, unfinished)
    };
    if copied.is_none() && files.dest.replaced {
        worker.report.warning(&Error::new(What::Lost, subject.dest.path));
    }
    copied.ok_or(Reported)
}

/// What other processes have of a source.
fn elsewhere(cx: RunContext<'_>, subject: &Subject<'_>, source: &Inode) -> Option<Arc<dyn ByteSource>> {
    let shared = cx.session.shared_reads.filter(|_| source.kind == Kind::Regular && source.size >= SMALL)?;
    shared.of(subject.source.path, source)
}

/// Moves the data; on failure cleans up and reports. Returns the source as it was when its data was copied, and what reading
/// it again has found.
fn fill(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    files: &OpenFiles,
    unfinished: &mut Unfinished,
) -> Option<(Inode, Checked)> {
    let cx = worker.cx;
    let OpenDest { fd: dest, inode: dest_inode, created, .. } = &files.dest;
    let (created, mut copied) = (*created, files.source_inode);
    let peers = subject.remote.map(|remote| remote.with_copy(subject.dest.name));
    let mut job = files.data(subject, cx.plan.demands(), peers.as_deref());
    let log = resume::checkpoint_log(cx, &job, unfinished);
    let checkpoints = resume::checkpoints(cx, &job, unfinished, log.as_ref());
    job.log = log.as_ref();
    job.transfer.elsewhere = elsewhere(cx, subject, &files.source_inode);
    job.transfer.start = unfinished.start;
    job.transfer.checkpoints = checkpoints.as_ref();
    let regular = dest_inode.kind == Kind::Regular;
    if regular && created && checkpoints.is_none() {
        // A look at a disk image may take a moment, and a new file must not stay behind if it is stopped.
        cx.session.partials.begin(subject.dest, subject.sides, dest, created);
    } else {
        cx.session.partials.done(); // With checkpoints it stays for the next run.
    }
    let looked = image::look_for_free(cx, &job, created).map_err(|error| {
        undo::refuse(worker, subject.dest, (dest, Some(*dest_inode)), (created, unfinished), error);
    });
    let mut looked = looked.ok()?;
    if regular && !created {
        job.transfer.overwrites = looked.is_none()
            && !cx.plan.reads_again()
            && worker.mover.overwrites(&job.transfer, &cx.plan.data, cx.session.control());
        if !make_ready(worker, subject, files, job.transfer.overwrites) {
            return None;
        }
        // Of a device or a FIFO there is nothing to remove.
        cx.session.partials.begin(subject.dest, subject.sides, dest, created);
    }
    let whole_image = looked.take_if(|looked| looked.found.is_none());
    job.image = whole_image.as_ref().map(|looked| &looked.report);
    let before = worker.report.stats.moved;
    let (result, room) = move_with_room(worker, &mut job, looked.as_deref_mut());
    let result = match looked.is_some() {
        // The copy of an image looks for itself.
        true => result,
        false => result.and_then(|read| check::settle_changes(worker, &job, &mut copied, before, read)),
    };
    let whole = match result.and_then(|read| check::settle_check(&job, read)) {
        Ok(checked) => {
            unfinished.left = false;
            looked.or(whole_image).iter().for_each(|looked| worker.report.stats.count_image(&looked.report));
            Some((copied, checked))
        }
        Err(broken) => {
            unfinished.left = checkpoints.as_ref().is_some_and(|checkpoints| checkpoints.noted() > 0);
            let inode = Inode::of(dest.as_fd()).unwrap_or(*dest_inode);
            undo::give_up(worker, subject.dest, &inode, (created, unfinished), broken);
            None
        }
    };
    cx.session.partials.done();
    drop(room); // Not before a file that does not fit was removed.
    whole
}

/// Moves the data; once more if there was no room for it while others were at work. What is held of the room is to be
/// dropped when the file is whole or gone.
fn move_with_room<'a>(
    worker: &mut Worker<'a>,
    job: &mut FileData<'_>,
    mut looked: Option<&mut Looked<'_>>,
) -> (Result<ReadAgain, Broken>, free_space::Held<'a>) {
    let room: &'a free_space::FreeSpaceGate = &worker.cx.services.space_gate;
    let together = room.together();
    let result = move_image_or_whole(worker, job, looked.as_deref_mut());
    let may_fit_later = job.transfer.dest_inode.kind == Kind::Regular && free_space::ran_out(&result) && room.several;
    if !may_fit_later || !job.transfer.can_be_repeated() {
        return (result, free_space::Held::Together(together));
    }
    job.transfer.start = job.transfer.checkpoints.map_or(0, Checkpoints::noted);
    if let Some(checkpoints) = job.transfer.checkpoints {
        checkpoints.begin_again();
    }
    // If that fails, there is only less room for the next attempt.
    retry_on_intr(|| ftruncate(&job.transfer.dest, job.transfer.start)).ok();
    drop(together);
    let alone = free_space::Held::Alone(room.alone());
    if !free_space::would_fit(&job.transfer.dest, job.transfer.source_inode, job.transfer.start) {
        return (result, alone);
    }
    (move_image_or_whole(worker, job, looked), alone)
}

/// Leaves a file as it is that has the contents of the source already, and may be the source: it looks as if it had been
/// written to.
fn touch(report: &mut Reporter<'_>, subject: &Subject<'_>, dest: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: now };
    let touched = Object { fd: dest.as_fd(), path_only: false }.set_times(&times);
    report.check(touched, What::PreservingTimes, subject.dest.path).is_ok()
}

/// Makes an existing file empty, unless that is known to be in vain, or its contents are `overwritten` in one go.
fn make_ready(worker: &mut Worker<'_>, subject: &Subject<'_>, files: &OpenFiles, overwritten: bool) -> bool {
    let cx = worker.cx;
    let OpenDest { fd: dest, inode: dest_inode, .. } = &files.dest;
    // A refusal must leave the old contents alone, so it is provoked before they go.
    if cx.plan.data.reflink == Reflink::Always
        && let Err(errno) = can_share(cx.kernel, files.source.as_fd(), dest.as_fd())
    {
        let error = Error::new(What::CloneFailed, subject.dest.path).and(subject.source.path);
        return worker.report.problem(error.errno(errno));
    }
    let emptied = if overwritten { Ok(()) } else { retry_on_intr(|| ftruncate(dest, 0)) };
    if worker.report.check(emptied, What::CannotCreateRegular, subject.dest.path).is_err() {
        // It may have been done all the same (FUSE, network filesystems).
        if !Inode::of(dest.as_fd()).is_ok_and(|inode| inode.size > 0) {
            worker.report.damage(subject.dest.path);
        }
        return false;
    }
    let sides = [&files.source, dest].map(|fd| Object { fd: fd.as_fd(), path_only: false });
    let has_acl = || sides.into_iter().any(meta::has_acl);
    if let Some(mode) = meta::while_written(dest_inode, &files.source_inode, &cx.plan.preserve, has_acl)
        && mode != dest_inode.permissions
    {
        // Where this is not possible, neither is what follows the data, which reports it.
        sides[1].set_mode(mode).ok();
    }
    true
}

/// Moves the data once: that of a disk image without what is free in it, any other whole, and then reads it again if asked.
fn move_image_or_whole(
    worker: &mut Worker<'_>,
    job: &FileData<'_>,
    looked: Option<&mut Looked<'_>>,
) -> Result<ReadAgain, Broken> {
    match looked {
        Some(looked) => image::move_image(worker, job, looked).map(|()| Ok(Checked::default())),
        None => check::move_and_check(worker, job),
    }
}

#[cfg(test)]
#[path = "fill_tests.rs"]
mod tests;
