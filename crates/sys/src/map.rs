//! A file mapped to be written from.
//!
//! A copy does not touch the mapped memory itself: only the kernel reads it, inside write(2). A page that the
//! file no longer has then makes the call return short or with EFAULT, where a load instruction raises SIGBUS (as in
//! [`Mapping::get`]); and no Rust reference to memory that others may change ever exists.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::shared_map::SharedMap;
use crate::syscall::last_errno;

/// A read-only mapping of a range of a file.
#[derive(Debug)]
pub struct Mapping(SharedMap);

impl Mapping {
    /// Maps `len` bytes from `offset`, a multiple of the page size, with MAP_SHARED, and asks for sequential read-ahead.
    ///
    /// # Errors
    /// What mmap(2) says: ENODEV where the file cannot be mapped, EINVAL for an odd offset or no length.
    pub fn new(fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Mapping, Errno> {
        Mapping::of(fd, offset, len, MapFlags::SHARED)
    }

    /// The same with MAP_PRIVATE.
    ///
    /// # Errors
    /// As above.
    pub fn private(fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Mapping, Errno> {
        Mapping::of(fd, offset, len, MapFlags::PRIVATE)
    }

    fn of(fd: BorrowedFd<'_>, offset: u64, len: usize, kind: MapFlags) -> Result<Mapping, Errno> {
        let map = SharedMap::with_access(fd, offset, len, ProtFlags::READ, kind)?;
        // It is advice only, so its failure changes nothing but speed.
        map.expect_sequential().ok();
        Ok(Mapping(map))
    }

    /// Copies bytes out, from byte `at` of the mapping on, by loads: a page that the file no longer has raises SIGBUS, so this is
    /// for a process that may be lost.
    ///
    /// # Errors
    /// EINVAL where that is not all within the mapping.
    pub fn get(&self, at: usize, bytes: &mut [u8]) -> Result<(), Errno> {
        self.0.get(at, bytes)
    }

    /// Bytes mapped.
    #[allow(clippy::len_without_is_empty)] // the kernel makes no empty mapping
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// One pwrite(2), or write(2) without an offset, of at most `len` bytes from byte `from` of the mapping: the count.
    ///
    /// # Errors
    /// EFAULT if the first byte cannot be read any more; else what the call says.
    pub fn write_to(&self, fd: BorrowedFd<'_>, from: usize, len: usize, offset: Option<u64>) -> Result<usize, Errno> {
        let bytes = self.0.within(from, len)?.cast::<libc::c_void>().cast_const();
        let offset = offset.map(libc::off64_t::try_from).transpose().map_err(|_| Errno::OVERFLOW)?;
        let fd = fd.as_raw_fd();
        let count = match offset {
            // SAFETY: the range lies within the mapping (checked above), and the kernel itself answers EFAULT for pages
            // that are gone. The descriptor is borrowed, so it stays open.
            Some(offset) => unsafe { libc::pwrite64(fd, bytes, len, offset) },
            // SAFETY: as above.
            None => unsafe { libc::write(fd, bytes, len) },
        };
        usize::try_from(count).map_err(|_| last_errno())
    }
}
