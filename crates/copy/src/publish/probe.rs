//! Whether two directories are one that has two numbers: then what is put into one is seen in the other.

use std::os::fd::BorrowedFd;

use haul_sys::Errno;
use haul_sys::inode::{Inode, Time};
use haul_sys::object::Object;
use haul_sys::rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, openat, unlinkat};

use super::temporary::{TemporaryNames, temporary_name};

/// Whether something that is put into one directory is seen in the other.
pub(crate) fn is_seen_in(names: &TemporaryNames, dir: BorrowedFd<'_>, other: BorrowedFd<'_>) -> Result<bool, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = temporary_name(names, |name| openat(dir, name, flags, Mode::RUSR | Mode::WUSR).map(drop))?;
    let seen = Inode::now_at(other, &name, false);
    unlinkat(dir, &name, AtFlags::empty())?;
    match seen {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Gives a directory into which something was put the times that it had.
pub(crate) fn set_times_back(dir: Object<'_>, was: &Inode) -> Result<(), Errno> {
    let time = |time: Time| Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() };
    let times = Timestamps { last_access: time(was.accessed), last_modification: time(was.modified) };
    dir.set_times(&times)
}
