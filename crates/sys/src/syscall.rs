//! Raw system calls: their numbers, and what they return.

use std::ffi::c_long;

use rustix::io::Errno;

/// The number of a system call that has the same one on all architectures whose numbers were unified; -1, which is ENOSYS
/// everywhere, on the others.
pub(crate) const fn number(unified: c_long) -> c_long {
    if cfg!(any(target_arch = "mips", target_arch = "mips64")) { -1 } else { unified }
}

/// The result of a raw system call that returns nothing but success.
pub(crate) fn outcome(result: c_long) -> Result<(), Errno> {
    if result == -1 {
        return Err(last_errno());
    }
    Ok(())
}

/// Why the last call has failed.
pub(crate) fn last_errno() -> Errno {
    errno_of(&std::io::Error::last_os_error())
}

pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
