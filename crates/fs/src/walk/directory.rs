//! Directories that are opened by a path, and what is done with all the names in one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use haul_sys::Errno;
use haul_sys::rustix::fs::{Dir, DirEntry, Mode, OFlags, fsync, openat};
use haul_sys::rustix::io::retry_on_intr;
use haul_sys::rustix::path::Arg;

/// Opens a directory as a handle, which cannot be read: by its name in another one, or by a path. Links are followed.
///
/// # Errors
/// As openat(2).
pub fn open_directory(from: impl AsFd, path: impl Arg) -> Result<OwnedFd, Errno> {
    openat(from, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a directory, which may be open as a handle, to be read.
///
/// # Errors
/// As openat(2).
pub fn reopen_directory(dir: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Everything in a directory, which may be open as a handle, as far as it can be read.
pub fn entries_of(dir: BorrowedFd<'_>) -> impl Iterator<Item = DirEntry> {
    reopen_directory(dir).and_then(Dir::new).into_iter().flatten().map_while(Result::ok)
}

/// Brings the names in a directory, which may be open as a handle, to the device.
///
/// # Errors
/// As openat(2) and fsync(2).
pub fn sync_directory(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    let opened = reopen_directory(dir)?;
    retry_on_intr(|| fsync(&opened))
}
