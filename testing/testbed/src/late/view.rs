//! What a directory looked like when it was looked at.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

/// The names of a directory, and how long they are believed.
#[derive(Debug)]
pub(super) struct View {
    names: BTreeMap<OsString, (u64, FileType)>,
    until: Instant,
}

impl View {
    /// Looks at an open directory.
    pub(super) fn look(directory: &std::os::fd::OwnedFd, believed: Duration) -> Result<View, Errno> {
        let mut names = BTreeMap::new();
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.insert(name.to_owned(), (entry.ino(), entry.file_type()));
            }
        }
        Ok(View { names, until: Instant::now() + believed })
    }

    /// How long it is still believed; nothing if it is not.
    pub(super) fn left(&self) -> Option<Duration> {
        self.until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    pub(super) fn has(&self, name: &OsStr) -> bool {
        self.names.contains_key(name)
    }

    /// This mount has made it.
    pub(super) fn add(&mut self, name: &OsStr, inode: u64, kind: FileType) {
        self.names.insert(name.to_owned(), (inode, kind));
    }

    /// This mount has removed it.
    pub(super) fn remove(&mut self, name: &OsStr) {
        self.names.remove(name);
    }

    /// All names, for a listing.
    pub(super) fn list(&self) -> Vec<(OsString, u64, FileType)> {
        self.names.iter().map(|(name, (inode, kind))| (name.clone(), *inode, *kind)).collect()
    }
}
