//! Whether somebody else uses an open file: locks on it, and writers of it.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::range_lock::control;
use crate::syscall::{last_errno, outcome};

/// F_SETSIG of linux/fcntl.h, which the libc crate lacks; the same number on every architecture.
const F_SETSIG: libc::c_int = 10;

/// Whether somebody else holds a lock of bytes (POSIX or of an open file description) in this range, for reading or
/// writing. Takes no lock.
///
/// # Errors
/// What fcntl(2) says of F_OFD_GETLK; EINVAL on filesystems without it, EOVERFLOW for offsets that do not fit.
pub fn is_locked(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<bool, Errno> {
    // A lock for writing conflicts with every other.
    let lock = control(file, libc::F_OFD_GETLK, libc::F_WRLCK, offset, len)?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// Whether anybody has the file open for writing: a lease for reading is refused then. The lease that is granted
/// otherwise is given back at once. The descriptor must be open for reading only.
///
/// # Errors
/// What fcntl(2) says of F_SETLEASE: EACCES for a file of somebody else without CAP_LEASE, EINVAL for what is no regular
/// file or on a filesystem without leases.
pub fn is_open_for_writing(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    let granted = lease(file, libc::F_RDLCK)?;
    if granted {
        let_others_in(file);
    }
    Ok(!granted)
}

/// Takes a lease; `false` where it is refused.
fn lease(file: BorrowedFd<'_>, kind: libc::c_int) -> Result<bool, Errno> {
    // Should somebody open the file in a way that breaks the lease, the kernel sends a signal: one that is ignored unless a
    // program asks for it, in the place of SIGIO, which ends the process.
    // SAFETY: plain numbers are passed, and the descriptor is borrowed.
    outcome(unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) }.into())?;
    // SAFETY: as above.
    match outcome(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) }.into()) {
        Err(Errno::AGAIN) => Ok(false),
        result => result.map(|()| true),
    }
}

/// Takes a lease for writing: nobody else has the file open, and whoever opens it from here on waits until the descriptor
/// is closed (or for the time of /proc/sys/fs/lease-break-time, see [`is_still_alone`]). `false`: somebody has it open.
///
/// # Errors
/// As for [`is_open_for_writing`].
pub fn keep_others_out(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    lease(file, libc::F_WRLCK)
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
/// As fcntl(2) with F_GETLEASE.
pub fn is_still_alone(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    // SAFETY: plain numbers are passed, and the descriptor is borrowed.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) } {
        -1 => Err(last_errno()),
        lease => Ok(lease == libc::F_WRLCK),
    }
}

#[cfg(feature = "namespaces")]
/// Takes a lock for reading on one byte, as QEMU does on images that it has open. It ends with the descriptor.
///
/// # Errors
/// As fcntl(2) with F_OFD_SETLK: EAGAIN if somebody has a lock of it for writing.
pub fn lock_byte(file: BorrowedFd<'_>, offset: u64) -> Result<(), Errno> {
    control(file, libc::F_OFD_SETLK, libc::F_RDLCK, offset, 1).map(drop)
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
