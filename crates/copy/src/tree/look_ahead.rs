//! Finds out what of an existing destination may be met in any order.
//!
//! A copy into an existing tree depends on the order where two names stand for one file: the later one wins. Files with several
//! hard links show that themselves, on either side, and whoever meets one waits for its turn. Symbolic links that the copy
//! writes through do not show at what they lead to, so the directories that hold some, and those above, stay with one
//! thread. A mounted filesystem may show a directory a second time, and where upper and lower case are alike two names of the
//! source are one file: there nothing is shared.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use haul_fs::mounts;
use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::{FileType, Mode, OFlags, ResolveFlags, ioctl_getflags, openat2};

use crate::context::RunContext;
use crate::plan::{Backup, LinkMode, Overwrite, Plan};
use crate::publish::Sides;
use crate::schedule::order::Found;
use crate::walk::{
    CASEFOLD, Descent, Entered, Listed, Names, PathCursor, Spot, case_counts, names_on, reopen_directory,
};

/// More of these directories are not remembered: then all of them stay with one thread.
const MOST: usize = 1 << 20;

type Level = Entered<()>;

/// Whether several threads may meet an existing destination at all. Questions have an order, a backup may take the name of
/// another file, and shards and links to directories bring others to the same directory.
pub(crate) fn may_be_shared(plan: &Plan) -> bool {
    plan.overwrite != Overwrite::Ask
        && plan.backup == Backup::None
        && plan.link == LinkMode::Copy
        && plan.shard.is_none()
        && !plan.keep_directory_symlink
}

/// Looks through the directories of an existing destination. `None` if nothing of it may be shared, or it cannot be known.
pub(crate) fn look(cx: RunContext<'_>, sides: &Sides, open_levels: usize) -> Option<Found> {
    let [source, dest] = sides.both();
    if mounts::may_meet(&mounts::read().ok()?, [source, dest].map(mounts::path_of)) {
        return None;
    }
    let mut walk = Walk { source, found: Found::default(), case_is_known: case_is_certain(dest)? };
    let mut descent = Descent::new(open_levels);
    descent.enter(open(Spot::new(dest, OsStr::new("."), Path::new(".")), None).ok()?);
    let mut cursor = PathCursor::default();
    while let Some(level) = descent.innermost() {
        if cx.cancelled() || !cx.services.order.is_wanted() {
            return None;
        }
        let Some(listed) = level.next_name().ok()? else {
            descent.leave()?.1.ok()?;
            continue;
        };
        let spot = level.spot(&listed.name, cursor.entry(level.path(), &listed.name));
        match walk.meet(spot, &listed)? {
            Entry::Directory => match open(spot, Some(level)) {
                Ok(below) => descent.enter(below),
                Err(Errno::NOENT) => {}
                Err(_) => return None,
            },
            Entry::Ordered if walk.found.ordered.len() > MOST => return None,
            Entry::Ordered => walk.found.ordered.extend(descent.levels().iter().map(|level| level.inode().id)),
            Entry::Other => {}
        }
    }
    walk.case_is_known.then_some(walk.found)
}

/// Opens a directory in which names are exact.
fn open(spot: Spot<'_>, above: Option<&Level>) -> Result<Level, Errno> {
    let level = Level::open(spot, false, above.map(Level::path), ())?;
    let dir = level.dir().ok_or(Errno::STALE)?;
    let is_flagged = ioctl_getflags(dir).is_ok_and(|flags| flags.bits() & CASEFOLD != 0);
    if is_flagged { Err(Errno::NOTSUP) } else { Ok(level) }
}

/// Whether names on the filesystem of a directory are known to be exact; `None` where they are not.
fn case_is_certain(dir: BorrowedFd<'_>) -> Option<bool> {
    names_on(dir).ok().and_then(certainty)
}

fn certainty(names: Names) -> Option<bool> {
    match names {
        Names::Exact => Some(true),
        Names::MostlyExact => Some(false),
        Names::Unknown => None,
    }
}

/// Whether names in a directory, which may be open as a handle, are certainly exact; false where they are mostly, and a look at a
/// name has to show it. `None` where nothing is known of them, or where they are not.
///
/// # Errors
/// As of open(2) and fstatfs(2).
pub(super) fn exactness(dir: BorrowedFd<'_>) -> Result<Option<bool>, Errno> {
    let opened = reopen_directory(dir)?;
    let is_flagged = ioctl_getflags(&opened).is_ok_and(|flags| flags.bits() & CASEFOLD != 0);
    if is_flagged { Ok(None) } else { names_on(opened.as_fd()).map(certainty) }
}

/// What an entry of the destination means for the order.
enum Entry {
    Directory,
    /// What is written here is written elsewhere.
    Ordered,
    Other,
}

struct Walk<'a> {
    source: BorrowedFd<'a>,
    found: Found,
    /// It is certain that a name in other letters is another name.
    case_is_known: bool,
}

impl Walk<'_> {
    /// What an entry means; `None` if upper and lower case are alike.
    fn meet(&mut self, spot: Spot<'_>, listed: &Listed) -> Option<Entry> {
        if !self.case_is_known {
            self.case_is_known = case_counts(spot, &listed.name)?;
        }
        let kind = match listed.kind {
            Some(FileType::Directory) => Kind::Directory,
            Some(FileType::Symlink) => Kind::SymbolicLink,
            Some(FileType::Unknown) | None => spot.inode().map_or(Kind::Unknown, |inode| inode.kind),
            Some(_) => Kind::Regular,
        };
        Some(match kind {
            // Of what the source does not have nothing is met.
            Kind::Directory if self.source_kind(spot.path) == Ok(None) => Entry::Other,
            Kind::Directory => Entry::Directory,
            kind => {
                self.found.files = true;
                let is_written_through = || !matches!(self.source_kind(spot.path), Ok(None | Some(Kind::SymbolicLink)));
                if kind == Kind::SymbolicLink && is_written_through() { Entry::Ordered } else { Entry::Other }
            }
        })
    }

    /// What the source has at this path.
    fn source_kind(&self, path: &Path) -> Result<Option<Kind>, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inside = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        match openat2(self.source, path, flags, Mode::empty(), inside) {
            Ok(entry) => Inode::of(entry.as_fd()).map(|inode| Some(inode.kind)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

#[cfg(test)]
#[path = "look_ahead_tests.rs"]
mod tests;
