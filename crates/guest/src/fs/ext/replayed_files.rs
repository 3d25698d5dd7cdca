//! What a replay of fast commits uses beyond what the bitmaps and the log call used.
//!
//! A replay gives files the blocks of their added ranges, and writes each inode that was synced to its place in the
//! inode table, all of which is in use anyway. It does *not* take the map of that inode: the kernel and e2fsck leave
//! the one in the table, and add the ranges to it. So three things are kept:
//!
//! * the ranges;
//! * what the map in the inode table names, of each inode that a fast commit names, though it be free so far: the kernel
//!   continues with whatever tree of extents a deleted inode has left there;
//! * the block of attributes of each inode that was synced, and what its own map names. Parts of that map may never have
//!   been written, so that nothing is below them.
//!
//! Blocks that the replay allocates itself (for entries of directories, or nodes of trees) are free now, and it writes
//! them. What it frees stays used here.

use std::collections::HashSet;
use std::ops::Range;

use super::bitmaps::State;
use super::jbd2::FastCommits;
use super::superblock::{Layout, Superblock};
use super::tree::{self, AT, EXTENTS, ROOT};
use super::walk::{INLINE_DATA, SHORT};
use crate::bytes::{le16, le32, slice};
use crate::extents::ExtentSet;
use crate::fs::file_type as kind;
use crate::refusal::{Refusal, corrupt_if, over_budget_if};

/// More runs of blocks than this would need more memory than a parser may have.
const MOST_RUNS: usize = 1 << 19;

/// The bytes that a replay of `commits` would use, whatever the bitmaps say. `state` is the one after the log.
pub(super) fn used(commits: &FastCommits, state: &State<'_>, superblock: &Superblock) -> Result<ExtentSet, Refusal> {
    let layout = &superblock.layout;
    let mut used = Used { state, layout, runs: Vec::new(), nodes: HashSet::new() };
    for run in &commits.ranges {
        used.keep(run.clone())?;
    }
    for number in &commits.named {
        used.in_table(*number)?;
    }
    for inode in &commits.inodes {
        used.synced(inode, superblock.has_inline_data)?;
    }
    Ok(ExtentSet::from_ranges(used.runs))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Map {
    /// The inode table: everything is on the disk.
    Table,
    /// A fast commit: its nodes may be in the memory of a machine only.
    Commit,
}

struct Used<'a> {
    state: &'a State<'a>,
    layout: &'a Layout,
    /// In bytes.
    runs: Vec<Range<u64>>,
    /// The nodes of trees that were read, and from which kind of map.
    nodes: HashSet<(u64, bool)>,
}

impl Used<'_> {
    /// Takes blocks, and the whole clusters that they are in.
    fn keep(&mut self, blocks: Range<u64>) -> Result<(), Refusal> {
        let layout = self.layout;
        let misplaced = blocks.start < layout.first_data_block || blocks.end > layout.blocks;
        corrupt_if(misplaced, "a file of a fast commit has blocks that are outside")?;
        over_budget_if(self.runs.len() >= MOST_RUNS, "blocks of fast commits")?;
        // Larger clusters than blocks begin at block 0.
        let cluster = 1 << layout.cluster_bits;
        let (start, end) = (blocks.start / cluster * cluster, blocks.end.next_multiple_of(cluster).min(layout.blocks));
        let block = u64::from(layout.block);
        self.runs.push(start * block..end * block);
        Ok(())
    }

    /// Takes what the map of an inode in the inode table names, if it is a tree of extents. No other one is continued.
    fn in_table(&mut self, number: u32) -> Result<(), Refusal> {
        let layout = self.layout;
        let index = u64::from(number).wrapping_sub(1);
        let group = self.state.groups.get((index / layout.inodes_per_group) as usize);
        let Some(group) = group.filter(|_| number != 0) else {
            return Err(Refusal::corrupt(format!("a fast commit is of inode {number}, which does not exist")));
        };
        let (block, at) = (u64::from(layout.block), index % layout.inodes_per_group * layout.inode_size);
        self.state.blocks.region.budget().take_node()?;
        let bytes = self.state.blocks.read(group.inode_table + at / block)?;
        let root = slice(&bytes, (at % block) as usize + AT, ROOT)?;
        match tree::is_node(root)? {
            true => self.tree(root, Map::Table),
            false => Ok(()),
        }
    }

    /// Takes what an inode in a fast commit names.
    fn synced(&mut self, inode: &[u8], has_inline_data: bool) -> Result<(), Refusal> {
        let high = if self.layout.descriptor >= 64 { le16(inode, 0x76)? } else { 0 };
        let attributes = u64::from(high) << 32 | u64::from(le32(inode, 0x68)?);
        if attributes != 0 {
            self.keep(attributes..attributes.saturating_add(1))?;
        }
        let flags = le32(inode, 0x20)?;
        match le16(inode, 0)? & 0xf000 {
            _ if flags & EXTENTS != 0 => self.tree(slice(inode, AT, ROOT)?, Map::Commit),
            kind::FIFO | kind::CHARACTERS | kind::BLOCKS | kind::SOCKET => Ok(()),
            kind::SYMLINK if (1..SHORT).contains(&le32(inode, 0x04)?) => Ok(()),
            kind::FILE | kind::DIRECTORY if flags & INLINE_DATA != 0 && has_inline_data => Ok(()),
            _ => Err(Refusal::unsupported("a fast commit of a file without a tree of extents")),
        }
    }

    /// Takes everything in a tree of extents.
    fn tree(&mut self, root: &[u8], map: Map) -> Result<(), Refusal> {
        let mut todo = Vec::new();
        self.node(&tree::node(root)?, &mut todo)?;
        while let Some(block) = todo.pop() {
            if !self.nodes.insert((block, map == Map::Table)) {
                continue;
            }
            over_budget_if(self.nodes.len() > MOST_RUNS, "nodes of trees in fast commits")?;
            self.state.blocks.region.budget().take_node()?;
            let bytes = self.state.blocks.read(block)?;
            let below = tree::node(&bytes).and_then(|node| self.node(&node, &mut todo));
            match below {
                // A block that no transaction has written yet holds whatever it held before.
                Err(Refusal::Corrupt(_)) if map == Map::Commit => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Takes the blocks that a node names, and puts its children into `todo`.
    fn node(&mut self, node: &tree::Node<'_>, todo: &mut Vec<u64>) -> Result<(), Refusal> {
        for entry in &node.entries {
            if node.depth == 0 {
                self.keep(tree::extent(entry)?.blocks)?;
            } else {
                let child = tree::child(entry)?;
                self.keep(child..child.saturating_add(1))?;
                todo.push(child);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
