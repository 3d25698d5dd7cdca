//! `--resume`: what earlier runs of the same command have done, and what this one leaves to the next.
//!
//! With it every file is made under another name and gets its own when it is on its device (see `durable`), so whatever
//! stands under its own name is whole. The journal spares the work: it says which copies are finished, how much of a large
//! file is on the device, and which directories were made. Nothing of it is believed of a file that has changed.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use haul_io::transfer::{Checkpoints, STEP, has_storage};
use haul_io::verify::Checked;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::{AtFlags, unlinkat};

use crate::context::{RunContext, Services, Worker};
use crate::error::What;
use crate::finish::shard;
use crate::journal::{Digest, Fingerprint, Record};
use crate::recorded_progress::{CheckpointLog, EarlierRuns, RecordedProgress, has_settled, journals_of_others};
use crate::shards::Shards;
use crate::work::entry::Unfinished;
use crate::work::file_data::FileData;

/// Opens the journal in this directory, for copies that get the name `last` there, or any if that is empty. False if there
/// can be none, which was reported.
pub(crate) fn begin_progress(worker: &mut Worker<'_>, dir: BorrowedFd<'_>, last: &OsStr, shown: &OsStr) -> bool {
    let cx = worker.cx;
    if !shard::begin_shard(worker, dir, last, shown) {
        return false;
    }
    if !cx.plan.resume {
        return true;
    }
    if cx.plan.dry_run {
        return match EarlierRuns::look(cx.plan, dir, last, shown) {
            Ok(runs) => cx.services.earlier_runs.set(runs).is_ok(),
            Err(error) => worker.report.problem(error),
        };
    }
    match RecordedProgress::open(cx.plan, dir, last, shown, 0) {
        Ok(progress) => {
            progress.tidy(dir, true);
            cx.services.progress.set(progress).is_ok()
        }
        Err(error) => worker.report.problem(error),
    }
}

/// The end of a run. When all is done the journal goes; otherwise this is where it is.
pub(crate) fn end_progress(worker: &mut Worker<'_>, failed: bool, did_something: bool) -> Option<PathBuf> {
    let shared = worker.cx.services;
    let progress = shared.progress.get()?;
    let unfinished = failed || worker.report.failed || worker.cx.cancelled();
    if unfinished && (did_something || progress.earlier || progress.promised.load(Ordering::Relaxed)) {
        return Some(progress.path.clone());
    }
    progress.tidy(progress.dir.as_fd(), false);
    progress.tidy_kept();
    for other in journals_of_others(progress.dir.as_fd(), &progress.name) {
        // Those of processes that have ended well as this one does.
        unlinkat(&progress.dir, other.as_os_str(), AtFlags::empty()).ok();
    }
    let removed = unlinkat(&progress.dir, progress.name.as_os_str(), AtFlags::empty());
    worker.report.check(removed, What::CannotRemove, &progress.path).ok();
    None
}

/// Writes promises down. A failure costs the next run time, and is reported once.
fn promise(worker: &mut Worker<'_>, records: &[Record]) {
    let Some(progress) = worker.cx.services.progress.get().filter(|_| !records.is_empty()) else { return };
    if let Err(error) = progress.promise(records, false) {
        worker.report.warning(&error);
    }
}

/// Writes down what was finished since the last time.
pub(crate) fn promise_all_finished(worker: &mut Worker<'_>) {
    let finished = std::mem::take(&mut worker.finished);
    promise(worker, &finished);
}

/// The same of a whole file that has its name now.
pub(crate) fn promise_finished(worker: &mut Worker<'_>, source: Fingerprint, copy: BorrowedFd<'_>, checked: &Checked) {
    let Ok(copy) = Inode::of(copy) else { return };
    let digest = checked.digest.as_deref().and_then(Digest::from_hex);
    worker.finished.push(Record::Finished { pair: Fingerprint::of_copy(source, &copy), digest });
}

/// Whether an earlier run made this directory, and nothing in this one has met it.
pub(crate) fn was_made_earlier(cx: RunContext<'_>, directory: &Inode) -> bool {
    let made = cx.services.progress.get().is_some_and(|progress| progress.made(directory));
    made && matches!(cx.services.links.get(directory.into()), Ok(None))
}

pub(crate) fn promise_directory(worker: &mut Worker<'_>, directory: &Inode) {
    if worker.cx.services.progress.get().is_some() {
        promise(worker, &[Record::Directory(Fingerprint::of_file(directory))]);
    }
}

/// Removes what earlier runs have left in a directory that was there before; with `keep` not what this run may go on with.
pub(crate) fn tidy(cx: RunContext<'_>, dir: BorrowedFd<'_>, keep: bool) {
    if let Some(progress) = cx.services.progress.get() {
        // Another operand may come to the same directory.
        progress.tidy(dir, keep || cx.plan.sources.len() > 1);
    }
    shard::tidy_after_shards(cx, dir);
}

/// What a source is, if a later state differs visibly from this one: a file that is kept somewhere, and was not changed so
/// recently that a change from now on might leave its times as they are. Asked for before the first byte is read.
pub(crate) fn fingerprint_of(cx: RunContext<'_>, source: BorrowedFd<'_>, seen: &Inode) -> Option<Fingerprint> {
    cx.services.progress.get()?;
    let inode = &Inode::of(source).ok()?;
    // Its attributes will be those that were seen.
    if Fingerprint::of_source(inode) != Fingerprint::of_source(seen) {
        return None;
    }
    let lasting = inode.kind == Kind::Regular && has_storage(inode) && has_settled(inode);
    lasting.then(|| Fingerprint::of_source(inode))
}

/// Where the checkpoints of a file are written down, if it is worth some.
pub(crate) fn checkpoint_log<'a>(
    cx: RunContext<'a>,
    job: &FileData<'_>,
    unfinished: &Unfinished,
) -> Option<CheckpointLog<'a>> {
    let shared: &'a Services = cx.services;
    let (progress, number) = (shared.progress.get()?, unfinished.number?);
    let source = Fingerprint::of_beginning(unfinished.print?, unfinished.home?);
    let file = Fingerprint::of_file(job.transfer.dest_inode);
    let worth_it = unfinished.start > 0 || job.transfer.source_inode.size >= 2 * STEP;
    worth_it.then(|| CheckpointLog::new(progress, [source, file], number))
}

/// The checkpoints that are written down there.
pub(crate) fn checkpoints<'a>(
    cx: RunContext<'_>,
    job: &FileData<'_>,
    unfinished: &Unfinished,
    log: Option<&'a CheckpointLog<'a>>,
) -> Option<Checkpoints<'a>> {
    // Before anything is written: this descriptor reports what goes wrong from then on, too.
    let log = log?;
    let own = cx.kernel.reopen_to_read(job.transfer.dest.as_fd(), false).ok()?;
    Some(Checkpoints::new(log, own, unfinished.start))
}

/// The same in a directory that nobody enters, if anything may have been left there.
pub(crate) fn tidy_behind_link(cx: RunContext<'_>, dir: BorrowedFd<'_>) {
    let repeated = cx.services.shards.get().is_some_and(Shards::is_repeated);
    if repeated || cx.services.progress.get().is_some_and(|progress| progress.earlier) {
        tidy(cx, dir, true);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;
    use std::path::Path;

    use haul_sys::Errno;

    use super::*;
    use crate::context::test_support::{Bench, Ran, SETTLED, file_data, settled_dir, tree};
    use crate::finish::naming;
    use crate::links::Made;
    use crate::plan::{Durable, Plan};
    use crate::publish::ready::{ParentDirectory, Ready};

    fn bench() -> Bench {
        let mut bench = Bench::new(Plan { resume: true, durable: Durable::File, ..Plan::default() }).source("a", "new");
        bench.open_journal();
        bench
    }

    fn source(bench: &Bench) -> Fingerprint {
        Fingerprint::of_source(&bench.from("a").inode().unwrap())
    }

    /// Gives `b`, a whole copy of `a`, its name.
    fn finish_b(bench: &Bench, checked: Checked) -> Ran<()> {
        let name = bench.services.progress.get().unwrap().names.another();
        let path = bench.dest_path(name.to_str().unwrap());
        fs::write(&path, "new").unwrap();
        let file = File::options().write(true).open(path).unwrap();
        let ready = Ready {
            id: Inode::of(file.as_fd()).unwrap().id,
            file: file.into(),
            size: 3,
            checked,
            parent: ParentDirectory::Own(bench.to("b").dir().unwrap().try_clone_to_owned().unwrap(), "b".into()),
            name,
            last: "b".into(),
            replaces: false,
            stands: None,
            source: Some(source(bench)),
        };
        bench.run(|worker| {
            naming::wait_for_device(worker, ready);
            naming::give_names(worker);
        })
    }

    /// What the next run knows of `b` as a copy of `a`: the digest, if it is finished.
    fn known_of_b(bench: &mut Bench) -> Option<Option<Digest>> {
        bench.open_journal();
        let pair = Fingerprint::of_copy(source(bench), &bench.to("b").inode().unwrap());
        bench.services.progress.get().unwrap().finished(pair)
    }

    #[test]
    fn the_next_run_knows_a_finished_copy() {
        let mut bench = bench();
        finish_b(&bench, Checked::default()).says(&[]);
        assert_eq!(known_of_b(&mut bench), Some(None));
    }

    #[test]
    fn the_next_run_knows_the_digest_of_a_copy() {
        let mut bench = bench();
        let digest = Digest::from_hex("22af645d1859cb5ca6da0c484f1f37ea").unwrap();
        let checked = Checked { digest: Some(digest.to_hex()), ..Checked::default() };
        finish_b(&bench, checked);
        assert_eq!(known_of_b(&mut bench), Some(Some(digest)));
    }

    #[test]
    fn a_copy_that_was_changed_is_not_known() {
        let mut bench = bench();
        finish_b(&bench, Checked::default());
        File::options().append(true).open(bench.dest_path("b")).unwrap().write_all(b"!").unwrap();
        assert_eq!(known_of_b(&mut bench), None);
    }

    #[test]
    fn the_copy_of_a_changed_source_is_not_known() {
        let mut bench = bench();
        finish_b(&bench, Checked::default());
        File::options().append(true).open(bench.source_path("a")).unwrap().write_all(b"!").unwrap();
        assert_eq!(known_of_b(&mut bench), None);
    }

    #[test]
    fn a_copy_that_got_another_name_is_known() {
        let mut bench = bench();
        finish_b(&bench, Checked::default());
        fs::hard_link(bench.dest_path("b"), bench.dest_path("c")).unwrap();
        assert_eq!(known_of_b(&mut bench), Some(None));
    }

    #[test]
    fn a_copy_without_its_name_is_not_known() {
        let mut bench = bench().dest("b", "new");
        let ran = finish_b(&bench, Checked::default());
        ran.says(&[&format!(r#"error: cannot create regular file "b": {}"#, Errno::EXIST)]);
        assert_eq!(known_of_b(&mut bench), None);
        bench.kernel.sync = Some(Errno::IO);
        finish_b(&bench, Checked::default());
        assert_eq!(known_of_b(&mut bench), None);
    }

    /// A directory that no run has made.
    fn old_directory() -> Inode {
        Inode::of(settled_dir().as_fd()).unwrap()
    }

    fn was_made(bench: &Bench, directory: &Inode) -> bool {
        bench.run(|worker| was_made_earlier(worker.cx, directory)).value
    }

    #[test]
    fn the_next_run_knows_directories_that_were_made() {
        let (mut bench, directory) = (bench(), old_directory());
        bench.run(|worker| promise_directory(worker, &directory)).says(&[]);
        assert!(!was_made(&bench, &directory), "not by an earlier run");
        bench.open_journal();
        assert!(was_made(&bench, &directory));
        assert!(!was_made(&bench, &Inode { id: bench.from("a").inode().unwrap().id, ..directory }));
    }

    #[test]
    fn a_directory_met_in_this_run_is_of_no_earlier() {
        let (mut bench, directory) = (bench(), old_directory());
        bench.run(|worker| promise_directory(worker, &directory));
        bench.open_journal();
        let made = Made { dir: bench.root(), name: "b".into(), id: Some(directory.id) };
        bench.services.links.remember((&directory).into(), || made).unwrap();
        assert!(!was_made(&bench, &directory));
    }

    #[test]
    fn only_settled_regular_sources_are_noted() {
        let (bench, dir) = (bench(), settled_dir());
        let source = crate::walk::Spot::new(dir.as_fd(), SETTLED.as_ref(), Path::new("a"));
        let (fd, seen) = (source.open_path().unwrap(), source.inode().unwrap());
        let fingerprint =
            |bench: &Bench, seen: &Inode| bench.run(|worker| fingerprint_of(worker.cx, fd.as_fd(), seen)).value;
        assert_eq!(fingerprint(&bench, &seen), Some(Fingerprint::of_source(&seen)));
        let other = Inode { size: seen.size + 1, ..seen };
        assert_eq!(fingerprint(&bench, &other), None, "it has changed since it was seen");
        let (directory, without) = (old_directory(), Bench::new(Plan::default()));
        assert_eq!(bench.run(|worker| fingerprint_of(worker.cx, dir.as_fd(), &directory)).value, None);
        assert_eq!(fingerprint(&without, &seen), None, "there is no journal");
    }

    /// What earlier runs of the command have left: a temporary file. There is one of this run, too, and one of somebody else.
    fn with_left_overs() -> Bench {
        let mut bench = bench().dest(".haul-r", "somebody's");
        for contents in ["of an earlier run", "of this run"] {
            bench.open_journal();
            let name = bench.services.progress.get().unwrap().names.another();
            fs::write(bench.dest_path(name.to_str().unwrap()), contents).unwrap();
        }
        bench
    }

    #[test]
    fn what_earlier_runs_left_is_removed() {
        let bench = with_left_overs();
        bench.run(|worker| tidy(worker.cx, bench.to("b").dir().unwrap(), false)).says(&[]);
        let left: Vec<String> = bench.tree().iter().filter_map(|line| Some(line.split_once(": ")?.1.into())).collect();
        assert_eq!(left.len(), 2);
        assert!(["of this run", "somebody's"].iter().all(|kept| left.contains(&(*kept).to_owned())), "{left:?}");
    }

    /// What an earlier run has left and noted: the first bytes of `a`.
    fn with_beginning() -> Bench {
        let mut bench = bench();
        let progress = bench.services.progress.get().unwrap();
        let (number, source) = (progress.names.number(), source(&bench));
        let name = progress.names.with_number(number).into_string().unwrap();
        fs::write(bench.dest_path(&name), "left").unwrap();
        let file = Fingerprint::of_file(&bench.to(&name).inode().unwrap());
        progress.journal.append(&[Record::Partial { source, file, number, prefix: 4 }]).unwrap();
        bench.open_journal();
        bench
    }

    #[test]
    fn a_beginning_stays_as_long_as_it_may_be_wanted() {
        let bench = with_beginning();
        bench.run(|worker| tidy(worker.cx, bench.to("b").dir().unwrap(), true)).says(&[]);
        assert_eq!(bench.tree().len(), 1, "a source may come that it is of");
        bench.run(|worker| tidy(worker.cx, bench.to("b").dir().unwrap(), false)).says(&[]);
        assert!(bench.tree().is_empty());
    }

    #[test]
    fn a_beginning_that_nobody_wanted_goes_at_the_end() {
        let bench = with_beginning();
        bench.run(|worker| tidy(worker.cx, bench.to("b").dir().unwrap(), true)).says(&[]);
        assert_eq!(end(&bench, false, true), None);
        assert!(bench.tree().is_empty());
    }

    /// Ends a run, and says where its journal is, if that is shown.
    fn end(bench: &Bench, failed: bool, did_something: bool) -> Option<PathBuf> {
        let ran = bench.run(|worker| end_progress(worker, failed, did_something));
        ran.says(&[]);
        ran.value
    }

    /// Journals beside the two directories.
    fn journals(bench: &Bench) -> usize {
        tree(bench.path()).iter().filter(|line| line.starts_with(".haul-resume-")).count()
    }

    #[test]
    fn a_journal_goes_when_all_is_done() {
        let bench = bench();
        assert_eq!((journals(&bench), end(&bench, false, true), journals(&bench)), (1, None, 0));
    }

    #[test]
    fn a_journal_stays_for_the_next_run() {
        let bench = bench();
        let path = end(&bench, true, true).expect("it is shown");
        assert!(path.to_str().unwrap().starts_with("journal/.haul-resume-"), "{path:?}");
        bench.cancel.cancel();
        assert_eq!((end(&bench, false, true), journals(&bench)), (Some(path), 1));
    }

    #[test]
    fn a_journal_of_nothing_goes() {
        let bench = bench();
        assert_eq!((end(&bench, true, false), journals(&bench)), (None, 0));
    }

    #[test]
    fn an_older_journal_stays_if_this_run_did_nothing() {
        let mut bench = bench();
        bench.open_journal();
        assert!(end(&bench, true, false).is_some());
        assert_eq!(journals(&bench), 1);
    }

    #[test]
    fn two_runs_of_one_command_have_no_journal_in_common() {
        let first = bench();
        let second = Bench::new(first.plan.clone());
        let dir = File::open(first.path()).unwrap();
        let nothing = OsStr::new("");
        let ran = second.run(|worker| begin_progress(worker, dir.as_fd(), nothing, OsStr::new("journal")));
        assert!(!ran.value && ran.heard.len() == 1);
        assert!(ran.heard[0].starts_with("error: another run of this command is still at work"), "{:?}", ran.heard);
    }

    #[test]
    fn only_resumed_runs_have_a_journal() {
        for resume in [false, true] {
            let bench = Bench::new(Plan { resume, ..Plan::default() });
            let dir = File::open(bench.path()).unwrap();
            let (nothing, shown) = (OsStr::new(""), OsStr::new("journal"));
            let ran = bench.run(|worker| begin_progress(worker, dir.as_fd(), nothing, shown));
            ran.says(&[]);
            assert_eq!((ran.value, journals(&bench)), (true, usize::from(resume)));
        }
    }

    /// Whether a file has checkpoints, of which so many bytes are there already and so many are to be copied.
    fn has_checkpoints(bench: &Bench, start: u64, size: u64) -> bool {
        let source = bench.from("a").inode().unwrap();
        let copied = Inode { size, ..source };
        let sides = [bench.from("a").open_path().unwrap(), File::create(bench.dest_path("b")).unwrap().into()];
        let mut job = file_data(sides, [&copied, &source]);
        job.transfer.start = start;
        let print = Some(Fingerprint::of_source(&source));
        let unfinished = Unfinished { number: Some(1), home: print, print, start, ..Unfinished::default() };
        bench
            .run(|worker| {
                let log = checkpoint_log(worker.cx, &job, &unfinished);
                checkpoints(worker.cx, &job, &unfinished, log.as_ref()).is_some()
            })
            .value
    }

    #[test]
    fn large_files_and_those_that_go_on_have_checkpoints() {
        let mut bench = bench();
        assert!(!has_checkpoints(&bench, 0, 2 * STEP - 1));
        assert!(has_checkpoints(&bench, 0, 2 * STEP));
        assert!(has_checkpoints(&bench, 1, 3));
        bench.kernel.reopen_to_read = Some(Errno::ACCESS);
        assert!(!has_checkpoints(&bench, 0, 2 * STEP), "its syncs would take the errors of others");
    }
}
