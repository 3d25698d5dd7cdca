//! Namespaces, for tests that mount filesystems.

use rustix::io::Errno;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Gives the calling thread its own copy of the mounts (and with it its own current directory, root and umask).
///
/// Threads and processes started by this thread afterwards share them. Unlike most attributes of a process this one
/// belongs to a single thread, so other threads go on with the old mounts.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN, and what else unshare(2) says.
pub fn unshare_mounts() -> Result<(), Errno> {
    // SAFETY: unshare is unsafe because CLONE_FILES would pull descriptors from under other threads. CLONE_NEWNS
    // (which brings CLONE_FS along) leaves the descriptor table shared and touches no memory.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }
}
