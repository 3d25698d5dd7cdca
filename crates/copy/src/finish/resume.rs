//! `--resume`: what earlier runs of the same command have done, and what this one leaves to the next.
//!
//! With it every file is made under another name and gets its own when it is on its device (see `durable`), so whatever
//! stands under its own name is whole. The journal spares the work: it says which copies are finished, how much of a large
//! file is on the device, and which directories were made. Nothing of it is believed of a file that has changed.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use haul_sys::rustix::fs::{AtFlags, unlinkat};

use crate::context::RunContext;
use crate::context::Services;
use crate::context::Worker;
use crate::error::{Error, What};
use crate::facts::{Inode, Kind};
use crate::finish::shard;
use crate::journal::{Digest, Fingerprint, Record};
use crate::progress::{Progress, has_settled, journals_of_others};
use crate::report::Reporter;
use crate::shards::Shards;
use crate::transfer::{Checkpoints, STEP, Transfer, has_storage};
use crate::verify::Checked;
use crate::work::unfinished::Unfinished;

/// Opens the journal in this directory, for copies that get the name `last` there, or any if that is empty. False if there
/// can be none, which was reported.
pub(crate) fn begin_progress(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    dir: BorrowedFd<'_>,
    last: &OsStr,
    shown: &OsStr,
) -> bool {
    if !shard::begin_shard(cx, report, dir, last, shown) {
        return false;
    }
    if !cx.plan.resume {
        return true;
    }
    match Progress::open(cx.plan, dir, last, shown, 0) {
        Ok(progress) => {
            progress.tidy(dir, true);
            cx.services.progress.set(progress).is_ok()
        }
        Err(error) => report.problem(error),
    }
}

/// The end of a run. When all is done the journal goes; otherwise this is where it is.
pub(crate) fn end_progress(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    failed: bool,
    did_something: bool,
) -> Option<PathBuf> {
    let shared = cx.services;
    let progress = shared.progress.get()?;
    let unfinished = failed || report.failed || cx.cancelled();
    if unfinished && (did_something || progress.earlier || progress.promised.load(Ordering::Relaxed)) {
        return Some(progress.path.clone());
    }
    progress.tidy(progress.dir.as_fd(), false);
    progress.tidy_kept();
    for other in journals_of_others(progress.dir.as_fd(), &progress.name) {
        // Those of processes that have ended well as this one does.
        unlinkat(&progress.dir, other.as_os_str(), AtFlags::empty()).ok();
    }
    if let Err(errno) = unlinkat(&progress.dir, progress.name.as_os_str(), AtFlags::empty()) {
        report.problem(Error::new(What::CannotRemove, &progress.path).errno(errno));
    }
    None
}

/// Writes promises down. That this fails costs the next run time, and is told once.
pub(crate) fn promise(cx: RunContext<'_>, report: &mut Reporter<'_>, records: &[Record], sync: bool) {
    let Some(progress) = cx.services.progress.get().filter(|_| !records.is_empty()) else { return };
    if let Err(error) = progress.promise(records, sync) {
        report.warning(&error);
    }
}

/// Writes down what was finished since the last time.
pub(crate) fn promise_all_finished(cx: RunContext<'_>, worker: &mut Worker<'_>) {
    let finished = std::mem::take(&mut worker.finished);
    promise(cx, &mut worker.report, &finished, false);
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

/// Notes a directory that was just made.
pub(crate) fn promise_directory(cx: RunContext<'_>, report: &mut Reporter<'_>, directory: &Inode) {
    if cx.services.progress.get().is_some() {
        promise(cx, report, &[Record::Directory(Fingerprint::of_file(directory))], false);
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

/// What a source is, if a later state can be told from this one: a file that is kept somewhere, and was not changed so
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

/// The checkpoints of a file that is worth some.
pub(crate) fn checkpoints<'a>(
    cx: RunContext<'a>,
    job: &Transfer<'_>,
    unfinished: &Unfinished,
) -> Option<Checkpoints<'a>> {
    let shared: &'a Services = cx.services;
    let (progress, number) = (shared.progress.get()?, unfinished.number?);
    let source = Fingerprint::of_beginning(unfinished.print?, unfinished.home?);
    let start = unfinished.start;
    let file = Fingerprint::of_file(job.dest_inode);
    let worth_it = start > 0 || job.source_inode.size >= 2 * STEP;
    // Before anything is written: what goes wrong from then on is told to this one, too.
    let own = if worth_it { cx.kernel.reopen_to_read(job.dest.as_fd(), false).ok()? } else { return None };
    Some(Checkpoints::new(progress, source, file, own, number, start))
}

/// The same in a directory that nobody enters, if anything may have been left there.
pub(crate) fn tidy_behind_link(cx: RunContext<'_>, dir: BorrowedFd<'_>) {
    let repeated = cx.services.shards.get().is_some_and(Shards::is_repeated);
    if repeated || cx.services.progress.get().is_some_and(Progress::goes_on) {
        tidy(cx, dir, true);
    }
}
