//! Zeros and holes: finding the ones, making the others.

use std::ops::Range;
use std::os::fd::AsFd;

use haul_sys::Errno;
use haul_sys::kernel::Kernel;

use super::calls::{again, write_some};
use super::contract::{FailedOn, Failure, Side, Zeros};
use super::errnos::refuses_hole;
use crate::moved::Moved;

/// Zeros to compare with and to write; as large as the blocks that most filesystems have.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Whether all bytes are zero.
///
/// The first byte decides for nearly all data; what is left goes to memcmp against zeros that stay in the first-level cache.
pub fn is_zero(bytes: &[u8]) -> bool {
    bytes.first().is_none_or(|first| *first == 0) && bytes.chunks(4096).all(|chunk| *chunk == ZEROS[..chunk.len()])
}

/// A part of a buffer that is all zeros or goes as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// All of them are zero.
    pub zero: bool,
    /// Which of the bytes these are.
    pub range: Range<usize>,
}

/// Cuts the bytes, which stand at `offset` in the file, into runs of zero blocks and runs of others, in order.
pub fn runs(bytes: &[u8], offset: u64, block: u32) -> impl Iterator<Item = Run> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let end = block_end(start, offset, block, bytes.len());
        if start == end {
            return None;
        }
        let zero = is_zero(&bytes[start..end]);
        let mut run = Run { zero, range: start..end };
        while run.range.end < bytes.len() {
            let end = block_end(run.range.end, offset, block, bytes.len());
            if is_zero(&bytes[run.range.end..end]) != zero {
                break;
            }
            run.range.end = end;
        }
        start = run.range.end;
        Some(run)
    })
}

/// Where the block ends that holds byte `start` of a buffer of `len` bytes at `offset` in the file.
fn block_end(start: usize, offset: u64, block: u32, len: usize) -> usize {
    let inside = offset.wrapping_add(start as u64) % u64::from(block);
    let to_end = u64::from(block) - inside;
    usize::try_from(to_end).map_or(len, |to_end| start.saturating_add(to_end).min(len))
}

/// Makes `len` bytes at `offset` of the destination a hole, as the rule for zeros says, and adds them to `moved`:
/// to `holes`, or to `written` where zeros had to be written.
///
/// For holes that the caller knows of (the source's extents); engines that see bytes make their own.
///
/// # Errors
/// The final error of punching or writing; `moved` tells how far it came.
pub fn make(
    kernel: &dyn Kernel,
    dest: &Side,
    offset: u64,
    len: u64,
    zeros: Zeros,
    moved: &mut Moved,
) -> Result<(), Failure> {
    if Hole::default().leave(kernel, dest, offset, len, zeros)? {
        moved.holes += len;
        return Ok(());
    }
    write_zeros(kernel, dest, offset, len, moved)
}

/// Makes holes, and remembers where punching is not supported.
#[derive(Debug, Default)]
pub(super) struct Hole {
    cannot_punch: bool,
}

impl Hole {
    /// Whether the range reads as zeros now without having been written; if not, the zeros are to be written.
    pub(super) fn leave(
        &mut self,
        kernel: &dyn Kernel,
        dest: &Side,
        offset: u64,
        len: u64,
        zeros: Zeros,
    ) -> Result<bool, Failure> {
        if !dest.seekable || zeros == Zeros::Write {
            return Ok(false);
        }
        // A skipped range reads as zeros in any case. It is punched too, because XFS allocates ahead of a growing file,
        // and what it allocated where we leave a gap would stay.
        let skipped = matches!(zeros, Zeros::Skip(_));
        if self.cannot_punch {
            return Ok(skipped);
        }
        match again(|| kernel.punch_hole(dest.as_fd(), offset, len)) {
            Ok(()) => Ok(true),
            Err(errno) if refuses_hole(errno) || (skipped && errno != Errno::IO) => {
                self.cannot_punch = true;
                Ok(skipped)
            }
            Err(errno) => Err(Failure { on: FailedOn::Hole, errno }),
        }
    }
}

fn write_zeros(kernel: &dyn Kernel, dest: &Side, offset: u64, len: u64, moved: &mut Moved) -> Result<(), Failure> {
    let mut done = 0;
    while done < len {
        let piece = usize::try_from(len - done).map_or(ZEROS.len(), |left| left.min(ZEROS.len()));
        let count = write_some(kernel, dest, &ZEROS[..piece], offset + done)
            .map_err(|errno| Failure { on: FailedOn::Write, errno })?;
        done += count as u64;
        moved.written += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_anywhere_is_not_zero() {
        for len in [1, 7, 8, 511, 4095, 4096, 4097, 70_000] {
            let mut bytes = vec![0; len];
            assert!(is_zero(&bytes), "{len}");
            for at in [0, len / 2, len - 1] {
                bytes[at] = 1;
                assert!(!is_zero(&bytes), "{len} {at}");
                bytes[at] = 0;
            }
        }
        assert!(is_zero(&[]));
    }

    #[test]
    fn runs_follow_the_blocks_of_the_file() {
        let mut bytes = vec![0; 40];
        bytes[14] = 1; // offset 20: in the block from 16 to 24
        let found: Vec<Run> = runs(&bytes, 6, 8).collect();
        let run = |zero, range| Run { zero, range };
        assert_eq!(found, [run(true, 0..10), run(false, 10..18), run(true, 18..40)]);
    }

    #[test]
    fn runs_cover_every_byte_once_and_alternate() {
        let bytes: Vec<u8> = (0..5000u32).map(|n| u8::from(n / 300 % 3 == 0 && n % 7 == 0)).collect();
        for (offset, block) in [(0, 1), (1, 512), (4095, 4096), (u64::MAX - 6000, 64), (3, u32::MAX)] {
            let found: Vec<Run> = runs(&bytes, offset, block).collect();
            let mut at = 0;
            for run in &found {
                assert_eq!(run.range.start, at);
                assert_eq!(run.zero, is_zero(&bytes[run.range.clone()]));
                at = run.range.end;
            }
            assert_eq!(at, bytes.len());
            assert!(found.windows(2).all(|pair| pair[0].zero != pair[1].zero));
        }
    }
}
