//! Everything that is in use: all trees of the last commit, and the extents of the files in them.
//!
//! The extent tree says what is allocated. A damaged tree of files cannot contradict it, and what is left of its files may
//! be in what nothing names any more. So all trees are walked, node by node as any other, and what they refer to must not be
//! free. Of a subvolume that is being deleted, part is gone already; it is not walked, and what of it is left is allocated.
//!
//! Log trees hold what fsync wrote since the last commit. The next mount replays them, so all of them is in use. Their
//! nodes, and the extents of the files in them, are allocated in memory only: the extent tree does not show them.

use std::collections::HashSet;
use std::ops::Range;

use super::chunks::Chunks;
use super::key::{Key, kind};
use super::roots::{Roots, root_item};
use super::superblock::Superblock;
use super::tree::{Forest, Root, Seen, owner};
use crate::bytes::{le64, sum, u8_at};
use crate::extents::ExtentSet;
use crate::refusal::{Refusal, corrupt_if, over_budget_if};

const INLINE: u8 = 0;
const REGULAR: u8 = 1;
const PREALLOCATED: u8 = 2;
/// As many extents of files count as a node.
const EXTENTS_OF_NODE: u64 = 128;

/// Refuses if a tree is damaged, or refers to what is in `free`.
pub fn check(
    forest: &Forest<'_>,
    chunks: &Chunks,
    sb: &Superblock,
    roots: &Roots,
    free: &ExtentSet,
) -> Result<(), Refusal> {
    let check = |used, what| corrupt_if(chunks.on_device(used)?.any(|copy| free.touches(copy)), what);
    // Their nodes were read already.
    let mut done = vec![owner::EXTENT, owner::DEVICE, owner::BLOCK_GROUP];
    if sb.has_free_space_tree {
        done.push(owner::FREE_SPACE);
    }
    let shared = roots.all.iter().filter(|root| owner::is_shared(root.owner)).count() > 1;
    let mut subvolumes: Seen = shared.then(HashSet::new);
    let mut extents = 0;
    for root in roots.all.iter().filter(|root| !done.contains(&root.owner)) {
        let seen = if owner::is_shared(root.owner) { &mut subvolumes } else { &mut None };
        forest.walk_unseen(chunks, *root, seen, &mut |key, item| {
            let Some(used) = file_extent(key, item, sb, "of a file")? else { return Ok(()) };
            extents += 1;
            if extents % EXTENTS_OF_NODE == 0 {
                forest.budget().take_node()?;
            }
            check(used, "a file has an extent that is free")
        })?;
    }
    for address in forest.take_visited() {
        check(address..address.saturating_add(sb.node), "a node that is in use is in no extent")?;
    }
    Ok(())
}

/// The logical addresses that an item of a file refers to, if any; `whose` says in a refusal what file it is of.
fn file_extent(key: Key, item: &[u8], sb: &Superblock, whose: &str) -> Result<Option<Range<u64>>, Refusal> {
    if key.kind != kind::EXTENT_DATA {
        return Ok(None);
    }
    match u8_at(item, 20)? {
        INLINE => return Ok(None),
        REGULAR | PREALLOCATED => {}
        _ => return Err(Refusal::corrupt(format!("an odd extent {whose}"))),
    }
    let (start, len) = (le64(item, 21)?, le64(item, 29)?);
    if start == 0 {
        return Ok(None); // a hole
    }
    let impossible = len == 0 || !sb.whole_sectors(start) || !sb.whole_sectors(len);
    corrupt_if(impossible, format_args!("an impossible extent {whose}"))?;
    Ok(Some(start..start.saturating_add(len)))
}

/// What of the device the log uses, wherever else it may be counted. Nodes that `forest` read before must have been
/// taken from it. At most `most` ranges.
pub fn used_by_log(
    forest: &Forest<'_>,
    chunks: &Chunks,
    sb: &Superblock,
    most: usize,
) -> Result<Vec<Range<u64>>, Refusal> {
    let next = sum(sb.generation, 1)?;
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
        add(address..sum(address, sb.node)?)?;
    }
    Ok(used)
}
