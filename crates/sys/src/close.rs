//! Closing a descriptor and hearing about it.

use std::os::fd::{IntoRawFd, OwnedFd};

use rustix::io::Errno;

use crate::syscall::outcome;

/// Closes a descriptor. Dropping one would not tell about EIO, ENOSPC and EDQUOT, which NFS and some quota filesystems
/// report only here.
///
/// # Errors
/// What close(2) says. The descriptor is closed all the same, on Linux also after EINTR, which therefore is no error.
pub fn close(fd: OwnedFd) -> Result<(), Errno> {
    let raw = fd.into_raw_fd();
    // SAFETY: into_raw_fd passed the ownership to us, so nobody else will use or close this descriptor.
    match outcome(unsafe { libc::close(raw) }.into()) {
        Err(Errno::INTR) => Ok(()),
        result => result,
    }
}
