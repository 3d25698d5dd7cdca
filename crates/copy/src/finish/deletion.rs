//! `--delete`: removes from directories of the destination what their sources do not have.
//!
//! A directory is looked through when everything that its source has is copied, before it gets its attributes. For each name that
//! is not among the first ones of the source, the source is asked: so memory does not grow with the directory, and what came there
//! meanwhile stays.

use std::collections::HashSet;
use std::ffi::OsString;
use std::iter;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use haul_fs::mounts;
use haul_sys::Errno;
use haul_sys::inode::{DeviceNumber, Inode, Kind};

use crate::attributes::OWNER;
use crate::context::{RunContext, Worker};
use crate::error::{Error, What};
use crate::finish::removal::Removal;
use crate::meta::Object;
use crate::plan::{Delete, Plan};
use crate::publish::Sides;
use crate::schedule::limits::affordable_threads;
use crate::walk::{
    Listed, Listing, Names, PathCursor, Spot, case_counts, is_empty_directory, names_in, names_on, reopen_directory,
    set_noatime, tagged_cache,
};
use crate::work::directory::{Directory, FullDirectory};

/// Threads that remove what is in one directory: two `rm` beside each other take two thirds of the time of one on ext4, four not
/// much less.
const REMOVERS: usize = 4;

/// Two directories that belong together.
struct Pair<'d> {
    place: &'d Directory,
    sides: &'d Sides,
    delete: Delete,
    /// The source is a cache of which only the tag is wanted.
    is_cache: bool,
}

/// Something that only the copy has.
struct Extra {
    listed: Listed,
    inode: Inode,
}

/// Removes from a directory what its source does not have, or says in a dry run what that is. Whether anything was.
pub(crate) fn delete_extra(worker: &mut Worker<'_>, directory: &FullDirectory) -> bool {
    let cx = worker.cx;
    let place = &*directory.place;
    let (Some(delete), Some(sides)) = (cx.plan.delete, directory.sides.as_deref()) else { return false };
    let unknown = place.source_path_only || place.unread.load(Ordering::Relaxed);
    if place.fresh || unknown || is_elsewhere(cx, place) {
        return false;
    }
    let is_cache = cx.wanted().excludes_caches() && tagged_cache(sides.source.as_fd()).is_some();
    if is_cache && !delete.excluded || cx.services.deletions.is_over() {
        return false;
    }
    let deleted = |worker: &Worker<'_>| worker.report.stats.deleted_files + worker.report.stats.deleted_directories;
    let before = deleted(worker);
    if let Err(error) = look_through(worker, &Pair { place, sides, delete, is_cache }) {
        worker.report.problem_of_deletion(error);
    }
    deleted(worker) > before
}

/// Goes through the names of the copy, a batch at a time.
fn look_through(worker: &mut Worker<'_>, pair: &Pair<'_>) -> Result<(), Error> {
    let cannot_read = |errno| Error::new(What::CannotAccess, pair.place.dest_path.path()).errno(errno);
    let opened = reopen_directory(pair.sides.dest.as_fd()).map_err(cannot_read)?;
    let known = pair.names_of_source(worker.cx.plan)?;
    let mut listing = Listing::default();
    let mut is_filled = pair.delete.force;
    while listing.read(opened.as_fd()).map_err(cannot_read)? {
        let mut extras = Vec::new();
        while let Some(listed) = listing.next_of_batch() {
            if worker.cx.cancelled() {
                return Ok(());
            }
            match known.contains(&listed.name) || pair.is_of_source(worker.cx, &listed)? {
                true => is_filled = true,
                false => extras.extend(pair.look_at(worker, listed)),
            }
        }
        if extras.is_empty() {
            continue;
        }
        let spots =
            extras.iter().map(|extra| Spot::new(opened.as_fd(), &extra.listed.name, extra.listed.name.as_ref()));
        if let Some(doubt) = doubt(worker.cx, pair.place, opened.as_fd(), spots) {
            let path = pair.place.dest_path.path();
            let first = worker.cx.services.deletions.is_first_doubt();
            return if first { Err(Error::new(doubt, path)) } else { Ok(()) };
        }
        if !is_filled && is_empty_directory(pair.sides.source.as_fd()).map_err(|errno| pair.unreadable(errno))? {
            let [source, dest] = [&pair.place.source_path, &pair.place.dest_path].map(|path| path.path());
            return Err(Error::new(What::SourceEmpty, dest).and(source));
        }
        is_filled = true;
        let opened_up = open_up(worker.cx, opened.as_fd());
        let removed = remove(worker, pair, &extras);
        if let Some(mode) = opened_up {
            // It could be changed a moment ago; what else might be done?
            Object { fd: opened.as_fd(), path_only: false }.set_mode(mode).ok();
        }
        removed?;
    }
    Ok(())
}

/// Lets its owner remove what is in a directory; its mode until then, if that was changed.
fn open_up(cx: RunContext<'_>, dir: BorrowedFd<'_>) -> Option<u32> {
    let mode = Inode::of(dir).ok()?.permissions;
    if mode & OWNER == OWNER || cx.services.caller.privileged() || cx.plan.dry_run {
        return None;
    }
    // Who may not do that gets an error for what cannot be removed.
    Object { fd: dir, path_only: false }.set_mode(mode | OWNER).ok().map(|()| mode)
}

/// Removes them, as long as the source does not have them and they are what they were.
fn remove(worker: &mut Worker<'_>, pair: &Pair<'_>, extras: &[Extra]) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let cx = worker.cx;
    match cx.services.deletions.thread_pool(wanted_threads(cx, extras)) {
        None => remove_each(worker, pair, extras, &next),
        Some(pool) => thread::scope(|scope| {
            let help = || {
                let mut helper = Worker::new(cx);
                let removed = remove_each(&mut helper, pair, extras, &next);
                (helper.report, removed)
            };
            // Those that cannot be started leave more to the others.
            let start = |_| thread::Builder::new().name("haul".into()).spawn_scoped(scope, help).ok();
            let helpers: Vec<_> = (1..pool.threads).filter_map(start).collect();
            let mut removed = remove_each(worker, pair, extras, &next);
            for helper in helpers {
                let (report, its) = helper.join().unwrap_or_else(|panic| resume_unwind(panic));
                worker.report.add(report);
                removed = removed.and(its);
            }
            removed
        }),
    }
}

/// How many threads remove these. Who removes files waits for the journal of the filesystem most of the time; of one directory only
/// one thread at a time can remove anything.
fn wanted_threads(cx: RunContext<'_>, extras: &[Extra]) -> usize {
    let directories = extras.iter().filter(|extra| extra.inode.kind == Kind::Directory).count();
    let ordered = cx.session.observer.in_order();
    if cx.plan.dry_run || ordered || directories < 2 {
        return 1;
    }
    cx.plan.jobs.unwrap_or(REMOVERS).min(REMOVERS).min(affordable_threads()).min(directories)
}

/// The same in one thread, of those that no other one has taken. After an error no thread takes more.
fn remove_each(worker: &mut Worker<'_>, pair: &Pair<'_>, extras: &[Extra], next: &AtomicUsize) -> Result<(), Error> {
    let cx = worker.cx;
    let Some(mut removal) = Removal::below(worker, pair.place, Some(pair.sides)) else { return Ok(()) };
    let mut cursor = PathCursor::default();
    while let Some(Extra { listed, inode }) = extras.get(next.fetch_add(1, Ordering::Relaxed)) {
        if removal.is_to_end() {
            return Ok(());
        }
        let path = cursor.entry(&pair.place.dest_path, &listed.name);
        let spot = Spot::new(pair.sides.dest.as_fd(), &listed.name, path);
        let kept = pair.is_of_source(cx, listed).inspect_err(|_| next.store(extras.len(), Ordering::Relaxed))?;
        if !kept && spot.inode().is_ok_and(|now| now.is_same_file_as(inode)) {
            removal.remove(spot, inode);
        }
    }
    Ok(())
}

impl Pair<'_> {
    /// The first names of the source, all of them unless there are very many: they need not be asked for one by one, which takes
    /// longer.
    fn names_of_source(&self, plan: &Plan) -> Result<HashSet<OsString>, Error> {
        if self.delete.excluded {
            return Ok(HashSet::new());
        }
        let opened = reopen_directory(self.sides.source.as_fd()).map_err(|errno| self.unreadable(errno))?;
        if plan.open_noatime {
            set_noatime(&opened);
        }
        let mut listing = Listing::default();
        listing.read(opened.as_fd()).map_err(|errno| self.unreadable(errno))?;
        Ok(iter::from_fn(|| listing.next_of_batch()).map(|listed| listed.name).collect())
    }

    /// Whether a name of the copy is one that the source has, and that is copied. Of what is left out by size or age the copy is
    /// not removed: it may be wanted again tomorrow.
    fn is_of_source(&self, cx: RunContext<'_>, listed: &Listed) -> Result<bool, Error> {
        let (source, name) = (self.sides.source.as_fd(), &listed.name);
        // A filesystem of the network may remember wrongly that there is no such name.
        let found = match Inode::at(source, name) {
            Err(Errno::NOENT) => Inode::now_at(source, name, false),
            found => found,
        };
        match found {
            // In a directory that was removed there is no name.
            Err(Errno::NOENT | Errno::NAMETOOLONG) => {
                match Inode::of(source).map_err(|errno| self.unreadable(errno))?.links {
                    0 => Err(Error::new(What::ReplacedWhileCopied, self.place.source_path.path())),
                    _ => Ok(false),
                }
            }
            Err(errno) => Err(self.unreadable(errno)),
            Ok(_) if !self.delete.excluded => Ok(true),
            Ok(_) if self.is_cache => {
                let tag = tagged_cache(source).unwrap_or_default().next_of_batch();
                Ok(tag.is_none_or(|tag| tag.name == *name))
            }
            Ok(inode) => {
                Ok(cx.wanted().only_in_copy(inode.kind, name, || self.place.source_path.joined_below_root(name)))
            }
        }
    }

    /// What an entry that only the copy has is; `None` if it is to stay.
    fn look_at(&self, worker: &mut Worker<'_>, listed: Listed) -> Option<Extra> {
        let services = worker.cx.services;
        let is_journal = services.progress.get().is_some_and(|progress| progress.name == listed.name);
        if is_journal || services.earlier_runs.get().is_some_and(|runs| runs.have_left(&listed.name)) {
            return None;
        }
        match Inode::at(self.sides.dest.as_fd(), &listed.name) {
            // Nor does it count, or make an empty source look suspicious.
            Ok(inode) if !worker.cx.wanted().entry(&inode) => None,
            Ok(inode) => {
                let path = || self.place.dest_path.joined_below_root(&listed.name);
                let wanted = self.delete.excluded || worker.cx.wanted().only_in_copy(inode.kind, &listed.name, path);
                wanted.then_some(Extra { listed, inode })
            }
            Err(Errno::NOENT) => None,
            Err(errno) => {
                let path = self.place.dest_path.joined(&listed.name);
                worker.report.problem_of_deletion(Error::new(What::CannotStat, path).errno(errno));
                None
            }
        }
    }

    fn unreadable(&self, errno: Errno) -> Error {
        Error::new(What::CannotAccess, self.place.source_path.path()).errno(errno)
    }
}

/// Looks at the name under which a directory of the copy was found or made, in a directory on this filesystem: where names are
/// alike, it may be the copy of two directories of the source, and so may all below it, whatever their names.
pub(crate) fn look_at_name(cx: RunContext<'_>, dest: Spot<'_>, device: DeviceNumber) {
    let deletions = &cx.services.deletions;
    if cx.plan.delete.is_none() || deletions.case_counts(device).is_some() {
        return;
    }
    match case_counts(dest, dest.name) {
        None => deletions.note_case(device, false),
        // Elsewhere it is a matter of each directory.
        Some(true) if dest.dir().is_ok_and(|dir| names_on(dir) != Ok(Names::Exact)) => {
            deletions.note_case(device, true)
        }
        Some(_) => {}
    }
}

/// Why what only this directory of the copy has may be the copy of something in another directory of the source. The directory is
/// open to be read; `spots` are some in it.
pub(crate) fn doubt<'s>(
    cx: RunContext<'_>,
    place: &Directory,
    dir: BorrowedFd<'_>,
    spots: impl Iterator<Item = Spot<'s>>,
) -> Option<What> {
    if cx.services.deletions.shown_twice(|| is_shown_twice(place, dir)) {
        return Some(What::ShownTwice);
    }
    (!names_are_exact(cx, dir, place.dest_inode.id.device(), spots)).then_some(What::NamesMayBeAlike)
}

/// Whether mounts show some directory of the copy twice, of which this is one directory.
fn is_shown_twice(place: &Directory, dir: BorrowedFd<'_>) -> bool {
    // The last one is the directory that the copy is in.
    let levels = place.dir.names().len().saturating_sub(1);
    let path = mounts::path_of(dir).map(PathBuf::from);
    let (Some(copy), Ok(table)) = (path.as_deref().and_then(|path| path.ancestors().nth(levels)), mounts::read())
    else {
        // Without /proc nobody knows; mounts in copies are rare.
        return false;
    };
    mounts::show_twice(&table, copy)
}

/// Whether a name in a directory, which is open to be read, is the name of one thing: filesystems for which upper and lower case,
/// or two ways to write an accent, are alike give back other names than were made, and merge directories. `spots` are some in it.
fn names_are_exact<'s>(
    cx: RunContext<'_>,
    dir: BorrowedFd<'_>,
    device: DeviceNumber,
    spots: impl Iterator<Item = Spot<'s>>,
) -> bool {
    let deletions = &cx.services.deletions;
    match (deletions.case_counts(device), names_in(dir)) {
        (Some(false), _) | (_, Names::Unknown) => false,
        (_, Names::Exact) | (Some(true), Names::MostlyExact) => true,
        (None, Names::MostlyExact) => {
            // Without letters a name tells nothing. One of ASCII is no other spelling either; an accent may have two.
            let mut is_ascii = true;
            let counts = spots
                .inspect(|spot| is_ascii &= spot.name.is_ascii())
                .map(|spot| case_counts(spot, spot.name))
                .find(|counts| *counts != Some(false));
            match counts {
                Some(counts) => {
                    deletions.note_case(device, counts.is_some());
                    counts.is_some()
                }
                None => is_ascii,
            }
        }
    }
}

/// With `--one-file-system`: whether the directory of the destination is on another filesystem than the operand's copy.
fn is_elsewhere(cx: RunContext<'_>, place: &Directory) -> bool {
    cx.plan.one_file_system && place.dir.below_named().is_some_and(|top| top.device() != place.dest_inode.id.device())
}

/// What is to be reported if more could be removed.
pub(crate) fn report_rest(worker: &mut Worker<'_>) {
    let (left, path) = (worker.cx.services.deletions.left(), worker.cx.plan.destination.path());
    if left > 0 {
        worker.report.problem_of_deletion(Error::new(What::DeletionLimit, path).detail(left.to_string()));
    }
    if worker.cx.services.deletions.was_stopped() {
        worker.report.warning(&Error::new(What::DeletionStopped, path));
    }
}

#[cfg(test)]
#[path = "deletion_tests.rs"]
mod tests;
