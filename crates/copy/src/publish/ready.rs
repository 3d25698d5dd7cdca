//! Open directories of the destination, and files there that are whole and have no name of their own yet.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_io::verify::Checked;
use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode};

use crate::journal::Fingerprint;
use crate::links::duplicate;
use crate::walk::{PathNode, Spot};

/// Both directories, open.
pub(crate) struct Sides {
    pub source: OwnedFd,
    pub dest: OwnedFd,
    pub dest_path: Arc<PathNode>,
}

impl Sides {
    /// These two, the second of which users know by this path.
    pub fn new(source: OwnedFd, dest: OwnedFd, dest_path: &Arc<PathNode>) -> Sides {
        Sides { source, dest, dest_path: Arc::clone(dest_path) }
    }

    pub fn both(&self) -> [BorrowedFd<'_>; 2] {
        [self.source.as_fd(), self.dest.as_fd()]
    }
}

/// An open directory of the destination.
pub(crate) enum ParentDirectory {
    Shared(Arc<Sides>),
    /// With the path of the entry in it that is meant.
    Own(OwnedFd, PathBuf),
}

impl ParentDirectory {
    /// The one of this entry, which may be held open together with its counterpart.
    pub fn of(dest: Spot<'_>, sides: Option<&Arc<Sides>>) -> Result<ParentDirectory, Errno> {
        Ok(match sides {
            Some(sides) => ParentDirectory::Shared(Arc::clone(sides)),
            None => ParentDirectory::Own(duplicate(dest.dir()?)?, dest.path.to_owned()),
        })
    }

    /// What users know the entry by that gets this name in it.
    pub fn path(&self, last: &OsStr) -> PathBuf {
        match self {
            ParentDirectory::Shared(sides) => sides.dest_path.joined(last),
            ParentDirectory::Own(_, path) => path.clone(),
        }
    }
}

impl AsFd for ParentDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            ParentDirectory::Shared(sides) => sides.dest.as_fd(),
            ParentDirectory::Own(dir, _) => dir.as_fd(),
        }
    }
}

/// What a file is to replace, as it was seen, where nothing that came later may be replaced in its place.
#[derive(Debug, Clone)]
pub(crate) struct Replaceable {
    pub inode: Inode,
    /// Whatever becomes of its contents, the backup is another name of it.
    pub has_backup: bool,
}

impl Replaceable {
    /// Whether what stands there now may be replaced. A filesystem that gives a file another number meanwhile has not changed it.
    pub fn is(&self, now: &Inode) -> bool {
        let state = |inode: &Inode| (inode.kind, inode.size, inode.modified);
        state(now) == state(&self.inode) || self.has_backup && now.is_same_file_as(&self.inode)
    }
}

/// A whole file that waits for its name.
pub(crate) struct Ready {
    /// Open, so that it reports errors of its data.
    pub file: OwnedFd,
    pub id: FileId,
    /// Its size in bytes, or about that.
    pub size: u64,
    /// What was found when it was read again.
    pub checked: Checked,
    pub parent: ParentDirectory,
    pub name: OsString,
    pub last: OsString,
    /// Something stands there.
    pub replaces: bool,
    /// What that is, where nothing else may be replaced.
    pub stands: Option<Box<Replaceable>>,
    /// What it is a copy of, if it is to be noted that it is finished.
    pub source: Option<Fingerprint>,
}

impl Ready {
    /// What users know it by.
    pub fn path(&self) -> PathBuf {
        self.parent.path(&self.last)
    }

    /// The entry that it is for now, and what users know it by.
    pub fn spot<'a>(&'a self, path: &'a Path) -> Spot<'a> {
        Spot::new(self.parent.as_fd(), &self.name, path)
    }
}
