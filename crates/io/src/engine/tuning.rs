//! What may be set about an engine, and the sizes that follow from it.

use std::time::Duration;

use super::buffer::AlignedBuffer;

/// What may be set about an engine, by the user or by the strategy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tuning {
    /// Bytes moved by one pair of system calls (buffer, pipe or mapped segment); `None` takes the engine's own. It is
    /// used as it is, but rounded up to what alignment needs, and a pipe may get less; 0 counts as 1.
    pub buffer_size: Option<usize>,
    /// Requests in flight at the same time, for the asynchronous engines; `None` takes the engine's own. They take at most
    /// 32, and fewer, at least one, if 16 MiB of memory do not suffice for so many buffers.
    pub depth: Option<usize>,
    /// No space is allocated before it is written; the asynchronous engines do that otherwise.
    pub no_preallocation: bool,
    /// How long one call of copy_file_range may wait, as far as signals interrupt it; `None` for as long as it takes.
    pub patience: Option<Duration>,
}

impl Tuning {
    /// A buffer of so many bytes, aligned to `align`. Unless its size was asked for it is smaller where memory is short.
    pub(super) fn buffer(&self, len: usize, align: usize) -> AlignedBuffer {
        if self.buffer_size.is_some() { AlignedBuffer::new(len, align) } else { AlignedBuffer::up_to(len, align) }
    }

    /// The size to use, at most what one system call moves.
    pub(super) fn buffer_size_or(&self, default: usize) -> usize {
        self.buffer_size.unwrap_or(default).clamp(1, LARGEST_COUNT)
    }
}

/// The most that one read(2) or write(2) moves: INT_MAX rounded down to a page.
const LARGEST_COUNT: usize = 0x7fff_f000;

/// Jobs of this many bytes take some ten milliseconds to a second: often enough for progress and cancellation, and
/// too long for the cost of a job to show.
pub(super) const USEFUL_JOB: u64 = 64 << 20;

/// About so many bytes, in whole buffers: so each of them is full.
pub(super) fn whole_buffers(bytes: u64, buffer: usize) -> u64 {
    let buffer = buffer.max(1) as u64;
    (bytes / buffer).max(1) * buffer
}
