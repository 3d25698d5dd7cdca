//! Log trees: what fsync wrote since the last commit. The next mount replays it, so all of it is in use.
//!
//! Their nodes, and the extents of the files in them, are allocated in memory only: the extent tree of the last commit
//! does not show them.

use std::ops::Range;

use super::chunks::Chunks;
use super::key::kind;
use super::live::file_extent;
use super::roots::root_item;
use super::superblock::Superblock;
use super::tree::{Forest, Root, owner};
use crate::bytes;
use crate::refusal::{Refusal, corrupt_if, over_budget_if};

/// What of the device the log uses, wherever else it may be counted. Nodes that `forest` read before must have been
/// taken from it.
///
/// # Errors
/// If a log tree is damaged, or `most` ranges are not enough.
pub fn used(forest: &Forest<'_>, chunks: &Chunks, sb: &Superblock, most: usize) -> Result<Vec<Range<u64>>, Refusal> {
    let next = bytes::sum(sb.generation, 1)?;
    let mut used = Vec::new();
    // A chunk made since the commit forbids a log, so what a log uses is in chunks that are known.
    let mut add = |extent| {
        used.extend(chunks.on_device(extent)?);
        over_budget_if(used.len() > most, "extents in logs")
    };
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
        forest.walk(chunks, tree, &mut |key, item| match file_extent(key, item, sb, "in a log")? {
            Some(extent) => add(extent),
            None => Ok(()),
        })?;
    }
    for address in forest.take_visited() {
        add(address..bytes::sum(address, sb.node)?)?;
    }
    Ok(used)
}
