//! Whether somebody else uses an open file: locks on it, and writers of it.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// F_SETSIG of linux/fcntl.h, which the libc crate lacks; the same number on every architecture.
const F_SETSIG: libc::c_int = 10;

/// Whether somebody else holds a lock of bytes (POSIX or of an open file description) in this range, for reading or
/// writing. Takes no lock.
///
/// # Errors
/// What fcntl(2) says of F_OFD_GETLK; EINVAL on filesystems without it, EOVERFLOW for offsets that do not fit.
pub fn is_locked(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<bool, Errno> {
    let off64 = |number| libc::off64_t::try_from(number).map_err(|_| Errno::OVERFLOW);
    // A lock for writing conflicts with every other.
    let mut lock = libc::flock64 {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: off64(offset)?,
        l_len: off64(len)?,
        l_pid: 0,
    };
    // SAFETY: the kernel reads and writes the structure, which is of the layout that it documents and alive for the
    // call; the descriptor is borrowed.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    if result == 0 { Ok(lock.l_type != libc::F_UNLCK as libc::c_short) } else { Err(last_errno()) }
}

/// Whether anybody has the file open for writing: a lease for reading is refused then. The lease that is granted
/// otherwise is given back at once. The descriptor must be open for reading only.
///
/// # Errors
/// What fcntl(2) says of F_SETLEASE: EACCES for a file of somebody else without CAP_LEASE, EINVAL for what is no regular
/// file or on a filesystem without leases.
pub fn is_open_for_writing(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    // Should somebody open it for writing in this very moment, the kernel sends a signal: one that is ignored unless a
    // program asks for it, in the place of SIGIO, which ends the process.
    // SAFETY: plain numbers are passed, and the descriptor is borrowed.
    if unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) } != 0 {
        return Err(last_errno());
    }
    // SAFETY: as above.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) } {
        0 => {
            // SAFETY: as above. That there is no lease any more is no failure.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
            Ok(false)
        }
        _ => match last_errno() {
            Errno::AGAIN => Ok(true),
            errno => Err(errno),
        },
    }
}

/// Takes a lease for writing: nobody else has the file open, and whoever opens it from here on waits until the descriptor
/// is closed (or for the time of /proc/sys/fs/lease-break-time, see [`is_still_alone`]). `false`: somebody has it open.
///
/// # Errors
/// What fcntl(2) says of F_SETLEASE: EACCES for a file of somebody else without CAP_LEASE, EINVAL for what is no regular
/// file or on a filesystem without leases.
pub fn keep_others_out(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    // As above: a signal that is ignored unless a program asks for it.
    // SAFETY: plain numbers are passed, and the descriptor is borrowed.
    if unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) } != 0 {
        return Err(last_errno());
    }
    // SAFETY: as above.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) } {
        0 => Ok(true),
        _ => match last_errno() {
            Errno::AGAIN => Ok(false),
            errno => Err(errno),
        },
    }
}

/// Ends the lease of [`keep_others_out`] at once. Closing the descriptor alone does not while a child that was forked
/// meanwhile has not begun its program: it holds the same open file.
pub fn let_others_in(file: BorrowedFd<'_>) {
    // SAFETY: plain numbers are passed, and the descriptor is borrowed. That there is no lease any more is no failure.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
}

/// Whether the lease of [`keep_others_out`] is there and nobody waits for its end.
///
/// # Errors
/// What fcntl(2) says of F_GETLEASE.
pub fn is_still_alone(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    // SAFETY: plain numbers are passed, and the descriptor is borrowed.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) } {
        -1 => Err(last_errno()),
        lease => Ok(lease == libc::F_WRLCK),
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(feature = "namespaces")]
/// Takes a lock for reading on one byte, as QEMU does on images that it has open. It ends with the descriptor.
///
/// # Errors
/// What fcntl(2) says of F_OFD_SETLK.
pub fn lock_byte(file: BorrowedFd<'_>, offset: u64) -> Result<(), Errno> {
    let lock = libc::flock64 {
        l_type: libc::F_RDLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: libc::off64_t::try_from(offset).map_err(|_| Errno::OVERFLOW)?,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the kernel reads the structure, which is alive for the call; the descriptor is borrowed.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn a_writer_is_noticed_and_gone_when_it_is() {
        let path = std::env::temp_dir().join(format!("haul-in-use-{}", std::process::id()));
        let writer = File::create_new(&path).unwrap();
        let reader = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(is_open_for_writing(reader.as_fd()), Ok(true));
        drop(writer);
        // Twice: the lease of the first question is gone. (A descriptor may be in a child that is just being started.)
        let mut answers = std::iter::repeat_with(|| is_open_for_writing(reader.as_fd()));
        assert!(answers.any(|answer| answer == Ok(false)));
        assert!(answers.any(|answer| answer == Ok(false)));
    }
}
