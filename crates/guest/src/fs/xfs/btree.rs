//! The records of the two btrees of free space of an allocation group: one by block, one by size.

use std::collections::{HashMap, HashSet};

use crate::bytes::be32;
use crate::refusal::{Refusal, corrupt_if};

use super::short::Tree;

/// A run of free blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first block, within its allocation group.
    pub start: u32,
    pub len: u32,
}

/// What a tree is sorted by.
pub type Key = fn(Run) -> (u32, u32);
pub const BY_BLOCK: Key = |run| (run.start, 0);
pub const BY_SIZE: Key = |run| (run.len, run.start);

/// What a walk over one tree found.
pub struct Walk {
    pub blocks: HashSet<u32>,
    /// Whether the log changed one of them.
    pub patched: bool,
}

/// Visits every record in the order of the tree. Beside what [`Tree::nodes`] checks, no block may occur twice, and the
/// order of records and that the parent's key is that of the first record are checked.
pub fn walk(tree: &Tree<'_>, key: Key, mut visit: impl FnMut(Run) -> Result<(), Refusal>) -> Result<Walk, Refusal> {
    let mut walk = Walk { blocks: HashSet::new(), patched: false };
    // What parents say the first record of a block is. If two say it of one block, that occurs twice.
    let (mut last, mut keys) = (None, HashMap::new());
    tree.nodes(&|_| Ok(false), &mut |node| {
        corrupt_if(!walk.blocks.insert(node.block), "a block of a free space tree occurs twice")?;
        walk.patched |= node.patched;
        let run = |bytes: &[u8]| Ok(Run { start: be32(bytes, 0)?, len: be32(bytes, 4)? });
        let runs = node.records.chunks_exact(8).map(run).collect::<Result<Vec<_>, Refusal>>()?;
        let differs = |expected| runs.first().is_none_or(|run| key(*run) != expected);
        corrupt_if(keys.remove(&node.block).is_some_and(differs), "a free space tree and its keys disagree")?;
        for (child, run) in node.children.chunks_exact(4).zip(&runs) {
            keys.insert(be32(child, 0)?, key(*run));
        }
        for run in runs.into_iter().filter(|_| node.level == 0) {
            corrupt_if(last.is_some_and(|last| last >= key(run)), "free space is not in order")?;
            last = Some(key(run));
            visit(run)?;
        }
        Ok(())
    })?;
    Ok(walk)
}
