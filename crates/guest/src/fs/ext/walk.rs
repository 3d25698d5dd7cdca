//! What the inodes use: the proof of bitmaps that no checksum guards.
//!
//! A bit that rotted, or a block that was never written, makes a bitmap call a used block free, and where the counts
//! agree with it nothing else tells. So all inodes are read, and what they use must not be free. An inode is in use if
//! it has a link or its bit is set: the bitmap of the inodes is no better guarded than that of the blocks.
//!
//! What this costs is what the inode tables take, 1/64 of the filesystem as mke2fs makes them, and the maps of the files.
//! All of it is in use and would be read by a whole copy too.

use std::ops::Range;

use super::bitmaps::State;
use super::groups::Group;
use super::superblock::Superblock;
use super::tree::{self, AT, EXTENTS, ROOT};
use crate::bytes::{le16, le32, slice};
use crate::extents::ExtentSet;
use crate::refusal::Refusal;

/// How much of an inode table is read at once, in bytes.
const PIECE: u64 = 256 << 10;
/// As many inodes in use, and as many comparisons, count as a node.
const STEPS_OF_NODE: u64 = 128;

const INLINE_DATA: u32 = 0x1000_0000;
/// A symbolic link shorter than the map of an inode stands in its place.
const SHORT: u32 = 60;

mod kind {
    pub(super) const FIFO: u16 = 0x1000;
    pub(super) const CHARACTERS: u16 = 0x2000;
    pub(super) const BLOCKS: u16 = 0x6000;
    pub(super) const SYMLINK: u16 = 0xa000;
    pub(super) const SOCKET: u16 = 0xc000;
}

/// Refuses a filesystem of which an inode uses bytes that are in `free`. Takes the inodes of `state`.
pub(super) fn check(state: &State<'_>, superblock: &Superblock, free: &ExtentSet) -> Result<(), Refusal> {
    let mut walk = Walk { state, superblock, free, pending: 0..0, steps: 0 };
    for (number, group) in (0..).zip(state.groups) {
        walk.group(group).map_err(|why| of_group(number, why))?;
    }
    Ok(())
}

fn of_group(number: u64, why: Refusal) -> Refusal {
    match why {
        Refusal::Corrupt(why) => Refusal::Corrupt(format!("an inode of group {number}: {why}")),
        other => other,
    }
}

struct Walk<'a> {
    state: &'a State<'a>,
    superblock: &'a Superblock,
    free: &'a ExtentSet,
    /// Blocks that are used and were not compared yet; neighbours are compared together.
    pending: Range<u64>,
    /// How many inodes in use were seen, and how many runs of blocks compared.
    steps: u64,
}

impl Walk<'_> {
    fn group(&mut self, group: &Group) -> Result<(), Refusal> {
        if group.inodes == 0 {
            return Ok(());
        }
        let layout = &self.superblock.layout;
        let bitmap = self.state.blocks.read(group.inode_bitmap)?;
        let block = u64::from(layout.block);
        let blocks = (group.inodes * layout.inode_size).div_ceil(block);
        let piece = (PIECE / block).max(1);
        let mut inode = 0;
        for first in (0..blocks).step_by(piece as usize) {
            let count = piece.min(blocks - first);
            let table = self.state.blocks.read_run(group.inode_table + first, count)?;
            for bytes in table.chunks_exact(layout.inode_size as usize).take((group.inodes - inode) as usize) {
                let bit = bitmap.get((inode / 8) as usize).is_some_and(|bits| bits >> (inode % 8) & 1 == 1);
                inode += 1;
                let linked = le16(bytes, 0x1a)? != 0;
                if bit || linked {
                    self.inode(bytes)?;
                }
                if linked {
                    self.state.blocks.region.budget().give_back(layout.inode_size);
                }
            }
        }
        self.compare()
    }

    /// Takes everything that an inode uses.
    fn inode(&mut self, inode: &[u8]) -> Result<(), Refusal> {
        self.step()?;
        let high = if self.superblock.layout.descriptor >= 64 { le16(inode, 0x76)? } else { 0 };
        let attributes = u64::from(high) << 32 | u64::from(le32(inode, 0x68)?);
        if attributes != 0 {
            self.take(attributes..attributes + 1)?;
        }
        let flags = le32(inode, 0x20)?;
        let root = slice(inode, AT, ROOT)?;
        match le16(inode, 0)? & 0xf000 {
            kind::FIFO | kind::CHARACTERS | kind::BLOCKS | kind::SOCKET => Ok(()),
            kind::SYMLINK if self.is_in_place(inode, attributes != 0)? => Ok(()),
            _ if flags & INLINE_DATA != 0 => match self.superblock.has_inline_data {
                true => Ok(()),
                false => Err(Refusal::corrupt("data in it, which the filesystem has not")),
            },
            _ if flags & EXTENTS != 0 => match self.superblock.has_extents {
                true => self.extents(root),
                false => Err(Refusal::corrupt("a tree of extents, which the filesystem has not")),
            },
            _ => self.pointers(root),
        }
    }

    fn step(&mut self) -> Result<(), Refusal> {
        self.steps += 1;
        match self.steps.is_multiple_of(STEPS_OF_NODE) {
            true => self.state.blocks.region.budget().take_node(),
            false => Ok(()),
        }
    }

    /// Whether a symbolic link has no blocks, by the kernel's rule.
    fn is_in_place(&self, inode: &[u8], attributes: bool) -> Result<bool, Refusal> {
        let layout = &self.superblock.layout;
        let (size, sectors) = (le32(inode, 0x04)?, le32(inode, 0x1c)?);
        let of_attributes = if attributes { (layout.block / 512) << layout.cluster_bits } else { 0 };
        // Attributes in inodes of their own are counted too, so that the count does not tell.
        Ok((1..SHORT).contains(&size) && (self.superblock.has_attribute_inodes || sectors == of_attributes))
    }

    /// The old way: 12 blocks, then blocks of block numbers in one, two and three steps. Zero is a hole.
    fn pointers(&mut self, root: &[u8]) -> Result<(), Refusal> {
        // What is still to be looked at, the next one last.
        let mut todo: Vec<(u64, u32)> = Vec::new();
        for slot in 0..15 {
            self.pointer(u64::from(le32(root, slot * 4)?), (slot as u32).saturating_sub(11), &mut todo)?;
        }
        while let Some((block, steps)) = todo.pop() {
            self.state.blocks.region.budget().take_node()?;
            let bytes = self.state.blocks.read(block)?;
            for slot in 0..bytes.len() / 4 {
                self.pointer(u64::from(le32(&bytes, slot * 4)?), steps - 1, &mut todo)?;
            }
        }
        Ok(())
    }

    fn pointer(&mut self, block: u64, steps: u32, todo: &mut Vec<(u64, u32)>) -> Result<(), Refusal> {
        if block == 0 {
            return Ok(());
        }
        self.take(block..block + 1)?;
        if steps > 0 {
            todo.push((block, steps));
        }
        Ok(())
    }

    fn extents(&mut self, root: &[u8]) -> Result<(), Refusal> {
        // What is still to be looked at, each with the depth that it must have.
        let mut todo = Vec::new();
        self.node(&tree::node(root)?, &mut todo)?;
        while let Some((block, depth)) = todo.pop() {
            self.state.blocks.region.budget().take_node()?;
            let bytes = self.state.blocks.read(block)?;
            let node = tree::node(&bytes)?;
            if node.depth != depth {
                return Err(Refusal::corrupt("an uneven tree of extents"));
            }
            self.node(&node, &mut todo)?;
        }
        Ok(())
    }

    fn node(&mut self, node: &tree::Node<'_>, todo: &mut Vec<(u64, u16)>) -> Result<(), Refusal> {
        for entry in &node.entries {
            let Some(depth) = node.depth.checked_sub(1) else {
                self.take(tree::extent(entry)?.blocks)?;
                continue;
            };
            let child = tree::child(entry)?;
            self.take(child..child + 1)?;
            todo.push((child, depth));
        }
        Ok(())
    }

    /// Takes blocks that are in use.
    fn take(&mut self, blocks: Range<u64>) -> Result<(), Refusal> {
        let layout = &self.superblock.layout;
        if blocks.is_empty() || blocks.start < layout.first_data_block || blocks.end > layout.blocks {
            return Err(Refusal::corrupt(format!("blocks {} to {} are outside", blocks.start, blocks.end)));
        }
        if blocks.start == self.pending.end {
            self.pending.end = blocks.end;
            return Ok(());
        }
        self.compare()?;
        self.pending = blocks;
        Ok(())
    }

    /// Compares what was taken with what is free.
    fn compare(&mut self) -> Result<(), Refusal> {
        self.step()?;
        let blocks = std::mem::take(&mut self.pending);
        let block = u64::from(self.superblock.layout.block);
        match self.free.touches(blocks.start * block..blocks.end * block) {
            false => Ok(()),
            true => Err(Refusal::corrupt(format!("it uses free blocks between {} and {}", blocks.start, blocks.end))),
        }
    }
}
