//! Directories that vanish with who made them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{XattrFlags, setxattr};
use tempfile::TempDir;

use crate::skip::skip;

/// A new directory in `dir`, removed when dropped.
///
/// # Panics
/// If it cannot be made.
pub fn temp_dir_in(dir: &Path) -> TempDir {
    TempDir::with_prefix_in("haul-", dir).expect("cannot make a temporary directory")
}

/// A new directory on the ordinary disk, removed when dropped. Needs no privilege.
///
/// # Panics
/// If it cannot be made.
pub fn temp_dir() -> TempDir {
    TempDir::with_prefix("haul-").expect("cannot make a temporary directory")
}

/// Two new directories on two filesystems: the ordinary disk, and one in memory that keeps extended attributes, too. `None`, after
/// a [`skip`], where there is none.
///
/// # Panics
/// If they cannot be made.
#[must_use]
pub fn temp_dirs_apart() -> Option<(TempDir, TempDir)> {
    let (dir, memory) = (temp_dir(), Path::new("/dev/shm"));
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    if device(memory).is_none() || device(memory) == device(dir.path()) {
        skip("/dev/shm is no filesystem of its own");
        return None;
    }
    let other = temp_dir_in(memory);
    if setxattr(other.path(), "user.test", b"x", XattrFlags::empty()).is_err() {
        skip("/dev/shm has no extended attributes");
        return None;
    }
    Some((dir, other))
}
