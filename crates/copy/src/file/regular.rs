//! The way of one file, from what was seen of its source to the name of its copy: everything that happens to it, in order.
//!
//! Both sides are opened ([`open`]), the data is moved and, if that is asked for, read again ([`fill`]), the attributes are
//! set and the file is closed ([`close`]). Where the plan wants that, all this happens under a temporary name in the directory
//! of the final one ([`temporary_file`]), which the file gets at last: at once, or when it is on its device.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Kind};
use haul_sys::rustix::fs::{AtFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat};
use haul_sys::rustix::io::retry_on_intr;

use crate::attributes::{Keep, Set};
use crate::context::Worker;
use crate::decide::copied_as_regular;
use crate::error::{Error, What};
use crate::events::Event;
use crate::file::open::{self, OpenDest, OpenFiles};
use crate::file::{check, fill, special, temporary_file};
use crate::finish::{naming, shard, undo, written};
use crate::meta::Side;
use crate::plan::DoneWhen;
use crate::report::{Loss, Reported};
use crate::work::entry::{DestState, FileOutcome, Subject, Unfinished};
use crate::work::file_data::Broken;

/// Makes the copy of what is neither a directory nor to be a link to the source, and says which file it is, if that is known.
pub(crate) fn make_file(
    worker: &mut Worker<'_>,
    subject: &mut Subject<'_>,
    state: &DestState,
) -> Result<Option<FileId>, Reported> {
    if !temporary_file::is_needed(worker.cx, subject, state) {
        let outcome = copy(worker, subject, state, &mut Unfinished::default())?;
        naming::tell_digest(&worker.report, subject.dest.path, &outcome.checked);
        return Ok(outcome.id);
    }
    let (temporary, new, mut unfinished) = temporary_file::begin(worker, subject, state)?;
    let spot = temporary.spot(subject.dest, &temporary.name);
    let sides = subject.sides.filter(|_| temporary.dir.is_none());
    let mut made = Subject { dest: spot, sides, opened: subject.opened.take(), ..*subject };
    let copied = copy(worker, &mut made, &new, &mut unfinished);
    let result = match copied.and_then(|outcome| with_attributes(worker, subject, outcome)) {
        Ok(outcome) => {
            let id = outcome.id;
            if outcome.loss.is_none() && outcome.checked.mismatch.is_none() {
                shard::note_for_other_names(worker, subject, spot);
            }
            // A copy that is not what it must be gets its name, but no other ones. What waits for its name still needs
            // its backup.
            let backed_up = outcome.unsynced.is_some() && state.backup.is_some();
            let may_have_other_names = outcome.loss.is_none() || backed_up;
            let published = temporary_file::publish_or_wait(worker, &temporary, spot, subject, outcome);
            if published {
                state.note_made(|| id);
            }
            if published && may_have_other_names { Ok(id) } else { Err(Reported) }
        }
        Err(Reported) => {
            // Attributes could not be kept, of what would stay without them. Everything else has gone already, or
            // stays for the next run. What cannot be removed has a temporary name only, and the copy has failed and was
            // reported anyway.
            if !unfinished.left {
                spot.unlink().ok();
            }
            Err(Reported)
        }
    };
    worker.cx.session.partials.done();
    result
}

/// A copy without its attributes is an error where the next run could keep them, and would leave it so. What differs from its source
/// is set aside in any case.
fn with_attributes(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    outcome: FileOutcome,
) -> Result<FileOutcome, Reported> {
    let may_lack_them = outcome.checked.mismatch.is_some() || !worker.cx.plan.passes_over_existing();
    if outcome.loss != Some(Loss::ForNow) || may_lack_them {
        return Ok(outcome);
    }
    Err(worker.report.fail(Error::new(What::LacksAttributes, subject.dest.path)))
}

/// Copies contents and attributes into a new file of this name, or into what stands there.
fn copy(
    worker: &mut Worker<'_>,
    subject: &mut Subject<'_>,
    state: &DestState,
    unfinished: &mut Unfinished,
) -> Result<FileOutcome, Reported> {
    let cx = worker.cx;
    if !copied_as_regular(subject.inode.kind, cx.plan) {
        return special::make_special(worker, subject, state);
    }
    let started = Instant::now();
    let files = open::both_sides(worker, subject, state, unfinished)?;
    let (dest_inode, seen) = (&files.dest.inode, &files.source_inode);
    let id = files.dest.known.then_some(dest_inode.id);
    if files.dest.created {
        state.note_made(|| id.or_else(|| Inode::of(files.dest.fd.as_fd()).ok().map(|inode| inode.id)));
    }
    if files.dest.created && unfinished.start == 0 {
        cx.attributes().prepare(&files.keep(subject, seen), &mut worker.report);
    }

    let filled = fill::contents(worker, subject, state, &files, unfinished);
    let moved = Instant::now();
    worker.report.stats.data_time += moved - started;
    let (copied, checked) = filled?;
    if !state.temporary {
        let dest = files.dest.fd.as_fd();
        if !check::judge_in_place(worker, dest, dest_inode, subject.dest.path, &checked) {
            return Err(Reported);
        }
    } else if unfinished.number.is_none() {
        // With `--resume` it stays for the next run.
        cx.session.partials.is_nameless(subject.dest, subject.sides, dest_inode.id);
    }
    worker.report.stats.regular += 1;

    let set = set_attributes(worker, subject, state, (&files, &copied), unfinished)?;
    let Set { kept, deferred } = set;
    worker.report.stats.metadata_time += moved.elapsed();
    // A second attempt was of a source that nobody had seen settle.
    let copied_again = copied.changed != seen.changed || copied.modified != seen.modified;
    let as_seen = kept.is_ok() && deferred.is_none() && !copied_again;
    worker.deferred.extend(deferred);

    written::sync_early(worker, dest_inode);
    let unsynced = close(worker, subject, state, files, unfinished)?;
    if kept.is_err() && !state.temporary {
        return Err(Reported);
    }
    let source = unfinished.print.filter(|_| as_seen);
    Ok(FileOutcome { id, checked, loss: kept.err(), unsynced, source })
}

/// Sets the attributes of a whole file: those of the old one that it replaces, then those of the source as it was when it
/// was `copied`. A new file that cannot get what the old one had is removed.
pub(crate) fn set_attributes(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    state: &DestState,
    (files, copied): (&OpenFiles, &Inode),
    unfinished: &Unfinished,
) -> Result<Set, Reported> {
    let found;
    let mut keep = files.keep(subject, copied);
    if let Some(replaced) = &state.replaced {
        if !worker.cx.attributes().of_replaced(&keep, replaced, &mut worker.report) {
            let error = Error::new(What::NotTakenOver, keep.dest.path);
            undo::give_up(worker, subject.dest, keep.dest.inode, (keep.created, unfinished), Broken::by(error));
            return Err(Reported);
        }
        found = Inode::of(keep.dest.object.fd).unwrap_or(*keep.dest.inode);
        // From here on it is a file that was found there.
        keep = Keep { created: false, dest: Side { inode: &found, ..keep.dest }, ..keep };
    }
    // What could not be kept is reported. Under a temporary name a whole file is of no use to anybody.
    Ok(worker.cx.attributes().set_of_file(&keep, state.temporary, &mut worker.report))
}

/// Closes a whole copy, or gives it back if it must stay open until it is on its device. An error if it turned out not to
/// be whole.
pub(crate) fn close(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    state: &DestState,
    files: OpenFiles,
    unfinished: &Unfinished,
) -> Result<Option<(OwnedFd, FileId)>, Reported> {
    let cx = worker.cx;
    let OpenDest { fd, inode, known, created, .. } = files.dest;
    // That of a block device tells nothing of what could not be written back (Linux 6.18), so it is asked first.
    let alone = inode.kind == Kind::BlockDevice || written::syncs_alone(cx, inode.id.device());
    let waits = state.temporary && cx.plan.names_wait();
    let synced = if alone && !waits { retry_on_intr(|| cx.kernel.sync(fd.as_fd())) } else { Ok(()) };
    // No engine holds a job now, so this is the last reference and the close is a real one.
    let closed = match Arc::try_unwrap(fd) {
        Ok(fd) if waits => return Ok(Some((fd, inode.id))),
        Ok(fd) => haul_sys::close(fd).and(synced),
        Err(_still_shared) => Err(Errno::BUSY),
    };
    match closed {
        Ok(()) => {
            if alone && cx.plan.done_when() == DoneWhen::Synced {
                worker.report.tell(&Event::Secured(subject.inode.size));
            }
            Ok(None)
        }
        Err(errno) => {
            // Some filesystems write only now: the data is not whole.
            let error = Error::new(What::Closing, subject.dest.path).errno(errno);
            let inode = if known { inode } else { as_made(subject, inode) };
            if !created {
                look_changed(subject, &inode);
            }
            undo::give_up(worker, subject.dest, &inode, (created, unfinished), Broken::by(error));
            Err(Reported)
        }
    }
}

/// Gives an old file, which has the times of its source already, another one: the next run must not take it for a whole copy.
fn look_changed(subject: &Subject<'_>, inode: &Inode) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: now };
    let (dest, is_it) = (subject.dest, |now: Inode| now.is_same_file_as(inode));
    // A link may lead to it.
    if dest.inode_following().is_ok_and(is_it)
        && let Ok(dir) = dest.dir()
    {
        // The error that is reported anyway says that the file is not whole.
        utimensat(dir, dest.name, &times, AtFlags::empty()).ok();
    }
}

/// A new file that was not looked at, by its name: it is closed.
fn as_made(subject: &Subject<'_>, made: Inode) -> Inode {
    let is_it = |now: &Inode| now.kind == Kind::Regular && now.links == 1 && now.id.device() == made.id.device();
    subject.dest.inode().ok().filter(is_it).unwrap_or(made)
}

#[cfg(test)]
#[path = "regular_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "regular_close_tests.rs"]
mod close_tests;
