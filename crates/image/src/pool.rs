//! Buffers that go round: leased by the reader, given back by the writer.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use haul_io::engine::buffer::AlignedBuffer;
use haul_io::engine::hole::Run;

/// All buffers together, in bytes, unless three of them are more.
const MEMORY: usize = 16 << 20;

/// Most buffers; more in flight make nothing faster.
const MOST: usize = 64;

/// A buffer, and what was found in it.
pub(super) struct Buffer {
    pub(super) memory: AlignedBuffer,
    /// Runs of zero blocks and of others, in order, without gaps.
    pub(super) runs: Vec<Run>,
}

/// What goes through the queues.
pub(super) enum Message {
    /// The first `len` bytes of the buffer stand at `offset`.
    Data { offset: u64, len: usize, buffer: Box<Buffer> },
    /// A range that was not read.
    Skip { offset: u64, len: u64 },
}

/// The pool: where buffers are leased, and where they are given back.
pub(super) fn pool(buffer_size: usize, align: usize) -> (SyncSender<Box<Buffer>>, Receiver<Box<Buffer>>) {
    let count = count(buffer_size);
    let (give, lease) = sync_channel(count);
    for _ in 0..count {
        let buffer = Buffer { memory: AlignedBuffer::new(buffer_size, align), runs: Vec::new() };
        // There is room for all, and the other end is in this function.
        give.try_send(Box::new(buffer)).ok();
    }
    (give, lease)
}

pub(super) fn count(buffer_size: usize) -> usize {
    (MEMORY / buffer_size.max(1)).clamp(3, MOST)
}

/// A queue of half as many messages as there are buffers: the reader and the writer each may be that far apart from the
/// scanner.
pub(super) fn queue(buffer_size: usize) -> (SyncSender<Message>, Receiver<Message>) {
    sync_channel(count(buffer_size).div_ceil(2))
}
