//! Where the blocks of the journal's inode are.

use std::ops::Range;

use super::blocks::Blocks;
use super::groups::Group;
use super::sums::crc32c;
use super::superblock::{Layout, Sums};
use super::tree;
use crate::bytes::{le16, le32, slice, sum};
use crate::refusal::{OrRefuse, Refusal, corrupt_if, over_budget_if};

/// The journal's inode, always in the first group.
const JOURNAL: u32 = 8;
/// More runs than this would be a journal of scattered blocks that nobody made.
const MOST_RUNS: usize = 1 << 17;
/// With blocks of 1 KiB, the map of a journal of 1 GiB takes a third of this.
const MOST_NODES: usize = 1 << 14;

/// A file that has all of its blocks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Mapped {
    /// For each run: the first block of the file, and the filesystem's blocks where it and those behind are. Sorted; a run
    /// starts where the one before ends.
    runs: Vec<(u64, Range<u64>)>,
    blocks: u64,
    /// Blocks that hold the map itself.
    tree: Vec<u64>,
}

impl Mapped {
    #[cfg(test)]
    pub(super) fn of_one_run(blocks: Range<u64>) -> Mapped {
        Mapped { blocks: blocks.end - blocks.start, runs: vec![(0, blocks)], tree: Vec::new() }
    }

    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(super) fn place(&self, block: u64) -> Result<u64, Refusal> {
        let next = self.runs.partition_point(|(first, _)| *first <= block);
        let run = next.checked_sub(1).and_then(|last| self.runs.get(last));
        let place = run.and_then(|(first, blocks)| sum(blocks.start, block - first).ok().filter(|at| *at < blocks.end));
        place.or_corrupt("a block behind the end of the journal")
    }

    /// All blocks of the filesystem that it takes, with those of its map.
    pub(super) fn taken(&self) -> Vec<Range<u64>> {
        let tree = self.tree.iter().map(|block| *block..block.saturating_add(1));
        self.runs.iter().map(|(_, blocks)| blocks.clone()).chain(tree).collect()
    }

    /// Takes a block of the map.
    fn push_node(&mut self, block: u64, layout: &Layout) -> Result<(), Refusal> {
        corrupt_if(block == 0 || block >= layout.blocks, "the map of the journal has a hole, or lies outside")?;
        over_budget_if(self.tree.len() >= MOST_NODES, "blocks of the map of the journal")?;
        self.tree.push(block);
        Ok(())
    }

    fn push(&mut self, first: u64, blocks: Range<u64>, layout: &Layout) -> Result<(), Refusal> {
        let misplaced = first != self.blocks || blocks.is_empty() || blocks.start == 0 || blocks.end > layout.blocks;
        corrupt_if(misplaced, "the journal has a hole, or lies outside")?;
        self.blocks += blocks.end - blocks.start;
        let full = self.runs.len() >= MOST_RUNS;
        match self.runs.last_mut() {
            Some((_, last)) if last.end == blocks.start => last.end = blocks.end,
            _ if full => return Err(Refusal::Budget("pieces of the journal")),
            _ => self.runs.push((first, blocks)),
        }
        Ok(())
    }
}

/// The journal's inode as bytes.
fn inode(blocks: &Blocks<'_>, layout: &Layout, group: &Group) -> Result<Vec<u8>, Refusal> {
    let at = u64::from(JOURNAL - 1) * layout.inode_size;
    corrupt_if(u64::from(JOURNAL) > layout.inodes_per_group, "the journal's inode is not in the first group")?;
    let block = blocks.read(sum(group.inode_table, at / u64::from(layout.block))?)?;
    let inode = slice(&block, (at % u64::from(layout.block)) as usize, layout.inode_size as usize)?.to_vec();
    let wrong = layout.sums == Sums::All && !sum_is_right(JOURNAL, &inode, layout)?;
    corrupt_if(wrong, "the checksum of the journal's inode is wrong")?;
    Ok(inode)
}

/// Where every checksum that belongs to an inode starts.
pub(super) fn seed(number: u32, inode: &[u8], layout: &Layout) -> Result<u32, Refusal> {
    Ok(crc32c(crc32c(layout.seed, &number.to_le_bytes()), slice(inode, 0x64, 4)?))
}

/// Whether the checksum of an inode is that of its bytes.
pub(super) fn sum_is_right(number: u32, inode: &[u8], layout: &Layout) -> Result<bool, Refusal> {
    let wide = inode.len() > 128 && le16(inode, 0x80)? >= 4;
    let mut found = u32::from(le16(inode, 0x7c)?);
    let mut sum = crc32c(crc32c(seed(number, inode, layout)?, slice(inode, 0, 0x7c)?), &[0, 0]);
    sum = crc32c(sum, slice(inode, 0x7e, 2)?);
    if wide {
        found |= u32::from(le16(inode, 0x82)?) << 16;
        sum = crc32c(crc32c(sum, slice(inode, 0x80, 2)?), &[0, 0]);
        sum = crc32c(sum, slice(inode, 0x84, inode.len() - 0x84)?);
    } else {
        sum = crc32c(sum, slice(inode, 0x80, inode.len() - 0x80)?) & 0xffff;
    }
    Ok(sum == found)
}

/// Finds the journal's blocks.
pub(super) fn journal(blocks: &Blocks<'_>, layout: &Layout, group: &Group) -> Result<Mapped, Refusal> {
    let inode = inode(blocks, layout, group)?;
    corrupt_if(le16(&inode, 0)? & 0xf000 != 0x8000 || le16(&inode, 0x1a)? == 0, "the journal is no file")?;
    let size = u64::from(le32(&inode, 0x6c)?) << 32 | u64::from(le32(&inode, 0x04)?);
    let wrong = size % u64::from(layout.block) != 0 || size / u64::from(layout.block) > layout.blocks;
    corrupt_if(wrong, "the journal's size is wrong")?;
    let wanted = size / u64::from(layout.block);
    let root = slice(&inode, tree::AT, tree::ROOT)?;
    let mapped = match le32(&inode, 0x20)? & tree::EXTENTS {
        0 => by_pointers(blocks, layout, root, wanted)?,
        _ => by_extents(blocks, layout, root, seed(JOURNAL, &inode, layout)?)?,
    };
    corrupt_if(mapped.blocks != wanted, "the journal does not have all of its blocks")?;
    Ok(mapped)
}

/// The old way: 12 blocks, then blocks of block numbers in one, two and three steps.
fn by_pointers(blocks: &Blocks<'_>, layout: &Layout, root: &[u8], wanted: u64) -> Result<Mapped, Refusal> {
    let mut mapped = Mapped::default();
    // What is still to be looked at, the next one last; 0 steps is a block of the file.
    let mut todo: Vec<(u64, u32)> = Vec::new();
    for slot in (0..15).rev() {
        todo.push((u64::from(le32(root, slot * 4)?), (slot as u32).saturating_sub(11)));
    }
    while let Some((block, steps)) = todo.pop() {
        if mapped.blocks == wanted {
            break;
        }
        if steps == 0 {
            let first = mapped.blocks;
            mapped.push(first, block..block + 1, layout)?;
            continue;
        }
        blocks.region.budget().take_node()?;
        mapped.push_node(block, layout)?;
        let bytes = blocks.read(block)?;
        for slot in (0..bytes.len() / 4).rev() {
            todo.push((u64::from(le32(&bytes, slot * 4)?), steps - 1));
        }
    }
    Ok(mapped)
}

fn by_extents(blocks: &Blocks<'_>, layout: &Layout, root: &[u8], seed: u32) -> Result<Mapped, Refusal> {
    let mut mapped = Mapped::default();
    let depth = tree::node(root).map_err(|why| of_the_journal(&why))?.depth;
    // What is still to be looked at, the next one last: each with the depth that it must have.
    let mut todo = Vec::new();
    read_node(root, depth, &mut mapped, &mut todo, layout)?;
    while let Some((block, depth)) = todo.pop() {
        blocks.region.budget().take_node()?;
        mapped.push_node(block, layout)?;
        let bytes = blocks.read(block)?;
        if layout.sums == Sums::All {
            tree::check_sum(&bytes, seed).map_err(|why| of_the_journal(&why))?;
        }
        read_node(&bytes, depth, &mut mapped, &mut todo, layout)?;
    }
    Ok(mapped)
}

/// Takes the extents of a leaf, or the children of another node.
fn read_node(
    from: &[u8],
    depth: u16,
    mapped: &mut Mapped,
    todo: &mut Vec<(u64, u16)>,
    layout: &Layout,
) -> Result<(), Refusal> {
    let node = tree::node(from).map_err(|why| of_the_journal(&why))?;
    corrupt_if(node.depth != depth || node.entries.is_empty(), "the journal's tree of extents is uneven")?;
    if depth == 0 {
        for entry in node.entries {
            let extent = tree::extent(entry)?;
            corrupt_if(!extent.written, "the journal has blocks that were never written")?;
            mapped.push(extent.first, extent.blocks, layout)?;
        }
        return Ok(());
    }
    for entry in node.entries.iter().rev() {
        todo.push((tree::child(entry)?, depth - 1));
    }
    Ok(())
}

fn of_the_journal(why: &Refusal) -> Refusal {
    Refusal::corrupt(format!("the journal's inode: {why}"))
}
