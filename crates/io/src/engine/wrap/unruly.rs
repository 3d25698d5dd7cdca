//! A kernel that interrupts and stops short, as the real one may at any time.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::kernel::{Fd, Kernel, Linux};
use haul_sys::map::Mapping;
use haul_sys::queue::{Completion, Queue, QueueKind, Request};
use parking_lot::Mutex;

use super::dice::Dice;

/// Every call that moves bytes is sometimes interrupted (EINTR) and often moves fewer bytes than asked for.
#[derive(Debug)]
pub struct Unruly {
    dice: Mutex<Dice>,
    longest: u64,
}

impl Unruly {
    /// Counts of 1 to `longest` bytes, one call in four interrupted.
    pub fn new(seed: u64, longest: u64) -> Unruly {
        Unruly { dice: Mutex::new(Dice(seed)), longest }
    }

    /// EINTR, or how much of `len` this call may move.
    fn most(&self, len: usize) -> Result<usize, Errno> {
        let mut dice = self.dice.lock();
        if dice.roll().is_multiple_of(4) {
            return Err(Errno::INTR);
        }
        let most = dice.length(self.longest);
        Ok(usize::try_from(most).map_or(len, |most| most.min(len)))
    }
}

impl Kernel for Unruly {
    fn read(&self, fd: Fd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
        let most = self.most(buffer.len())?;
        Linux.read(fd, &mut buffer[..most])
    }

    fn write(&self, fd: Fd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        Linux.write(fd, &bytes[..self.most(bytes.len())?])
    }

    fn pread(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let most = self.most(buffer.len())?;
        if Linux.is_direct(fd)? {
            // The request stays aligned; a short count is what may come back.
            return Ok(Linux.pread(fd, buffer, offset)?.min(most));
        }
        Linux.pread(fd, &mut buffer[..most], offset)
    }

    fn pwrite(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        let mut most = self.most(bytes.len())?;
        if Linux.is_direct(fd)? {
            most = most.next_multiple_of(512).min(bytes.len());
        }
        Linux.pwrite(fd, &bytes[..most], offset)
    }

    fn pread_dontcache(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let most = self.most(buffer.len())?;
        Linux.pread_dontcache(fd, &mut buffer[..most], offset)
    }

    fn pwrite_dontcache(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        Linux.pwrite_dontcache(fd, &bytes[..self.most(bytes.len())?], offset)
    }

    fn copy_file_range(&self, source: Fd<'_>, dest: Fd<'_>, offset: u64, len: usize) -> Result<usize, Errno> {
        Linux.copy_file_range(source, dest, offset, self.most(len)?)
    }

    fn clone_file(&self, source: Fd<'_>, dest: Fd<'_>) -> Result<(), Errno> {
        self.most(1)?;
        Linux.clone_file(source, dest)
    }

    fn clone_range(&self, source: Fd<'_>, dest: Fd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
        self.most(1)?;
        Linux.clone_range(source, dest, offset, len)
    }

    fn splice(&self, source: (Fd<'_>, Option<u64>), dest: (Fd<'_>, Option<u64>), len: usize) -> Result<usize, Errno> {
        Linux.splice(source, dest, self.most(len)?)
    }

    fn write_mapped(
        &self,
        fd: Fd<'_>,
        mapping: &Mapping,
        from: usize,
        len: usize,
        offset: Option<u64>,
    ) -> Result<usize, Errno> {
        let mut most = self.most(len)?;
        if Linux.is_direct(fd)? {
            most = most.next_multiple_of(512).min(len);
        }
        Linux.write_mapped(fd, mapping, from, most, offset)
    }

    fn punch_hole(&self, fd: Fd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
        self.most(1)?;
        Linux.punch_hole(fd, offset, len)
    }

    fn seek_data(&self, fd: Fd<'_>, offset: u64) -> Result<u64, Errno> {
        self.most(1)?;
        Linux.seek_data(fd, offset)
    }

    fn seek_hole(&self, fd: Fd<'_>, offset: u64) -> Result<u64, Errno> {
        self.most(1)?;
        Linux.seek_hole(fd, offset)
    }

    fn queue(&self, kind: QueueKind) -> Result<Box<dyn Queue>, Errno> {
        let seed = self.dice.lock().roll();
        let inner = Linux.queue(kind)?;
        Ok(Box::new(UnrulyQueue {
            inner,
            dice: Dice(seed),
            longest: self.longest,
            made_up: Vec::new(),
            cuts: Vec::new(),
        }))
    }
}

/// A queue whose requests are sometimes interrupted, turned away (EAGAIN) or called off, and often done in part.
#[derive(Debug)]
struct UnrulyQueue {
    inner: Box<dyn Queue>,
    dice: Dice,
    longest: u64,
    /// Completions of requests that the queue never saw.
    made_up: Vec<Completion>,
    /// Slots, and the most that their completion may tell.
    cuts: Vec<(usize, usize)>,
}

impl UnrulyQueue {
    fn is_made_up(&self, slot: usize) -> bool {
        self.made_up.iter().any(|completion| completion.slot == slot)
    }
}

impl Queue for UnrulyQueue {
    fn shape(&mut self, block: usize, slots: usize) -> Result<(), Errno> {
        self.inner.shape(block, slots)
    }

    fn open(&mut self, files: &[Arc<OwnedFd>]) -> Result<(), Errno> {
        self.inner.open(files)
    }

    fn close(&mut self) -> Result<(), Errno> {
        if self.made_up.is_empty() { self.inner.close() } else { Err(Errno::BUSY) }
    }

    fn buffer(&mut self, slot: usize) -> Result<&mut [u8], Errno> {
        if self.is_made_up(slot) { Err(Errno::BUSY) } else { self.inner.buffer(slot) }
    }

    fn push(&mut self, request: &Request) -> Result<(), Errno> {
        let Request { slot, len, .. } = *request;
        if self.is_made_up(slot) {
            return Err(Errno::BUSY);
        }
        let errno = match self.dice.roll() % 12 {
            0 | 1 => Some(Errno::INTR),
            2 => Some(Errno::AGAIN),
            3 => Some(Errno::CANCELED),
            4 => return Err(Errno::AGAIN),
            _ => None,
        };
        if let Some(errno) = errno {
            self.made_up.push(Completion { slot, result: Err(errno) });
            return Ok(());
        }
        let most = usize::try_from(self.dice.length(self.longest)).map_or(len, |most| most.min(len));
        match (request.direct, request.write) {
            // The request stays aligned; a short count is what may come back. Of a write nothing may be left out.
            (true, false) => {
                self.inner.push(request)?;
                self.cuts.push((slot, most));
                Ok(())
            }
            (true, true) => self.inner.push(&Request { len: most.next_multiple_of(512).min(len), ..*request }),
            (false, _) => self.inner.push(&Request { len: most, ..*request }),
        }
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> Result<(), Errno> {
        if self.dice.roll().is_multiple_of(4) {
            return Err(Errno::INTR);
        }
        if !self.made_up.is_empty() {
            done.append(&mut self.made_up);
            return Ok(());
        }
        let before = done.len();
        self.inner.wait(done)?;
        for completion in &mut done[before..] {
            if let Some(cut) = self.cuts.iter().position(|(slot, _)| *slot == completion.slot) {
                let (_, most) = self.cuts.swap_remove(cut);
                completion.result = completion.result.map(|count| count.min(most));
            }
        }
        Ok(())
    }
}
