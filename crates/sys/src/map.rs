//! A file mapped to be written from, never to be looked at.
//!
//! This process does not touch the mapped memory itself: only the kernel reads it, inside write(2). A page that the
//! file no longer has then makes the call return short or with EFAULT, where a load instruction would have raised
//! SIGBUS; and no Rust reference to memory that others may change ever exists.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// A read-only MAP_SHARED mapping of a range of a file.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain address space of the process, only the kernel reads it, and it is unmapped once, by Drop.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes from `offset`, a multiple of the page size, and asks for sequential read-ahead.
    ///
    /// # Errors
    /// What mmap(2) says: ENODEV where the file cannot be mapped, EINVAL for an odd offset or no length.
    pub fn new(fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Mapping, Errno> {
        // SAFETY: a null hint lets the kernel choose unused addresses, so nothing that exists is replaced.
        let start = unsafe { mmap(null_mut(), len, ProtFlags::READ, MapFlags::SHARED, fd, offset)? };
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let mapping = Mapping { start, len };
        // SAFETY: the range is exactly the one just mapped, and this advice changes no contents. It is advice only,
        // so its failure changes nothing but speed.
        unsafe { madvise(start.as_ptr().cast(), len, Advice::Sequential) }.ok();
        Ok(mapping)
    }

    /// Bytes mapped.
    #[allow(clippy::len_without_is_empty)] // the kernel makes no empty mapping
    pub fn len(&self) -> usize {
        self.len
    }

    /// One pwrite(2), or write(2) without an offset, of at most `len` bytes from byte `from` of the mapping: the count.
    ///
    /// # Errors
    /// EFAULT if the first byte cannot be read any more; else what the call says.
    pub fn write_to(&self, fd: BorrowedFd<'_>, from: usize, len: usize, offset: Option<u64>) -> Result<usize, Errno> {
        if from > self.len || len > self.len - from {
            return Err(Errno::INVAL);
        }
        let offset = offset.map(libc::off64_t::try_from).transpose().map_err(|_| Errno::OVERFLOW)?;
        let fd = fd.as_raw_fd();
        // SAFETY: `from` is within the mapping.
        let bytes = unsafe { self.start.as_ptr().add(from) }.cast::<libc::c_void>().cast_const();
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

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that `new` mapped; `self` was its only owner, and no pointer into it is left.
        // It can fail only if that were not so; then leaking address space is all that is left to do.
        unsafe { munmap(self.start.as_ptr().cast(), self.len) }.ok();
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
