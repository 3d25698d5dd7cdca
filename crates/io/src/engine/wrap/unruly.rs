//! A kernel that interrupts and stops short, as the real one may at any time.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::queue::{Completion, Queue, Request};
use parking_lot::Mutex;

use super::dice::Dice;
use super::hooked::{Call, Hook, Hooked};

/// Every call that moves bytes is sometimes interrupted (EINTR) and often moves fewer bytes than asked for.
#[derive(Debug)]
pub struct Unruly {
    dice: Mutex<Dice>,
    longest: u64,
}

impl Unruly {
    /// Counts of 1 to `longest` bytes, one call in four interrupted.
    pub fn new(seed: u64, longest: u64) -> Hooked<Unruly> {
        Hooked(Unruly { dice: Mutex::new(Dice(seed)), longest })
    }
}

impl Hook for Unruly {
    fn before(&self, call: Call) -> Result<usize, Errno> {
        if call == Call::Map {
            return Ok(usize::MAX);
        }
        let mut dice = self.dice.lock();
        if dice.roll().is_multiple_of(4) {
            return Err(Errno::INTR);
        }
        Ok(usize::try_from(dice.length(self.longest)).unwrap_or(usize::MAX))
    }

    fn queue(&self, queue: Box<dyn Queue>) -> Box<dyn Queue> {
        let seed = self.dice.lock().roll();
        Box::new(UnrulyQueue {
            inner: queue,
            dice: Dice(seed),
            longest: self.longest,
            made_up: Vec::new(),
            cuts: Vec::new(),
        })
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
