//! A buffer aligned for direct I/O.

use haul_sys::huge::{self, HUGE_PAGE};
use haul_sys::memory;
use haul_sys::rustix::param::page_size;

/// Where memory is short a buffer is no smaller than this: below it system calls show.
const SMALLEST: usize = 64 << 10;

/// Bytes in memory whose first one has an address that is a multiple of the alignment.
#[derive(Debug)]
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// `len` bytes, aligned to `align`, a power of two, and in huge pages where they are worth it and to be had. The memory
    /// is taken from the system when it is touched.
    pub fn new(len: usize, align: usize) -> AlignedBuffer {
        let (bytes, align) = room(len, align);
        AlignedBuffer::within(vec![0; bytes], len, align)
    }

    fn within(memory: Vec<u8>, len: usize, align: usize) -> AlignedBuffer {
        // Plain arithmetic, since `align_offset` may decline to answer.
        let start = memory.as_ptr().addr().wrapping_neg() & (align - 1);
        let mut buffer = AlignedBuffer { memory, start, len };
        if is_huge(len) {
            huge::advise(buffer.bytes());
        }
        buffer
    }

    /// The same, or as much of it as there is memory for: its half, or the half of that, but never less than 64 KiB or the
    /// alignment. Of what a limit leaves (`ulimit -v`) it takes a quarter at most: others need some, too.
    pub(crate) fn up_to(len: usize, align: usize) -> AlignedBuffer {
        let fewest = SMALLEST.max(align);
        let left = memory::left().and_then(|left| usize::try_from(left).ok());
        let mut len = len;
        while len > fewest && left.is_some_and(|left| len > left / 4) {
            len = (len / 2).next_multiple_of(align).max(fewest);
        }
        while len > fewest {
            let (bytes, place) = room(len, align);
            if let Some(memory) = memory::zeros(bytes) {
                return AlignedBuffer::within(memory, len, place);
            }
            len = (len / 2).next_multiple_of(align).max(fewest);
        }
        AlignedBuffer::new(len, align)
    }

    /// The same for what goes through the page cache, at the beginning of a page. Some processors copy bytes in the kernel to
    /// and from memory that is not aligned with the page at a fraction of the speed (AMD EPYC, `rep movsb`: 2.5 GiB/s to an
    /// address that malloc gave, 11 GiB/s to a page).
    pub(crate) fn for_copying(len: usize) -> AlignedBuffer {
        AlignedBuffer::new(len, page_size())
    }

    /// Its size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All of it.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

fn is_huge(len: usize) -> bool {
    len >= 2 * HUGE_PAGE
}

/// How many bytes have room for an aligned buffer, wherever they begin, and the alignment that it gets.
fn room(len: usize, align: usize) -> (usize, usize) {
    let align = if is_huge(len) { align.max(HUGE_PAGE) } else { align };
    (len + align - 1, align)
}

/// Whether the bytes stand at a multiple of `align`, a power of two.
pub fn is_aligned(bytes: &[u8], align: usize) -> bool {
    bytes.as_ptr().addr() & (align - 1) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_and_whole() {
        for align in [1, 512, 4096, 1 << 16] {
            for len in [1, 4096, 100_000, 5 << 20] {
                let mut buffer = AlignedBuffer::new(len, align);
                assert_eq!(buffer.bytes().len(), len);
                assert!(is_aligned(buffer.bytes(), align), "{align}");
            }
        }
    }
}
