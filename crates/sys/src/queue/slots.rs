//! The memory of a queue: slots that are either ours or the kernel's.

use std::ptr::{NonNull, null_mut};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::param::page_size;

use super::interface::{MOST_SLOTS, Request};
use crate::huge;

/// Page-aligned memory in slots of equal size.
#[derive(Debug)]
pub(super) struct Slots {
    start: NonNull<u8>,
    /// Bytes mapped; 0 before the first shape.
    mapped: usize,
    block: usize,
    /// For each slot: a request is at work in it.
    busy: Vec<bool>,
}

// SAFETY: the mapping is plain memory of the process. Who may touch which part of it is decided by `busy`, which only the
// owner of this value changes.
unsafe impl Send for Slots {}

impl Slots {
    pub(super) fn new() -> Slots {
        Slots { start: NonNull::dangling(), mapped: 0, block: 0, busy: Vec::new() }
    }

    /// Divides the memory anew. `true` if it is other memory than before.
    pub(super) fn shape(&mut self, block: usize, slots: usize) -> Result<bool, Errno> {
        self.idle()?;
        if block == 0 || !block.is_multiple_of(page_size()) || slots == 0 || slots > MOST_SLOTS {
            return Err(Errno::INVAL);
        }
        let need = block.checked_mul(slots).ok_or(Errno::INVAL)?;
        let grows = need > self.mapped;
        if grows {
            self.map(need)?;
        }
        self.block = block;
        self.busy = vec![false; slots];
        Ok(grows)
    }

    fn map(&mut self, len: usize) -> Result<(), Errno> {
        self.unmap();
        // SAFETY: a null hint lets the kernel choose unused addresses, so nothing that exists is replaced.
        let start = unsafe { mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)? };
        self.start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        self.mapped = len;
        // SAFETY: just mapped, and nobody else knows of it yet.
        huge::advise(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), len) });
        Ok(())
    }

    fn unmap(&mut self) {
        if self.mapped > 0 {
            // SAFETY: the range is the one that `map` made, no request is at work in it (all callers made sure), and no
            // reference into it outlives a borrow of self. It can fail only if that were not so; then address space is
            // lost and nothing else.
            unsafe { munmap(self.start.as_ptr().cast(), self.mapped) }.ok();
        }
        self.mapped = 0;
        self.block = 0;
        self.busy.clear();
    }

    /// Bytes of a slot, and how many there are.
    pub(super) fn layout(&self) -> (usize, usize) {
        (self.block, self.busy.len())
    }

    /// The whole memory, to be registered: first byte and length.
    pub(super) fn memory(&self) -> (*mut u8, usize) {
        (self.start.as_ptr(), self.mapped)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.contains(&true)
    }

    /// # Errors
    /// EBUSY while a request is at work.
    pub(super) fn idle(&self) -> Result<(), Errno> {
        if self.is_busy() { Err(Errno::BUSY) } else { Ok(()) }
    }

    pub(super) fn bytes(&mut self, slot: usize) -> Result<&mut [u8], Errno> {
        if *self.busy.get(slot).ok_or(Errno::INVAL)? {
            return Err(Errno::BUSY);
        }
        // SAFETY: slot < busy.len(), and `shape` made sure that busy.len() * block bytes are mapped: readable, writable and
        // initialised (zeros or what was read into them). No request is at work in this slot, and the borrow of self
        // keeps any from being started while the slice lives.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(slot * self.block), self.block) })
    }

    /// Gives a part of the slot to a request, until `release`: where it begins.
    pub(super) fn claim(&mut self, request: &Request) -> Result<*mut u8, Errno> {
        let busy = self.busy.get_mut(request.slot).ok_or(Errno::INVAL)?;
        if *busy {
            return Err(Errno::BUSY);
        }
        if request.len == 0 || request.start > self.block || request.len > self.block - request.start {
            return Err(Errno::INVAL);
        }
        *busy = true;
        // SAFETY: the slot exists (above), and `start` lies within it.
        Ok(unsafe { self.start.as_ptr().add(request.slot * self.block + request.start) })
    }

    pub(super) fn release(&mut self, slot: usize) {
        if let Some(busy) = self.busy.get_mut(slot) {
            *busy = false;
        }
    }

    /// The slots with a request at work.
    pub(super) fn busy(&self) -> impl Iterator<Item = usize> {
        self.busy.iter().enumerate().filter(|(_, busy)| **busy).map(|(slot, _)| slot)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // Memory that the kernel may still write to is never given back.
        if !self.is_busy() {
            self.unmap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(slot: usize, start: usize, len: usize) -> Request {
        Request { slot, write: false, file: 0, direct: false, start, len, offset: 0 }
    }

    #[test]
    fn the_bytes_of_a_busy_slot_are_out_of_reach() {
        let mut slots = Slots::new();
        assert_eq!(slots.shape(8192, 2), Ok(true));
        slots.claim(&request(1, 0, 8192)).unwrap();
        assert_eq!(slots.bytes(1).err(), Some(Errno::BUSY));
        assert_eq!(slots.claim(&request(1, 0, 1)).err(), Some(Errno::BUSY));
        assert_eq!(slots.shape(4096, 1), Err(Errno::BUSY));
        assert_eq!(slots.bytes(0).unwrap().len(), 8192);
        slots.release(1);
        assert_eq!(slots.bytes(1).unwrap().len(), 8192);
    }

    #[test]
    fn no_request_reaches_beyond_its_slot() {
        let mut slots = Slots::new();
        slots.shape(4096, 3).unwrap();
        for bad in [request(3, 0, 1), request(0, 0, 4097), request(0, 4096, 1), request(0, 1, 4096), request(0, 0, 0)] {
            assert_eq!(slots.claim(&bad).err(), Some(Errno::INVAL), "{bad:?}");
        }
        assert_eq!(slots.bytes(3).err(), Some(Errno::INVAL));
        assert!(slots.claim(&request(2, 4095, 1)).is_ok());
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        let mut slots = Slots::new();
        for (block, count) in [(0, 1), (4096, 0), (100, 1), (4096, MOST_SLOTS + 1), (usize::MAX & !4095, 2)] {
            assert_eq!(slots.shape(block, count), Err(Errno::INVAL), "{block} {count}");
        }
        assert_eq!(slots.shape(8192, 4), Ok(true));
        assert_eq!(slots.shape(4096, 8), Ok(false), "the same memory, divided otherwise");
    }
}
