//! Closing a descriptor and hearing about it.

use std::os::fd::{IntoRawFd, OwnedFd};

use rustix::io::Errno;

/// Closes a descriptor. Dropping one would not tell about EIO, ENOSPC and EDQUOT, which NFS and some quota filesystems
/// report only here.
///
/// # Errors
/// What close(2) says. The descriptor is closed all the same, on Linux also after EINTR, which therefore is no error.
pub fn close(fd: OwnedFd) -> Result<(), Errno> {
    let raw = fd.into_raw_fd();
    // SAFETY: into_raw_fd passed the ownership to us, so nobody else will use or close this descriptor.
    let result = unsafe { libc::close(raw) };
    if result == 0 {
        return Ok(());
    }
    match std::io::Error::last_os_error().raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::INTR) => Ok(()),
        Some(errno) => Err(errno),
        None => Err(Errno::IO),
    }
}
