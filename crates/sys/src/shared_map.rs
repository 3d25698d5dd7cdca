//! A file mapped to be written to.
//!
//! The memory is the file's own pages: the kernel writes them back when it likes, and other processes may read and write
//! them at any time. So no Rust reference to them ever exists; bytes are copied in and out through raw pointers.
//!
//! **SIGBUS.** An access to a page that the file does not have any more (somebody cut it), or for which the filesystem has no
//! room (a hole on a full disk), raises SIGBUS, which ends the process. Nothing here prevents that: who maps files that
//! others may cut, or that have holes, does it in a process that may be lost.

use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, msync, munmap};
use rustix::param::page_size;

/// A readable and writable MAP_SHARED mapping of a range of a file.
///
/// # Errors
/// Every method that takes a place gives EINVAL where that is not all within the mapping.
#[derive(Debug)]
pub struct SharedMap {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain address space of the process; it is reached through this value alone, whose methods that
// write take it by unique reference, and it is unmapped once, by Drop.
unsafe impl Send for SharedMap {}

#[allow(clippy::missing_errors_doc)] // said once, above
impl SharedMap {
    /// Maps `len` bytes from `offset`, a multiple of the page size. The file must be open for reading and writing. It may
    /// end before the range does, but its pages must be there when they are touched.
    ///
    /// # Errors
    /// What mmap(2) says: ENODEV where the file cannot be mapped so, EACCES if it is not open for both, EINVAL for an odd
    /// offset or no length.
    pub fn new(fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<SharedMap, Errno> {
        SharedMap::with_access(fd, offset, len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)
    }

    /// The same with another access, or privately; whoever maps without WRITE must not call what writes.
    pub(crate) fn with_access(
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        access: ProtFlags,
        kind: MapFlags,
    ) -> Result<SharedMap, Errno> {
        // SAFETY: a null hint lets the kernel choose unused addresses, so nothing that exists is replaced.
        let start = unsafe { mmap(null_mut(), len, access, kind, fd, offset)? };
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(SharedMap { start, len })
    }

    /// Bytes mapped.
    #[allow(clippy::len_without_is_empty)] // the kernel makes no empty mapping
    pub fn len(&self) -> usize {
        self.len
    }

    /// The address of byte `at`, if `len` bytes from there are within the mapping.
    pub(crate) fn within(&self, at: usize, len: usize) -> Result<*mut u8, Errno> {
        if at > self.len || len > self.len - at {
            return Err(Errno::INVAL);
        }
        // SAFETY: `at` is at most the length of the mapping (checked above), so the address is in it or just behind it.
        Ok(unsafe { self.start.as_ptr().add(at) })
    }

    /// Stores a number, in this machine's order of bytes, at byte `at`: a multiple of 4, else EINVAL.
    pub fn store(&mut self, at: usize, value: u32) -> Result<(), Errno> {
        let to = self.within(at, size_of::<u32>())?;
        if !at.is_multiple_of(align_of::<u32>()) {
            return Err(Errno::INVAL);
        }
        // SAFETY: four bytes within the mapping, at an address that is aligned since mappings begin at pages. Volatile,
        // because the store itself is what is measured.
        unsafe { to.cast::<u32>().write_volatile(value) };
        Ok(())
    }

    /// Sets `len` bytes from byte `at` on to `byte`.
    pub fn fill(&mut self, at: usize, len: usize, byte: u8) -> Result<(), Errno> {
        let to = self.within(at, len)?;
        // SAFETY: the range is within the mapping, and no reference to it exists.
        unsafe { to.write_bytes(byte, len) };
        Ok(())
    }

    /// Copies bytes into the file, from byte `at` of the mapping on.
    pub fn put(&mut self, at: usize, bytes: &[u8]) -> Result<(), Errno> {
        let to = self.within(at, bytes.len())?;
        // SAFETY: the target is within the mapping, to which no reference exists, so the two cannot overlap.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Copies bytes out of the file, from byte `at` of the mapping on.
    pub fn get(&self, at: usize, bytes: &mut [u8]) -> Result<(), Errno> {
        let from = self.within(at, bytes.len())?;
        // SAFETY: the source is within the mapping, to which no reference exists, so the two cannot overlap. Bytes that
        // another process changes meanwhile are old or new.
        unsafe { from.cast_const().copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Writes the pages that have any of `len` bytes from byte `at` on to the device, and waits until they are there
    /// (MS_SYNC). With `invalidate` other mappings of the file are made to look anew (MS_INVALIDATE), which Linux has nothing
    /// to do for but to refuse it where pages are locked in memory.
    ///
    /// # Errors
    /// What msync(2) says. EIO and ENOSPC are errors of the data.
    pub fn sync(&self, at: usize, len: usize, invalidate: bool) -> Result<(), Errno> {
        self.within(at, len)?;
        let first = at - at % page_size();
        let from = self.within(first, at - first + len)?;
        let mut flags = MsyncFlags::SYNC;
        flags.set(MsyncFlags::INVALIDATE, invalidate);
        // SAFETY: the range is within the mapping and begins at a page, and the call changes no contents.
        unsafe { msync(from.cast(), at - first + len, flags) }
    }

    /// Tells the kernel that the mapping is used from its beginning to its end (MADV_SEQUENTIAL).
    ///
    /// # Errors
    /// What madvise(2) says; it changes nothing but speed.
    pub fn expect_sequential(&self) -> Result<(), Errno> {
        // SAFETY: the range is exactly the one that was mapped, and this advice changes no contents.
        unsafe { madvise(self.start.as_ptr().cast(), self.len, Advice::Sequential) }
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        // SAFETY: the range is the one that `new` mapped; `self` was its only owner, and no pointer into it is left.
        // It can fail only if that were not so; then leaking address space is all that is left to do.
        unsafe { munmap(self.start.as_ptr().cast(), self.len) }.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    fn file(name: &str) -> (File, std::path::PathBuf) {
        let path = std::env::temp_dir().join(format!("haul-shared-map-{}-{name}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        (file, path)
    }

    #[test]
    fn what_is_stored_is_in_the_file() {
        let (file, path) = file("stored");
        std::fs::remove_file(path).unwrap();
        let page = page_size();
        file.set_len(3 * page as u64).unwrap();
        let mut map = SharedMap::new(file.as_fd(), page as u64, 2 * page).unwrap();
        map.expect_sequential().unwrap();
        assert_eq!(map.len(), 2 * page);
        map.store(4, 0x0102_0304).unwrap();
        map.fill(page - 1, 3, 7).unwrap();
        map.put(2 * page - 2, b"ab").unwrap();
        map.sync(page - 1, 2, true).unwrap();
        map.sync(0, 2 * page, false).unwrap();
        let mut found = vec![9; 3 * page];
        file.read_exact_at(&mut found, 0).unwrap();
        let mut expected = vec![0; 3 * page];
        expected[page + 4..page + 8].copy_from_slice(&0x0102_0304_u32.to_ne_bytes());
        expected[2 * page - 1..2 * page + 2].fill(7);
        expected[3 * page - 2..].copy_from_slice(b"ab");
        assert!(found == expected);
        // And the other way.
        file.write_all_at(b"xyz", page as u64).unwrap();
        let mut bytes = [0; 3];
        map.get(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"xyz");
    }

    #[test]
    fn nothing_behind_the_mapping_is_touched() {
        let (file, path) = file("bounds");
        std::fs::remove_file(path).unwrap();
        let page = page_size();
        file.set_len(page as u64).unwrap();
        let mut map = SharedMap::new(file.as_fd(), 0, page).unwrap();
        for (at, len) in [(page, 1), (0, page + 1), (page + 1, 0), (1, usize::MAX)] {
            assert_eq!(map.fill(at, len, 1), Err(Errno::INVAL), "{at} {len}");
            assert_eq!(map.sync(at, len, false), Err(Errno::INVAL), "{at} {len}");
        }
        assert_eq!(map.put(page - 1, b"ab"), Err(Errno::INVAL));
        assert_eq!(map.get(page - 1, &mut [0; 2]), Err(Errno::INVAL));
        assert_eq!((map.store(page - 3, 1), map.store(2, 1)), (Err(Errno::INVAL), Err(Errno::INVAL)));
        assert_eq!(map.fill(page, 0, 1), Ok(()));
    }

    #[test]
    fn a_file_that_may_only_be_read_is_not_mapped() {
        let (file, path) = file("read-only");
        file.set_len(4096).unwrap();
        let reader = File::open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(SharedMap::new(reader.as_fd(), 0, 4096).err(), Some(Errno::ACCESS));
        assert_eq!(SharedMap::new(file.as_fd(), 0, 0).err(), Some(Errno::INVAL));
        assert_eq!(SharedMap::new(file.as_fd(), 1, 4096).err(), Some(Errno::INVAL));
    }
}
