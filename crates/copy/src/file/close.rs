//! A whole file gets its attributes, and is closed.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Kind};
use haul_sys::rustix::io::retry_on_intr;

use crate::attributes::{Keep, ReplacedFile, Set};
use crate::context::RunContext;
use crate::error::{Error, What};
use crate::file::open::OpenFiles;
use crate::finish::{undo, written};
use crate::meta::Side;
use crate::report::{Reported, Reporter};
use crate::walk::Spot;
use crate::work::dest_state::DestState;
use crate::work::file_data::Broken;
use crate::work::subject::Subject;
use crate::work::unfinished::Unfinished;

/// Sets the attributes of a whole file: those of the old one that it replaces, then those of the source as it was when it
/// was `copied`.
pub(crate) fn set_attributes(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    subject: &Subject<'_>,
    state: &DestState,
    (files, copied): (&OpenFiles, &Inode),
    unfinished: &Unfinished,
) -> Result<Set, Reported> {
    let found;
    let mut keep = files.keep(subject, copied);
    if let Some(replaced) = &state.replaced {
        found = inherit_or_give_up(cx, report, subject.dest, &keep, replaced, unfinished)?;
        // From here on it is a file that was found there.
        keep = Keep { created: false, dest: Side { inode: &found, ..keep.dest }, ..keep };
    }
    // What could not be kept is reported. Under a temporary name a whole file is of no use to anybody.
    Ok(cx.attributes().set_of_file(&keep, state.temporary, report))
}

/// Gives a new file what the old one had, or removes it; how the new one is then.
fn inherit_or_give_up(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    dest: Spot<'_>,
    keep: &Keep<'_>,
    replaced: &ReplacedFile,
    unfinished: &Unfinished,
) -> Result<Inode, Reported> {
    if cx.attributes().of_replaced(keep, replaced, report) {
        return Ok(Inode::of(keep.dest.object.fd).unwrap_or(*keep.dest.inode));
    }
    let error = Some(Error::new(What::NotTakenOver, keep.dest.path));
    undo::give_up(cx, report, dest, keep.dest.inode, (keep.created, unfinished), Broken { error });
    Err(Reported)
}

/// Closes a whole copy, or gives it back if it must stay open until it is on its device. An error if it turned out not to
/// be whole.
pub(crate) fn close(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    subject: &Subject<'_>,
    state: &DestState,
    files: OpenFiles,
    unfinished: &Unfinished,
) -> Result<Option<(OwnedFd, FileId)>, Reported> {
    let OpenFiles { dest: fd, dest_inode: inode, created, .. } = files;
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
        Ok(()) => Ok(None),
        Err(errno) => {
            // Some filesystems write only now: the data is not whole.
            let error = Error::new(What::Closing, subject.dest.path).errno(errno);
            undo::give_up(cx, report, subject.dest, &inode, (created, unfinished), Broken { error: Some(error) });
            Err(Reported)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::PathBuf;

    use haul_sys::inode::Time;

    use super::*;
    use crate::context::test_support::{Bench, Ran};
    use crate::file::open;
    use crate::plan::{Durable, Plan, Preserve};

    /// Opens `a` and `b`, and closes the copy; whether it stays open until it is on its device.
    fn close_b(bench: &Bench, temporary: bool) -> Ran<Result<bool, Reported>> {
        let (mut subject, state) = (bench.subject("a", "b"), DestState { temporary, ..bench.state("b") });
        bench.run(|cx, worker| {
            let unfinished = &mut Unfinished::default();
            let files = open::both_sides(cx, worker, &mut subject, &state, unfinished)?;
            close(cx, &mut worker.report, &subject, &state, files, unfinished).map(|open| open.is_some())
        })
    }

    fn durable(durable: Durable) -> Bench {
        Bench::new(Plan { durable, ..Plan::default() }).source("a", "new")
    }

    fn cannot_close(errno: Errno) -> String {
        format!(r#"error: failed to close "b": {errno}"#)
    }

    #[test]
    fn a_new_file_whose_sync_fails_is_removed() {
        let mut bench = durable(Durable::Flush);
        bench.writes_to_filesystem(false);
        bench.kernel.sync = Some(Errno::IO);
        let ran = close_b(&bench, false);
        ran.says(&[&cannot_close(Errno::IO)]);
        assert_eq!((ran.value, bench.tree(), ran.damaged), (Err(Reported), vec![], vec![]));
    }

    #[test]
    fn an_old_file_whose_sync_fails_is_damaged() {
        let mut bench = durable(Durable::Flush).dest("b", "half");
        bench.writes_to_filesystem(false);
        bench.kernel.sync = Some(Errno::IO);
        let ran = close_b(&bench, false);
        ran.says(&[&cannot_close(Errno::IO)]);
        assert_eq!((ran.value, ran.damaged), (Err(Reported), vec![PathBuf::from("b")]));
        assert_eq!(bench.tree(), ["b: half"]);
    }

    #[test]
    fn files_are_synced_only_where_filesystems_are_not() {
        for (plan, syncs_whole, syncs) in
            [(Durable::Flush, false, 1), (Durable::Flush, true, 0), (Durable::None, false, 0)]
        {
            let bench = durable(plan);
            bench.writes_to_filesystem(syncs_whole);
            let ran = close_b(&bench, false);
            ran.says(&[]);
            assert_eq!((ran.value, bench.kernel.synced().len()), (Ok(false), syncs), "{plan:?} {syncs_whole}");
        }
    }

    #[test]
    fn a_file_that_waits_for_its_name_stays_open() {
        let bench = durable(Durable::File);
        bench.writes_to_filesystem(false);
        assert_eq!(close_b(&bench, true).value, Ok(true));
        assert!(bench.kernel.synced().is_empty(), "it is synced when it gets its name");
        assert_eq!(close_b(&bench.dest("b", "old"), false).value, Ok(false), "this one has its name");
    }

    #[test]
    fn a_file_that_somebody_still_writes_is_not_whole() {
        let bench = durable(Durable::None);
        let (mut subject, state) = (bench.subject("a", "b"), bench.state("b"));
        let ran = bench.run(|cx, worker| {
            let unfinished = &mut Unfinished::default();
            let files = open::both_sides(cx, worker, &mut subject, &state, unfinished).unwrap();
            let _held = Arc::clone(&files.dest);
            close(cx, &mut worker.report, &subject, &state, files, unfinished).is_err()
        });
        ran.says(&[&cannot_close(Errno::BUSY)]);
        assert!(ran.value && bench.tree().is_empty());
    }

    #[test]
    fn a_copy_gets_the_times_that_its_source_had() {
        let preserve = Preserve { timestamps: true, ..Preserve::default() };
        let bench = Bench::new(Plan { preserve, ..Plan::default() }).source("a", "new");
        let (mut subject, state) = (bench.subject("a", "b"), bench.state("b"));
        let ran = bench.run(|cx, worker| {
            let unfinished = &mut Unfinished::default();
            let files = open::both_sides(cx, worker, &mut subject, &state, unfinished).unwrap();
            let copied = Inode { modified: Time { seconds: 1000, nanoseconds: 0 }, ..files.source_inode };
            set_attributes(cx, &mut worker.report, &subject, &state, (&files, &copied), unfinished).unwrap().kept
        });
        ran.says(&[]);
        assert!(ran.value);
        assert_eq!(fs::metadata(bench.dest_path("b")).unwrap().mtime(), 1000);
    }
}
