//! FICLONERANGE, which rustix lacks.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl, opcode};

/// `struct file_clone_range` of linux/fs.h.
#[repr(C)]
struct FileCloneRange {
    source: i64,
    source_offset: u64,
    source_length: u64,
    dest_offset: u64,
}

const FICLONERANGE: rustix::ioctl::Opcode = opcode::write::<FileCloneRange>(0x94, 13);

/// Makes `len` bytes of the destination at `offset` share the extents of the source there.
pub(crate) fn clone_range(source: BorrowedFd<'_>, dest: BorrowedFd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
    let range = FileCloneRange {
        source: i64::from(source.as_raw_fd()),
        source_offset: offset,
        source_length: len,
        dest_offset: offset,
    };
    // SAFETY: the opcode is FICLONERANGE's, which reads exactly this structure and writes no memory of ours. The
    // descriptor in it is open as long as `source` is borrowed.
    unsafe { ioctl(dest, Setter::<FICLONERANGE, FileCloneRange>::new(range)) }
}
