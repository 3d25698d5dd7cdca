//! What a run does for the job that it is a shard of.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use parking_lot::Mutex;

use crate::attributes::{Keep, OWNER, side};
use crate::context::{RunContext, Worker};
use crate::decide::{Existing, copied_as_regular};
use crate::error::{Error, What};
use crate::journal::Fingerprint;
use crate::list::Index;
use crate::meta::{NewEntries, Object};
use crate::plan::{Durable, ModeRule};
use crate::publish::temporary::TemporaryNames;
use crate::report::Reporter;
use crate::shards::state::{self, Claim, Earlier, State, Trouble};
use crate::shards::{ShardReport, Shards, TEMPORARY, Waiting, job, objection, roots};
use crate::walk::{Operand, Spot, entries_of, last_component, sync_directory};
use crate::work::directory::{Directory, FullDirectory};
use crate::work::entry::Subject;

/// The three special bits of a mode.
const SPECIAL: u32 = 0o7000;

/// Between two looks whether another process still copies the same shard.
const PAUSE: Duration = Duration::from_millis(200);

/// Opens a directory of the source again by its number in the list.
fn open_listed(cx: RunContext<'_>, directory: Index) -> Result<OwnedFd, Errno> {
    let selection = cx.services.selection.as_ref().ok_or(Errno::STALE)?;
    let source = cx.plan.sources.get(selection.list.operand_of(directory)).ok_or(Errno::STALE)?;
    let operand = Operand::open(source);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = operand.spot().open(flags, 0)?;
    for name in selection.list.names_to(directory) {
        at = openat(&at, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(at)
}

/// Notes in this directory that the shard begins, for copies that get the name `last` there, or any if that is empty. False
/// if that is not possible, which was reported.
pub(crate) fn begin_shard(worker: &mut Worker<'_>, dir: BorrowedFd<'_>, last: &OsStr, shown: &OsStr) -> bool {
    let cx = worker.cx;
    let Some((shard, split)) = cx.services.selection.as_ref().and_then(|selection| selection.shards.as_ref()) else {
        return true;
    };
    let here = if shown.is_empty() { OsStr::new(".") } else { shown };
    let command = Inode::of(dir).and_then(|holder| job(cx.plan, last, &holder));
    let Ok(command) = worker.report.check(command, What::NoShardState, here) else { return false };
    let path = crate::walk::joined(shown, &state::name(&command));
    let roots = roots(cx.plan, last);
    let claim = Claim { command: &command, shard: *shard, split: split.digest(), job: &cx.plan.job, roots: &roots };
    let (state, earlier) = match open_state(worker, dir, &claim, &path) {
        Ok(Some(opened)) => opened,
        Ok(None) => return false,
        Err(trouble) => {
            let error = objection(trouble, &path, *shard);
            return worker.report.problem(error);
        }
    };
    let done = earlier == Earlier::Done;
    if done {
        // What was copied since is not touched.
        worker.report.warning(&Error::new(What::ShardIsDone, &path));
    }
    let tag = format!("{TEMPORARY}{:010x}", command.half() >> 24);
    let own = format!("{:04x}{:05x}", state.header.epoch & 0xffff, shard.index());
    let names = TemporaryNames::new(format!("{tag}{own}"));
    let shards = Shards { state, shard: *shard, earlier, path, waiting: Mutex::default(), tag, names };
    if cx.services.shards.set(shards).is_err() || done {
        return false;
    }
    tidy_after_shards(cx, dir);
    true
}

/// Waits until no other process copies this shard. `None` if the run was cancelled before.
fn open_state(
    worker: &mut Worker<'_>,
    dir: BorrowedFd<'_>,
    claim: &Claim<'_>,
    path: &Path,
) -> Result<Option<(State, Earlier)>, Trouble> {
    let mut warned = false;
    while !worker.cx.cancelled() {
        if let Some(opened) = State::open(dir, claim)? {
            return Ok(Some(opened));
        }
        if !warned {
            worker.report.warning(&Error::new(What::ShardIsBusy, path));
            warned = true;
        }
        thread::sleep(PAUSE);
    }
    Ok(None)
}

/// Removes what earlier runs of this shard have left in a directory under temporary names, and what shards of a job have
/// left in whose place this one came. What cannot be removed stays: it is in nobody's way.
pub(crate) fn tidy_after_shards(cx: RunContext<'_>, dir: BorrowedFd<'_>) {
    let Some(shards) = cx.services.shards.get().filter(|shards| shards.is_repeated()) else { return };
    // The journal knows what is of use in those of this shard.
    let keeps_own = cx.services.progress.get().is_some();
    for entry in entries_of(dir) {
        if shards.is_left_over(entry.file_name().to_bytes(), keeps_own) {
            // It is in nobody's way, and the next run tries again.
            unlinkat(dir, entry.file_name(), AtFlags::empty()).ok();
        }
    }
}

/// Notes a file that gets its name now, where another run of this shard would leave alone what it finds there: other names
/// of the source become names of this file, and not of a copy of their own. It must have all that a copy must have: nothing
/// is done any more about a file that was noted, as long as neither it nor its source changes.
pub(crate) fn note_for_other_names(worker: &mut Worker<'_>, subject: &Subject<'_>, made: Spot<'_>) {
    let cx = worker.cx;
    let Some(shards) = cx.services.shards.get() else { return };
    if subject.inode.links < 2 || !cx.plan.preserve.links || !cx.plan.keeps_existing() {
        return;
    }
    note(worker, shards, made.inode().map(|made| copy_of(subject, &made)));
}

fn copy_of(subject: &Subject<'_>, made: &Inode) -> Fingerprint {
    Fingerprint::of_copy(Fingerprint::of_source(&subject.inode), made)
}

/// Notes a name or a copy; that this is not possible is no failure.
fn note(worker: &mut Worker<'_>, shards: &Shards, print: Result<Fingerprint, Errno>) {
    if let Err(errno) = print.and_then(|print| shards.state.note(print)) {
        worker.report.warning(&Error::new(What::NoShardState, &shards.path).errno(errno));
    }
}

/// Whether an earlier run of this shard has made what stands there, and neither that nor its source has changed since.
pub(crate) fn is_noted_by_shard(cx: RunContext<'_>, subject: &Subject<'_>, found: &Existing) -> bool {
    let several = subject.inode.links > 1 && cx.plan.preserve.links && cx.plan.keeps_existing();
    let Some(shards) = cx.services.shards.get().filter(|shards| several && shards.is_repeated()) else {
        return false;
    };
    found.entry.id == found.target.id && shards.state.is_noted(copy_of(subject, &found.target))
}

/// Whether nothing that only this shard makes can be there already, in a directory that shards have made.
pub(crate) fn is_first_attempt(cx: RunContext<'_>) -> bool {
    cx.services.shards.get().is_some_and(|shards| !shards.is_repeated())
}

/// A directory is about to be made.
pub(crate) fn note_directory(worker: &mut Worker<'_>, dest: Spot<'_>) {
    let Some(shards) = worker.cx.services.shards.get() else { return };
    // If this fails it will be taken for one that was there before.
    if shards.state.header.births {
        return;
    }
    note(worker, shards, name_of(dest));
}

fn name_of(dest: Spot<'_>) -> Result<Fingerprint, Errno> {
    Ok(Fingerprint::of_name(&Inode::of(dest.dir()?)?, last_component(dest.name)))
}

/// Whether a shard of this job has made a directory, and nothing in this run has met it.
pub(crate) fn was_made_by_shard(cx: RunContext<'_>, dest: Spot<'_>, found: &Inode) -> bool {
    let Some(shards) = cx.services.shards.get() else { return false };
    let made =
        shards.state.is_of_job(found).unwrap_or_else(|| name_of(dest).is_ok_and(|name| shards.state.is_noted(name)));
    made && matches!(cx.services.links.get(found.into()), Ok(None))
}

/// Whether what stands at a destination was put there by this very shard, when it was run before. `in_made`: it stands in a
/// directory that this job has made.
pub(crate) fn is_of_earlier_attempt(
    cx: RunContext<'_>,
    subject: &Subject<'_>,
    in_made: bool,
    found: &Existing,
) -> bool {
    let Some(shards) = cx.services.shards.get().filter(|shards| shards.is_repeated()) else { return false };
    // What is to stay as it is, is whole, and may be somebody else's.
    if cx.plan.keeps_existing() {
        return false;
    }
    if subject.inode.kind == Kind::Directory || found.entry.kind == Kind::Directory {
        return false;
    }
    // What is made without contents is empty, and what stands there may have got them since.
    let makes_empty = copied_as_regular(subject.inode.kind, cx.plan) || found.entry.kind != subject.inode.kind;
    if cx.plan.attributes_only && makes_empty {
        return false;
    }
    // The source by another way, or a link to it, is nothing that a shard has made.
    if [found.entry.id, found.target.id].contains(&subject.inode.id) {
        return false;
    }
    in_made || shards.state.is_of_job(&found.entry).unwrap_or(false)
}

/// Whether the attributes of a directory are left to the last shard that needs it.
pub(crate) fn leave_to_last_shard(cx: RunContext<'_>, full: &FullDirectory, keep: &Keep<'_>) -> bool {
    let (Some(shards), Some(directory)) = (cx.services.shards.get(), full.place.listed) else { return false };
    if shards.shard.count().get() == 1 || !is_in_the_way(cx, keep) {
        return false;
    }
    shards.waiting.lock().push((directory, Arc::clone(&full.place)));
    true
}

/// Whether the last attributes of a directory keep its owner from making entries, or change what entries get.
fn is_in_the_way(cx: RunContext<'_>, keep: &Keep<'_>) -> bool {
    let umask = cx.services.caller.umask;
    match cx.plan.preserve.mode {
        ModeRule::Keep => {
            let source = keep.source.inode.permissions;
            source & OWNER != OWNER || source & SPECIAL != 0 || hands_on_acl(keep.source.object)
        }
        ModeRule::Default | ModeRule::Discard => {
            keep.created && (keep.dest.inode.permissions & OWNER != OWNER || umask & OWNER != 0)
        }
    }
}

/// The end of a shard: sets the attributes that nobody needs to wait for any more, and notes that it is done.
pub(crate) fn end_shard(worker: &mut Worker<'_>, failed: bool) -> Option<ShardReport> {
    let cx = worker.cx;
    let shared = cx.services;
    let shards = shared.shards.get()?;
    let over = shards.earlier == Earlier::Done;
    if over || cx.cancelled() {
        let missing = shards.state.missing();
        return report_of_shards(&mut worker.report, shards, missing, over);
    }
    let mut waiting = std::mem::take(&mut *shards.waiting.lock());
    // From the innermost on: what is in a directory cannot be reached any more when that is closed.
    waiting.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    let needed = needed_by(cx, &waiting);
    let ended = shards.state.end(shards.shard, &mut |done: &dyn Fn(u32) -> bool| {
        for (number, directory) in &waiting {
            let others = needed.get(number).into_iter().flatten();
            if others.into_iter().all(|other| *other == shards.shard.index() || done(*other)) {
                finish_waiting(worker, *number, directory);
            }
        }
        !failed && !worker.report.failed
    });
    let is_done = matches!(ended, Ok((true, _)));
    report_of_shards(&mut worker.report, shards, ended.map(|(_, missing)| missing), is_done)
}

fn report_of_shards(
    report: &mut Reporter<'_>,
    shards: &Shards,
    missing: Result<Vec<u32>, Errno>,
    own_is_done: bool,
) -> Option<ShardReport> {
    let (record, job, count) = (shards.path.clone(), shards.state.header.shown_id(), shards.shard.count().get());
    let missing = report.check(missing, What::NoShardState, &shards.path).ok()?;
    Some(ShardReport { record, job, count, missing, own_is_done })
}

/// Which shards have anything to do in these directories.
fn needed_by(cx: RunContext<'_>, waiting: &[Waiting]) -> HashMap<Index, BTreeSet<u32>> {
    let mut needed: HashMap<Index, BTreeSet<u32>> =
        waiting.iter().map(|(number, _)| (*number, BTreeSet::new())).collect();
    let Some(selection) = cx.services.selection.as_ref().filter(|_| !waiting.is_empty()) else {
        return needed;
    };
    let Some((_, split)) = &selection.shards else { return needed };
    let list = &selection.list;
    // The innermost of these directories that each entry is in, as its number plus one; 0 if it is in none.
    let mut inside: Vec<Index> = vec![0; list.len()];
    for at in 0..Index::try_from(list.len()).unwrap_or(Index::MAX) {
        let above = list.parent(at).map_or(0, |parent| inside[parent as usize]);
        inside[at as usize] = if needed.contains_key(&at) { at + 1 } else { above };
        if let Some(shards) = inside[at as usize].checked_sub(1).and_then(|directory| needed.get_mut(&directory)) {
            shards.insert(split.shard_of(at));
        }
    }
    // From the innermost on, as `waiting` is sorted.
    for (number, _) in waiting {
        let above = list.parent(*number).and_then(|parent| inside[parent as usize].checked_sub(1));
        let own = needed.get(number).cloned().unwrap_or_default();
        if let Some(above) = above.and_then(|above| needed.get_mut(&above)) {
            above.extend(own);
        }
    }
    needed
}

fn finish_waiting(worker: &mut Worker<'_>, number: Index, directory: &Directory) {
    let cx = worker.cx;
    let (source_path, dest_path) = (directory.source_path.path(), directory.dest_path.path());
    let source = open_listed(cx, number);
    let Ok(source) = worker.report.check(source, What::CannotAccess, &source_path) else { return };
    if !Inode::of(source.as_fd()).is_ok_and(|now| now.is_same_file_as(&directory.source_inode)) {
        worker.report.problem(Error::new(What::ReplacedWhileCopied, &source_path));
        return;
    }
    let Ok(dest) = worker.report.check(directory.dir.open(), What::CannotAccess, &dest_path) else { return };
    let keep = Keep {
        source: side(&source, true, &directory.source_inode, &source_path),
        dest: side(&dest, true, &directory.dest_inode, &dest_path),
        created: directory.created,
        entries: NewEntries::UNKNOWN,
    };
    cx.attributes().set_of_directory(&keep, &mut worker.report);
    if cx.plan.durable != Durable::None
        && let Err(errno) = sync_directory(dest.as_fd())
        // Nobody may read it any more; its filesystem was synced before.
        && errno != Errno::ACCESS
    {
        worker.report.problem(Error::new(What::Syncing, &dest_path).errno(errno));
    }
}

/// Whether a directory of the source has an ACL for new entries.
fn hands_on_acl(source: Object<'_>) -> bool {
    source.get_xattr(c"system.posix_acl_default", &mut Vec::new()).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::sync::OnceLock;

    use haul_sys::inode::Time;

    use super::*;
    use crate::context::test_support::{Bench, Ran, SETTLED, settled_dir};
    use crate::list::{Entry, FileList, Shard};
    use crate::plan::{Overwrite, Plan, Preserve, Update};
    use crate::sources::selection::Selection;

    /// The directory of the source with two files, of which one of two shards gets the first and the other the second.
    fn bench(plan: Plan) -> Bench {
        let mut bench = Bench::new(plan).source("a", "new").source("b", "new");
        bench.plan.sources = vec![bench.path().join("source").into()];
        bench
    }

    fn entry(kind: Kind) -> Entry {
        let time = Time { seconds: 0, nanoseconds: 0 };
        Entry { kind, size: 3, modified: time, changed: time, id: None }
    }

    fn list(bench: &Bench) -> FileList {
        let mut list = FileList::default();
        list.add_operand(&bench.plan.sources[0], None);
        let root = list.add_root(&entry(Kind::Directory)).unwrap();
        for name in ["a", "b"] {
            list.add(root, OsStr::new(name), &entry(Kind::Regular)).unwrap();
        }
        list
    }

    /// Begins this shard, of so many. The record of the job is beside the two directories.
    fn begin(bench: &mut Bench, number: u32, count: u32) -> Ran<bool> {
        // What an earlier one held goes with it.
        bench.services.shards = OnceLock::new();
        let (list, shard) = (Arc::new(list(bench)), Shard::new(number, count).unwrap());
        let split = crate::list::split(&list, shard.count());
        bench.services.selection = Some(Selection {
            list,
            shards: Some((shard, split)),
            roots: vec![Some(0)],
            first: vec![0; 3],
            next: vec![0; 3],
            filtered: Default::default(),
            missing: 0,
        });
        let dir = File::open(bench.path()).unwrap();
        let (any, shown) = (OsStr::new(""), OsStr::new("job"));
        bench.run(|worker| begin_shard(worker, dir.as_fd(), any, shown))
    }

    /// Ends the shard; which ones are missing then, and whether this one is done.
    fn end(bench: &Bench, failed: bool) -> (Vec<u32>, bool) {
        let ran = bench.run(|worker| end_shard(worker, failed));
        ran.says(&[]);
        let report = ran.value.expect("it is a shard");
        assert!(report.record.starts_with("job"), "{:?}", report.record);
        (report.missing, report.own_is_done)
    }

    #[test]
    fn a_copy_that_is_no_shard_has_no_record() {
        let bench = bench(Plan::default());
        let dir = File::open(bench.path()).unwrap();
        let any = OsStr::new("");
        assert!(bench.run(|worker| begin_shard(worker, dir.as_fd(), any, any)).value);
        assert!(bench.run(|worker| end_shard(worker, false)).value.is_none());
        assert!(!bench.path().read_dir().unwrap().any(|entry| entry.unwrap().file_type().unwrap().is_file()));
    }

    #[test]
    fn a_shard_that_ends_well_is_done() {
        let mut bench = bench(Plan::default());
        let ran = begin(&mut bench, 2, 2);
        ran.says(&[]);
        assert!(ran.value && bench.run(|worker| is_first_attempt(worker.cx)).value);
        assert_eq!(end(&bench, false), (vec![1], true));
    }

    #[test]
    fn a_shard_that_failed_is_missing() {
        let mut bench = bench(Plan::default());
        begin(&mut bench, 2, 2).says(&[]);
        assert_eq!(end(&bench, true), (vec![1, 2], false));
    }

    #[test]
    fn a_cancelled_shard_is_not_ended() {
        let mut bench = bench(Plan::default());
        begin(&mut bench, 1, 1).says(&[]);
        bench.cancel.cancel();
        assert_eq!(end(&bench, false), (vec![1], false));
    }

    #[test]
    fn a_shard_that_is_done_is_not_copied_again() {
        let mut bench = bench(Plan::default());
        begin(&mut bench, 1, 1).says(&[]);
        end(&bench, false);
        let ran = begin(&mut bench, 1, 1);
        assert!(!ran.value && ran.heard.len() == 1);
        assert!(ran.heard[0].starts_with("warning: this shard is done already, says "), "{:?}", ran.heard);
        assert_eq!(end(&bench, false), (vec![], true));
    }

    #[test]
    fn shards_of_another_split_do_not_begin() {
        let mut bench = bench(Plan::default());
        begin(&mut bench, 1, 2).says(&[]);
        let ran = begin(&mut bench, 1, 3);
        assert!(!ran.value && ran.heard.len() == 1);
        assert!(ran.heard[0].contains("are 2, not 3"), "{:?}", ran.heard);
    }

    /// A shard in its second attempt, since the first one failed.
    fn second_attempt(plan: Plan) -> Bench {
        let mut bench = bench(plan);
        begin(&mut bench, 1, 2).says(&[]);
        end(&bench, true);
        begin(&mut bench, 1, 2).says(&[]);
        assert!(!bench.run(|worker| is_first_attempt(worker.cx)).value);
        bench
    }

    fn existing(entry: Inode) -> Existing {
        Existing { entry, target: entry, is_dot: false }
    }

    /// Whether what is found for `a` is taken for something that an earlier attempt has made.
    fn is_own(bench: &Bench, in_made: bool, found: Inode) -> bool {
        let subject = bench.subject("a", "b");
        bench.run(|worker| is_of_earlier_attempt(worker.cx, &subject, in_made, &existing(found))).value
    }

    #[test]
    fn a_second_attempt_knows_what_the_job_has_made() {
        let bench = second_attempt(Plan::default()).dest("b", "half");
        let (made, dir) = (bench.to("b").inode().unwrap(), settled_dir());
        let older = Spot::new(dir.as_fd(), SETTLED.as_ref(), Path::new(SETTLED)).inode().unwrap();
        // Where files have no births, directories of the job tell.
        assert_eq!(is_own(&bench, false, made), made.born.is_some());
        assert!(is_own(&bench, true, made));
        assert!(!is_own(&bench, false, older));
    }

    #[test]
    fn a_first_attempt_has_made_nothing() {
        let mut bench = bench(Plan::default()).dest("b", "theirs");
        begin(&mut bench, 1, 2).says(&[]);
        assert!(!is_own(&bench, true, bench.to("b").inode().unwrap()));
    }

    #[test]
    fn the_source_and_directories_are_never_taken_for_copies() {
        let bench = second_attempt(Plan::default());
        assert!(!is_own(&bench, true, bench.from("a").inode().unwrap()));
        assert!(!is_own(&bench, true, bench.to(".").inode().unwrap()));
    }

    #[test]
    fn what_may_stay_as_it_is_stays() {
        let bench = second_attempt(Plan { overwrite: Overwrite::Skip, ..Plan::default() }).dest("b", "whole");
        assert!(!is_own(&bench, true, bench.to("b").inode().unwrap()));
    }

    #[test]
    fn what_would_become_an_empty_file_stays() {
        let bench = second_attempt(Plan { attributes_only: true, ..Plan::default() }).dest("b", "whole");
        assert!(!is_own(&bench, true, bench.to("b").inode().unwrap()));
    }

    #[test]
    fn a_file_with_several_names_is_noted() {
        let preserve = Preserve { links: true, ..Preserve::default() };
        let plan = Plan { preserve, update: Update::Older, ..Plan::default() };
        let mut bench = bench(plan).dest("b", "new").dest("c", "theirs");
        fs::hard_link(bench.source_path("a"), bench.source_path("same")).unwrap();
        begin(&mut bench, 1, 2).says(&[]);
        let noted = |bench: &Bench, name: &str| {
            let found = existing(bench.to(name).inode().unwrap());
            bench.run(|worker| is_noted_by_shard(worker.cx, &bench.subject("a", name), &found)).value
        };
        bench.run(|worker| note_for_other_names(worker, &bench.subject("a", "b"), bench.to("b"))).says(&[]);
        end(&bench, true);
        assert!(!noted(&bench, "b"), "this attempt has met the name");
        begin(&mut bench, 1, 2).says(&[]);
        assert!(noted(&bench, "b"));
        assert!(!noted(&bench, "c"));
        let was = bench.source_path("a").metadata().unwrap().modified().unwrap();
        fs::write(bench.source_path("a"), "changed").unwrap();
        assert!(!noted(&bench, "b"), "the source has changed");
        fs::write(bench.source_path("a"), "new").unwrap();
        File::options().write(true).open(bench.source_path("a")).unwrap().set_modified(was).unwrap();
        assert!(!noted(&bench, "b"), "its time was put back");
    }

    #[test]
    fn a_noted_file_that_is_not_whole_any_more_counts_for_nothing() {
        let preserve = Preserve { links: true, ..Preserve::default() };
        let plan = Plan { preserve, update: Update::Older, ..Plan::default() };
        let mut bench = bench(plan).dest("b", "new");
        fs::hard_link(bench.source_path("a"), bench.source_path("same")).unwrap();
        begin(&mut bench, 1, 2).says(&[]);
        bench.run(|worker| note_for_other_names(worker, &bench.subject("a", "b"), bench.to("b"))).says(&[]);
        end(&bench, true);
        begin(&mut bench, 1, 2).says(&[]);
        fs::write(bench.dest_path("b"), "ne").unwrap();
        let found = existing(bench.to("b").inode().unwrap());
        assert!(!bench.run(|worker| is_noted_by_shard(worker.cx, &bench.subject("a", "b"), &found)).value);
    }

    #[test]
    fn what_an_earlier_attempt_left_is_removed() {
        let mut bench = bench(Plan::default()).dest("b", "whole");
        begin(&mut bench, 1, 2).says(&[]);
        let leave = |bench: &Bench, contents: &str| {
            let name = bench.services.shards.get().unwrap().names.another();
            fs::write(bench.dest_path(name.to_str().unwrap()), contents).unwrap();
        };
        leave(&bench, "of the first attempt");
        end(&bench, true);
        begin(&mut bench, 1, 2).says(&[]);
        leave(&bench, "of the second attempt");
        bench.run(|worker| tidy_after_shards(worker.cx, bench.to("b").dir().unwrap())).says(&[]);
        let left = bench.tree();
        assert_eq!(left.len(), 2);
        assert!(left[0].ends_with(": of the second attempt") && left[1] == "b: whole", "{left:?}");
    }

    /// Leaves the directory to the last shard, if it has to be.
    fn leave(bench: &Bench) -> bool {
        let mut full = bench.full_directory();
        Arc::get_mut(&mut full.place).unwrap().listed = Some(0);
        let shown = [Path::new("source"), Path::new("dest")];
        bench.run(|worker| leave_to_last_shard(worker.cx, &full, &full.keep(shown).unwrap())).value
    }

    fn with_mode(mode: u32) -> Bench {
        let preserve = Preserve { mode: ModeRule::Keep, ..Preserve::default() };
        let bench = bench(Plan { preserve, ..Plan::default() });
        fs::set_permissions(bench.source_path(""), Permissions::from_mode(mode)).unwrap();
        fs::set_permissions(bench.dest_path(""), Permissions::from_mode(0o700)).unwrap();
        bench
    }

    fn mode(bench: &Bench) -> u32 {
        fs::metadata(bench.dest_path("")).unwrap().mode() & 0o7777
    }

    #[test]
    fn the_last_shard_sets_modes_that_shut_others_out() {
        let mut bench = with_mode(0o555);
        begin(&mut bench, 1, 2).says(&[]);
        assert!(leave(&bench));
        assert_eq!((end(&bench, false), mode(&bench)), ((vec![2], true), 0o700));
        begin(&mut bench, 2, 2).says(&[]);
        assert!(leave(&bench));
        assert_eq!((end(&bench, false), mode(&bench)), ((vec![], true), 0o555));
    }

    #[test]
    fn only_attributes_in_the_way_of_other_shards_wait() {
        for (mode, count, waits) in
            [(0o755, 2, false), (0o555, 2, true), (0o555, 1, false), (0o1755, 2, true), (0o2755, 2, true)]
        {
            let mut bench = with_mode(mode);
            begin(&mut bench, 1, count).says(&[]);
            assert_eq!(leave(&bench), waits, "{mode:o} {count}");
        }
    }

    #[test]
    fn a_source_directory_that_was_replaced_gives_no_attributes() {
        let mut bench = with_mode(0o555);
        begin(&mut bench, 1, 2).says(&[]);
        end(&bench, false);
        begin(&mut bench, 2, 2).says(&[]);
        assert!(leave(&bench));
        fs::rename(bench.source_path(""), bench.path().join("elsewhere")).unwrap();
        fs::create_dir(bench.source_path("")).unwrap();
        let ran = bench.run(|worker| end_shard(worker, false));
        ran.says(&[r#"error: skipping file "source", as it was replaced while being copied"#]);
        assert_eq!((ran.value.unwrap().missing, mode(&bench)), (vec![2], 0o700));
    }
}
