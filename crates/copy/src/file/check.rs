//! Reading again what was copied (`--verify`, `--checksum`), and sources that change while they are copied (`--if-changed`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
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
use crate::plan::{IfChanged, Verify};
use crate::progress::CheckpointLog;
use crate::report::Reporter;
use crate::work::file_data::{Broken, FileData};

/// What reading again has found of a file whose data was moved.
pub(crate) type ReadAgain = Result<Checked, Trouble>;

/// Moves the data once more, of a source that looks like this now.
pub(crate) fn move_again(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    job: &FileData<'_>,
    source_inode: &Inode,
) -> Result<ReadAgain, Broken> {
    // What was noted is of the source as it was.
    let mut job = job.clone();
    job.transfer = Transfer { source_inode, start: 0, checkpoints: None, ..job.transfer };
    move_and_check(cx, worker, &job)
}

/// Moves the data; another thread notes how far that is on the device, where the next run may have to go on.
pub(crate) fn move_and_check(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    job: &FileData<'_>,
) -> Result<ReadAgain, Broken> {
    let Some(checkpoints) = job.transfer.checkpoints else { return move_and_read_again(cx, worker, job) };
    let (moved, noted) = thread::scope(|scope| {
        let noting = thread::Builder::new().spawn_scoped(scope, || checkpoints.keep_up());
        if noting.is_err() {
            // No thread is to be had: then the next run begins anew.
            checkpoints.end(Over::Done);
        }
        let moved = move_and_read_again(cx, worker, job);
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
fn move_and_read_again(cx: RunContext<'_>, worker: &mut Worker<'_>, job: &FileData<'_>) -> Result<ReadAgain, Broken> {
    let plan = cx.plan;
    if !plan.reads_again() {
        return worker.move_data(cx, job).map(|()| Ok(Checked::default()));
    }
    let reader = reader(cx, job).map_err(Broken::by)?;
    let dest = (plan.verify == Verify::Read).then(|| reader.as_ref().map_or(job.transfer.dest.as_fd(), AsFd::as_fd));
    let size = job.transfer.source_inode.size;
    let holes = size.saturating_sub(job.transfer.source_inode.allocated) >> 40;
    if holes > 0 {
        worker.report.warning(&Error::new(What::HolesReadAgain, job.source_path).detail(holes.to_string()));
    }
    let blocks = (plan.verify == Verify::Device).then_some(size);
    let wishes = Wishes { checksum: plan.checksum, blocks, exact: job.transfer.dest_inode.kind == Kind::Regular };
    let cancel = &cx.session.cancel;
    let source = job.transfer.source.as_fd();
    let follow = |follower: &Follower| follower.follow(cx.kernel, source, dest, wishes, &|| cancel.is_cancelled());
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
        let moved = worker.move_data(cx, &job);
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
    moved.map(|()| checked)
}

/// An open file to read the copy back from, where the one that it is written through does not do.
fn reader(cx: RunContext<'_>, job: &FileData<'_>) -> Result<Option<OwnedFd>, Error> {
    let kept = |kind| matches!(kind, Kind::Regular | Kind::BlockDevice);
    if !kept(job.transfer.source_inode.kind) {
        return Err(Error::new(What::CannotReadAgain, job.source_path));
    }
    if cx.plan.verify == Verify::Off {
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
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    dest: BorrowedFd<'_>,
    inode: &Inode,
    path: &Path,
    checked: &Checked,
) -> bool {
    let differs = |mismatch: Mismatch| Error::new(What::MismatchInPlace, path).detail(mismatch.describe());
    if let Some(mismatch) = checked.mismatch {
        return report.problem(differs(mismatch));
    }
    let Some(blocks) = &checked.blocks else { return true };
    let finding = retry_on_intr(|| cx.kernel.sync(dest))
        .and_then(|()| compare_with_device(cx.kernel, dest, blocks, inode.kind == Kind::Regular));
    match finding {
        Ok(Finding::Same) => true,
        Ok(Finding::Differs(mismatch)) => report.problem(differs(mismatch)),
        Ok(Finding::NoMedium) => report.problem(Error::new(What::NoMedium, path)),
        Err(errno) => report.problem(Error::new(What::ReadingBack, path).errno(errno)),
    }
}

fn is_readable(file: BorrowedFd<'_>) -> bool {
    haul_sys::rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags & OFlags::ACCMODE == OFlags::RDWR)
}

/// How often a file is copied again before the copy fails.
const RETRIES: u32 = 3;

/// Looks whether the source is what it was when its data began to move, and does what the plan says if it is not.
/// `inode` becomes what the copy is of, and what is returned is what reading it again has found. `before` is what this
/// thread had moved when it came to this file.
pub(crate) fn settle_changes(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    job: &FileData<'_>,
    inode: &mut Inode,
    before: Moved,
    mut read: ReadAgain,
) -> Result<ReadAgain, Broken> {
    let plan = cx.plan;
    if plan.if_changed == IfChanged::Ignore
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
    let mut attempts = 1;
    loop {
        let now = Inode::of(job.transfer.source.as_fd())
            .map_err(|errno| Broken::by(Error::new(What::CannotFstat, path).errno(errno)))?;
        if is_unchanged(inode, &now) {
            return Ok(read);
        }
        let again = matches!(job.transfer.dest_inode.kind, Kind::Regular | Kind::BlockDevice);
        match plan.if_changed {
            IfChanged::Ignore => return Ok(read),
            IfChanged::Warn => {
                worker.report.warning(&Error::new(What::ChangedWhileCopied, path));
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
        read = move_again(cx, worker, job, inode)?;
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
mod tests {
    use std::fs::File;

    use haul_io::verify::Blocks;
    use haul_sys::rustix::pipe::pipe;

    use super::*;
    use crate::context::test_support::{Bench, Ran, file_data};
    use crate::plan::{Checksum, Plan};

    /// What came of a copy that was read again: its digest, or why there is none.
    type Told = Result<Option<String>, Option<Error>>;

    /// Copies `a` to `b`, which is open like this, and reads it again.
    fn check(bench: &Bench, dest: impl Into<OwnedFd>) -> Ran<Told> {
        let sides = [File::open(bench.source_path("a")).unwrap().into(), dest.into()];
        let inodes = sides.each_ref().map(|fd: &OwnedFd| Inode::of(fd.as_fd()).unwrap());
        bench.run(|cx, worker| {
            let job = file_data(sides, inodes.each_ref());
            let read = move_and_check(cx, worker, &job);
            let checked = read.and_then(|read| settle_check(&job, read)).map_err(|broken| broken.error)?;
            Ok(checked.mismatch.map(|at| format!("differs at {}", at.offset)).or(checked.digest))
        })
    }

    fn for_writing(bench: &Bench) -> File {
        File::create(bench.dest_path("b")).unwrap()
    }

    fn for_both(bench: &Bench) -> File {
        File::options().create(true).truncate(true).read(true).write(true).open(bench.dest_path("b")).unwrap()
    }

    fn verified() -> Bench {
        Bench::new(Plan { verify: Verify::Read, ..Plan::default() }).source("a", "new")
    }

    /// The MD5 of `new`.
    const DIGEST: &str = "22af645d1859cb5ca6da0c484f1f37ea";

    #[test]
    fn a_copy_that_is_like_its_source_passes() {
        let bench = verified();
        for dest in [for_writing(&bench), for_both(&bench)] {
            let ran = check(&bench, dest);
            ran.says(&[]);
            assert_eq!((ran.value, bench.tree()), (Ok(None), vec!["b: new".into()]));
        }
    }

    #[test]
    fn a_copy_that_differs_from_its_source_is_found() {
        let mut bench = verified();
        bench.kernel.spoil = true;
        assert_eq!(check(&bench, for_both(&bench)).value, Ok(Some("differs at 0".into())));
    }

    #[test]
    fn a_copy_that_cannot_be_opened_to_be_read_fails() {
        let mut bench = verified();
        bench.kernel.reopen_to_read = Some(Errno::ACCESS);
        let ran = check(&bench, for_writing(&bench));
        let error = Error::new(What::ReadingBack, "b").errno(Errno::ACCESS);
        assert_eq!((ran.value, ran.moves), (Err(Some(error)), 0), "and before anything is written");
        assert_eq!(check(&bench, for_both(&bench)).value, Ok(None), "this one can be read as it is");
    }

    #[test]
    fn a_source_that_cannot_be_read_again_fails() {
        let mut bench = verified();
        bench.kernel.pread = Some(Errno::IO);
        let error = Error::new(What::ReadingAgain, "a").errno(Errno::IO);
        assert_eq!(check(&bench, for_both(&bench)).value, Err(Some(error)));
    }

    #[test]
    fn a_stream_cannot_be_verified() {
        let bench = verified();
        let (_reader, writer) = pipe().unwrap();
        let ran = check(&bench, writer);
        assert_eq!((ran.value, ran.moves), (Err(Some(Error::new(What::CannotReadAgain, "b"))), 0));
    }

    #[test]
    fn a_digest_needs_nothing_of_the_copy() {
        let mut bench = Bench::new(Plan { checksum: Some(Checksum::Md5), ..Plan::default() }).source("a", "new");
        bench.kernel.reopen_to_read = Some(Errno::ACCESS);
        let (_reader, writer) = pipe().unwrap();
        assert_eq!(check(&bench, writer).value, Ok(Some(DIGEST.into())));
    }

    #[test]
    fn nothing_is_read_again_unless_asked() {
        let mut bench = Bench::new(Plan::default()).source("a", "new");
        bench.kernel.pread = Some(Errno::IO);
        assert_eq!(check(&bench, for_writing(&bench)).value, Ok(None));
        assert_eq!(bench.tree(), ["b: new"]);
    }

    /// Judges `b`, which has its name, by what was found of it.
    fn judge(bench: &Bench, checked: &Checked) -> Ran<bool> {
        let dest = File::open(bench.dest_path("b")).unwrap();
        let inode = Inode::of(dest.as_fd()).unwrap();
        bench.run(|cx, worker| judge_in_place(cx, &mut worker.report, dest.as_fd(), &inode, Path::new("b"), checked))
    }

    #[test]
    fn a_copy_in_place_that_differs_is_reported() {
        let bench = verified().dest("b", "half");
        let mismatch = Mismatch { offset: 7, source: 1, dest: 2 };
        let ran = judge(&bench, &Checked { mismatch: Some(mismatch), ..Checked::default() });
        ran.says(&[&format!(r#"error: the copy "b" differs from its source {}"#, mismatch.describe())]);
        assert_eq!((ran.value, bench.tree()), (false, vec!["b: half".into()]));
        assert!(judge(&bench, &Checked::default()).value);
    }

    /// What was found of a copy that is to be read from its device.
    fn by_blocks() -> Checked {
        Checked { blocks: Some(Blocks { size: 1 << 20, hashes: vec![1], total: 4 }), ..Checked::default() }
    }

    #[test]
    fn a_copy_in_place_is_read_back_after_its_sync() {
        let mut bench = verified().dest("b", "half");
        judge(&bench, &by_blocks());
        assert_eq!(bench.kernel.synced(), ["a file, with [b: half]"]);
        bench.kernel.sync = Some(Errno::IO);
        let ran = judge(&bench, &by_blocks());
        ran.says(&[&format!(r#"error: error reading back "b" to verify it: {}"#, Errno::IO)]);
        assert!(!ran.value);
    }
}

#[cfg(test)]
mod changes_tests {
    use haul_io::verify::Checked;
    use haul_sys::inode::Time;

    use super::*;
    use crate::context::test_support::{Bench, Ran, file_data};
    use crate::plan::Plan;

    fn inode(bench: &Bench) -> Inode {
        bench.from("a").inode().unwrap()
    }

    fn earlier(time: Time) -> Time {
        Time { seconds: time.seconds - 1, ..time }
    }

    #[test]
    fn whatever_stat_tells_of_a_change_counts() {
        let bench = Bench::new(Plan::default()).source("a", "new").source("other", "new");
        let now = inode(&bench);
        let other = bench.from("other").inode().unwrap();
        assert!(is_unchanged(&now, &now));
        for before in [
            Inode { size: 4, ..now },
            Inode { modified: earlier(now.modified), ..now },
            Inode { changed: earlier(now.changed), ..now },
            Inode { id: other.id, ..now },
        ] {
            assert!(!is_unchanged(&before, &now), "{before:?}");
        }
        let read = Inode { accessed: earlier(now.accessed), permissions: 0, ..now };
        assert!(is_unchanged(&read, &now), "what was read or has another mode has the same contents");
    }

    /// Looks at `a` after it was copied, when it had been `seen` before. Whether it had changed.
    fn settle(bench: &Bench, seen: Inode, moved: Moved) -> Ran<bool> {
        let sides = [bench.from("a"), bench.from("a")].map(|spot| spot.open_path().unwrap());
        bench.run(|cx, worker| {
            let job = file_data(sides, [&seen, &seen]);
            worker.report.stats.moved = moved;
            let before = Moved::default();
            settle_changes(cx, worker, &job, &mut { seen }, before, Ok(Checked::default())).is_err()
        })
    }

    fn failing() -> Bench {
        Bench::new(Plan { if_changed: IfChanged::Fail, ..Plan::default() })
    }

    #[test]
    fn an_empty_copy_is_not_looked_at_again() {
        let bench = failing().source("a", "");
        let seen = Inode { changed: earlier(inode(&bench).changed), ..inode(&bench) };
        assert!(!settle(&bench, seen, Moved::default()).value);
        assert!(settle(&bench, seen, Moved { written: 1, ..Moved::default() }).value, "it was not empty any more");
    }

    #[test]
    fn only_regular_sources_are_looked_at_again() {
        let bench = failing().source("a", "new");
        let seen = Inode { changed: earlier(inode(&bench).changed), ..inode(&bench) };
        assert!(settle(&bench, seen, Moved::default()).value);
        assert!(!settle(&bench, Inode { kind: Kind::Fifo, ..seen }, Moved::default()).value);
    }
}
