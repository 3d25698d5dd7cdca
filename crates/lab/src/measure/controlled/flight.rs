//! Files whose requests are in flight together: what an asynchronous copier does.
//!
//! Each block is read into a slot and written from it as soon as it is there. A program that gives every file a buffer
//! of its own, as those of 2019 did, runs out of memory; here at most [`MOST_SLOTS`] requests are in flight.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::kernel::Kernel;
use haul_sys::queue::{Completion, MOST_SLOTS, Queue, QueueKind, Request};

use super::method::Method;
use super::pair::{PAGE, Pair, failed, refused};
use super::recorder::{Act, Recorder};
use crate::measure::failure::Failure;

/// Files that are open together: with both sides fewer descriptors than the usual limit of 1024.
pub(super) const MOST_FILES: usize = 256;

/// Bytes of all slots together.
const MEMORY: u64 = 64 << 20;

/// A block of a file on its way.
#[derive(Debug, Clone, Copy)]
struct Block {
    /// Which pair.
    pair: usize,
    offset: u64,
    len: usize,
    /// Bytes that were read, or written, already.
    done: usize,
    /// It was read, and is being written.
    writing: bool,
}

/// Moves the bytes of all pairs, and has what a queue is asked written down. With O_DIRECT, which is off again then, that is whole
/// pages: it says of how many bytes a file's last ones are left.
pub(super) fn run(
    (kernel, recorder): (&dyn Kernel, &Recorder),
    kind: QueueKind,
    method: &Method,
    pairs: &[Pair],
) -> Result<u64, Failure> {
    let unavailable = |errno| refused("this interface is not to be had here", errno);
    let request = usize::try_from(method.request).unwrap_or(usize::MAX).next_multiple_of(PAGE as usize);
    let slots = usize::try_from(MEMORY / request as u64).unwrap_or(1).clamp(1, MOST_SLOTS);
    let mut queue = kernel.queue(kind).map_err(unavailable)?;
    queue.shape(request, slots).map_err(unavailable)?;
    let turn = |on: bool| {
        let sides =
            pairs.iter().flat_map(|pair| [(&pair.source, method.direct_source), (&pair.dest, method.direct_dest)]);
        sides.filter(|(_, direct)| *direct).try_for_each(|(fd, _)| kernel.set_direct(fd.as_fd(), on))
    };
    turn(true).map_err(|errno| refused("there is no direct I/O here", errno))?;
    let files: Vec<_> = pairs.iter().flat_map(|pair| [&pair.source, &pair.dest]).map(Arc::clone).collect();
    queue.open(&files).map_err(unavailable)?;
    let whole = if method.direct_source || method.direct_dest { u64::from(PAGE) } else { 1 };
    let mut left: VecDeque<Block> = pairs
        .iter()
        .enumerate()
        .flat_map(|(number, pair)| blocks(number, pair.size / whole * whole, request))
        .collect();
    fly(&mut *queue, slots, &mut left, (method, pairs, recorder))?;
    queue
        .close()
        .and_then(|()| turn(false))
        .map_err(|errno| Failure::Failed(haul_measure::words::of(&errno.into())))?;
    Ok(whole)
}

fn blocks(pair: usize, size: u64, request: usize) -> impl Iterator<Item = Block> {
    (0..size).step_by(request).map(move |offset| {
        let len = usize::try_from(size - offset).map_or(request, |left| left.min(request));
        Block { pair, offset, len, done: 0, writing: false }
    })
}

/// Keeps the slots busy until all blocks are written.
fn fly(
    queue: &mut dyn Queue,
    slots: usize,
    left: &mut VecDeque<Block>,
    (method, pairs, recorder): (&Method, &[Pair], &Recorder),
) -> Result<(), Failure> {
    let mut at_work: Vec<Option<Block>> = vec![None; slots];
    let mut done = Vec::new();
    loop {
        for (slot, place) in at_work.iter_mut().enumerate().filter(|(_, place)| place.is_none()) {
            let Some(block) = left.pop_front() else { break };
            push(queue, method, slot, &block).map_err(|errno| failed(&pairs[block.pair], errno))?;
            *place = Some(block);
        }
        if at_work.iter().all(Option::is_none) {
            return Ok(());
        }
        match queue.wait(&mut done) {
            Ok(()) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure::Failed(haul_measure::words::of(&errno.into()))),
        }
        for Completion { slot, result } in done.drain(..) {
            let Some(block) = at_work.get_mut(slot).and_then(Option::take) else { continue };
            let pair = &pairs[block.pair];
            let (act, side) =
                if block.writing { (Act::QueueWrite, &pair.dest) } else { (Act::QueueRead, &pair.source) };
            let moved = *result.as_ref().unwrap_or(&0);
            recorder.note(act, side.as_fd(), (block.len - block.done) as u64, moved as u64);
            let next = result.and_then(|count| advance(block, count)).map_err(|errno| failed(pair, errno))?;
            if let Some(next) = next {
                push(queue, method, slot, &next).map_err(|errno| failed(pair, errno))?;
            }
            at_work[slot] = next;
        }
    }
}

/// What becomes of a block of which `count` bytes more are read or written; nothing more if it is written.
fn advance(block: Block, count: usize) -> Result<Option<Block>, Errno> {
    let done = block.done + count;
    match (done < block.len, block.writing) {
        // The source has become shorter, or the device takes no more.
        (true, writing) if count == 0 => Err(if writing { Errno::NOSPC } else { Errno::NODATA }),
        (true, _) => Ok(Some(Block { done, ..block })),
        (false, false) => Ok(Some(Block { done: 0, writing: true, ..block })),
        (false, true) => Ok(None),
    }
}

fn push(queue: &mut dyn Queue, method: &Method, slot: usize, block: &Block) -> Result<(), Errno> {
    let (side, direct) = if block.writing { (1, method.direct_dest) } else { (0, method.direct_source) };
    queue.push(&Request {
        slot,
        write: block.writing,
        file: 2 * block.pair + side,
        direct,
        start: block.done,
        len: block.len - block.done,
        offset: block.offset + block.done as u64,
    })
}
