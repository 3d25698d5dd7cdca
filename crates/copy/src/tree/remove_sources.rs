//! The second part of a move (`--move`): what was copied is removed from the sources.
//!
//! Everything is on its device by now. One thread goes through the sources and their copies side by side and takes nothing for
//! granted that the first part has done: a source is removed only if its copy is there, is another file, and has the same
//! contents, and if the source is still what was compared. So a run that ends at any moment leaves each file whole on one side at
//! least, and the same command goes on.
//!
//! * Sources are removed by their names in open directories; nothing is followed, and nothing is removed behind a mount point.
//! * A directory goes when it is empty.
//! * Where one filesystem may show the files of another, the directories of both sides are proven to be two.

use std::cell::{Cell, OnceCell};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use haul_io::transfer::Buffers;
use haul_sys::Errno;
use haul_sys::inode::{DeviceNumber, Inode, Kind};
use haul_sys::rustix::fs::{CWD, OFlags};
use haul_sys::rustix::io::retry_on_intr;

use crate::compare;
use crate::context::{RunContext, Worker};
use crate::error::{Error, What};
use crate::events::Event;
use crate::meta::Object;
use crate::plan::Destination;
use crate::publish::probe::{is_seen_in, set_times_back};
use crate::tree::look_ahead;
use crate::tree::operands::{name_in, strip};
use crate::tree::rename::name_to_move;
use crate::walk::{
    Descent, Level, Listed, Listing, NotAbove, Operand, Party, PathNode, Spot, is_mounted, last_component, open_above,
    open_directory, path_below, reopen_directory, set_noatime, sync_directory, tagged_cache,
};
use crate::work::directory::are_within;

/// Removes the sources that are what stands at the destination, which is settled. `synced` are the filesystems that were brought
/// to their devices as a whole.
pub(crate) fn remove_sources(worker: &mut Worker<'_>, open_levels: usize, synced: &[DeviceNumber]) {
    let plan = worker.cx.plan;
    let (target, path) = match &plan.destination {
        Destination::Directory(path) => match open_directory(CWD, path) {
            Ok(dir) => (Some(dir), path),
            // That was reported when nothing could be copied there, or it has gone.
            Err(errno) => {
                worker.report.problem(Error::new(What::TargetDirectory, path).errno(errno));
                return;
            }
        },
        Destination::Exactly(path) => (None, path),
        // Nothing was copied.
        Destination::Guess(_) => return,
    };
    let (buffers, operand) = (Buffers::new(), Path::new(""));
    let mut removal = Removal { worker, open_levels, buffers, operand, blind: false, read_names: Names::read, synced };
    for (number, operand) in plan.sources.iter().enumerate() {
        // As it was when it was copied: only into a directory.
        let operand = if target.is_some() { strip(removal.worker.cx, operand) } else { operand };
        let source = Operand::open(operand);
        removal.operand = Path::new(operand);
        match &target {
            Some(dir) => {
                let (name, path) = name_in(path, operand);
                removal.remove_operand(number, source.spot(), Spot::new(dir.as_fd(), name, &path));
            }
            None => removal.remove_operand(number, source.spot(), Operand::open(path).spot()),
        }
        if removal.ends() {
            return;
        }
    }
}

/// Names in a directory with copies, where one name of it may be found by several spellings: of two sources that are alike in
/// all but the spelling of their names, one may be the copy of both.
#[derive(Debug)]
enum Names {
    /// Each is found by one spelling only.
    Exact,
    These(HashSet<OsString>),
    /// They could not be read, or are too many.
    Unknown,
}

/// Names of one directory that are kept in memory at most.
const MOST_NAMES: usize = 1 << 18;

impl Names {
    /// Of a directory, which may be open as a handle.
    fn read(dir: BorrowedFd<'_>) -> Names {
        let exactness = look_ahead::exactness(dir).ok().flatten();
        if exactness == Some(true) {
            return Names::Exact;
        }
        match Names::list(dir) {
            Ok(Some(names)) => Names::These(names),
            // They mostly are.
            Ok(None) if exactness == Some(false) => Names::Exact,
            Ok(None) | Err(_) => Names::Unknown,
        }
    }

    /// All of them; `None` if they are too many.
    fn list(dir: BorrowedFd<'_>) -> Result<Option<HashSet<OsString>>, Errno> {
        let (opened, mut listing, mut names) = (reopen_directory(dir)?, Listing::default(), HashSet::new());
        while let Some(listed) = listing.next(opened.as_fd())? {
            if names.len() == MOST_NAMES {
                return Ok(None);
            }
            names.insert(listed.name);
        }
        Ok(Some(names))
    }

    fn have(&self, name: &OsStr) -> bool {
        match self {
            Names::Exact => true,
            Names::These(names) => names.contains(name),
            Names::Unknown => false,
        }
    }
}

/// Two directories that belong together.
struct Pair {
    /// The source, to be read, and its copy.
    sides: Option<[OwnedFd; 2]>,
    inodes: [Inode; 2],
    paths: [Arc<PathNode>; 2],
    /// Of the source.
    name: OsString,
    listing: Listing,
    /// Of the copy, once they were asked for.
    names: OnceCell<Names>,
    /// The names of the copies are on their device, as far as that was done here.
    is_durable: Cell<bool>,
    /// Something stays in it, which was reported or is wanted.
    stays: bool,
    /// It is a cache of which nothing but the tag was copied.
    is_cache: bool,
    /// Something was removed since its names were read from the first one on.
    shrinks: bool,
}

impl Level for Pair {
    type Handles = [OwnedFd; 2];
    type Error = Error;

    fn handles(&mut self) -> &mut Option<[OwnedFd; 2]> {
        &mut self.sides
    }

    fn listing(&mut self) -> &mut Listing {
        &mut self.listing
    }

    fn is_through_link(&self) -> bool {
        false
    }

    fn open_from(&self, [source, copy]: &[OwnedFd; 2]) -> Result<[OwnedFd; 2], Error> {
        let up = |inner: &OwnedFd, flags: OFlags, side: usize| {
            let opened = open_above(inner.as_fd(), flags, |now| now.is_same_file_as(&self.inodes[side]));
            opened.map(|(fd, _)| fd).map_err(|why: NotAbove| why.error(&self.paths[side]))
        };
        Ok([up(source, OFlags::RDONLY, 0)?, up(copy, OFlags::PATH, 1)?])
    }
}

/// What became of an entry of the source.
enum Fate {
    Gone,
    Stays,
    /// It is a directory, and what is in it comes first.
    Entered(Box<Pair>),
}

struct Removal<'w, 'a> {
    worker: &'w mut Worker<'a>,
    open_levels: usize,
    buffers: Buffers,
    /// The path of the operand that all is below.
    operand: &'w Path,
    /// It is not known any more which sources have to stay.
    blind: bool,
    /// Reads the names in a directory with copies.
    read_names: fn(BorrowedFd<'_>) -> Names,
    synced: &'w [DeviceNumber],
}

impl Removal<'_, '_> {
    fn ends(&self) -> bool {
        self.blind || self.worker.cx.cancelled()
    }

    /// `number` is that of the operand in the plan.
    fn remove_operand(&mut self, number: usize, source: Spot<'_>, copy: Spot<'_>) {
        // None of what was not copied, or failed; what was renamed has a new name, and is none.
        let seen = self.worker.cx.services.operands.lock().get(&number).copied();
        if seen == Some(None) {
            return;
        }
        if matches!(last_component(source.name).as_bytes(), b"" | b"." | b"..") {
            // A directory without a name: that it stays was reported when it was to be moved.
            return;
        }
        let found =
            name_to_move(source).and_then(|name| Ok((name, source.beside(name, source.path).inode_now(false)?)));
        let (name, inode) = match found {
            Ok(found) => found,
            // That was reported when it was to be copied, or it was never there.
            Err(Errno::NOTDIR | Errno::NOENT) if seen.is_none() => return,
            // The way to it may have led through a source that has gone.
            Err(errno) => {
                self.worker.report.problem(Error::new(What::CannotStat, source.path).errno(errno));
                return;
            }
        };
        let source = source.beside(name, source.path);
        if seen.is_some_and(|seen| seen != Some(inode.id)) {
            self.worker.report.problem(Error::new(What::ReplacedWhileCopied, source.path));
            return;
        }
        if !self.worker.cx.wanted().entry(&inode) || !self.are_two_directories(source, copy) {
            return;
        }
        // One source alone cannot be taken for another. A slash behind a name leads through a link, as when it was copied.
        let is_named = self.worker.cx.plan.sources.len() == 1
            || copy.dir().is_ok_and(|dir| (self.read_names)(dir).have(last_component(copy.name)));
        if let Fate::Entered(pair) = self.remove((source, &inode), (copy, is_named), None) {
            let overlaps = pair.sides.as_ref().is_none_or(|[source, copy]| are_within(source.as_fd(), copy.as_fd()));
            match overlaps {
                // One within the other is not copied: it came there meanwhile.
                true => _ = self.report(Error::new(What::MaybeSameDirectory, source.path).and(copy.path)),
                false => self.go_through(*pair, source),
            }
        }
    }

    /// Removes what is in a directory, and the directory.
    fn go_through(&mut self, root: Pair, operand: Spot<'_>) {
        let mut descent = Descent::new(self.open_levels);
        descent.enter(root);
        while let Some(pair) = descent.innermost() {
            if self.ends() {
                return;
            }
            match self.next_name(pair) {
                Some(listed) => {
                    if let Some(inner) = self.remove_entry(pair, &listed) {
                        descent.enter(*inner);
                    }
                }
                None if pair.is_read_again() => {}
                None => self.leave(&mut descent, operand),
            }
        }
    }

    fn next_name(&mut self, pair: &mut Pair) -> Option<Listed> {
        let [source, _] = pair.sides.as_ref()?;
        match pair.listing.next(source.as_fd()) {
            Ok(listed) => listed,
            Err(errno) => {
                self.worker.report.problem(Error::new(What::CannotAccess, pair.paths[0].path()).errno(errno));
                pair.stays = true;
                None
            }
        }
    }

    /// Removes an entry of a directory; gives it if it is one itself.
    fn remove_entry(&mut self, pair: &mut Pair, listed: &Listed) -> Option<Box<Pair>> {
        if pair.is_cache {
            // Without its tag it would be none.
            pair.stays = true;
            return None;
        }
        let [source_dir, copy_dir] = pair.sides.as_ref()?;
        let [source_path, copy_path] = [0, 1].map(|side| pair.paths[side].joined(&listed.name));
        let source = Spot::new(source_dir.as_fd(), &listed.name, &source_path);
        let copy = Spot::new(copy_dir.as_fd(), &listed.name, &copy_path);
        let fate = match source.inode_now(false) {
            // Somebody else was quicker.
            Err(Errno::NOENT) => return None,
            Err(_) if self.is_excluded_unseen(source) => Fate::Stays,
            Err(errno) => self.report(Error::new(What::CannotStat, source.path).errno(errno)),
            Ok(inode) if !self.is_wanted(source, &inode) => Fate::Stays,
            Ok(inode) => {
                let names = pair.names.get_or_init(|| (self.read_names)(copy_dir.as_fd()));
                self.remove((source, &inode), (copy, names.have(copy.name)), Some(&*pair))
            }
        };
        match fate {
            Fate::Gone => pair.shrinks = true,
            Fate::Stays => pair.stays = true,
            Fate::Entered(inner) => return Some(inner),
        }
        None
    }

    fn is_wanted(&self, source: Spot<'_>, inode: &Inode) -> bool {
        let wanted = self.worker.cx.wanted();
        let path = || path_below(self.operand, source.path);
        wanted.entry(inode) && !wanted.below(inode, source.name, path).excluded
    }

    /// Whether that which cannot be looked at would stay if it could be.
    fn is_excluded_unseen(&self, source: Spot<'_>) -> bool {
        self.worker.cx.wanted().unseen(source.name, || path_below(self.operand, source.path)).excluded
    }

    /// Removes an entry, if it is what stands at the destination, in this spelling.
    fn remove(
        &mut self,
        (source, inode): (Spot<'_>, &Inode),
        (copy, is_named): (Spot<'_>, bool),
        above: Option<&Pair>,
    ) -> Fate {
        match self.worker.cx.services.stays.has(inode.into()) {
            Ok(false) => {}
            Ok(true) => return Fate::Stays,
            Err(errno) => {
                self.blind = true;
                return self.report(match errno {
                    Errno::STALE => Error::new(What::StaysLost, source.path),
                    errno => Error::new(What::StaysUnknown, source.path).errno(errno),
                });
            }
        }
        let found = match copy.inode_now(false) {
            Ok(found) => found,
            Err(Errno::NOENT) => return self.report(Error::new(What::NoCopyOfSource, source.path).and(copy.path)),
            Err(errno) => return self.report(Error::new(What::CannotStat, copy.path).errno(errno)),
        };
        if !is_named {
            return self.report(Error::new(What::OtherSpelling, source.path).and(copy.path));
        }
        if inode.id == found.id {
            return self.report(Error::new(What::SameFile, source.path).and(copy.path));
        }
        if inode.kind == Kind::Directory && found.kind == Kind::Directory {
            return match self.enter((source, inode), (copy, &found), above) {
                Ok(Some(pair)) => Fate::Entered(Box::new(pair)),
                Ok(None) => Fate::Stays,
                Err(error) => self.report(error),
            };
        }
        let cx = self.worker.cx;
        let stop = || cx.session.cancel.is_cancelled();
        let alike = compare::are_alike((source, *inode), (copy, found), cx.plan.open_noatime, &stop, &mut self.buffers);
        match alike {
            // A comparison that was stopped has proven nothing.
            _ if stop() => Fate::Stays,
            Ok(true) => match self.make_durable((copy, &found), above) {
                Ok(()) => self.unlink(source, inode),
                Err(error) => self.report(error),
            },
            Ok(false) => self.report(Error::new(What::UnlikeItsCopy, source.path).and(copy.path)),
            Err(error) => self.report(error),
        }
    }

    /// Brings a copy and its name to the device, where that was not done with the whole filesystem. What was the same already was
    /// not written by this run.
    fn make_durable(&self, (copy, found): (Spot<'_>, &Inode), above: Option<&Pair>) -> Result<(), Error> {
        if self.synced.contains(&found.id.device()) {
            return Ok(());
        }
        let sync = || {
            if found.kind == Kind::Regular {
                let file = copy.open(OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK, 0)?;
                if !Inode::of(file.as_fd())?.is_same_file_as(found) {
                    return Err(Errno::STALE);
                }
                retry_on_intr(|| self.worker.cx.kernel.sync(file.as_fd()))?;
            }
            if above.is_some_and(|above| above.is_durable.get()) {
                return Ok(());
            }
            sync_directory(copy.dir()?)?;
            above.into_iter().for_each(|above| above.is_durable.set(true));
            Ok(())
        };
        sync().map_err(|errno| Error::new(What::Syncing, copy.path).errno(errno))
    }

    /// Removes the name of what was compared, if it still is that.
    fn unlink(&mut self, source: Spot<'_>, inode: &Inode) -> Fate {
        match source.inode_now(false) {
            Ok(now) if is_as_it_was(&now, inode) => {}
            Ok(_) | Err(Errno::NOENT) => return self.report(Error::new(What::ChangedBeforeRemoval, source.path)),
            Err(errno) => return self.report(Error::new(What::CannotStat, source.path).errno(errno)),
        }
        self.removed(source.unlink(), source.path, false)
    }

    fn removed(&mut self, removed: Result<(), Errno>, path: &Path, directory: bool) -> Fate {
        if let Err(errno) = removed {
            return self.report(Error::new(What::CannotRemove, path).errno(errno));
        }
        self.worker.report.stats.removed += 1;
        self.worker.report.tell(&Event::SourceRemoved { source: path.into(), directory });
        Fate::Gone
    }

    fn report(&mut self, error: Error) -> Fate {
        self.worker.report.problem(error);
        Fate::Stays
    }

    /// Opens two directories; none if what is in them was not to be copied.
    fn enter(
        &mut self,
        (source, inode): (Spot<'_>, &Inode),
        (copy, found): (Spot<'_>, &Inode),
        above: Option<&Pair>,
    ) -> Result<Option<Pair>, Error> {
        let cx = self.worker.cx;
        let device = above.map(|above| above.inodes[0].id.device());
        if !cx.wanted().contents(inode, device) {
            return Ok(None);
        }
        let open = |spot: Spot<'_>, flags, seen: &Inode| {
            let fd = spot.open(flags | OFlags::DIRECTORY | OFlags::NOFOLLOW, 0);
            let opened = fd.and_then(|fd| Ok((Inode::of(fd.as_fd())?, fd)));
            let (now, fd) = opened.map_err(|errno| Error::new(What::CannotAccess, spot.path).errno(errno))?;
            match now.is_same_file_as(seen) {
                true => Ok((fd, now)),
                false => Err(Error::new(What::ReplacedWhileCopied, spot.path)),
            }
        };
        let (source_dir, source_inode) = open(source, OFlags::RDONLY, inode)?;
        if cx.plan.open_noatime {
            set_noatime(&source_dir);
        }
        // Where nobody can tell, it counts as one.
        let is_mounted = || source.dir().and_then(|dir| is_mounted(source_dir.as_fd(), dir)).unwrap_or(true);
        if above.is_some() && (device != Some(source_inode.id.device()) || is_mounted()) {
            return Err(Error::new(What::MountedInSource, source.path));
        }
        let (copy_dir, copy_inode) = open(copy, OFlags::PATH, found)?;
        let paths = match above {
            Some(above) => [above.paths[0].below(source.name), above.paths[1].below(copy.name)],
            None => [PathNode::root(source.path), PathNode::root(copy.path)],
        };
        let tag = if cx.wanted().excludes_caches() { tagged_cache(source_dir.as_fd()) } else { None };
        let within = |dir, path| Spot::new(dir, OsStr::new("."), path);
        if !self.are_two_directories(within(source_dir.as_fd(), source.path), within(copy_dir.as_fd(), copy.path)) {
            return Ok(None);
        }
        self.make_durable((copy, found), above)?;
        Ok(Some(Pair {
            sides: Some([source_dir, copy_dir]),
            inodes: [source_inode, copy_inode],
            paths,
            name: source.name.to_owned(),
            is_cache: tag.is_some(),
            listing: tag.unwrap_or_default(),
            names: OnceCell::new(),
            is_durable: Cell::new(false),
            stays: false,
            shrinks: false,
        }))
    }

    /// Whether what is removed from the directory of one entry stays in that of the other. If that is not certain, it is reported.
    /// It is by the numbers of the two, unless a filesystem may show files of another one under numbers of its own.
    fn are_two_directories(&mut self, source: Spot<'_>, copy: Spot<'_>) -> bool {
        let doubt = match show_each_other(self.worker.cx, source, copy) {
            Ok(false) => return true,
            Ok(true) => None,
            Err(errno) => Some(errno),
        };
        let error = Error::new(What::MaybeSameDirectory, source.path).and(copy.path);
        self.report(match doubt {
            Some(errno) => error.errno(errno),
            None => error,
        });
        false
    }

    /// Goes on in the directory above; this one goes if it is empty.
    fn leave(&mut self, descent: &mut Descent<Pair>, operand: Spot<'_>) {
        let Some((left, reopened)) = descent.leave() else { return };
        let above = descent.innermost();
        let is_open = match reopened {
            Ok(()) => true,
            Err(error) => {
                self.report(error);
                false
            }
        };
        let path = left.paths[0].path();
        let spot = match above.as_ref().map(|above| &above.sides) {
            None => operand,
            Some(Some([dir, _])) => Spot::new(dir.as_fd(), &left.name, &path),
            Some(None) => Spot::unreachable(Errno::STALE, &left.name, &path),
        };
        let fate = if left.stays { Fate::Stays } else { self.remove_directory(spot, &left) };
        if let Some(above) = above {
            above.stays |= !is_open || matches!(fate, Fate::Stays);
            above.shrinks |= matches!(fate, Fate::Gone);
        }
    }

    fn remove_directory(&mut self, spot: Spot<'_>, pair: &Pair) -> Fate {
        match spot.inode() {
            Ok(now) if now.is_same_file_as(&pair.inodes[0]) => {}
            Ok(_) | Err(Errno::NOENT) => return self.report(Error::new(What::DirectoryMoved, spot.path)),
            Err(errno) => return self.report(Error::new(What::CannotStat, spot.path).errno(errno)),
        }
        match spot.remove_dir() {
            Err(Errno::NOTEMPTY | Errno::EXIST) if pair.is_cache => Fate::Stays,
            removed => self.removed(removed, spot.path, true),
        }
    }
}

impl Pair {
    /// Whether the names are read once more before the directory goes: where names go while they are read, a filesystem may pass
    /// over others.
    fn is_read_again(&mut self) -> bool {
        let again = self.shrinks && !self.stays && !self.is_cache;
        if again {
            self.shrinks = false;
            self.listing = Listing::default();
            self.listing.reopened();
        }
        again
    }
}

/// Whether it is what it was, as far as anybody can tell.
fn is_as_it_was(now: &Inode, then: &Inode) -> bool {
    let state = |inode: &Inode| (inode.size, inode.modified, inode.changed);
    now.is_same_file_as(then) && state(now) == state(then)
}

/// Whether the directories of two entries may be one that has two numbers: then what is put into one is seen in the other. The
/// one of the copy gets its times back.
fn show_each_other(cx: RunContext<'_>, source: Spot<'_>, copy: Spot<'_>) -> Result<bool, Errno> {
    let dirs = [source.dir()?, copy.dir()?];
    let inodes = [Inode::of(dirs[0])?, Inode::of(dirs[1])?];
    let dot = OsStr::new(".");
    let party =
        |side: usize, path| Party { spot: Spot::new(dirs[side], dot, path), inode: &inodes[side], follow: false };
    let parties = [party(0, source.path), party(1, copy.path)];
    // Entries of one directory have other names, or are one by their numbers.
    if inodes[0].id == inodes[1].id || !cx.services.identities.can_be_one(parties[0], parties[1]) {
        return Ok(false);
    }
    let seen = is_seen_in(&cx.services.names, dirs[1], dirs[0]);
    set_times_back(Object { fd: dirs[1], path_only: true }, &inodes[1])?;
    Ok(seen? || is_seen_in(&cx.services.names, dirs[0], dirs[1])?)
}

#[cfg(test)]
#[path = "remove_sources_tests.rs"]
mod tests;
