//! Fingerprints of the blocks of a file, and how a difference is described by them.

use twox_hash::XxHash3_128;

/// Read, compared and hashed at once: two of these stay in the second-level cache.
pub(super) const WINDOW: usize = 256 << 10;

/// A place where a copy is not like its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// Offset in bytes of the first byte that differs, or of the block that it is in if no more is known.
    pub offset: u64,
    /// XXH3 (128 bits) of the block of the source.
    pub source: u128,
    /// The same of the copy.
    pub dest: u128,
}

impl Mismatch {
    /// In words, for the message.
    pub fn describe(&self) -> String {
        let Mismatch { offset, source, dest } = self;
        format!("from byte {offset} on (xxh3 {dest:032x} where the source has {source:032x})")
    }
}

/// Fingerprints of the blocks of a file, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Bytes of a block; a multiple of what one read takes.
    pub size: u64,
    /// XXH3 (128 bits) of each, of the last one as far as the file goes.
    pub hashes: Vec<u128>,
    /// Bytes of all of them.
    pub total: u64,
}

/// So many fingerprints at most, to bound the memory at a MiB: the blocks of large files are larger.
const MOST_BLOCKS: u64 = 1 << 16;
/// And not smaller than this.
const BLOCK: u64 = 1 << 20;

impl Blocks {
    pub(super) fn of_size(size: u64) -> Blocks {
        let size = size.div_ceil(MOST_BLOCKS).max(1).next_multiple_of(BLOCK);
        Blocks { size, hashes: Vec::new(), total: 0 }
    }
}

/// The fingerprint of one block.
pub(super) fn hash(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes)
}
