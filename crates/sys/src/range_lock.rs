//! Locks of byte ranges, held by an open file description: they end with its last descriptor, and a network filesystem that
//! knows locks at all shows them to every client. (flock(2) is another kind of lock on a local filesystem, and the same as a
//! lock of all bytes on NFS.)

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::syscall::outcome;

/// Locks a range for writing, once nobody else has a lock in it. The descriptor must be open for writing.
///
/// # Errors
/// What fcntl(2) says of F_OFD_SETLKW: EINTR; ENOLCK, ENOSYS, EOPNOTSUPP or EINVAL where there are no such locks.
pub fn lock(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
    control(file, libc::F_OFD_SETLKW, libc::F_WRLCK, offset, len).map(drop)
}

/// The same without waiting; `false` if somebody else has a lock in it.
///
/// # Errors
/// As for [`lock`], but for EINTR.
pub fn try_lock(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<bool, Errno> {
    match control(file, libc::F_OFD_SETLK, libc::F_WRLCK, offset, len) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Ends what [`lock`] or [`try_lock`] began.
///
/// # Errors
/// As for [`lock`].
pub fn unlock(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
    control(file, libc::F_OFD_SETLK, libc::F_UNLCK, offset, len).map(drop)
}

/// What fcntl(2) does with a lock of a range; the lock as the kernel leaves it.
pub(crate) fn control(
    file: BorrowedFd<'_>,
    command: libc::c_int,
    kind: libc::c_int,
    offset: u64,
    len: u64,
) -> Result<libc::flock64, Errno> {
    let off64 = |number| libc::off64_t::try_from(number).map_err(|_| Errno::OVERFLOW);
    let mut lock = libc::flock64 {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: off64(offset)?,
        l_len: off64(len)?,
        l_pid: 0,
    };
    // SAFETY: the kernel reads and writes the structure, which is of the layout that it documents and alive for the
    // call; the descriptor is borrowed.
    outcome(unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) }.into())?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn a_range_has_one_owner_until_its_file_is_closed() {
        let path = std::env::temp_dir().join(format!("haul-range-lock-{}", std::process::id()));
        let (one, other) = (File::create_new(&path).unwrap(), File::options().write(true).open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(try_lock(one.as_fd(), 5, 1), Ok(true));
        assert_eq!(try_lock(other.as_fd(), 5, 1), Ok(false));
        assert_eq!(try_lock(other.as_fd(), 6, 1), Ok(true), "another byte");
        assert_eq!(unlock(one.as_fd(), 5, 1), Ok(()));
        assert_eq!(lock(other.as_fd(), 5, 1), Ok(()));
        assert_eq!(try_lock(one.as_fd(), 0, 10), Ok(false));
        drop(other);
        assert_eq!(try_lock(one.as_fd(), 0, 10), Ok(true));
    }
}
