//! One side of a job with its direct I/O: through an open file of its own, or else by a flag that is turned on and off.

use std::os::fd::{AsFd, BorrowedFd};

use haul_sys::Errno;
use haul_sys::kernel::Kernel;
use haul_sys::rustix::param::page_size;

use super::buffer::is_aligned;
use super::calls::again;
use super::contract::{End, FailedOn, Side};
use super::transfer::{Transfer, failed};
use crate::moved::Refusal;

/// Whole pages even where the device takes sectors: smaller pieces would share a page with buffered neighbours, and ext4
/// takes its slow path for direct writes that are no whole blocks.
pub fn grain() -> usize {
    page_size().max(4096)
}

/// What a side's offsets, lengths and buffers are multiples of.
pub(super) fn align_of(side: &Side) -> usize {
    side.direct.map_or(grain(), |align| grain().max(align.memory as usize).max(align.offset as usize))
}

/// One side with its flag.
pub(super) struct Switch<'a> {
    side: &'a Side,
    /// It can still be direct.
    pub(super) capable: bool,
    pub(super) align: usize,
    memory: usize,
    was_on: bool,
    on: bool,
    /// What it said when it turned out that it cannot.
    pub(super) refusal: Option<Refusal>,
}

impl<'a> Switch<'a> {
    pub(super) fn new(kernel: &dyn Kernel, side: &'a Side) -> Result<Switch<'a>, Errno> {
        // With an open file of its own the flag of the other one is nobody's business, and is off.
        let on = side.direct_fd.is_none() && kernel.is_direct(side.as_fd())?;
        let capable = side.seekable && side.direct.is_some();
        let memory = side.direct.map_or(1, |align| align.memory.max(1) as usize);
        Ok(Switch { side, capable, align: align_of(side), memory, was_on: on, on, refusal: None })
    }

    /// The open file for a request that is direct, or not.
    pub(super) fn file(&self, direct: bool) -> BorrowedFd<'_> {
        match &self.side.direct_fd {
            Some(fd) if direct => fd.as_fd(),
            _ => self.side.as_fd(),
        }
    }

    fn turn(&mut self, kernel: &dyn Kernel, on: bool) -> Result<(), Errno> {
        if self.side.direct_fd.is_none() && self.on != on {
            kernel.set_direct(self.side.as_fd(), on)?;
            self.on = on;
        }
        Ok(())
    }

    /// Turns it on for what is aligned, off for the rest. A filesystem that refuses is buffered from then on.
    pub(super) fn turn_for(&mut self, kernel: &dyn Kernel, aligned: bool) -> Result<bool, Errno> {
        if self.capable && aligned {
            match self.turn(kernel, true) {
                Ok(()) => return Ok(true),
                Err(Errno::INVAL) => self.give_up(Errno::INVAL),
                Err(errno) => return Err(errno),
            }
        }
        self.turn(kernel, false)?;
        Ok(false)
    }

    pub(super) fn give_up(&mut self, errno: Errno) {
        self.capable = false;
        self.refusal = Some(Refusal::Unsupported(errno));
    }

    pub(super) fn restore(&mut self, kernel: &dyn Kernel) -> Result<(), Errno> {
        self.turn(kernel, self.was_on)
    }

    fn is_aligned(&self, at: u64, bytes: &[u8]) -> bool {
        at.is_multiple_of(self.align as u64) && is_aligned(bytes, self.memory)
    }

    /// Reads once, at least one byte unless the source ends; perhaps more than wanted.
    pub(super) fn read(&mut self, transfer: &Transfer<'_>, buffer: &mut [u8], want: usize) -> Result<usize, End> {
        let kernel = transfer.kernel;
        let read_failed = |errno| failed(FailedOn::Read, errno);
        let whole = want.next_multiple_of(self.align);
        let aligned = whole <= buffer.len() && self.is_aligned(transfer.at(), buffer);
        if self.turn_for(kernel, aligned).map_err(read_failed)? {
            match again(|| kernel.pread(self.file(true), &mut buffer[..whole], transfer.at())) {
                Ok(count) => return Ok(count),
                Err(Errno::INVAL) => {
                    self.give_up(Errno::INVAL);
                    self.turn(kernel, false).map_err(read_failed)?;
                }
                Err(errno) => return Err(read_failed(errno)),
            }
        }
        transfer.read(&mut buffer[..want])
    }

    /// Writes all the bytes at the place where the job stands.
    pub(super) fn write(&mut self, transfer: &mut Transfer<'_>, bytes: &[u8]) -> Result<(), End> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = transfer.at();
            let whole = rest.len() - rest.len() % self.align;
            let aligned = whole > 0 && self.is_aligned(at, rest);
            let direct = self.turn_for(transfer.kernel, aligned).map_err(write_failed)?;
            let piece = if direct { whole } else { self.buffered_piece(at, rest.len()) };
            let kernel = transfer.kernel;
            let wrote = match self.side.seekable {
                true => again(|| kernel.pwrite(self.file(direct), &rest[..piece], at)),
                false => again(|| kernel.write(self.side.as_fd(), &rest[..piece])),
            };
            match wrote {
                // A write that takes nothing and names no error would be tried for ever.
                Ok(0) => return Err(write_failed(Errno::NOSPC)),
                Ok(count) => {
                    transfer.moved.written += count as u64;
                    rest = &rest[count..];
                }
                Err(Errno::INVAL) if direct => self.give_up(Errno::INVAL),
                Err(errno) => return Err(write_failed(errno)),
            }
        }
        Ok(())
    }

    /// How much goes through the page cache: up to where direct I/O can go on.
    fn buffered_piece(&self, at: u64, len: usize) -> usize {
        let to_aligned = self.align - (at % self.align as u64) as usize;
        if self.capable { len.min(to_aligned) } else { len }
    }
}

pub(super) fn write_failed(errno: Errno) -> End {
    failed(FailedOn::Write, errno)
}
