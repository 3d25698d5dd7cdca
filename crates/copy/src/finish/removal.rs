//! Removes an entry of the destination with all that is in it.
//!
//! By descriptors, as everything: no path is resolved, no symbolic link followed, no mount point entered. What a filter excludes
//! stays, and so do the directories that hold it. A dry run goes the same way and only says what would be removed.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::{FileType, OFlags};

use crate::attributes::OWNER;
use crate::context::Worker;
use crate::error::{Error, What};
use crate::events::{Action, Event, Planned};
use crate::meta::Object;
use crate::plan::Delete;
use crate::publish::Sides;
use crate::publish::probe::{is_seen_in, set_times_back};
use crate::walk::{
    Descent, Entered, Listed, Party, PathCursor, PathNode, Spot, entries_of, is_mounted, open_above, open_directory,
    tagged_cache,
};
use crate::work::directory::Directory;

/// The rights of the owner to list a directory and to look at what is in it.
const LOOK: u32 = 0o500;

/// Directories that are held open on the way down.
const OPEN_LEVELS: usize = 4;

/// A removal of entries below a directory of the destination.
pub(crate) struct Removal<'r, 'a> {
    worker: &'r mut Worker<'a>,
    delete: Delete,
    place: &'r Directory,
    /// What it is a copy of, if that is open.
    source: Option<BorrowedFd<'r>>,
    /// The operand that this is in, as far as it was found.
    operand: OnceCell<(OwnedFd, Inode)>,
    /// Nothing is removed; what would be is counted here.
    counted: Option<u64>,
    /// So many were counted as removed before, all at once.
    reserved: u64,
}

/// A directory that is being emptied.
struct Doomed {
    /// Its name in the directory above.
    name: OsString,
    /// Its mode before it was opened up for its owner.
    mode: Option<u32>,
    /// What became of what is in it: the worst of it.
    fate: Fate,
}

type Level = Entered<Doomed>;

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Gone,
    /// It stays since no more may be removed.
    Limited,
    /// It is to stay, or could not be removed.
    Stays,
}

/// An entry of a directory that is being emptied.
enum Met {
    Done(Fate),
    Directory(Box<Level>),
}

impl<'r, 'a> Removal<'r, 'a> {
    /// Of entries of this directory; `None` if nothing is to be removed.
    pub(crate) fn below(
        worker: &'r mut Worker<'a>,
        place: &'r Directory,
        sides: Option<&'r Sides>,
    ) -> Option<Removal<'r, 'a>> {
        let delete = worker.cx.plan.delete.filter(|_| !worker.cx.services.deletions.is_over())?;
        let source = sides.map(|sides| sides.source.as_fd());
        Some(Removal { worker, delete, place, source, operand: OnceCell::new(), counted: None, reserved: 0 })
    }

    /// Removes an entry of the directory, unless it is to stay or that fails, which is reported. Whether it is gone.
    pub(crate) fn remove(&mut self, spot: Spot<'_>, inode: &Inode) -> bool {
        let above = Arc::clone(&self.place.dest_path);
        if !self.worker.cx.wanted().entry(inode) || self.is_protected(inode.kind, spot.name, &above) {
            return false;
        }
        match inode.kind {
            Kind::Directory => self.remove_directory(spot, inode, &above),
            _ => self.unlink(spot) == Fate::Gone,
        }
    }

    /// The same of an entry in whose place another one is to be made: all of it or nothing, as far as that can be known.
    pub(crate) fn make_way(&mut self, spot: Spot<'_>, inode: &Inode) -> bool {
        self.counted = Some(0);
        let whole = self.remove(spot, inode);
        let count = self.counted.take().unwrap_or_default();
        let deletions = &self.worker.cx.services.deletions;
        if !whole || !deletions.reserve(count, self.delete.most) {
            return false;
        }
        self.reserved = count;
        let gone = self.remove(spot, inode);
        deletions.give_back(std::mem::take(&mut self.reserved));
        gone
    }

    /// Whether nothing more is to be removed. What makes way for a copy goes on once it was begun: half of it would be neither.
    pub(crate) fn is_to_end(&self) -> bool {
        let cx = self.worker.cx;
        cx.cancelled() || self.reserved == 0 && cx.services.deletions.is_over()
    }

    /// Whether a filter excludes it.
    fn is_protected(&self, kind: Kind, name: &OsStr, above: &PathNode) -> bool {
        let wanted = self.worker.cx.wanted();
        !self.delete.excluded && !wanted.only_in_copy(kind, name, || above.joined_below_root(name))
    }

    fn remove_directory(&mut self, spot: Spot<'_>, inode: &Inode, above: &Arc<PathNode>) -> bool {
        let Ok(base) = spot.dir() else { return false };
        let first = match self.enter(spot, above) {
            Ok(first) => first,
            Err(fate) => return fate == Fate::Gone,
        };
        if !first.inode().is_same_file_as(inode) {
            restore(&first);
            return false;
        }
        let mut descent = Descent::new(OPEN_LEVELS);
        descent.enter(*first);
        let mut cursor = PathCursor::default();
        let mut gone = false;
        while let Some(level) = descent.innermost() {
            if self.is_to_end() {
                // Each level on the way up gets its mode back.
                level.note.fate = Fate::Stays;
                gone = self.leave(&mut descent, base, &mut cursor);
                continue;
            }
            let next = level.next_name();
            if let Err(errno) = next {
                self.problem(Error::new(What::CannotAccess, level.path().path()).errno(errno));
                level.note.fate = Fate::Stays;
            }
            let Ok(Some(listed)) = next else {
                gone = self.leave(&mut descent, base, &mut cursor);
                continue;
            };
            let spot = level.spot(&listed.name, cursor.entry(level.path(), &listed.name));
            match self.meet(spot, &listed, level.path()) {
                Met::Done(fate) => level.note.fate = level.note.fate.max(fate),
                Met::Directory(next) => descent.enter(*next),
            }
        }
        gone
    }

    fn meet(&mut self, spot: Spot<'_>, listed: &Listed, above: &Arc<PathNode>) -> Met {
        let skips_files = !self.worker.cx.session.skip_files.is_empty();
        let kind = match listed.kind {
            Some(FileType::Directory) => Kind::Directory,
            Some(FileType::RegularFile) if !skips_files => Kind::Regular,
            Some(FileType::Symlink) => Kind::SymbolicLink,
            _ => match spot.inode() {
                Err(Errno::NOENT) => return Met::Done(Fate::Gone),
                Err(errno) => {
                    self.problem(Error::new(What::CannotStat, spot.path).errno(errno));
                    return Met::Done(Fate::Stays);
                }
                Ok(inode) if !self.worker.cx.wanted().entry(&inode) => return Met::Done(Fate::Stays),
                Ok(inode) => inode.kind,
            },
        };
        if self.is_protected(kind, spot.name, above) {
            return Met::Done(Fate::Stays);
        }
        match kind {
            Kind::Directory => self.enter(spot, above).map_or_else(Met::Done, Met::Directory),
            _ => Met::Done(self.unlink(spot)),
        }
    }

    /// Opens a directory that is to be emptied.
    ///
    /// # Errors
    /// What becomes of it if it cannot be.
    fn enter(&mut self, spot: Spot<'_>, above: &Arc<PathNode>) -> Result<Box<Level>, Fate> {
        let cx = self.worker.cx;
        let handle = spot.open(OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW, 0);
        let handle = self.check(handle, spot).ok_or(Fate::Stays)?;
        let look = || -> Result<(Inode, bool), Errno> {
            let inode = Inode::of(handle.as_fd())?;
            let parent = spot.dir()?;
            let elsewhere = inode.id.device() != Inode::of(parent)?.id.device();
            Ok((inode, elsewhere || is_mounted(handle.as_fd(), parent)?))
        };
        let (inode, elsewhere) = self.check(look(), spot).ok_or(Fate::Stays)?;
        if elsewhere {
            if !cx.plan.one_file_system {
                self.problem(Error::new(What::MountStays, spot.path));
            }
            return Err(Fate::Stays);
        }
        if self.place.dir.is_within_copy_of(inode.id) {
            self.problem(Error::new(What::SourceInDeleted, spot.path));
            return Err(Fate::Stays);
        }
        let closed = inode.permissions & OWNER != OWNER && !cx.services.caller.privileged();
        if closed && cx.plan.dry_run && inode.permissions & LOOK != LOOK {
            // What is in it only who opens it up can tell.
            return Err(self.take(spot, true, || Ok(())));
        }
        let opened_up = closed && self.counted.is_none() && !cx.plan.dry_run && {
            let object = Object { fd: handle.as_fd(), path_only: true };
            object.set_mode(inode.permissions | OWNER).is_ok()
        };
        let mode = opened_up.then_some(inode.permissions);
        let note = Doomed { name: spot.name.to_owned(), mode, fate: Fate::Gone };
        let level = Level::open(spot, false, Some(above), note);
        let level = self.check(level, spot).filter(|level| {
            let is_same = level.inode().is_same_file_as(&inode);
            if !is_same {
                self.problem(Error::new(What::DirectoryMoved, spot.path));
            }
            is_same
        });
        let Some(level) = level else {
            if opened_up {
                // It could be changed a moment ago; what else might be done?
                Object { fd: handle.as_fd(), path_only: true }.set_mode(inode.permissions).ok();
            }
            return Err(Fate::Stays);
        };
        let dir = level.dir().ok_or(Fate::Stays)?;
        // What is closed to its owner is asked when it is opened up, and a dry run writes nothing.
        let asks = !cx.plan.dry_run && (!closed || opened_up);
        if asks && self.may_be_source(spot, dir, &inode) {
            restore(&level);
            return Err(Fate::Stays);
        }
        let is_cache = cx.wanted().excludes_caches() && !self.delete.excluded && tagged_cache(dir).is_some();
        if is_cache && has_several_entries(dir) {
            restore(&level);
            return Err(Fate::Stays);
        }
        Ok(Box::new(level))
    }

    /// Whether a directory is the source under other numbers, or that is not certain, which is reported.
    fn may_be_source(&mut self, spot: Spot<'_>, dir: BorrowedFd<'_>, inode: &Inode) -> bool {
        let error = Error::new(What::SourceInDeleted, spot.path);
        let error = match self.shows_source(dir, inode) {
            Ok(false) => return false,
            Ok(true) => error,
            Err(errno) => error.errno(errno),
        };
        self.problem(error);
        true
    }

    /// Whether what is removed from a directory would be removed from the operand.
    fn shows_source(&self, dir: BorrowedFd<'_>, inode: &Inode) -> Result<bool, Errno> {
        let Some(source) = self.source else { return Ok(false) };
        let (names, identities) = (&self.worker.cx.services.names, &self.worker.cx.services.identities);
        let can_be_one = |source: BorrowedFd<'_>, of_source: &Inode| {
            let party =
                |dir, inode| Party { spot: Spot::new(dir, OsStr::new("."), Path::new(".")), inode, follow: false };
            identities.can_be_one(party(source, of_source), party(dir, inode))
        };
        if !can_be_one(source, &self.place.source_inode) {
            return Ok(false);
        }
        if self.operand.get().is_none() {
            _ = self.operand.set(self.find_operand(source)?);
        }
        let Some((operand, of_operand)) = self.operand.get() else { return Ok(false) };
        if !can_be_one(operand.as_fd(), of_operand) {
            return Ok(false);
        }
        let seen = is_seen_in(names, dir, operand.as_fd());
        // It may stay. Who may not set them has changed nothing but times.
        set_times_back(Object { fd: dir, path_only: false }, inode).ok();
        match seen {
            // No room for anything is no reason to keep what has nothing of the source.
            Err(Errno::NOSPC | Errno::DQUOT) => Ok(has_common_name(dir, operand.as_fd())?),
            seen => seen,
        }
    }

    /// The outermost directory on the way up from this source of which this is in the copy.
    fn find_operand(&self, source: BorrowedFd<'_>) -> Result<(OwnedFd, Inode), Errno> {
        let mut found = (open_directory(source, ".")?, self.place.source_inode);
        let is_copied = |now: &Inode| self.place.dir.is_within_copy_of(now.id);
        while let Ok((above, inode)) = open_above(found.0.as_fd(), OFlags::PATH, is_copied)
            && inode.id != found.1.id
        {
            found = (above, inode);
        }
        Ok(found)
    }

    /// Goes back up from a directory, and removes it if nothing in it stays. Whether it is gone.
    fn leave(&mut self, descent: &mut Descent<Level>, base: BorrowedFd<'_>, cursor: &mut PathCursor) -> bool {
        let Some((left, reopened)) = descent.leave() else { return false };
        let above = descent.innermost();
        if let (Err(why), Some(above)) = (reopened, &above) {
            self.problem(why.error(above.path()));
        }
        let dir = above.as_ref().map_or(Some(base), |above| above.dir());
        let fate = match (left.note.fate, dir) {
            (Fate::Gone, Some(dir)) => {
                self.remove_emptied(Spot::new(dir, &left.note.name, cursor.of(left.path())), &left)
            }
            (Fate::Limited, _) => {
                self.worker.cx.services.deletions.leave(1);
                Fate::Limited
            }
            _ => Fate::Stays,
        };
        if fate != Fate::Gone {
            restore(&left);
            above.into_iter().for_each(|above| above.note.fate = above.note.fate.max(fate));
        }
        fate == Fate::Gone
    }

    fn remove_emptied(&mut self, spot: Spot<'_>, left: &Level) -> Fate {
        let is_same = || spot.inode().is_ok_and(|now| now.is_same_file_as(left.inode()));
        self.take(spot, true, || if is_same() { spot.remove_dir() } else { Err(Errno::STALE) })
    }

    fn unlink(&mut self, spot: Spot<'_>) -> Fate {
        self.take(spot, false, || spot.unlink())
    }

    /// Removes one entry, if one more may be, and counts it.
    fn take(&mut self, spot: Spot<'_>, directory: bool, remove: impl FnOnce() -> Result<(), Errno>) -> Fate {
        if let Some(count) = &mut self.counted {
            *count += 1;
            return Fate::Gone;
        }
        let deletions = &self.worker.cx.services.deletions;
        match self.reserved {
            0 if !deletions.take(self.delete.most) => return Fate::Limited,
            0 => {}
            _ => self.reserved -= 1,
        }
        let foresees = self.worker.cx.plan.dry_run;
        let removed = if foresees { Ok(()) } else { remove() };
        if removed.is_err() {
            deletions.give_back(1);
        }
        let report = &mut self.worker.report;
        match removed {
            Ok(()) => {
                let (counter, action) = match directory {
                    true => (&mut report.stats.deleted_directories, Action::DeleteDirectory),
                    false => (&mut report.stats.deleted_files, Action::Delete),
                };
                *counter += 1;
                report.tell(&match foresees {
                    true => Event::Planned(Planned::new(action, Path::new(""), spot.path)),
                    false => Event::Deleted { path: spot.path.into(), directory },
                });
                Fate::Gone
            }
            // Somebody else was quicker.
            Err(Errno::NOENT) => Fate::Gone,
            Err(errno) => {
                self.problem(Error::new(What::CannotRemove, spot.path).errno(errno));
                Fate::Stays
            }
        }
    }

    fn problem(&mut self, error: Error) {
        self.worker.report.problem_of_deletion(error);
    }

    /// What a call about this entry has given; its error is reported.
    fn check<T>(&mut self, result: Result<T, Errno>, spot: Spot<'_>) -> Option<T> {
        result.map_err(|errno| self.problem(Error::new(What::CannotRemove, spot.path).errno(errno))).ok()
    }
}

/// Gives a directory that stays the mode back that it had.
fn restore(level: &Level) {
    if let (Some(mode), Some(fd)) = (level.note.mode, level.dir()) {
        // It could be changed a moment ago; what else might be done?
        Object { fd, path_only: false }.set_mode(mode).ok();
    }
}

/// Whether something in one directory has a name that stands in the other.
fn has_common_name(dir: BorrowedFd<'_>, other: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut entries = entries_of(dir).filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b".."));
    let stands = |name: &OsStr| match Inode::at(other, name) {
        Err(Errno::NOENT) => Ok(false),
        looked => looked.map(|_| true),
    };
    entries.try_fold(false, |found, entry| Ok(found || stands(OsStr::from_bytes(entry.file_name().to_bytes()))?))
}

/// Whether there is something beside one entry in a directory.
fn has_several_entries(dir: BorrowedFd<'_>) -> bool {
    entries_of(dir).filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b"..")).nth(1).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::test_support::Bench;
    use crate::plan::Plan;

    #[test]
    fn a_name_that_stands_in_both_directories_is_found() {
        let bench = Bench::new(Plan::default()).source("a", "").source("b", "").dest("c", "");
        let [from, to] = [bench.from("."), bench.to(".")].map(|spot| spot.dir().unwrap());
        assert_eq!([has_common_name(from, to), has_common_name(to, from)], [Ok(false); 2]);
        std::fs::write(bench.dest_path("b"), "").unwrap();
        assert_eq!([has_common_name(from, to), has_common_name(to, from)], [Ok(true); 2]);
    }
}
