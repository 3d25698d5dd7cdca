//! Moves the data of an open file, and looks whether it came through whole.

use std::os::fd::{AsFd, OwnedFd};

use haul_io::transfer::Checkpoints;
use haul_io::verify::Checked;
use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::kernel::Kernel;
use haul_sys::rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, ftruncate};
use haul_sys::rustix::io::retry_on_intr;

use crate::context::{RunContext, Worker, free_space};
use crate::error::{Error, What};
use crate::file::check::{self, ReadAgain};
use crate::file::image::{self, Looked};
use crate::file::open::OpenFiles;
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
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    state: &DestState,
    files: &OpenFiles,
    unfinished: &mut Unfinished,
) -> Result<(Inode, Checked), Reported> {
    let has_them = !files.created && state.identity == Identity::DoubtfulAndFixed;
    let copied = if cx.plan.attributes_only {
        // It is whole as it was made.
        cx.session.partials.done();
        Some((files.source_inode, Checked::default()))
    } else if has_them {
        touch(&mut worker.report, subject, &files.dest).then_some((files.source_inode, Checked::default()))
    } else {
        fill(cx, worker, subject, files, unfinished)
    };
    if copied.is_none() && files.replaced {
        worker.report.warning(&Error::new(What::Lost, subject.dest.path));
    }
    copied.ok_or(Reported)
}

/// Moves the data; on failure cleans up and reports. Returns the source as it was when its data was copied, and what reading
/// it again has found.
fn fill(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    files: &OpenFiles,
    unfinished: &mut Unfinished,
) -> Option<(Inode, Checked)> {
    let OpenFiles { source, source_inode, dest, dest_inode, created, .. } = files;
    let (created, mut copied) = (*created, *source_inode);
    let peers = subject.remote.map(|remote| remote.with_copy(subject.dest.name));
    let mut job = files.data(subject, cx.plan.demands(), peers.as_deref());
    let log = resume::checkpoint_log(cx, &job, unfinished);
    let checkpoints = resume::checkpoints(cx, &job, unfinished, log.as_ref());
    job.log = log.as_ref();
    job.transfer.start = unfinished.start;
    job.transfer.checkpoints = checkpoints.as_ref();
    let regular = dest_inode.kind == Kind::Regular;
    if regular && created && checkpoints.is_none() {
        // A look at a disk image may take a moment, and a new file must not stay behind if it is stopped.
        cx.session.partials.begin(subject.dest, subject.sides, dest, created);
    } else {
        cx.session.partials.done(); // With checkpoints it stays for the next run.
    }
    let looked = image::look_for_free(cx, &job, created, &cx.services.images).map_err(|error| {
        undo::refuse(cx, &mut worker.report, subject.dest, (dest, dest_inode), (created, unfinished), error);
    });
    let mut looked = looked.ok()?;
    if regular && !created {
        if !empty(cx, &mut worker.report, subject, (source, source_inode), (dest, dest_inode)) {
            return None;
        }
        // Of a device or a FIFO there is nothing to remove.
        cx.session.partials.begin(subject.dest, subject.sides, dest, created);
    }
    let whole_image = looked.take_if(|looked| looked.found.is_none());
    job.image = whole_image.as_ref().map(|looked| &looked.report);
    let before = worker.report.stats.moved;
    let (result, room) = move_with_room(cx, worker, &mut job, looked.as_deref_mut());
    let result = match looked.is_some() {
        // The copy of an image looks for itself.
        true => result,
        false => result.and_then(|read| check::settle_changes(cx, worker, &job, &mut copied, before, read)),
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
            undo::give_up(cx, &mut worker.report, subject.dest, &inode, (created, unfinished), broken);
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
    cx: RunContext<'a>,
    worker: &mut Worker<'_>,
    job: &mut FileData<'_>,
    mut looked: Option<&mut Looked<'_>>,
) -> (Result<ReadAgain, Broken>, free_space::Held<'a>) {
    let room: &'a free_space::FreeSpaceGate = &cx.services.space_gate;
    let together = room.together();
    let result = move_data(cx, worker, job, looked.as_deref_mut());
    if job.transfer.dest_inode.kind != Kind::Regular || !free_space::ran_out(&result) || !cx.services.space_gate.several
    {
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
    if !free_space::would_fit(&job.transfer.dest, job.transfer.source_inode) {
        return (result, alone);
    }
    (move_data(cx, worker, job, looked), alone)
}

/// Leaves a file as it is that has the contents of the source already, and may be the source: it looks as if it had been
/// written to.
fn touch(report: &mut Reporter<'_>, subject: &Subject<'_>, dest: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: now };
    let touched = Object { fd: dest.as_fd(), path_only: false }.set_times(&times);
    report.check(touched, What::PreservingTimes, subject.dest.path).is_ok()
}

/// Makes an existing file empty, unless that is known to be in vain.
pub(crate) fn empty(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    subject: &Subject<'_>,
    (source, source_inode): (&OwnedFd, &Inode),
    (dest, dest_inode): (&OwnedFd, &Inode),
) -> bool {
    // A refusal must leave the old contents alone, so it is provoked before they go.
    if cx.plan.data.reflink == Reflink::Always
        && let Err(errno) = can_share(cx.kernel, source, dest)
    {
        let error = Error::new(What::CloneFailed, subject.dest.path).and(subject.source.path);
        return report.problem(error.errno(errno));
    }
    if report.check(retry_on_intr(|| ftruncate(dest, 0)), What::CannotCreateRegular, subject.dest.path).is_err() {
        // It may have been done all the same (FUSE, network filesystems).
        if !Inode::of(dest.as_fd()).is_ok_and(|inode| inode.size > 0) {
            report.damage(subject.dest.path);
        }
        return false;
    }
    if let Some(mode) = meta::while_written(dest_inode, source_inode, &cx.plan.preserve)
        && mode != dest_inode.permissions
    {
        // Where this is not possible, neither is what follows the data, which reports it.
        Object { fd: dest.as_fd(), path_only: false }.set_mode(mode).ok();
    }
    true
}

pub(crate) fn move_data(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    job: &FileData<'_>,
    looked: Option<&mut Looked<'_>>,
) -> Result<ReadAgain, Broken> {
    match looked {
        Some(looked) => image::move_image(cx, &mut worker.report, job, looked).map(|()| Ok(Checked::default())),
        None => check::move_and_check(cx, worker, job),
    }
}

/// Whether two files can share extents at all. Asks for a range that no filesystem grants, since it begins within a block:
/// one that can share says EINVAL, and nothing has changed.
fn can_share(kernel: &dyn Kernel, source: &OwnedFd, dest: &OwnedFd) -> Result<(), Errno> {
    match kernel.clone_range(source.as_fd(), dest.as_fd(), 1, 1) {
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::MetadataExt;
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::context::Services;
    use crate::context::test_support::{Bench, Ran, file_data};
    use crate::file::open;
    use crate::meta::Caller;
    use crate::plan::{DataOptions, IfChanged, Plan};

    /// Opens `a` and `b` as they are found, and fills `b`. What is returned is whether it has its contents.
    fn fill_b(bench: &Bench, identity: Identity) -> Ran<bool> {
        let (mut subject, state) = (bench.subject("a", "b"), DestState { identity, ..bench.state("b") });
        bench.run(|cx, worker| {
            let unfinished = &mut Unfinished::default();
            let files = open::both_sides(cx, worker, &mut subject, &state, unfinished).unwrap();
            contents(cx, worker, &subject, &state, &files, unfinished).is_ok()
        })
    }

    fn only_shared() -> Bench {
        Bench::new(Plan { data: DataOptions { reflink: Reflink::Always, ..DataOptions::default() }, ..Plan::default() })
            .source("a", "new")
            .dest("b", "old")
    }

    #[test]
    fn a_refused_reflink_leaves_the_old_contents() {
        let mut bench = only_shared();
        bench.kernel.clone_range = Some(Errno::OPNOTSUPP);
        let ran = fill_b(&bench, Identity::Two);
        ran.says(&[&format!(r#"error: failed to clone "b" from "a": {}"#, Errno::OPNOTSUPP)]);
        assert_eq!((ran.value, bench.tree(), ran.damaged), (false, vec!["b: old".into()], vec![]));
        assert_eq!(bench.partials.remove_all(), [], "it is not damaged if the process ends now");
    }

    #[test]
    fn a_range_that_nobody_shares_is_no_refusal() {
        let mut bench = only_shared();
        bench.kernel.clone_range = Some(Errno::INVAL);
        fill_b(&bench, Identity::Two);
        assert_ne!(bench.tree(), ["b: old"], "the old contents have gone, and sharing was tried");
    }

    #[test]
    fn a_longer_file_is_cut() {
        let bench = Bench::new(Plan::default()).source("a", "new").dest("b", "old and longer");
        let ran = fill_b(&bench, Identity::Two);
        ran.says(&[]);
        assert_eq!((ran.value, bench.tree(), ran.moves), (true, vec!["b: new".into()], 1));
    }

    #[test]
    fn no_data_is_moved_where_only_attributes_are_copied() {
        let plan = Plan { attributes_only: true, ..Plan::default() };
        for (dest, after) in [(None, "b: "), (Some("old"), "b: old")] {
            let mut bench = Bench::new(plan.clone()).source("a", "new");
            if let Some(old) = dest {
                bench = bench.dest("b", old);
            }
            let ran = fill_b(&bench, Identity::Two);
            ran.says(&[]);
            assert_eq!((ran.value, bench.tree(), ran.moves), (true, vec![after.into()], 0));
        }
    }

    #[test]
    fn a_file_without_data_is_whole_at_once() {
        let bench = Bench::new(Plan { attributes_only: true, ..Plan::default() }).source("a", "new");
        let (mut subject, state) = (bench.subject("a", "b"), bench.state("b"));
        bench.run(|cx, worker| {
            let unfinished = &mut Unfinished::default();
            let files = open::both_sides(cx, worker, &mut subject, &state, unfinished).unwrap();
            contents(cx, worker, &subject, &state, &files, unfinished).unwrap();
            assert_eq!(bench.partials.remove_all(), [], "as when the process ends, with the file open");
        });
        assert_eq!(bench.tree(), ["b: "]);
    }

    #[test]
    fn a_file_that_may_be_the_source_is_only_touched() {
        let bench = Bench::new(Plan::default()).source("a", "the same").dest("b", "the same");
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        File::options().write(true).open(bench.dest_path("b")).unwrap().set_modified(long_ago).unwrap();
        let ran = fill_b(&bench, Identity::DoubtfulAndFixed);
        ran.says(&[]);
        assert_eq!((ran.value, bench.tree(), ran.moves), (true, vec!["b: the same".into()], 0));
        assert_ne!(fs::metadata(bench.dest_path("b")).unwrap().mtime(), 1000);
    }

    /// A source that changes while it is copied, which fails the copy.
    fn changing() -> Bench {
        let mut bench = Bench::new(Plan { if_changed: IfChanged::Fail, ..Plan::default() }).source("a", "new");
        bench.before_data = Some(Box::new(|path| fs::write(path.join("source/a"), "other").unwrap()));
        bench
    }

    const CHANGED: &str = r#"error: "a" changed while it was being copied"#;

    #[test]
    fn a_new_file_that_could_not_be_filled_is_removed() {
        let bench = changing();
        let ran = fill_b(&bench, Identity::Two);
        ran.says(&[CHANGED]);
        assert_eq!((ran.value, bench.tree(), ran.damaged), (false, vec![], vec![]));
    }

    #[test]
    fn an_old_file_that_could_not_be_filled_is_damaged() {
        let bench = changing().dest("b", "old");
        let ran = fill_b(&bench, Identity::Two);
        ran.says(&[CHANGED]);
        assert_eq!((ran.value, ran.damaged), (false, vec![PathBuf::from("b")]));
    }

    #[test]
    fn what_force_removed_for_a_copy_that_failed_is_lost() {
        let mut bench = changing();
        bench.plan.force = true;
        std::os::unix::net::UnixListener::bind(bench.dest_path("b")).unwrap();
        fill_b(&bench, Identity::Two).says(&[
            "removed b",
            CHANGED,
            r#"warning: the old "b" was removed and could not be replaced"#,
        ]);
        assert!(bench.tree().is_empty());
    }

    /// Moves `a` to a device that is always full, as if that were a file. How often that is tried, and whether by this thread
    /// alone at last.
    fn move_to_full_device(several: bool) -> (usize, bool) {
        let services = Services::new(None, Caller::this_thread().unwrap(), several);
        let bench = Bench::with(Plan::default(), services).source("a", "new");
        let inode = bench.from("a").inode().unwrap();
        let sides = [File::open(bench.source_path("a")), File::options().write(true).open("/dev/full")];
        let ran = bench.run(|cx, worker| {
            let mut job = file_data(sides.map(|file| file.unwrap().into()), [&inode, &inode]);
            let (result, held) = move_with_room(cx, worker, &mut job, None);
            assert!(free_space::ran_out(&result));
            matches!(held, free_space::Held::Alone(_))
        });
        (ran.moves, ran.value)
    }

    #[test]
    fn a_file_without_space_is_tried_again_alone() {
        assert_eq!(move_to_full_device(true), (2, true));
    }

    #[test]
    fn a_single_thread_does_not_try_again() {
        assert_eq!(move_to_full_device(false), (1, false));
    }

    #[test]
    fn an_overwritten_file_is_damaged_if_the_process_ends_meanwhile() {
        let mut bench = Bench::new(Plan::default()).source("a", "new").dest("b", "old");
        let partials = bench.partials.clone();
        bench.before_data =
            Some(Box::new(move |_| assert_eq!(partials.remove_all(), [Error::new(What::Damaged, "b")])));
        assert_eq!(fill_b(&bench, Identity::Two).moves, 1);
        assert_eq!(bench.partials.remove_all(), [], "now it is whole");
    }
}
