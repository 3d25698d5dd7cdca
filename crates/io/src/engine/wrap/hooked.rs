//! Linux with a hook before and after each call that moves data: the one place that names all calls of the kernel.

use std::fmt::Debug;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;

use haul_sys::Errno;
use haul_sys::kernel::{Fd, Kernel, Linux};
use haul_sys::map::Mapping;
use haul_sys::queue::{Queue, QueueKind};

/// A call of [`Kernel`] that moves data, or says where there is some.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // they are the methods of the trait
pub enum Call {
    Read,
    Write,
    Pread,
    Pwrite,
    PreadDontcache,
    PwriteDontcache,
    CopyFileRange,
    CloneFile,
    CloneRange,
    /// From a file into a pipe.
    SpliceIn,
    /// From a pipe or a stream.
    SpliceOut,
    Map,
    WriteMapped,
    PunchHole,
    SeekData,
    SeekHole,
    /// A range is asked for ahead; nobody is asked before that.
    Fadvise,
    /// Space is allocated; nobody is asked before that.
    Allocate,
}

/// What happens before and after a call.
pub trait Hook: Debug + Send + Sync {
    /// The most bytes that the call may move, if it moves a number of them.
    ///
    /// # Errors
    /// With this the call ends, and Linux is not asked.
    fn before(&self, call: Call) -> Result<usize, Errno>;

    /// A call was made of a file (of two, the destination): the bytes that were asked for, and those that it moved. Of calls
    /// that look for holes nothing is said.
    fn after(&self, _call: Call, _fd: Fd<'_>, _asked: u64, _moved: u64) {}

    /// What stands for a mapping.
    ///
    /// # Errors
    /// Those of the mapping.
    fn map(&self, fd: Fd<'_>, offset: u64, len: usize) -> Result<Mapping, Errno> {
        Linux.map(fd, offset, len)
    }

    /// What stands for a queue.
    fn queue(&self, queue: Box<dyn Queue>) -> Box<dyn Queue> {
        queue
    }
}

/// The kernel with a hook.
#[derive(Debug)]
pub struct Hooked<H>(pub H);

impl<H: Hook> Hooked<H> {
    /// Makes a call for `len` bytes, or for as many as the hook lets it, which `make` gets.
    fn call(
        &self,
        call: Call,
        fd: Fd<'_>,
        len: usize,
        make: impl FnOnce(usize) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let done = make(self.0.before(call)?.min(len));
        self.0.after(call, fd, len as u64, *done.as_ref().unwrap_or(&0) as u64);
        done
    }
}

/// `most` of the `len` bytes of a write, which stays aligned if it is direct.
fn aligned(fd: Fd<'_>, most: usize, len: usize) -> Result<usize, Errno> {
    let is_cut = most < len;
    Ok(if is_cut && Linux.is_direct(fd)? { most.next_multiple_of(512).min(len) } else { most })
}

// A new call of the kernel is missing here until somebody has decided whether it has a hook.
#[deny(clippy::missing_trait_methods)]
impl<H: Hook> Kernel for Hooked<H> {
    fn read(&self, fd: Fd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.call(Call::Read, fd, buffer.len(), |most| Linux.read(fd, &mut buffer[..most]))
    }

    fn write(&self, fd: Fd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        self.call(Call::Write, fd, bytes.len(), |most| Linux.write(fd, &bytes[..most]))
    }

    fn pread(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.call(Call::Pread, fd, buffer.len(), |most| {
            if most < buffer.len() && Linux.is_direct(fd)? {
                // The request stays aligned; a short count is what may come back.
                return Ok(Linux.pread(fd, buffer, offset)?.min(most));
            }
            Linux.pread(fd, &mut buffer[..most], offset)
        })
    }

    fn pwrite(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        let len = bytes.len();
        self.call(Call::Pwrite, fd, len, |most| Linux.pwrite(fd, &bytes[..aligned(fd, most, len)?], offset))
    }

    fn pread_dontcache(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let len = buffer.len();
        self.call(Call::PreadDontcache, fd, len, |most| Linux.pread_dontcache(fd, &mut buffer[..most], offset))
    }

    fn pwrite_dontcache(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.call(Call::PwriteDontcache, fd, bytes.len(), |most| Linux.pwrite_dontcache(fd, &bytes[..most], offset))
    }

    fn copy_file_range(&self, source: Fd<'_>, dest: Fd<'_>, offset: u64, len: usize) -> Result<usize, Errno> {
        self.call(Call::CopyFileRange, dest, len, |most| Linux.copy_file_range(source, dest, offset, most))
    }

    fn clone_file(&self, source: Fd<'_>, dest: Fd<'_>) -> Result<(), Errno> {
        self.call(Call::CloneFile, dest, 0, |_| Linux.clone_file(source, dest).map(|()| 0)).map(drop)
    }

    fn clone_range(&self, source: Fd<'_>, dest: Fd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
        let all = usize::try_from(len).unwrap_or(usize::MAX);
        self.call(Call::CloneRange, dest, all, |_| Linux.clone_range(source, dest, offset, len).map(|()| all)).map(drop)
    }

    fn share_if_same(&self, source: Fd<'_>, dest: Fd<'_>, len: u64) -> Result<bool, Errno> {
        Linux.share_if_same(source, dest, len)
    }

    fn pipe(&self) -> Result<(OwnedFd, OwnedFd), Errno> {
        Linux.pipe()
    }

    fn set_pipe_size(&self, pipe: Fd<'_>, size: usize) -> Result<usize, Errno> {
        Linux.set_pipe_size(pipe, size)
    }

    fn splice(&self, source: (Fd<'_>, Option<u64>), dest: (Fd<'_>, Option<u64>), len: usize) -> Result<usize, Errno> {
        let call = if source.1.is_some() { Call::SpliceIn } else { Call::SpliceOut };
        self.call(call, dest.0, len, |most| Linux.splice(source, dest, most))
    }

    fn map(&self, fd: Fd<'_>, offset: u64, len: usize) -> Result<Mapping, Errno> {
        self.0.before(Call::Map)?;
        let mapping = self.0.map(fd, offset, len)?;
        self.0.after(Call::Map, fd, len as u64, len as u64);
        Ok(mapping)
    }

    fn write_mapped(
        &self,
        fd: Fd<'_>,
        mapping: &Mapping,
        from: usize,
        len: usize,
        offset: Option<u64>,
    ) -> Result<usize, Errno> {
        self.call(Call::WriteMapped, fd, len, |most| {
            Linux.write_mapped(fd, mapping, from, aligned(fd, most, len)?, offset)
        })
    }

    fn punch_hole(&self, fd: Fd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
        self.0.before(Call::PunchHole)?;
        Linux.punch_hole(fd, offset, len)?;
        self.0.after(Call::PunchHole, fd, len, len);
        Ok(())
    }

    fn read_ahead(&self, fd: Fd<'_>, offset: u64, len: NonZeroU64) -> Result<(), Errno> {
        Linux.read_ahead(fd, offset, len)?;
        self.0.after(Call::Fadvise, fd, len.get(), len.get());
        Ok(())
    }

    fn cached_pages(&self, fd: Fd<'_>, offset: u64, len: u64) -> Result<u64, Errno> {
        Linux.cached_pages(fd, offset, len)
    }

    fn allocate(&self, fd: Fd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
        Linux.allocate(fd, offset, len)?;
        self.0.after(Call::Allocate, fd, len, len);
        Ok(())
    }

    fn seek_data(&self, fd: Fd<'_>, offset: u64) -> Result<u64, Errno> {
        self.0.before(Call::SeekData)?;
        Linux.seek_data(fd, offset)
    }

    fn seek_hole(&self, fd: Fd<'_>, offset: u64) -> Result<u64, Errno> {
        self.0.before(Call::SeekHole)?;
        Linux.seek_hole(fd, offset)
    }

    fn size(&self, fd: Fd<'_>) -> Result<u64, Errno> {
        Linux.size(fd)
    }

    fn block_size(&self, fd: Fd<'_>) -> Result<u64, Errno> {
        Linux.block_size(fd)
    }

    fn is_fuse(&self, fd: Fd<'_>) -> Result<bool, Errno> {
        Linux.is_fuse(fd)
    }

    fn is_direct(&self, fd: Fd<'_>) -> Result<bool, Errno> {
        Linux.is_direct(fd)
    }

    fn set_direct(&self, fd: Fd<'_>, on: bool) -> Result<(), Errno> {
        Linux.set_direct(fd, on)
    }

    fn reopen_direct(&self, fd: Fd<'_>) -> Result<OwnedFd, Errno> {
        Linux.reopen_direct(fd)
    }

    fn reopen_to_read(&self, fd: Fd<'_>, direct: bool) -> Result<OwnedFd, Errno> {
        Linux.reopen_to_read(fd, direct)
    }

    fn set_size(&self, fd: Fd<'_>, size: u64) -> Result<(), Errno> {
        Linux.set_size(fd, size)
    }

    fn sync(&self, fd: Fd<'_>) -> Result<(), Errno> {
        Linux.sync(fd)
    }

    fn sync_filesystem(&self, fd: Fd<'_>) -> Result<(), Errno> {
        Linux.sync_filesystem(fd)
    }

    fn write_back(&self, fd: Fd<'_>, wait: bool) -> Result<(), Errno> {
        Linux.write_back(fd, wait)
    }

    fn queue(&self, kind: QueueKind) -> Result<Box<dyn Queue>, Errno> {
        Ok(self.0.queue(Linux.queue(kind)?))
    }
}
