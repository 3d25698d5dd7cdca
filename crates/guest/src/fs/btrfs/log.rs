//! Log trees: what fsync wrote since the last commit. The next mount replays it, so all of it is in use.
//!
//! Their nodes, and the extents of the files in them, are allocated in memory only: the extent tree of the last commit
//! does not show them.

use std::ops::Range;

use super::chunks::Chunks;
use super::key::{Key, kind};
use super::roots::root_item;
use super::superblock::Superblock;
use super::tree::{Forest, Root, owner};
use crate::bytes::{self, le64, u8_at};
use crate::refusal::{Refusal, corrupt_if, over_budget_if};

const INLINE: u8 = 0;
const REGULAR: u8 = 1;
const PREALLOCATED: u8 = 2;

/// What of the device the log uses, wherever else it may be counted. Nodes that `forest` read before must have been
/// taken from it.
///
/// # Errors
/// If a log tree is damaged, or `most` ranges are not enough.
pub fn used(forest: &Forest<'_>, chunks: &Chunks, sb: &Superblock, most: usize) -> Result<Vec<Range<u64>>, Refusal> {
    let next = bytes::sum(sb.generation, 1)?;
    let mut used = Used { chunks, sb, most, ranges: Vec::new() };
    let top = Root { address: sb.log_root, level: sb.log_root_level, generation: next, owner: owner::LOG };
    let mut trees = Vec::new();
    forest.walk(chunks, top, &mut |key, item| {
        corrupt_if(key.kind != kind::ROOT || key.objectid != owner::LOG, "an odd item in the tree of logs")?;
        over_budget_if(trees.len() >= most, "log trees")?;
        trees.push(root_item(item, owner::LOG)?);
        Ok(())
    })?;
    for tree in trees {
        corrupt_if(tree.generation != next, "a log of another transaction")?;
        forest.walk(chunks, tree, &mut |key, item| used.push(key, item))?;
    }
    for address in forest.take_visited() {
        used.add(address, sb.node)?;
    }
    Ok(used.ranges)
}

struct Used<'a> {
    chunks: &'a Chunks,
    sb: &'a Superblock,
    most: usize,
    ranges: Vec<Range<u64>>,
}

impl Used<'_> {
    fn push(&mut self, key: Key, item: &[u8]) -> Result<(), Refusal> {
        if key.kind != kind::EXTENT_DATA {
            return Ok(());
        }
        match u8_at(item, 20)? {
            INLINE => return Ok(()),
            REGULAR | PREALLOCATED => {}
            _ => return Err(Refusal::corrupt("an odd extent in a log")),
        }
        let (start, len) = (le64(item, 21)?, le64(item, 29)?);
        if start == 0 {
            return Ok(()); // a hole
        }
        if len == 0 || !self.sb.whole_sectors(start) || !self.sb.whole_sectors(len) {
            return Err(Refusal::corrupt("an impossible extent in a log"));
        }
        self.add(start, len)
    }

    fn add(&mut self, start: u64, len: u64) -> Result<(), Refusal> {
        // A chunk made since the commit forbids a log, so what a log uses is in chunks that are known.
        let chunk = self.chunks.holding(start, len)?;
        self.ranges.extend(chunk.on_device(start..start + len));
        over_budget_if(self.ranges.len() > self.most, "extents in logs")
    }
}
