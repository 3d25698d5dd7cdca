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
use haul_sys::rustix::io::retry_on_intr;

use crate::attributes::{Keep, ReplacedFile, Set};
use crate::context::{RunContext, Worker};
use crate::decide::copied_as_regular;
use crate::error::{Error, What};
use crate::file::open::{self, OpenFiles};
use crate::file::{check, fill, special, temporary_file};
use crate::finish::{naming, shard, undo, written};
use crate::meta::Side;
use crate::report::{Reported, Reporter};
use crate::walk::Spot;
use crate::work::entry::{DestState, FileOutcome, Subject, Unfinished};
use crate::work::file_data::Broken;

/// Makes the copy of what is neither a directory nor to be a link to the source, and says which file it is, if that is known.
pub(crate) fn make_file(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    subject: &mut Subject<'_>,
    state: &DestState,
) -> Result<Option<FileId>, Reported> {
    if !temporary_file::is_needed(cx, subject, state) {
        let outcome = copy(cx, worker, subject, state, &mut Unfinished::default())?;
        naming::tell_digest(&worker.report, subject.dest.path, &outcome.checked);
        return Ok(outcome.id);
    }
    let (temporary, new, mut unfinished) = temporary_file::begin(cx, &mut worker.report, subject, state)?;
    let spot = temporary.spot(subject.dest, &temporary.name);
    let sides = subject.sides.filter(|_| temporary.dir.is_none());
    let mut made = Subject { dest: spot, sides, opened: subject.opened.take(), ..*subject };
    let result = match copy(cx, worker, &mut made, &new, &mut unfinished) {
        Ok(outcome) => {
            let id = outcome.id;
            shard::note_for_other_names(cx, &mut worker.report, subject, spot);
            // A copy that is not what it must be gets its name, but no other ones. What waits for its name still needs
            // its backup.
            let backed_up = outcome.unsynced.is_some() && state.backup.is_some();
            let may_have_other_names = outcome.attributes_kept || backed_up;
            let published = temporary_file::publish_or_wait(cx, worker, &temporary, spot, subject, outcome);
            if published && may_have_other_names { Ok(id) } else { Err(Reported) }
        }
        Err(Reported) => {
            // A node whose attributes could not be kept. Everything else has gone already, or stays for the next run. What
            // cannot be removed has a temporary name only, and the copy has failed and was reported anyway.
            if !unfinished.left {
                spot.unlink().ok();
            }
            Err(Reported)
        }
    };
    cx.session.partials.done();
    result
}

/// Copies contents and attributes into a new file of this name, or into what stands there.
fn copy(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    subject: &mut Subject<'_>,
    state: &DestState,
    unfinished: &mut Unfinished,
) -> Result<FileOutcome, Reported> {
    if !copied_as_regular(subject.inode.kind, cx.plan) {
        let id = special::make_special(cx, &mut worker.report, subject, state)?;
        return Ok(FileOutcome { id, attributes_kept: true, ..FileOutcome::default() });
    }
    let started = Instant::now();
    let files = open::both_sides(cx, worker, subject, state, unfinished)?;
    let (id, dest_inode, seen) = (files.known.then_some(files.dest_inode.id), files.dest_inode, files.source_inode);
    if files.created && unfinished.start == 0 {
        cx.attributes().prepare(&files.keep(subject, &seen), &mut worker.report);
    }

    let filled = fill::contents(cx, worker, subject, state, &files, unfinished);
    let moved = Instant::now();
    worker.report.stats.data_time += moved - started;
    let (copied, checked) = filled?;
    if !state.temporary {
        let dest = files.dest.as_fd();
        if !check::judge_in_place(cx, &mut worker.report, dest, &dest_inode, subject.dest.path, &checked) {
            return Err(Reported);
        }
    } else if unfinished.number.is_none() {
        // With `--resume` it stays for the next run.
        cx.session.partials.is_nameless(subject.dest, subject.sides, dest_inode.id);
    }
    worker.report.stats.regular += 1;

    let set = set_attributes(cx, &mut worker.report, subject, state, (&files, &copied), unfinished)?;
    let Set { kept: attributes_kept, deferred } = set;
    worker.report.stats.metadata_time += moved.elapsed();
    // A second attempt was of a source that nobody had seen settle.
    let copied_again = copied.changed != seen.changed || copied.modified != seen.modified;
    let as_seen = attributes_kept && deferred.is_none() && !copied_again;
    worker.deferred.extend(deferred);

    written::sync_early(cx, worker, &dest_inode);
    let unsynced = close(cx, &mut worker.report, subject, state, files, unfinished)?;
    if !attributes_kept && !state.temporary {
        return Err(Reported);
    }
    let source = unfinished.print.filter(|_| as_seen);
    Ok(FileOutcome { id, checked, attributes_kept, unsynced, source })
}

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
    use std::fs::{self, File, Permissions};
    use std::io::Write;
    use std::os::fd::BorrowedFd;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};

    use haul_sys::Errno;

    use super::*;
    use crate::context::test_support::{Bench, Meanwhile, Ran, tree};
    use crate::plan::{Checksum, Durable, IfChanged, ModeRule, Plan, Preserve, Verify};
    use crate::walk::Spot;

    /// Copies `a` to `b`.
    fn make_b(bench: &Bench) -> Ran<Result<Option<FileId>, Reported>> {
        let (mut subject, state) = (bench.subject("a", "b"), bench.state("b"));
        bench.run(|cx, worker| make_file(cx, worker, &mut subject, &state))
    }

    /// Copies a source to `b` whose data cannot be read.
    fn make_b_of_unreadable(bench: &Bench) -> Ran<Result<Option<FileId>, Reported>> {
        let dir = File::open("/proc/self").unwrap();
        let source = unreadable(dir.as_fd());
        let (mut subject, state) = (bench.subject_of(source, "b"), bench.state("b"));
        bench.run(|cx, worker| make_file(cx, worker, &mut subject, &state))
    }

    /// The memory of this process: nothing is mapped where it begins.
    fn unreadable(proc: BorrowedFd<'_>) -> Spot<'_> {
        Spot::new(proc, "mem".as_ref(), Path::new("a"))
    }

    const UNREADABLE: &str = r#"error: error reading "a": "#;

    fn atomic() -> Plan {
        Plan { atomic: true, ..Plan::default() }
    }

    #[test]
    fn a_new_file_gets_the_contents_of_its_source() {
        let bench = Bench::new(Plan::default()).source("a", "new");
        let ran = make_b(&bench);
        ran.says(&[]);
        assert_eq!(bench.tree(), ["b: new"]);
        assert_eq!((ran.value, ran.stats.regular), (Ok(Some(bench.to("b").inode().unwrap().id)), 1));
    }

    #[test]
    fn a_file_that_exists_is_written_into() {
        let bench = Bench::new(Plan::default()).source("a", "new").dest("b", "old and longer");
        fs::set_permissions(bench.dest_path("b"), Permissions::from_mode(0o611)).unwrap();
        let before = bench.to("b").inode().unwrap();
        make_b(&bench).says(&[]);
        let after = bench.to("b").inode().unwrap();
        assert_eq!(bench.tree(), ["b: new"]);
        assert_eq!((after.id, after.permissions), (before.id, 0o611));
    }

    #[test]
    fn a_file_behind_a_link_is_written_into() {
        let bench = Bench::new(Plan::default()).source("a", "new").dest("c", "old").link("b", "c");
        make_b(&bench).says(&[]);
        assert_eq!(bench.tree(), ["b -> c", "c: new"]);
    }

    /// What the destination has in it when the data is about to be moved.
    fn expect_meanwhile(expected: &'static [&'static str]) -> Option<Meanwhile> {
        Some(Box::new(move |path| assert_eq!(tree(&path.join("dest")), expected)))
    }

    #[test]
    fn the_old_file_keeps_its_name_until_the_new_is_whole() {
        let mut bench = Bench::new(atomic()).source("a", "new").dest("b", "old");
        bench.before_data = expect_meanwhile(&["(temporary): ", "b: old"]);
        let ran = make_b(&bench);
        ran.says(&[]);
        assert_eq!((bench.tree(), ran.moves), (vec!["b: new".into()], 1));
        assert_eq!(ran.value, Ok(Some(bench.to("b").inode().unwrap().id)));
    }

    #[test]
    fn a_file_that_replaces_another_has_its_mode() {
        let bench = Bench::new(atomic()).source("a", "new").dest("b", "old");
        fs::set_permissions(bench.source_path("a"), Permissions::from_mode(0o640)).unwrap();
        fs::set_permissions(bench.dest_path("b"), Permissions::from_mode(0o751)).unwrap();
        let before = bench.to("b").inode().unwrap();
        make_b(&bench).says(&[]);
        let after = bench.to("b").inode().unwrap();
        assert_ne!(after.id, before.id);
        assert_eq!(after.permissions, 0o751);
    }

    #[test]
    fn a_file_that_must_be_durable_waits_for_its_name() {
        let bench = Bench::new(Plan { durable: Durable::File, ..Plan::default() }).source("a", "new");
        let (mut subject, state) = (bench.subject("a", "b"), bench.state("b"));
        let ran = bench.run(|cx, worker| {
            make_file(cx, worker, &mut subject, &state).unwrap();
            let before = bench.tree();
            naming::give_names(cx, worker);
            before
        });
        ran.says(&[]);
        assert_eq!((ran.value, bench.tree()), (vec!["(temporary): new".into()], vec!["b: new".into()]));
        assert_eq!(bench.kernel.synced(), ["a file, with [(temporary): new]"], "once, and before it has its name");
    }

    #[test]
    fn nothing_is_left_of_a_new_file_that_failed() {
        for plan in [Plan::default(), atomic()] {
            let bench = Bench::new(plan);
            let ran = make_b_of_unreadable(&bench);
            ran.says(&[&format!("{UNREADABLE}{}", Errno::IO)]);
            assert_eq!((ran.value, ran.stats.regular), (Err(Reported), 0));
            assert_eq!((bench.tree(), ran.damaged), (vec![], vec![]));
        }
    }

    #[test]
    fn an_overwritten_file_that_failed_is_named_as_damaged() {
        let bench = Bench::new(Plan::default()).dest("b", "old");
        let ran = make_b_of_unreadable(&bench);
        ran.says(&[&format!("{UNREADABLE}{}", Errno::IO)]);
        assert_eq!((bench.tree(), ran.damaged), (vec!["b: ".into()], vec![PathBuf::from("b")]));
    }

    #[test]
    fn an_old_file_stays_where_the_new_one_failed() {
        let bench = Bench::new(atomic()).dest("b", "old");
        let ran = make_b_of_unreadable(&bench);
        ran.says(&[&format!("{UNREADABLE}{}", Errno::IO)]);
        assert_eq!((bench.tree(), ran.damaged), (vec!["b: old".into()], vec![]));
    }

    #[test]
    fn nothing_is_left_of_a_cancelled_copy() {
        for plan in [Plan::default(), atomic()] {
            let mut bench = Bench::new(plan).source("a", "x".repeat(1 << 20));
            let cancel = bench.cancel.clone();
            bench.before_data = Some(Box::new(move |_| cancel.cancel()));
            let ran = make_b(&bench);
            assert!(ran.failed && ran.heard.is_empty(), "{:?}", ran.heard);
            assert_eq!((ran.value, bench.tree()), (Err(Reported), vec![]));
        }
    }

    #[test]
    fn whole_files_stay_when_the_process_ends() {
        for plan in [Plan::default(), atomic()] {
            let bench = Bench::new(plan).source("a", "new");
            make_b(&bench).says(&[]);
            assert_eq!(bench.partials.remove_all(), []);
            assert_eq!(bench.tree(), ["b: new"]);
        }
    }

    #[test]
    fn half_files_go_when_the_process_ends() {
        for plan in [Plan::default(), atomic()] {
            let mut bench = Bench::new(plan).source("a", "new");
            let partials = bench.partials.clone();
            bench.before_data = Some(Box::new(move |path| {
                assert_eq!(partials.remove_all(), []);
                assert_eq!(tree(&path.join("dest")), [""; 0]);
            }));
            assert_eq!(make_b(&bench).moves, 1);
        }
    }

    /// The source grows by a byte before each of the first attempts to copy it.
    fn growing(if_changed: IfChanged, attempts: u32) -> Bench {
        let mut bench = Bench::new(Plan { if_changed, ..Plan::default() }).source("a", "new");
        let so_far = AtomicU32::new(0);
        bench.before_data = Some(Box::new(move |path| {
            if so_far.fetch_add(1, Ordering::Relaxed) < attempts {
                File::options().append(true).open(path.join("source/a")).unwrap().write_all(b"!").unwrap();
            }
        }));
        bench
    }

    const CHANGED: &str = r#""a" changed while it was being copied"#;

    #[test]
    fn nobody_looks_at_a_changing_source_unless_asked() {
        let bench = growing(IfChanged::Ignore, 1);
        make_b(&bench).says(&[]);
        assert_eq!(bench.tree(), ["b: new!"]);
    }

    #[test]
    fn a_changing_source_is_warned_of() {
        let bench = growing(IfChanged::Warn, 1);
        let ran = make_b(&bench);
        ran.says(&[&format!("warning: {CHANGED}")]);
        assert_eq!((bench.tree(), ran.moves), (vec!["b: new!".into()], 1));
    }

    #[test]
    fn a_changing_source_fails_its_copy() {
        let bench = growing(IfChanged::Fail, 1);
        make_b(&bench).says(&[&format!("error: {CHANGED}")]);
        assert!(bench.tree().is_empty());
    }

    #[test]
    fn a_changed_source_is_copied_again() {
        let bench = growing(IfChanged::Retry, 3);
        let ran = make_b(&bench);
        ran.says(&[]);
        assert_eq!((bench.tree(), ran.moves), (vec!["b: new!!!".into()], 4));
    }

    #[test]
    fn a_source_that_changes_each_time_fails_its_copy() {
        let bench = growing(IfChanged::Retry, 4);
        let ran = make_b(&bench);
        ran.says(&[&format!("error: {CHANGED}, 4 times in a row")]);
        assert_eq!((bench.tree(), ran.moves), (vec![], 4));
    }

    #[test]
    fn a_source_that_shrinks_leaves_nothing_of_its_first_attempt() {
        let mut bench = Bench::new(Plan { if_changed: IfChanged::Retry, ..Plan::default() }).source("a", "long");
        let so_far = AtomicU32::new(0);
        bench.before_data = Some(Box::new(move |path| {
            if so_far.fetch_add(1, Ordering::Relaxed) == 0 {
                fs::write(path.join("source/a"), "x").unwrap();
            }
        }));
        make_b(&bench).says(&[]);
        assert_eq!(bench.tree(), ["b: x"]);
    }

    #[test]
    fn digests_are_told_of_files_that_have_their_names() {
        let plan = Plan { checksum: Some(Checksum::Md5), ..Plan::default() };
        for atomic in [false, true] {
            let bench = Bench::new(Plan { atomic, ..plan.clone() }).source("a", "new");
            make_b(&bench).says(&["digest of b: 22af645d1859cb5ca6da0c484f1f37ea"]);
        }
    }

    #[test]
    fn a_copy_that_differs_from_its_source_is_set_aside() {
        let mut bench =
            Bench::new(Plan { verify: Verify::Read, ..Plan::default() }).source("a", "new").dest("b", "old");
        bench.kernel.spoil = true;
        let ran = make_b(&bench);
        assert_eq!((ran.value.is_err(), ran.heard.len()), (true, 1));
        assert!(ran.heard[0].starts_with(r#"error: the copy "b" differs from its source from byte 0 on"#));
        assert_eq!(bench.tree(), ["b.haul-mismatch: new", "b: old"]);
    }

    #[test]
    fn nothing_is_left_of_a_temporary_link_that_failed() {
        let bench = Bench::new(atomic());
        for name in ["a", "other"] {
            std::os::unix::fs::symlink("text", bench.source_path(name)).unwrap();
        }
        let (mut subject, state) = (bench.subject("a", "b"), bench.state("b"));
        fs::rename(bench.source_path("other"), bench.source_path("a")).unwrap();
        let ran = bench.run(|cx, worker| make_file(cx, worker, &mut subject, &state));
        ran.says(&[r#"error: skipping file "a", as it was replaced while being copied"#]);
        assert_eq!((ran.value, bench.tree()), (Err(Reported), vec![]));
    }

    #[test]
    fn a_file_that_replaces_another_counts_as_found() {
        // A file that is made gets the mode of the umask then, and one that is found keeps its own.
        let preserve = Preserve { mode: ModeRule::Discard, ..Preserve::default() };
        let bench = Bench::new(Plan { preserve, ..atomic() }).source("a", "new").dest("b", "old");
        fs::set_permissions(bench.dest_path("b"), Permissions::from_mode(0o751)).unwrap();
        make_b(&bench).says(&[]);
        assert_eq!(bench.to("b").inode().unwrap().permissions, 0o751);
    }

    #[test]
    fn a_symbolic_link_is_made_anew() {
        let bench = Bench::new(Plan { recursive: true, ..atomic() });
        std::os::unix::fs::symlink("text", bench.source_path("a")).unwrap();
        make_b(&bench).says(&[]);
        assert_eq!(bench.tree(), ["b -> text"]);
        assert_eq!(fs::symlink_metadata(bench.dest_path("b")).unwrap().nlink(), 1);
    }
}

#[cfg(test)]
mod close_tests {
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
