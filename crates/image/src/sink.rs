//! The writing side of a smart copy.

use std::os::fd::AsFd;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::kernel::Kernel;

use haul_io::engine::calls::{again, write_some};
use haul_io::engine::hole;
use haul_io::engine::{FailedOn, Failure, Side, Zeros};
use haul_io::moved::Moved;
use haul_io::transfer::Scattered;

use super::source::Direct;

/// An open destination that reads as zeros where nothing is written, or that can be made to. Each thread has its own.
#[derive(Clone)]
pub(super) struct Sink {
    pub(super) kernel: Arc<dyn Kernel>,
    pub(super) side: Side,
    pub(super) direct: Option<Direct>,
    /// Old contents stay where nothing is written: a block device.
    pub(super) holds_old: bool,
    /// Of what goes through the page cache, a slow device has little left to write.
    pub(super) unwritten: Option<Scattered>,
}

/// What became of a range of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    Skipped,
    Written,
}

impl Sink {
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let count = self.write_some(at, rest).map_err(|errno| Failure { on: FailedOn::Write, errno })?;
            at += count as u64;
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Writes some of the bytes: past the page cache what is aligned, the rest through it.
    fn write_some(&mut self, at: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let mut piece = bytes.len();
        if let Some(direct) = &self.direct {
            let whole = bytes.len() - bytes.len() % direct.align;
            if whole > 0 && direct.takes(at, bytes) {
                match again(|| self.kernel.pwrite(direct.fd.as_fd(), &bytes[..whole], at)) {
                    // Refused after all: everything goes through the page cache from here on.
                    Err(Errno::INVAL) => self.direct = None,
                    Ok(0) => return Err(Errno::NOSPC),
                    result => return result,
                }
            } else if bytes.len() >= direct.at_least {
                // As far as the next place where it can be direct again.
                piece = piece.min(direct.align - (at % direct.align as u64) as usize);
            }
        }
        let count = write_some(&*self.kernel, &self.side, &bytes[..piece], at)?;
        self.cached((at, count as u64), count as u64);
        Ok(count)
    }

    /// So many bytes of a range went through the page cache.
    fn cached(&mut self, range: (u64, u64), bytes: u64) {
        if let Some(unwritten) = &mut self.unwritten {
            unwritten.wrote(range, bytes);
        }
    }

    /// The thread writes no more for now.
    pub(super) fn end(&mut self) {
        if let Some(unwritten) = &mut self.unwritten {
            unwritten.end();
        }
    }

    /// Makes zeros of old contents: without writing, if that is possible.
    pub(super) fn punch(&mut self, offset: u64, len: u64) -> Result<Done, Failure> {
        let mut moved = Moved::default();
        hole::make(&*self.kernel, &self.side, offset, len, Zeros::Punch(1), &mut moved)?;
        Ok(if moved.written > 0 { Done::Written } else { Done::Skipped })
    }

    /// Writes a range of zeros.
    pub(super) fn zeros(&mut self, offset: u64, len: u64) -> Result<(), Failure> {
        let mut moved = Moved::default();
        hole::make(&*self.kernel, &self.side, offset, len, Zeros::Write, &mut moved)?;
        self.cached((offset, len), moved.written);
        Ok(())
    }
}
