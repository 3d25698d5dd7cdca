//! What the page cache holds of a file, and sending pages to the device and away.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

use crate::syscall::{last_errno, outcome};

/// cachestat(2), Linux 6.5; the same number on every architecture but alpha, which Rust does not have.
const SYS_CACHESTAT: libc::c_long = 451;

/// Bytes of a range looked at by one mincore(2), so that its answer stays small.
const STRIDE: u64 = 64 << 20;

/// `struct cachestat_range` of linux/mman.h.
#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

/// `struct cachestat` of linux/mman.h: numbers of pages.
#[repr(C)]
#[derive(Default)]
struct Numbers {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// How many pages of a range of a regular file are in the page cache, read in or not.
///
/// Asks mincore(2) where cachestat(2) is missing; that one tells who may not write the file that everything is there.
///
/// # Errors
/// EOPNOTSUPP, EPERM and the like where neither can tell.
pub fn cached_pages(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<u64, Errno> {
    if len == 0 {
        return Ok(0);
    }
    match cachestat(file, offset, len) {
        Err(Errno::NOSYS | Errno::PERM) => resident_pages(file, offset, len),
        counted => counted,
    }
}

fn cachestat(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<u64, Errno> {
    let (range, mut numbers) = (Range { offset, len }, Numbers::default());
    // SAFETY: the kernel reads the one structure and writes the other, both of the layout that it documents and alive
    // for the call; the descriptor is borrowed, and there are no flags.
    let done = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut numbers, 0u32) };
    if done == 0 { Ok(numbers.cached) } else { Err(last_errno()) }
}

/// Whether [`cached_pages`] takes no longer for a large range than for a small one.
pub fn is_counted_by_the_kernel(file: BorrowedFd<'_>) -> bool {
    cachestat(file, 0, 1).is_ok()
}

/// The same by mapping the range, which touches no page of it, and mincore(2).
fn resident_pages(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<u64, Errno> {
    let page = page_size() as u64;
    let end = offset.saturating_add(len);
    let (mut at, mut found) = (offset - offset % page, 0);
    while at < end {
        let len = usize::try_from((end - at).min(STRIDE)).map_err(|_| Errno::OVERFLOW)?;
        found += resident_in_window(file, at, len)?;
        at += len as u64;
    }
    Ok(found)
}

fn resident_in_window(file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<u64, Errno> {
    let mut answer = vec![0u8; len.div_ceil(page_size())];
    // SAFETY: a null hint lets the kernel choose unused addresses. Nothing reads or writes the mapped memory.
    let start = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, offset)? };
    // SAFETY: the range is the one just mapped, and the answer has a byte for each of its pages.
    let done = unsafe { libc::mincore(start, len, answer.as_mut_ptr().cast()) };
    let errno = last_errno();
    // SAFETY: the range that was mapped above, to which no pointer is left. A failure could only leak address space.
    unsafe { munmap(start, len) }.ok();
    if done != 0 {
        return Err(errno);
    }
    Ok(answer.iter().filter(|page| **page & 1 == 1).count() as u64)
}

/// Lets the page cache forget the clean pages of a range; pages that are dirty, mapped or in part outside stay.
///
/// # Errors
/// What posix_fadvise(2) says; nothing is lost by it.
pub fn forget(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
    match std::num::NonZeroU64::new(len) {
        Some(len) => fadvise(file, offset, Some(len), Advice::DontNeed),
        None => Ok(()),
    }
}

/// Begins to write the dirty pages of a range to the device and, if `wait`, waits until they are there. Says nothing of
/// the device's own cache or of metadata: it is about memory, not about durability.
///
/// # Errors
/// What sync_file_range(2) says, ESPIPE and EINVAL where it does not apply. EIO and ENOSPC are errors of the data.
pub fn write_back(file: BorrowedFd<'_>, offset: u64, len: u64, wait: bool) -> Result<(), Errno> {
    let (offset, len) = (off64(offset)?, off64(len)?);
    let flags = match wait {
        false => libc::SYNC_FILE_RANGE_WRITE,
        true => libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER,
    };
    // SAFETY: no memory is involved, and the descriptor is borrowed, so it stays open.
    outcome(unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, flags) }.into())
}

/// Waits until what is being written to the device at the moment is there, and begins nothing: dirty pages stay dirty.
///
/// # Errors
/// As for [`write_back`].
pub fn wait_for_write_back(file: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: no memory is involved, and the descriptor is borrowed, so it stays open.
    outcome(unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WAIT_BEFORE) }.into())
}

fn off64(number: u64) -> Result<libc::off64_t, Errno> {
    libc::off64_t::try_from(number).map_err(|_| Errno::OVERFLOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn both_ways_to_count_pages_agree() {
        let path = std::env::temp_dir().join(format!("haul-page-cache-{}", std::process::id()));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        let pages = (1 << 20) / page_size() as u64;
        let file = file.as_fd();
        assert_eq!(resident_pages(file, 0, 1 << 20).unwrap(), pages);
        write_back(file, 0, 1 << 20, true).unwrap();
        assert_eq!(cached_pages(file, 0, 1 << 20).unwrap(), pages, "written back, not forgotten");
        forget(file, 0, 1 << 19).unwrap();
        // Memory in large pieces (folios) may go or stay as a whole, so only the direction is certain.
        let left = cached_pages(file, 0, 1 << 20).unwrap();
        assert_eq!(resident_pages(file, 0, 1 << 20).unwrap(), left);
        assert!(left <= pages);
        forget(file, 0, 1 << 20).unwrap();
        assert_eq!(cached_pages(file, 0, 1 << 20).unwrap(), 0);
    }
}
