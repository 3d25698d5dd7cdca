//! A directory that files are made in and removed from for a short time, opened once: whoever may rename it cannot send
//! these files elsewhere.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use haul_sys::rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Stat, Timespec, Timestamps, fstat, futimens, openat, statat, unlinkat,
};
use haul_sys::rustix::io::Errno;

/// An open directory.
#[derive(Debug)]
pub struct Directory(OwnedFd);

impl Directory {
    /// Opens it; symbolic links are followed.
    ///
    /// # Errors
    /// As open(2).
    pub fn open(path: &Path) -> Result<Directory, Errno> {
        openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map(Directory)
    }

    /// Its inode number: the same on all machines that have mounted it.
    pub fn inode(&self) -> u64 {
        fstat(&self.0).map_or(0, |found| found.st_ino)
    }

    /// Makes a file of this name, for its owner alone.
    ///
    /// # Errors
    /// As open(2); EEXIST if there is anything of this name.
    pub fn create(&self, name: &str) -> Result<File, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR).map(File::from)
    }

    /// Opens what has this name to read and write it, and waits for nothing.
    ///
    /// # Errors
    /// As open(2); ELOOP for a symbolic link.
    pub fn open_file(&self, name: &str) -> Result<File, Errno> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat(&self.0, name, flags, Mode::empty()).map(File::from)
    }

    /// What has this name; a symbolic link itself.
    ///
    /// # Errors
    /// As stat(2).
    pub fn look(&self, name: &str) -> Result<Stat, Errno> {
        statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Removes what has this name.
    ///
    /// # Errors
    /// As unlink(2).
    pub fn remove(&self, name: &str) -> Result<(), Errno> {
        unlinkat(&self.0, name, AtFlags::empty())
    }

    /// Changes what is in it, and sets its times as if nothing had been there. A user who may not set times may still copy.
    pub fn keeping_times<T>(&self, change: impl FnOnce() -> T) -> T {
        let before = fstat(&self.0);
        let changed = change();
        if let Ok(before) = before {
            let time = |seconds, nanoseconds: u64| Timespec {
                tv_sec: seconds,
                tv_nsec: nanoseconds.try_into().unwrap_or_default(),
            };
            let times = Timestamps {
                last_access: time(before.st_atime, before.st_atime_nsec),
                last_modification: time(before.st_mtime, before.st_mtime_nsec),
            };
            futimens(&self.0, &times).ok();
        }
        changed
    }
}

/// As an error of the standard library.
pub fn as_io(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.raw_os_error())
}
