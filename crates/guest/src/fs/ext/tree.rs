//! Trees of extents, the newer map of a file's blocks.

use std::ops::Range;

use super::sums::crc32c;
use crate::bytes::{le16, le32, slice};
use crate::refusal::{Refusal, corrupt_if};

/// Where an inode has the root of its map, in bytes.
pub(super) const AT: usize = 0x28;
/// Bytes of the root.
pub(super) const ROOT: usize = 60;
/// The flag of an inode whose map is a tree of extents.
pub(super) const EXTENTS: u32 = 0x8_0000;

const MAGIC: u16 = 0xf30a;
const ENTRY: usize = 12;
const DEEPEST: u16 = 5;
/// Longer extents are as much shorter, and were never written.
const WRITTEN: u16 = 0x8000;

pub(super) struct Node<'a> {
    /// Its height above the leaves, at most 5.
    pub(super) depth: u16,
    /// Its entries of 12 bytes: extents in a leaf, children elsewhere. May be none.
    pub(super) entries: Vec<&'a [u8]>,
}

/// Whether it begins as a node does.
pub(super) fn is_node(from: &[u8]) -> Result<bool, Refusal> {
    Ok(le16(from, 0)? == MAGIC)
}

pub(super) fn node(from: &[u8]) -> Result<Node<'_>, Refusal> {
    let (magic, count, most, depth) = (le16(from, 0)?, le16(from, 2)?, le16(from, 4)?, le16(from, 6)?);
    // A block may leave room for two more, by the rule of e2fsck.
    let room = (from.len() / ENTRY).saturating_sub(1);
    let wrong = magic != MAGIC || count > most || usize::from(most) > room || usize::from(most) + 2 < room;
    corrupt_if(wrong, "a tree of extents")?;
    corrupt_if(depth > DEEPEST || (depth > 0 && count == 0), "the depth of a tree of extents")?;
    let entries = (1..=usize::from(count)).map(|entry| slice(from, entry * ENTRY, ENTRY));
    Ok(Node { depth, entries: entries.collect::<Result<_, _>>()? })
}

/// Checks the checksum of a block that is a node. It lies behind the room for entries.
pub(super) fn check_sum(block: &[u8], seed: u32) -> Result<(), Refusal> {
    let end = ENTRY * (1 + usize::from(le16(block, 4)?));
    corrupt_if(crc32c(seed, slice(block, 0, end)?) != le32(block, end)?, "the checksum of a tree of extents is wrong")
}

/// A run of a file's blocks.
pub(super) struct Run {
    /// Its first block in the file.
    pub(super) first: u64,
    /// The filesystem's blocks.
    pub(super) blocks: Range<u64>,
    /// Whether they hold anything but what they held before.
    pub(super) written: bool,
}

pub(super) fn extent(entry: &[u8]) -> Result<Run, Refusal> {
    let (first, len) = (u64::from(le32(entry, 0)?), le16(entry, 4)?);
    let start = u64::from(le16(entry, 6)?) << 32 | u64::from(le32(entry, 8)?);
    let written = len <= WRITTEN;
    let len = if written { len } else { len - WRITTEN };
    Ok(Run { first, blocks: start..start + u64::from(len), written })
}

/// The first block of the file that an entry is about.
pub(super) fn first(entry: &[u8]) -> Result<u64, Refusal> {
    Ok(u64::from(le32(entry, 0)?))
}

pub(super) fn child(entry: &[u8]) -> Result<u64, Refusal> {
    Ok(u64::from(le16(entry, 8)?) << 32 | u64::from(le32(entry, 4)?))
}
