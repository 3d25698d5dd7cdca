//! Power cuts, for tests.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// The kernel declares it as one that is read from, and reads its argument all the same.
const SHUTDOWN: Opcode = opcode::read::<u32>(b'X', 125);

/// Do not even write what the journal has collected.
const NO_LOG_FLUSH: u32 = 2;

/// Cuts the power of the filesystem that this descriptor is on, for as long as it is mounted: what is not on its device now
/// never gets there, and every access fails. Mounted again, it is as after a power cut, but for what a device has in a
/// cache of its own.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN; ENOTTY where the filesystem has no such switch (ext4, XFS and F2FS have one).
pub fn cut(on: &impl AsFd) -> Result<(), Errno> {
    // SAFETY: the argument of this request is a pointer to a 32-bit number, which lives until the call returns.
    unsafe { ioctl(on, Setter::<SHUTDOWN, u32>::new(NO_LOG_FLUSH)) }
}
