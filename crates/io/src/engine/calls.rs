//! System calls as everybody here makes them: repeated when a signal interrupts them, and never idle.

use std::os::fd::AsFd;

use haul_sys::Errno;
use haul_sys::kernel::Kernel;
pub use haul_sys::rustix::io::retry_on_intr as again;

use super::contract::Side;

/// Writes some of the bytes, at the offset where there are offsets: how many, at least one.
///
/// # Errors
/// That of the call; ENOSPC if it takes nothing and names no error.
pub fn write_some(kernel: &dyn Kernel, dest: &Side, bytes: &[u8], at: u64) -> Result<usize, Errno> {
    let count = again(|| match dest.seekable {
        true => kernel.pwrite(dest.as_fd(), bytes, at),
        false => kernel.write(dest.as_fd(), bytes),
    })?;
    // A write that takes nothing and names no error would be tried for ever; full devices of old did that.
    if count == 0 { Err(Errno::NOSPC) } else { Ok(count) }
}
