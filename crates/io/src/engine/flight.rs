//! Blocks in flight: many reads and writes of one job at the same time, and the exact account of what they came to.
//!
//! Each block is read into a slot of the queue and written from the same memory. Reads and writes may end in any order,
//! but a block's write starts only when all blocks before it have been read: so nothing is ever written behind the place
//! where the source turns out to end. Blocks are counted in order, up to the first that is not whole.
//!
//! What a queue cannot do (an odd remainder of a short direct request, an answer that means "not in this way") is done
//! at once by a plain call, whose answer is final.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use haul_sys::Errno;
use haul_sys::queue::{Completion, Queue, Request};

use super::calls::{again, write_some};
use super::contract::{End, FailedOn};
use super::hole::{self, Hole};
use super::transfer::{Transfer, failed};
use crate::moved::{Moved, Refusal};

/// The files of a flight, in the order in which the queue has opened them.
pub(super) const SOURCE: usize = 0;
pub(super) const SOURCE_DIRECT: usize = 1;
pub(super) const DEST: usize = 2;
pub(super) const DEST_DIRECT: usize = 3;

#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    /// Offsets of the first byte and of the one after the last, multiples of `align`.
    pub(super) start: u64,
    pub(super) end: u64,
    /// What direct requests are multiples of, at least a page.
    pub(super) align: usize,
    /// Bytes of a block, a multiple of `align`.
    pub(super) block: usize,
    /// Blocks in flight.
    pub(super) slots: usize,
    /// Which sides are open with O_DIRECT too.
    pub(super) source_direct: bool,
    pub(super) dest_direct: bool,
    /// Without O_DIRECT the queue is no use.
    pub(super) needs_direct: bool,
}

pub(super) enum Landing {
    Arrived,
    Early(End),
    /// The queue broke down, perhaps with requests at work: it must not be used again.
    Broken(Errno),
}

/// A piece of the file on its way.
#[derive(Debug)]
struct Block {
    /// Counts up; its slot is the remainder.
    number: usize,
    offset: u64,
    /// Bytes wanted; fewer once it is known that no more will come.
    len: usize,
    have: usize,
    /// Bytes written or left as holes, from its beginning on.
    done: usize,
    /// Bytes of `done` that are holes.
    holes: usize,
    /// A request is at work.
    flying: bool,
}

impl Block {
    fn is_done(&self) -> bool {
        !self.flying && self.have == self.len && self.done == self.len
    }
}

/// What became of a step.
#[derive(PartialEq, Eq)]
enum Step {
    /// The block came further, or needs no more; look at it again.
    Done,
    /// A request is under way, or must wait for room in the queue.
    Waits,
}

pub(super) struct Flight<'f, 'j> {
    transfer: &'f mut Transfer<'j>,
    queue: &'f mut dyn Queue,
    route: Route,
    /// In the order of the file; only the last ones are still being read.
    blocks: VecDeque<Block>,
    /// Blocks started so far.
    started: usize,
    flying: usize,
    /// Offset of the next block.
    next: u64,
    /// The first byte that will not be moved, and why.
    cut: Option<(u64, End)>,
    /// No new blocks: the queue is of no use here.
    refusal: Option<Refusal>,
    hole: Hole,
    hole_block: Option<u32>,
}

impl<'f, 'j> Flight<'f, 'j> {
    pub(super) fn new(transfer: &'f mut Transfer<'j>, queue: &'f mut dyn Queue, route: Route) -> Flight<'f, 'j> {
        // Whole pages, so that a direct request never shares a page with a hole.
        let align = u32::try_from(route.align).unwrap_or(1 << 31);
        let hole_block = transfer.hole_block().map(|block| block.checked_next_multiple_of(align).unwrap_or(1 << 31));
        Flight {
            transfer,
            queue,
            blocks: VecDeque::with_capacity(route.slots),
            started: 0,
            flying: 0,
            next: route.start,
            cut: None,
            refusal: None,
            hole: Hole::default(),
            hole_block,
            route,
        }
    }

    /// Moves the bytes of the route, which begins where the transfer stands.
    pub(super) fn run(mut self) -> Landing {
        let mut done = Vec::with_capacity(self.route.slots);
        loop {
            self.start_blocks();
            self.step_all();
            if self.retire() {
                // There is room for more before it is worth waiting.
                continue;
            }
            if self.flying == 0 {
                break;
            }
            match self.queue.wait(&mut done) {
                Ok(()) => done.drain(..).for_each(|completion| self.complete(completion)),
                Err(Errno::INTR) => {}
                Err(errno) => return Landing::Broken(errno),
            }
        }
        match (self.cut, self.refusal) {
            (Some((_, end)), _) => Landing::Early(end),
            (None, Some(refusal)) if self.next < self.route.end => Landing::Early(End::Refused(refusal)),
            _ => Landing::Arrived,
        }
    }

    fn wants_more(&self) -> bool {
        self.next < self.route.end && self.cut.is_none() && self.refusal.is_none()
    }

    fn start_blocks(&mut self) {
        while self.blocks.len() < self.route.slots && self.wants_more() {
            let left = self.route.end - self.next;
            let mut len = usize::try_from(left).map_or(self.route.block, |left| left.min(self.route.block));
            if let Some(hole_block) = self.hole_block {
                // It ends where a block of zeros could end, and is a multiple of the alignment like it.
                let over = ((self.next + len as u64) % u64::from(hole_block)) as usize;
                if over < len && len as u64 != left {
                    len -= over;
                }
            }
            let number = self.started;
            self.blocks.push_back(Block { number, offset: self.next, len, have: 0, done: 0, holes: 0, flying: false });
            self.started += 1;
            self.next += len as u64;
        }
    }

    /// Does for every block what can be done now, in the order of the file.
    fn step_all(&mut self) {
        let mut all_read = true;
        for index in 0..self.blocks.len() {
            while !self.blocks[index].flying {
                if self.is_cut_off(index) {
                    let block = &mut self.blocks[index];
                    (block.len, block.have, block.done, block.holes) = (0, 0, 0, 0);
                }
                let block = &self.blocks[index];
                let step = match block {
                    Block { have, len, .. } if have < len => self.read(index),
                    Block { done, len, .. } if done < len && all_read => self.write(index),
                    _ => break,
                };
                if step == Step::Waits {
                    break;
                }
            }
            all_read &= self.blocks[index].have == self.blocks[index].len;
        }
    }

    /// The block begins behind the first byte that will not be moved.
    fn is_cut_off(&self, index: usize) -> bool {
        self.cut.is_some_and(|(at, _)| self.blocks[index].offset > at)
    }

    /// Counts the blocks that are done, up to the first that is not. Whether there were any.
    fn retire(&mut self) -> bool {
        let before = self.blocks.len();
        while self.blocks.front().is_some_and(Block::is_done) {
            let cut_off = self.is_cut_off(0);
            if let Some(block) = self.blocks.pop_front()
                && !cut_off
            {
                let (written, holes) = ((block.done - block.holes) as u64, block.holes as u64);
                self.transfer.moved += Moved { written, holes, ..Moved::default() };
            }
        }
        self.blocks.len() < before
    }

    /// The block goes no further than it has come; the earliest such place in the file is where the job ends.
    fn end_at(&mut self, index: usize, came_to: usize, end: End) {
        let block = &mut self.blocks[index];
        block.len = came_to;
        block.have = came_to;
        let at = block.offset + came_to as u64;
        if self.cut.is_none_or(|(earliest, _)| at < earliest) {
            self.cut = Some((at, end));
        }
    }

    fn read(&mut self, index: usize) -> Step {
        let block = &self.blocks[index];
        let direct = self.route.source_direct;
        if direct && !block.have.is_multiple_of(self.route.align) {
            return self.read_now(index);
        }
        let request = Request {
            slot: block.number % self.route.slots,
            write: false,
            file: if direct { SOURCE_DIRECT } else { SOURCE },
            direct,
            start: block.have,
            len: block.len - block.have,
            offset: block.offset + block.have as u64,
        };
        if self.push(index, &request) { Step::Waits } else { self.read_now(index) }
    }

    /// Whether the request is at work, or will be when there is room.
    fn push(&mut self, index: usize, request: &Request) -> bool {
        match self.queue.push(request) {
            Ok(()) => {
                self.blocks[index].flying = true;
                self.flying += 1;
                true
            }
            Err(errno) => errno == Errno::AGAIN && self.flying > 0,
        }
    }

    /// Reads the rest of the block by plain calls.
    fn read_now(&mut self, index: usize) -> Step {
        let (kernel, source) = (self.transfer.kernel, &self.transfer.job.source);
        let block = &mut self.blocks[index];
        let end = loop {
            let slot = block.number % self.route.slots;
            let (have, len, at) = (block.have, block.len, block.offset + block.have as u64);
            if have == len {
                return Step::Done;
            }
            let read = self.queue.buffer(slot).and_then(|bytes| {
                let bytes = bytes.get_mut(have..len).ok_or(Errno::INVAL)?;
                again(|| kernel.pread(source.as_fd(), &mut *bytes, at))
            });
            match read {
                Ok(0) => break End::SourceEnd,
                Ok(count) => block.have += count.min(len - have),
                Err(errno) => break failed(FailedOn::Read, errno),
            }
        };
        let have = block.have;
        self.end_at(index, have, end);
        Step::Done
    }

    fn write(&mut self, index: usize) -> Step {
        let block = &self.blocks[index];
        let (slot, done, at) = (block.number % self.route.slots, block.done, block.offset + block.done as u64);
        let (zero, mut len) = match self.next_run(index) {
            Ok(run) => run,
            Err(errno) => {
                self.end_at(index, done, failed(FailedOn::Write, errno));
                return Step::Done;
            }
        };
        if zero && self.leave_hole(index, at, len) {
            return Step::Done;
        }
        let direct = self.route.dest_direct;
        if direct {
            // The end of a source that shrank, or a short count's remainder, up to where direct requests can go on.
            let inside = done % self.route.align;
            if inside > 0 || len < self.route.align {
                return self.write_now(index, len.min(self.route.align - inside));
            }
            len -= len % self.route.align;
        }
        let file = if direct { DEST_DIRECT } else { DEST };
        let request = Request { slot, write: true, file, direct, start: done, len, offset: at };
        if self.push(index, &request) { Step::Waits } else { self.write_now(index, len) }
    }

    /// What is to be written next: how many bytes, and whether they may become a hole.
    fn next_run(&mut self, index: usize) -> Result<(bool, usize), Errno> {
        let block = &self.blocks[index];
        let bytes = self.queue.buffer(block.number % self.route.slots)?;
        let bytes = bytes.get(block.done..block.len).ok_or(Errno::INVAL)?;
        let at = block.offset + block.done as u64;
        let run = self.hole_block.and_then(|hole_block| hole::runs(bytes, at, hole_block).next());
        Ok(run.map_or((false, bytes.len()), |run| (run.zero, run.range.len())))
    }

    /// Whether the zeros are dealt with: they are a hole now, or nothing can be done and the job ends here.
    fn leave_hole(&mut self, index: usize, at: u64, len: usize) -> bool {
        let (kernel, job) = (self.transfer.kernel, self.transfer.job);
        match self.hole.leave(kernel, &job.dest, at, len as u64, job.zeros) {
            Ok(false) => false,
            Ok(true) => {
                let block = &mut self.blocks[index];
                block.done += len;
                block.holes += len;
                true
            }
            Err(failure) => {
                let done = self.blocks[index].done;
                self.end_at(index, done, End::Failed(failure));
                true
            }
        }
    }

    /// Writes some of the next `len` bytes of the block by a plain call.
    fn write_now(&mut self, index: usize, len: usize) -> Step {
        let (kernel, dest) = (self.transfer.kernel, &self.transfer.job.dest);
        let block = &mut self.blocks[index];
        let (done, at) = (block.done, block.offset + block.done as u64);
        let written = self.queue.buffer(block.number % self.route.slots).and_then(|bytes| {
            let bytes = bytes.get(done..done + len).ok_or(Errno::INVAL)?;
            write_some(kernel, dest, bytes, at)
        });
        match written {
            Ok(count) => block.done += count.min(len),
            Err(errno) => self.end_at(index, done, failed(FailedOn::Write, errno)),
        }
        Step::Done
    }

    fn complete(&mut self, completion: Completion) {
        // The blocks have successive numbers, so each slot is used by one of them at most.
        let slots = self.route.slots;
        let Some(index) = self.blocks.iter().position(|block| block.flying && block.number % slots == completion.slot)
        else {
            return;
        };
        self.flying -= 1;
        let block = &mut self.blocks[index];
        block.flying = false;
        let (have, len, done) = (block.have, block.len, block.done);
        let reading = have < len;
        match (completion.result, reading) {
            (Ok(0), true) => self.end_at(index, have, End::SourceEnd),
            (Ok(count), true) => block.have += count.min(len - have),
            // A write that takes nothing and names no error would be tried for ever.
            (Ok(0), false) => self.end_at(index, done, failed(FailedOn::Write, Errno::NOSPC)),
            (Ok(count), false) => block.done += count.min(len - done),
            (Err(Errno::INTR), _) => {}
            (Err(errno), _) if means_another_way(errno) => self.go_another_way(index, reading, errno),
            (Err(errno), true) => self.end_at(index, have, failed(FailedOn::Read, errno)),
            (Err(errno), false) => self.end_at(index, done, failed(FailedOn::Write, errno)),
        }
    }

    /// Does by plain calls what the queue would not do, and learns from its answer.
    fn go_another_way(&mut self, index: usize, reading: bool, errno: Errno) {
        match errno {
            // For now only: out of resources, or cancelled.
            Errno::AGAIN | Errno::CANCELED => {}
            Errno::INVAL => {
                // A device with stricter rules than it reports: that side is buffered from now on.
                let route = &mut self.route;
                *(if reading { &mut route.source_direct } else { &mut route.dest_direct }) = false;
                if route.needs_direct && !route.source_direct && !route.dest_direct {
                    self.refusal = Some(Refusal::Unsupported(errno));
                }
            }
            _ => self.refusal = Some(Refusal::Unsupported(errno)),
        }
        if reading {
            self.read_now(index);
            return;
        }
        // Not more than what the request was for: zeros behind it may become holes.
        if let Ok((_, len)) = self.next_run(index) {
            self.write_now(index, len);
        }
    }
}

/// Answers that say nothing about the bytes, only about this way of asking for them. A plain call has the last word.
fn means_another_way(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::AGAIN
            | Errno::CANCELED
            | Errno::INVAL
            | Errno::NOSYS
            | Errno::OPNOTSUPP
            | Errno::PERM
            | Errno::ACCESS
            | Errno::BADF
    )
}
