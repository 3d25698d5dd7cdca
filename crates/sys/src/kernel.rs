//! The system calls that move bytes, behind one trait: the seam at which tests make the kernel short-spoken.
//!
//! [`Linux`] is the kernel itself. A test implements [`Kernel`], overrides what it wants to go wrong (a short count,
//! EINTR, a source truncated between two calls) and hands the rest on.

use std::fmt::Debug;
use std::io::{IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Advice, CWD, FallocateFlags, FileType, Mode, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::ioctl::{Opcode, Setter, Updater, ioctl, opcode};
use rustix::pipe::{PipeFlags, SpliceFlags};

use crate::filesystem::FilesystemType;
use crate::map::Mapping;
use crate::queue::{self, Queue, QueueKind};

/// A descriptor, borrowed.
pub type Fd<'a> = BorrowedFd<'a>;

/// RWF_DONTCACHE of linux/fs.h (Linux 6.14), which rustix lacks.
const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// The calls that move bytes. Each method is one system call, and its count is the kernel's: it may be short.
///
/// # Errors
/// Every method gives the errno of its system call, EINTR included.
#[allow(clippy::missing_errors_doc)] // said once, above
pub trait Kernel: Debug + Send + Sync {
    /// read(2): the number of bytes read, 0 at the end.
    fn read(&self, fd: Fd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(fd, buffer)
    }

    /// write(2).
    fn write(&self, fd: Fd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        rustix::io::write(fd, bytes)
    }

    /// pread(2): the number of bytes read, 0 at the end.
    fn pread(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::pread(fd, buffer, offset)
    }

    /// pwrite(2).
    fn pwrite(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::pwrite(fd, bytes, offset)
    }

    /// preadv2(2) with RWF_DONTCACHE: what it brings into the page cache leaves it again. EOPNOTSUPP where there is none.
    fn pread_dontcache(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::preadv2(fd, &mut [IoSliceMut::new(buffer)], offset, DONTCACHE)
    }

    /// pwritev2(2) with RWF_DONTCACHE: goes to the device at once and leaves the page cache when it is there.
    fn pwrite_dontcache(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::pwritev2(fd, &[IoSlice::new(bytes)], offset, DONTCACHE)
    }

    /// copy_file_range(2) at the same offset on both sides. One call moves at most 2,147,479,552 bytes.
    fn copy_file_range(&self, source: Fd<'_>, dest: Fd<'_>, offset: u64, len: usize) -> Result<usize, Errno> {
        let (mut from, mut to) = (offset, offset);
        rustix::fs::copy_file_range(source, Some(&mut from), dest, Some(&mut to), len)
    }

    /// FICLONE: the whole source becomes the whole destination, sharing its extents.
    fn clone_file(&self, source: Fd<'_>, dest: Fd<'_>) -> Result<(), Errno> {
        rustix::fs::ioctl_ficlone(dest, source)
    }

    /// FICLONERANGE at the same offset on both sides.
    fn clone_range(&self, source: Fd<'_>, dest: Fd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
        clone_range(source, dest, offset, len)
    }

    /// FIDEDUPERANGE of the first `len` bytes: whether they are the same, and shared from now on. Either way no contents change.
    fn share_if_same(&self, source: Fd<'_>, dest: Fd<'_>, len: u64) -> Result<bool, Errno> {
        share_if_same(source, dest, len)
    }

    /// pipe2(2) with close-on-exec: the end to read from, then the end to write to.
    fn pipe(&self) -> Result<(OwnedFd, OwnedFd), Errno> {
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
    }

    /// F_SETPIPE_SZ: the size in bytes that the pipe has now.
    fn set_pipe_size(&self, pipe: Fd<'_>, size: usize) -> Result<usize, Errno> {
        rustix::pipe::fcntl_setpipe_size(pipe, size)
    }

    /// splice(2). A side with an offset is a file, the other one a pipe or stream.
    fn splice(
        &self,
        (source, source_offset): (Fd<'_>, Option<u64>),
        (dest, dest_offset): (Fd<'_>, Option<u64>),
        len: usize,
    ) -> Result<usize, Errno> {
        let (mut from, mut to) = (source_offset, dest_offset);
        rustix::pipe::splice(source, from.as_mut(), dest, to.as_mut(), len, SpliceFlags::empty())
    }

    /// Maps a range of a file, shared and read-only; see [`Mapping`].
    fn map(&self, fd: Fd<'_>, offset: u64, len: usize) -> Result<Mapping, Errno> {
        Mapping::new(fd, offset, len)
    }

    /// write(2) or pwrite(2), the latter if there is an offset, straight from a mapping: `len` bytes from its byte `from`.
    /// EFAULT means that a page of the mapped file is gone or unreadable.
    fn write_mapped(
        &self,
        fd: Fd<'_>,
        mapping: &Mapping,
        from: usize,
        len: usize,
        offset: Option<u64>,
    ) -> Result<usize, Errno> {
        mapping.write_to(fd, from, len, offset)
    }

    /// fallocate(2) with PUNCH_HOLE and KEEP_SIZE.
    fn punch_hole(&self, fd: Fd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
        rustix::fs::fallocate(fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len)
    }

    /// Has a range of a file read into the page cache, without waiting for it. One call reads no more than the larger of
    /// the device's request size and its read-ahead window, 128 KiB as a rule, whatever was asked for.
    fn read_ahead(&self, fd: Fd<'_>, offset: u64, len: NonZeroU64) -> Result<(), Errno> {
        // Since Linux 4.20 readahead(2) is this call with a check of the kind of file before it.
        rustix::fs::fadvise(fd, offset, Some(len), Advice::WillNeed)
    }

    /// How many pages of a range are in the page cache; see [`crate::page_cache::cached_pages`].
    fn cached_pages(&self, fd: Fd<'_>, offset: u64, len: u64) -> Result<u64, Errno> {
        crate::page_cache::cached_pages(fd, offset, len)
    }

    /// fallocate(2): space for the whole range, which becomes a part of the file.
    fn allocate(&self, fd: Fd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
        rustix::fs::fallocate(fd, FallocateFlags::empty(), offset, len)
    }

    /// lseek(2) with SEEK_DATA. Moves the file position.
    fn seek_data(&self, fd: Fd<'_>, offset: u64) -> Result<u64, Errno> {
        rustix::fs::seek(fd, SeekFrom::Data(offset))
    }

    /// lseek(2) with SEEK_HOLE. Moves the file position.
    fn seek_hole(&self, fd: Fd<'_>, offset: u64) -> Result<u64, Errno> {
        rustix::fs::seek(fd, SeekFrom::Hole(offset))
    }

    /// The size in bytes of a file (fstat) or block device (SEEK_END, which moves the file position). A hint, as ever.
    fn size(&self, fd: Fd<'_>) -> Result<u64, Errno> {
        let stat = rustix::fs::fstat(fd)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice {
            return rustix::fs::seek(fd, SeekFrom::End(0));
        }
        // The kernel's loff_t is never negative here.
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// The block size of the filesystem in bytes (fstatfs).
    fn block_size(&self, fd: Fd<'_>) -> Result<u64, Errno> {
        let stat = rustix::fs::fstatfs(fd)?;
        Ok(u64::try_from(stat.f_bsize).unwrap_or(0))
    }

    /// Whether the file is on a FUSE filesystem, virtiofs among them (fstatfs).
    fn is_fuse(&self, fd: Fd<'_>) -> Result<bool, Errno> {
        Ok(FilesystemType::of(fd)? == FilesystemType::FUSE)
    }

    /// Whether O_DIRECT is on (F_GETFL).
    fn is_direct(&self, fd: Fd<'_>) -> Result<bool, Errno> {
        Ok(rustix::fs::fcntl_getfl(fd)?.contains(OFlags::DIRECT))
    }

    /// Turns O_DIRECT on or off (F_SETFL) for all descriptors of this open file; EINVAL where the filesystem has none.
    fn set_direct(&self, fd: Fd<'_>, on: bool) -> Result<(), Errno> {
        let mut flags = rustix::fs::fcntl_getfl(fd)?;
        flags.set(OFlags::DIRECT, on);
        rustix::fs::fcntl_setfl(fd, flags)
    }

    /// Opens the same file once more with O_DIRECT, for the access that the descriptor has: a description of its own, so
    /// that buffered and direct requests do not have to take turns. EINVAL where the filesystem has no O_DIRECT, EACCES
    /// where the mode of the file allows no second open, ENOENT without /proc.
    fn reopen_direct(&self, fd: Fd<'_>) -> Result<OwnedFd, Errno> {
        let flags = rustix::fs::fcntl_getfl(fd)? & (OFlags::ACCMODE | OFlags::NOATIME);
        reopen(fd, flags | OFlags::DIRECT)
    }

    /// Opens the same file once more for reading, past the page cache if `direct`. Errors as above.
    fn reopen_to_read(&self, fd: Fd<'_>, direct: bool) -> Result<OwnedFd, Errno> {
        let kept = rustix::fs::fcntl_getfl(fd)? & OFlags::NOATIME;
        reopen(fd, kept | if direct { OFlags::RDONLY | OFlags::DIRECT } else { OFlags::RDONLY })
    }

    /// ftruncate(2).
    fn set_size(&self, fd: Fd<'_>, size: u64) -> Result<(), Errno> {
        rustix::fs::ftruncate(fd, size)
    }

    /// fsync(2): waits until everything is on the device, and hears what went wrong on the way there.
    fn sync(&self, fd: Fd<'_>) -> Result<(), Errno> {
        rustix::fs::fsync(fd)
    }

    /// syncfs(2): the same for everything on the filesystem of a file.
    fn sync_filesystem(&self, fd: Fd<'_>) -> Result<(), Errno> {
        rustix::fs::syncfs(fd)
    }

    /// Writes the dirty pages of a whole file back; see [`crate::page_cache::write_back`].
    fn write_back(&self, fd: Fd<'_>, wait: bool) -> Result<(), Errno> {
        crate::page_cache::write_back(fd, 0, 0, wait)
    }

    /// Makes a queue for requests that are worked on while this process goes on.
    fn queue(&self, kind: QueueKind) -> Result<Box<dyn Queue>, Errno> {
        queue::make(kind)
    }
}

/// The kernel that this process runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Linux;

impl Kernel for Linux {}

/// Whether two files can share extents at all; `dest` is open for writing, and keeps its contents.
///
/// Asks for a range that no filesystem grants, since it begins within a block: one that can share says EINVAL. So does one
/// that cannot share between just these two, as btrfs where only one of them has checksums. Then it refuses to look whether a
/// block of them is the same, too. (It is not asked that of files that have less than a block.)
///
/// # Errors
/// Why they cannot.
pub fn can_share(kernel: &dyn Kernel, source: Fd<'_>, dest: Fd<'_>) -> Result<(), Errno> {
    match kernel.clone_range(source, dest, 1, 1) {
        Ok(()) => return Ok(()),
        Err(Errno::INVAL) => {}
        Err(errno) => return Err(errno),
    }
    let block = kernel.block_size(dest)?;
    if block == 0 || kernel.size(source)?.min(kernel.size(dest)?) < block {
        return Ok(());
    }
    match kernel.share_if_same(source, dest, block) {
        Err(Errno::INVAL) => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

fn reopen(fd: Fd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    // This thread's table: threads may have tables of their own.
    let path = format!("/proc/thread-self/fd/{}", fd.as_raw_fd());
    let again = rustix::fs::openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())?;
    // Whatever is mounted over /proc, it must not lead to another file.
    let (before, after) = (rustix::fs::fstat(fd)?, rustix::fs::fstat(&again)?);
    if (before.st_dev, before.st_ino) == (after.st_dev, after.st_ino) { Ok(again) } else { Err(Errno::NOENT) }
}

/// `struct file_clone_range` of linux/fs.h, which rustix lacks.
#[repr(C)]
struct FileCloneRange {
    source: i64,
    source_offset: u64,
    source_length: u64,
    dest_offset: u64,
}

const FICLONERANGE: Opcode = opcode::write::<FileCloneRange>(0x94, 13);

fn clone_range(source: BorrowedFd<'_>, dest: BorrowedFd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
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

/// `struct file_dedupe_range` of linux/fs.h with one destination, which rustix lacks.
#[repr(C)]
struct FileDedupeRange {
    source_offset: u64,
    source_length: u64,
    dest_count: u16,
    reserved: [u16; 3],
    dest: i64,
    dest_offset: u64,
    deduped: u64,
    status: i32,
    reserved_of_dest: u32,
}

/// Its size is that without destinations.
const FIDEDUPERANGE: Opcode = opcode::read_write::<[u64; 3]>(0x94, 54);

fn share_if_same(source: BorrowedFd<'_>, dest: BorrowedFd<'_>, len: u64) -> Result<bool, Errno> {
    let mut range = FileDedupeRange {
        source_offset: 0,
        source_length: len,
        dest_count: 1,
        reserved: [0; 3],
        dest: i64::from(dest.as_raw_fd()),
        dest_offset: 0,
        deduped: 0,
        status: 0,
        reserved_of_dest: 0,
    };
    // SAFETY: the opcode is FIDEDUPERANGE's, which reads and writes this structure, that has as many destinations as it says. The
    // descriptor in it is open as long as `dest` is borrowed.
    unsafe { ioctl(source, Updater::<FIDEDUPERANGE, FileDedupeRange>::new(&mut range)) }?;
    match range.status {
        // Errors stand there, too.
        status if status < 0 => Err(Errno::from_raw_os_error(-status)),
        status => Ok(status == 0),
    }
}
