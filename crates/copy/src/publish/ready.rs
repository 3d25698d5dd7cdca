//! A file that is whole and has no name of its own yet.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_io::verify::Checked;
use haul_sys::inode::FileId;

use super::sides::Sides;
use crate::journal::Fingerprint;
use crate::walk::Spot;

/// An open directory of the destination.
pub(crate) enum ParentDirectory {
    Shared(Arc<Sides>),
    /// With the path of the entry in it that is meant.
    Own(OwnedFd, PathBuf),
}

impl ParentDirectory {
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
    /// Its temporary name.
    pub name: OsString,
    /// The name that it gets.
    pub last: OsString,
    /// Something stands there.
    pub replaces: bool,
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
