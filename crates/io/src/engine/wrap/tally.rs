//! A kernel that counts what is asked of it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_sys::Errno;
use haul_sys::queue::{Completion, Queue, Request};

use super::hooked::{Call, Hook};

/// Counts the requests for data: each system call that reads, writes, copies, shares or punches is one, and so is each request
/// that a queue takes.
#[derive(Debug, Clone, Default)]
pub struct Tally(Arc<AtomicU64>);

impl Tally {
    /// The requests since the last time that this was asked.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }

    fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Hook for Tally {
    fn before(&self, call: Call) -> Result<usize, Errno> {
        if !matches!(call, Call::Map | Call::SeekData | Call::SeekHole) {
            self.count();
        }
        Ok(usize::MAX)
    }

    fn queue(&self, queue: Box<dyn Queue>) -> Box<dyn Queue> {
        Box::new(TallyQueue { inner: queue, tally: self.clone() })
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
        self.tally.count();
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> Result<(), Errno> {
        self.inner.wait(done)
    }
}
