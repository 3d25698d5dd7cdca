//! Reading again what was copied (`--verify`, `--checksum`), and sources that change while they are copied (`--if-changed`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use haul_io::moved::Moved;
use haul_io::strategy::WORTH_ASKING;
use haul_io::transfer::{Over, Transfer, is_pseudo_file};
use haul_io::verify::{Checked, Finding, Follower, Mismatch, Trouble, Wishes, compare_with_device};
use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::{OFlags, ftruncate};
use haul_sys::rustix::io::retry_on_intr;

use crate::context::{RunContext, Worker};
use crate::error::{Error, What};
use crate::events::Event;
use crate::plan::{DoneWhen, IfChanged, Verify};
use crate::recorded_progress::CheckpointLog;
use crate::work::file_data::{Broken, FileData};

/// What reading again has found of a file whose data was moved.
pub(crate) type ReadAgain = Result<Checked, Trouble>;

/// Moves the data; another thread notes how far that is on the device, where the next run may have to go on.
pub(crate) fn move_and_check(worker: &mut Worker<'_>, job: &FileData<'_>) -> Result<ReadAgain, Broken> {
    let Some(checkpoints) = job.transfer.checkpoints else { return move_and_read_again(worker, job) };
    let (moved, noted) = thread::scope(|scope| {
        let noting = thread::Builder::new().spawn_scoped(scope, || checkpoints.keep_up());
        if noting.is_err() {
            // No thread is to be had: then the next run begins anew.
            checkpoints.end(Over::Done);
        }
        let moved = move_and_read_again(worker, job);
        // After an error of the destination nobody knows what became of the data since the last checkpoint.
        let stopped =
            matches!(&moved, Err(Broken { error }) if error.as_ref().is_none_or(|error| error.what == What::Reading));
        checkpoints.end(if stopped { Over::Stopped } else { Over::Done });
        (moved, noting.ok().and_then(|noting| noting.join().ok()))
    });
    if let Some(complaint) = job.log.and_then(CheckpointLog::take_complaint) {
        worker.report.warning(&complaint);
    }
    match noted {
        Some(Err(errno)) if moved.is_ok() => Err(Broken::by(Error::new(What::Syncing, job.dest_path).errno(errno))),
        _ => moved,
    }
}

/// Moves the data, and reads it again if the plan asks for that: of large files while they are being moved, by another
/// thread.
fn move_and_read_again(worker: &mut Worker<'_>, job: &FileData<'_>) -> Result<ReadAgain, Broken> {
    let cx = worker.cx;
    let plan = cx.plan;
    if !plan.reads_again() {
        return worker.move_and_report(job).map(|()| Ok(Checked::default()));
    }
    // Another read of a pseudo-file may give other bytes than the one for the copy.
    let is_pseudo = plan.verify == Verify::Off && is_pseudo_file(&job.transfer.source, job.transfer.source_inode);
    let is_kept = matches!(job.transfer.dest_inode.kind, Kind::Regular | Kind::BlockDevice);
    let reader = reader(cx, job, is_pseudo && is_kept).map_err(Broken::by)?;
    let dest = (plan.verify == Verify::Read || is_pseudo && is_kept)
        .then(|| reader.as_ref().map_or(job.transfer.dest.as_fd(), AsFd::as_fd));
    let size = job.transfer.source_inode.size;
    let holes = size.saturating_sub(job.transfer.source_inode.allocated) >> 40;
    if holes > 0 {
        worker.report.warning(&Error::new(What::HolesReadAgain, job.source_path).detail(holes.to_string()));
    }
    let blocks = (plan.verify == Verify::Device).then_some(size);
    let wishes = Wishes { checksum: plan.checksum, blocks, exact: job.transfer.dest_inode.kind == Kind::Regular };
    let cancel = &cx.session.cancel;
    let source = job.transfer.source.as_fd();
    let counts = plan.done_when() == DoneWhen::Compared;
    let reported = AtomicU64::new(0);
    let tell = |checked: u64| {
        let more = checked.saturating_sub(reported.swap(checked, Ordering::Relaxed));
        if counts && more > 0 {
            cx.session.observer.event(&Event::Secured(more));
        }
    };
    let follow = |follower: &Follower| {
        let stop = || {
            tell(follower.checked());
            cancel.is_cancelled()
        };
        let found = follower.follow(cx.kernel, source, dest, wishes, &stop);
        tell(follower.checked());
        found
    };
    let by_another_thread = size >= WORTH_ASKING;
    let follower = if by_another_thread { Follower::default() } else { Follower::afterwards() };
    let mut job = job.clone();
    job.transfer.follower = Some(&follower);
    let (moved, checked) = thread::scope(|scope| {
        let other = by_another_thread.then(|| thread::Builder::new().spawn_scoped(scope, || follow(&follower)));
        let other = other.and_then(Result::ok);
        if other.is_none() {
            // No thread is to be had: then afterwards.
            follower.do_not_wait();
        }
        let moved = worker.move_and_report(&job);
        if moved.is_err() {
            follower.abandon();
        }
        let checked = match other {
            // It panicked: the hash's own threads could not be had, for all that is known.
            Some(other) => other.join().unwrap_or(Err(Trouble::Source(Errno::AGAIN))),
            None => follow(&follower),
        };
        (moved, checked)
    });
    moved?;
    match checked {
        Ok(checked) if is_pseudo && (checked.mismatch.is_some() || !is_kept) => {
            worker.report.warning(&Error::new(What::ChangedWhileCopied, job.source_path));
            Ok(Ok(Checked::default()))
        }
        checked => Ok(checked),
    }
}

/// An open file to read the copy back from, where the one that it is written through does not do; also without verification if
/// `compares`.
fn reader(cx: RunContext<'_>, job: &FileData<'_>, compares: bool) -> Result<Option<OwnedFd>, Error> {
    let kept = |kind| matches!(kind, Kind::Regular | Kind::BlockDevice);
    if !kept(job.transfer.source_inode.kind) {
        return Err(Error::new(What::CannotReadAgain, job.source_path));
    }
    if cx.plan.verify == Verify::Off && !compares {
        return Ok(None);
    }
    if !kept(job.transfer.dest_inode.kind) {
        return Err(Error::new(What::CannotReadAgain, job.dest_path));
    }
    if cx.plan.verify == Verify::Device || is_readable(job.transfer.dest.as_fd()) {
        return Ok(None);
    }
    let reader = cx.kernel.reopen_to_read(job.transfer.dest.as_fd(), false);
    reader.map(Some).map_err(|errno| Error::new(What::ReadingBack, job.dest_path).errno(errno))
}

/// What was found, if what was copied could be read again. If not, the copy is as good as none.
pub(crate) fn settle_check(job: &FileData<'_>, read: ReadAgain) -> Result<Checked, Broken> {
    let error = match read {
        Ok(checked) => return Ok(checked),
        Err(Trouble::Abandoned) => return Err(Broken { error: None }),
        Err(Trouble::Source(errno)) => Error::new(What::ReadingAgain, job.source_path).errno(errno),
        Err(Trouble::Dest(errno)) => Error::new(What::ReadingBack, job.dest_path).errno(errno),
        Err(Trouble::SourceEnded(_)) => Error::new(What::ChangedWhileCopied, job.source_path),
    };
    Err(Broken::by(error))
}

/// What was found of a copy that has its name from the beginning. False if it is not like its source.
pub(crate) fn judge_in_place(
    worker: &mut Worker<'_>,
    dest: BorrowedFd<'_>,
    inode: &Inode,
    path: &Path,
    checked: &Checked,
) -> bool {
    let differs = |mismatch: Mismatch| Error::new(What::MismatchInPlace, path).detail(mismatch.describe());
    if let Some(mismatch) = checked.mismatch {
        return worker.report.problem(differs(mismatch));
    }
    let Some(blocks) = &checked.blocks else { return true };
    let finding = retry_on_intr(|| worker.cx.kernel.sync(dest))
        .and_then(|()| compare_with_device(worker.cx.kernel, dest, blocks, inode.kind == Kind::Regular));
    match finding {
        Ok(Finding::Same) => true,
        Ok(Finding::Differs(mismatch)) => worker.report.problem(differs(mismatch)),
        Ok(Finding::NoMedium) => worker.report.problem(Error::new(What::NoMedium, path)),
        Err(errno) => worker.report.problem(Error::new(What::ReadingBack, path).errno(errno)),
    }
}

fn is_readable(file: BorrowedFd<'_>) -> bool {
    haul_sys::rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags & OFlags::ACCMODE == OFlags::RDWR)
}

/// How often a file is copied again before the copy fails.
const RETRIES: u32 = 3;

/// What is read of a server by one request of its client, in bytes, or less.
const ONE_REQUEST: u64 = 128 << 10;

/// Looks whether the source is what it was when its data began to move, and does what the plan says if it is not.
/// `inode` becomes what the copy is of, and what is returned is what reading it again has found. `before` is what this
/// thread had moved when it came to this file.
pub(crate) fn settle_changes(
    worker: &mut Worker<'_>,
    job: &FileData<'_>,
    inode: &mut Inode,
    before: Moved,
    mut read: ReadAgain,
) -> Result<ReadAgain, Broken> {
    let plan = worker.cx.plan;
    // The source was read once for the copy, and once more for the digest.
    let digest_may_differ = plan.checksum.is_some() && plan.verify == Verify::Off;
    if (plan.if_changed == IfChanged::Ignore && !digest_may_differ)
        || inode.kind != Kind::Regular
        || is_pseudo_file(&job.transfer.source, inode)
    {
        return Ok(read);
    }
    if inode.size == 0 && worker.report.stats.moved == before {
        // The copy is empty, as the source was at the first look, whatever has become of that since. Another look takes
        // 0.6 µs, and 2 % of the time of a million such files.
        return Ok(read);
    }
    let path = job.source_path;
    // Opening a file on a server has asked that; what is read by one request after that is of one moment.
    let look = if inode.id.device().major == 0 && inode.size > ONE_REQUEST { Inode::now } else { Inode::of };
    let mut attempts = 1;
    loop {
        let now = look(job.transfer.source.as_fd())
            .map_err(|errno| Broken::by(Error::new(What::CannotFstat, path).errno(errno)))?;
        if is_unchanged(inode, &now) {
            return Ok(read);
        }
        let again =
            matches!(job.transfer.dest_inode.kind, Kind::Regular | Kind::BlockDevice) && job.transfer.can_be_repeated();
        match plan.if_changed {
            IfChanged::Ignore | IfChanged::Warn => {
                worker.report.warning(&Error::new(What::ChangedWhileCopied, path));
                if let (Ok(checked), true) = (&mut read, digest_may_differ) {
                    checked.digest = None;
                }
                return Ok(read);
            }
            IfChanged::Retry if again && attempts <= RETRIES => {}
            IfChanged::Retry if attempts > 1 => {
                let error = Error::new(What::KeepsChanging, path).detail(attempts.to_string());
                return Err(Broken::by(error));
            }
            IfChanged::Retry | IfChanged::Fail => return Err(Broken::by(Error::new(What::ChangedWhileCopied, path))),
        }
        attempts += 1;
        *inode = now;
        if job.transfer.dest_inode.kind == Kind::Regular {
            retry_on_intr(|| ftruncate(&job.transfer.dest, 0))
                .map_err(|errno| Broken::by(Error::new(What::Truncating, job.dest_path).errno(errno)))?;
        }
        // What was noted, and what others have read, is of the source as it was.
        let mut next = job.clone();
        next.transfer = Transfer {
            source_inode: inode,
            start: 0,
            overwrites: false,
            checkpoints: None,
            elsewhere: None,
            ..next.transfer
        };
        read = move_and_check(worker, &next)?;
    }
}

/// Whether nothing shows a change in between. A change that leaves the size alone moves the times, but for one within
/// the kernel's tick (at most 10 ms; none since Linux 6.13 on the usual filesystems) after the first look, and for one
/// through a mapping that has not been written back.
fn is_unchanged(before: &Inode, after: &Inode) -> bool {
    before.is_same_file_as(after)
        && before.size == after.size
        && before.modified == after.modified
        && before.changed == after.changed
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "check_changes_tests.rs"]
mod changes_tests;
