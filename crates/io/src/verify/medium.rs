//! Reading a copy from its device, to see that the bytes came from there and not from memory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use haul_sys::Errno;
use haul_sys::filesystem::FilesystemType;
use haul_sys::kernel::Kernel;
use haul_sys::page_cache::{cached_pages, forget};
use haul_sys::rustix::param::page_size;

use crate::engine::buffer::AlignedBuffer;
use crate::engine::calls::again;

use super::blocks::{Blocks, Mismatch, WINDOW};

/// Filesystems that have no device: their numbers of statfs(2).
const IN_MEMORY: [FilesystemType; 3] = [FilesystemType::TMPFS, FilesystemType::RAMFS, FilesystemType::HUGETLBFS];

/// What the device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// What the source had.
    Same,
    /// Something else.
    Differs(Mismatch),
    /// The bytes cannot be had from a device: it has none, or they do not leave memory.
    NoMedium,
}

/// Reads a synced file past the page cache and compares it with the fingerprints of its source.
///
/// `exact`: it is a regular file, and must not be longer than its source, as a device may. `file` may be open for writing
/// only; it is opened anew. Where there is no direct I/O its pages are forgotten, and cachestat(2) has to say that none is
/// left (Linux 6.5).
///
/// # Errors
/// What the kernel says when the file is opened, read or forgotten.
pub fn compare_with_device(
    kernel: &dyn Kernel,
    file: BorrowedFd<'_>,
    blocks: &Blocks,
    exact: bool,
) -> Result<Finding, Errno> {
    let size = blocks.total;
    // Whatever the device cannot give back, memory must not.
    forget(file, 0, i64::MAX as u64)?;
    let reader = match open_past_the_cache(kernel, file, size, exact)? {
        Some(reader) => reader,
        None => return Ok(Finding::NoMedium),
    };
    let mut buffer = AlignedBuffer::new(WINDOW, page_size().max(4096));
    let mut at = 0;
    for &source in &blocks.hashes {
        let end = (at + blocks.size).min(size);
        let dest = hash_of(kernel, reader.as_fd(), buffer.bytes(), at..end)?;
        if dest != source {
            return Ok(Finding::Differs(Mismatch { offset: at, source, dest }));
        }
        at = end;
    }
    let length = if exact { kernel.size(reader.as_fd())? } else { size };
    if length != size {
        return Ok(Finding::Differs(Mismatch { offset: at.min(length), source: 0, dest: 0 }));
    }
    Ok(Finding::Same)
}

fn open_past_the_cache(
    kernel: &dyn Kernel,
    file: BorrowedFd<'_>,
    size: u64,
    regular: bool,
) -> Result<Option<OwnedFd>, Errno> {
    // The node of a device is on such a filesystem itself. tmpfs opens with O_DIRECT (since Linux 6.6), and reads from memory.
    if regular && FilesystemType::of(file).is_ok_and(|kind| IN_MEMORY.contains(&kind)) {
        return Ok(None);
    }
    match kernel.reopen_to_read(file, true) {
        Ok(direct) => return Ok(Some(direct)),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => {}
        Err(errno) => return Err(errno),
    }
    let reader = kernel.reopen_to_read(file, false)?;
    let left = if size == 0 { Ok(0) } else { cached_pages(reader.as_fd(), 0, size) };
    Ok((left == Ok(0)).then_some(reader))
}

fn hash_of(
    kernel: &dyn Kernel,
    file: BorrowedFd<'_>,
    buffer: &mut [u8],
    range: std::ops::Range<u64>,
) -> Result<u128, Errno> {
    let mut hasher = twox_hash::xxhash3_128::Hasher::new();
    let mut at = range.start;
    while at < range.end {
        let want = (range.end - at).min(buffer.len() as u64) as usize;
        let count = read_aligned(kernel, file, buffer, at, want)?;
        hasher.write(&buffer[..count]);
        at += count as u64;
        if count < want {
            // It ends here, and its hash is another one.
            break;
        }
    }
    Ok(hasher.finish_128())
}

/// Reads `want` bytes, or up to the end of the file, from an aligned offset.
fn read_aligned(
    kernel: &dyn Kernel,
    file: BorrowedFd<'_>,
    buffer: &mut [u8],
    at: u64,
    want: usize,
) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < want {
        let count = again(|| kernel.pread(file, &mut buffer[filled..], at + filled as u64))?;
        filled += count;
        // An odd count is the end: another direct read from there would be refused.
        if count == 0 || !filled.is_multiple_of(4096) {
            break;
        }
    }
    Ok(filled.min(want))
}
