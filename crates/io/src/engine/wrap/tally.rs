//! A kernel that counts what is asked of it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_sys::Errno;
use haul_sys::kernel::{Fd, Kernel, Linux};
use haul_sys::map::Mapping;
use haul_sys::queue::{Completion, Queue, QueueKind, Request};

/// Counts the requests for data: each system call that reads, writes, copies, shares or punches is one, and so is each request that a queue takes. The others are
/// those of the trait, which are Linux's.
#[derive(Debug, Clone, Default)]
pub struct Tally(Arc<AtomicU64>);

impl Tally {
    /// The requests since the last time that this was asked.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }

    fn kernel(&self) -> &Linux {
        self.0.fetch_add(1, Ordering::Relaxed);
        &Linux
    }
}

impl Kernel for Tally {
    fn read(&self, fd: Fd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.kernel().read(fd, buffer)
    }

    fn write(&self, fd: Fd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        self.kernel().write(fd, bytes)
    }

    fn pread(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.kernel().pread(fd, buffer, offset)
    }

    fn pwrite(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.kernel().pwrite(fd, bytes, offset)
    }

    fn pread_dontcache(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.kernel().pread_dontcache(fd, buffer, offset)
    }

    fn pwrite_dontcache(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.kernel().pwrite_dontcache(fd, bytes, offset)
    }

    fn copy_file_range(&self, source: Fd<'_>, dest: Fd<'_>, offset: u64, len: usize) -> Result<usize, Errno> {
        self.kernel().copy_file_range(source, dest, offset, len)
    }

    fn clone_file(&self, source: Fd<'_>, dest: Fd<'_>) -> Result<(), Errno> {
        self.kernel().clone_file(source, dest)
    }

    fn clone_range(&self, source: Fd<'_>, dest: Fd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
        self.kernel().clone_range(source, dest, offset, len)
    }

    fn splice(&self, source: (Fd<'_>, Option<u64>), dest: (Fd<'_>, Option<u64>), len: usize) -> Result<usize, Errno> {
        self.kernel().splice(source, dest, len)
    }

    fn write_mapped(
        &self,
        fd: Fd<'_>,
        mapping: &Mapping,
        from: usize,
        len: usize,
        offset: Option<u64>,
    ) -> Result<usize, Errno> {
        self.kernel().write_mapped(fd, mapping, from, len, offset)
    }

    fn punch_hole(&self, fd: Fd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
        self.kernel().punch_hole(fd, offset, len)
    }

    fn queue(&self, kind: QueueKind) -> Result<Box<dyn Queue>, Errno> {
        Ok(Box::new(TallyQueue { inner: Linux.queue(kind)?, tally: self.clone() }))
    }
}

/// A queue whose requests are counted.
#[derive(Debug)]
struct TallyQueue {
    inner: Box<dyn Queue>,
    tally: Tally,
}

impl Queue for TallyQueue {
    fn shape(&mut self, block: usize, slots: usize) -> Result<(), Errno> {
        self.inner.shape(block, slots)
    }

    fn open(&mut self, files: &[Arc<OwnedFd>]) -> Result<(), Errno> {
        self.inner.open(files)
    }

    fn close(&mut self) -> Result<(), Errno> {
        self.inner.close()
    }

    fn buffer(&mut self, slot: usize) -> Result<&mut [u8], Errno> {
        self.inner.buffer(slot)
    }

    fn push(&mut self, request: &Request) -> Result<(), Errno> {
        self.inner.push(request)?;
        self.tally.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> Result<(), Errno> {
        self.inner.wait(done)
    }
}
