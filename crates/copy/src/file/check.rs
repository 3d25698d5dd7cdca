//! Reading again what was copied (`--verify`, `--checksum`), and what follows from it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread;

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::OFlags;
use haul_sys::rustix::io::retry_on_intr;

use crate::context::RunContext;
use crate::context::Worker;
use crate::error::{Error, What};
use crate::plan::Verify;
use crate::report::Reporter;
use crate::strategy::WORTH_ASKING;
use crate::transfer::{Broken, Over, Transfer};
use crate::verify::{Checked, Finding, Follower, Mismatch, Trouble, Wishes, compare_with_device};

/// What reading again has found of a file whose data was moved.
pub(crate) type ReadAgain = Result<Checked, Trouble>;

/// Moves the data once more, of a source that looks like this now.
pub(crate) fn move_again(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    job: &Transfer<'_>,
    source_inode: &Inode,
) -> Result<ReadAgain, Broken> {
    // What was noted is of the source as it was.
    move_and_check(cx, worker, &Transfer { source_inode, start: 0, checkpoints: None, ..job.clone() })
}

/// Moves the data; another thread notes how far that is on the device, where the next run may have to go on.
pub(crate) fn move_and_check(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    job: &Transfer<'_>,
) -> Result<ReadAgain, Broken> {
    let Some(checkpoints) = job.checkpoints else { return move_and_read_again(cx, worker, job) };
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
    match noted {
        Some(Ok(Some(complaint))) => worker.report.warning(&complaint),
        Some(Err(errno)) if moved.is_ok() => {
            return Err(Broken { error: Some(Error::new(What::Syncing, job.dest_path).errno(errno)) });
        }
        _ => {}
    }
    moved
}

/// Moves the data, and reads it again if the plan asks for that: of large files while they are being moved, by another
/// thread.
fn move_and_read_again(cx: RunContext<'_>, worker: &mut Worker<'_>, job: &Transfer<'_>) -> Result<ReadAgain, Broken> {
    let plan = cx.plan;
    if !plan.reads_again() {
        return worker
            .mover
            .move_data(job, plan, cx.session.control(), &mut worker.report.stats)
            .map(|()| Ok(Checked::default()));
    }
    let reader = reader(cx, job).map_err(|error| Broken { error: Some(error) })?;
    let dest = (plan.verify == Verify::Read).then(|| reader.as_ref().map_or(job.dest.as_fd(), AsFd::as_fd));
    let size = job.source_inode.size;
    let holes = size.saturating_sub(job.source_inode.allocated) >> 40;
    if holes > 0 {
        worker.report.warning(&Error::new(What::HolesReadAgain, job.source_path).detail(holes.to_string()));
    }
    let blocks = (plan.verify == Verify::Device).then_some(size);
    let wishes = Wishes { checksum: plan.checksum, blocks, exact: job.dest_inode.kind == Kind::Regular };
    let cancel = &cx.session.cancel;
    let source = job.source.as_fd();
    let follow = |follower: &Follower| follower.follow(cx.kernel, source, dest, wishes, &|| cancel.is_cancelled());
    let by_another_thread = size >= WORTH_ASKING;
    let follower = if by_another_thread { Follower::default() } else { Follower::afterwards() };
    let job = Transfer { follower: Some(&follower), ..job.clone() };
    let (moved, checked) = thread::scope(|scope| {
        let other = by_another_thread.then(|| thread::Builder::new().spawn_scoped(scope, || follow(&follower)));
        let other = other.and_then(Result::ok);
        if other.is_none() {
            // No thread is to be had: then afterwards.
            follower.do_not_wait();
        }
        let moved = worker.mover.move_data(&job, plan, cx.session.control(), &mut worker.report.stats);
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
fn reader(cx: RunContext<'_>, job: &Transfer<'_>) -> Result<Option<OwnedFd>, Error> {
    let kept = |kind| matches!(kind, Kind::Regular | Kind::BlockDevice);
    if !kept(job.source_inode.kind) {
        return Err(Error::new(What::CannotReadAgain, job.source_path));
    }
    if cx.plan.verify == Verify::Off {
        return Ok(None);
    }
    if !kept(job.dest_inode.kind) {
        return Err(Error::new(What::CannotReadAgain, job.dest_path));
    }
    if cx.plan.verify == Verify::Device || is_readable(job.dest.as_fd()) {
        return Ok(None);
    }
    let reader = cx.kernel.reopen_to_read(job.dest.as_fd(), false);
    reader.map(Some).map_err(|errno| Error::new(What::ReadingBack, job.dest_path).errno(errno))
}

/// What was found, if what was copied could be read again. If not, the copy is as good as none.
pub(crate) fn settle_check(job: &Transfer<'_>, read: ReadAgain) -> Result<Checked, Broken> {
    let error = match read {
        Ok(checked) => return Ok(checked),
        Err(Trouble::Abandoned) => return Err(Broken { error: None }),
        Err(Trouble::Source(errno)) => Error::new(What::ReadingAgain, job.source_path).errno(errno),
        Err(Trouble::Dest(errno)) => Error::new(What::ReadingBack, job.dest_path).errno(errno),
        Err(Trouble::SourceEnded(_)) => Error::new(What::ChangedWhileCopied, job.source_path),
    };
    Err(Broken { error: Some(error) })
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

#[cfg(test)]
mod tests {
    use std::fs::File;

    use haul_sys::rustix::pipe::pipe;

    use super::*;
    use crate::context::test_support::{Bench, Ran, transfer};
    use crate::plan::{Checksum, Plan};
    use crate::verify::Blocks;

    /// What came of a copy that was read again: its digest, or why there is none.
    type Told = Result<Option<String>, Option<Error>>;

    /// Copies `a` to `b`, which is open like this, and reads it again.
    fn check(bench: &Bench, dest: impl Into<OwnedFd>) -> Ran<Told> {
        let sides = [File::open(bench.source_path("a")).unwrap().into(), dest.into()];
        let inodes = sides.each_ref().map(|fd: &OwnedFd| Inode::of(fd.as_fd()).unwrap());
        bench.run(|cx, worker| {
            let job = transfer(sides, inodes.each_ref());
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
