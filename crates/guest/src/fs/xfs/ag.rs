//! An allocation group: its header (AGF), its list of reserved blocks (AGFL) and its free space, in two btrees: one by
//! block, one by size.

use std::collections::{HashMap, HashSet};

use crate::bytes::{be32, difference, product, slice, sum};
use crate::extents::ExtentSet;
use crate::refusal::{Refusal, corrupt_if, over_budget_if};

use super::overlay::Source;
use super::short::{FREE_SPACE, Tree};
use super::superblock::Geometry;

/// What is free in an allocation group, after everything in it agreed.
pub struct Group {
    /// Bytes of the filesystem.
    pub free: ExtentSet,
    /// Whether the log changed something that this was read from.
    pub patched: bool,
    free_blocks: u64,
    listed: u64,
    tree_blocks: u64,
}

struct Header {
    roots: [u32; 2],
    levels: [u32; 2],
    list_first: u32,
    list_last: u32,
    list_count: u32,
    free_blocks: u32,
    longest: u32,
    tree_blocks: u32,
    reverse_blocks: u32,
    patched: bool,
}

/// Counts runs so that two trees can be compared without keeping one: how many, how many blocks, and a sum over a hash of
/// each.
#[derive(Default, PartialEq, Eq)]
struct Tally {
    runs: u64,
    blocks: u64,
    longest: u32,
    hashes: u64,
}

impl Tally {
    fn add(&mut self, run: Run) {
        self.runs += 1;
        self.blocks += u64::from(run.len);
        self.longest = self.longest.max(run.len);
        // The finaliser of splitmix64, which is one to one.
        let mut hash = u64::from(run.start) << 32 | u64::from(run.len);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.hashes = self.hashes.wrapping_add(hash ^ (hash >> 31));
    }
}

impl Group {
    pub fn read(source: &Source<'_>, ag: u32) -> Result<Group, Refusal> {
        let geometry = source.geometry;
        let header = header(source, ag)?;
        let (listed, list_patched) = list(source, ag, &header)?;
        let tree = |index: usize| {
            let (root, levels) = (header.roots[index], header.levels[index]);
            Tree { source, ag, kind: FREE_SPACE[index], root, levels }
        };
        let (mut free, mut by_block, mut last) = (ExtentSet::new(), Tally::default(), geometry.header_blocks());
        let first = walk(&tree(0), BY_BLOCK, |run| {
            let (start, end) = (u64::from(run.start), sum(u64::from(run.start), u64::from(run.len))?);
            // Neighbours are always merged, and the headers are never free, so there is a used block before each.
            let apart = if by_block.runs == 0 { start >= last } else { start > last };
            let overlap = run.len == 0 || !apart || end > geometry.blocks_of(ag);
            corrupt_if(overlap, "a run of free blocks overlaps another or lies outside its group")?;
            over_budget_if(free.count() >= source.room, "free extents")?;
            free.push(geometry.offset(ag, start)?..geometry.offset(ag, end)?);
            last = end;
            by_block.add(run);
            Ok(())
        })?;
        let mut by_size = Tally::default();
        let second = walk(&tree(1), BY_SIZE, |run| {
            by_size.add(run);
            Ok(())
        })?;
        corrupt_if(by_block != by_size, "the two free space trees disagree")?;
        let mut group = Group {
            free,
            patched: header.patched || list_patched || first.patched || second.patched,
            free_blocks: by_block.blocks,
            listed: u64::from(header.list_count),
            tree_blocks: 0,
        };
        group.count(geometry, &header, &by_block, [&first, &second])?;
        group.check_used(geometry, ag, [&listed, &first.blocks, &second.blocks])?;
        Ok(group)
    }

    /// Compares what the header counts.
    fn count(&mut self, geometry: &Geometry, header: &Header, tally: &Tally, trees: [&Walk; 2]) -> Result<(), Refusal> {
        let disagree = tally.blocks != u64::from(header.free_blocks) || tally.longest != header.longest;
        corrupt_if(disagree, "a group's free space and its header disagree")?;
        // The roots are not counted.
        let mut blocks = 0;
        for tree in trees {
            blocks += difference(tree.blocks.len() as u64, 1)?;
        }
        if geometry.reverse_map {
            blocks += difference(u64::from(header.reverse_blocks), 1)?;
        }
        let disagree = geometry.lazy_counts && blocks != u64::from(header.tree_blocks);
        corrupt_if(disagree, "a group's trees and its header disagree")?;
        self.tree_blocks = blocks;
        Ok(())
    }

    /// What the trees and the list consist of must neither be free nor be used twice.
    fn check_used(&self, geometry: &Geometry, ag: u32, sets: [&HashSet<u32>; 3]) -> Result<(), Refusal> {
        let mut seen = HashSet::new();
        for block in sets.into_iter().flatten() {
            let own = u64::from(*block) >= geometry.header_blocks() && seen.insert(*block);
            let wrong = !own || self.free.contains(geometry.offset(ag, u64::from(*block))?);
            corrupt_if(wrong, "a block of a free space tree is free or used twice")?;
        }
        Ok(())
    }

    /// How many blocks the superblock counts as free for this group: free ones, those on the list, and those of the
    /// btrees of free space but for their roots.
    pub fn counted_free(&self) -> u64 {
        self.free_blocks + self.listed + self.tree_blocks
    }
}

fn header(source: &Source<'_>, ag: u32) -> Result<Header, Refusal> {
    let geometry = source.geometry;
    let offset = sum(geometry.offset(ag, 0)?, geometry.sector)?;
    let (bytes, patched) = source.read(offset, geometry.sector)?;
    corrupt_if(be32(&bytes, 0)? != 0x5841_4746 || be32(&bytes, 4)? != 1, format_args!("group {ag} has no header"))?;
    let foreign = be32(&bytes, 8)? != ag || u64::from(be32(&bytes, 12)?) != geometry.blocks_of(ag);
    corrupt_if(foreign, format_args!("the header of group {ag} is that of another"))?;
    if geometry.v5 {
        source.check_seal(&bytes, patched, (216, 208), "a group header")?;
        let foreign = slice(&bytes, 64, 16)? != geometry.meta_uuid;
        corrupt_if(foreign, format_args!("the header of group {ag} is of another filesystem"))?;
    }
    Ok(Header {
        roots: [be32(&bytes, 16)?, be32(&bytes, 20)?],
        levels: [be32(&bytes, 28)?, be32(&bytes, 32)?],
        list_first: be32(&bytes, 40)?,
        list_last: be32(&bytes, 44)?,
        list_count: be32(&bytes, 48)?,
        free_blocks: be32(&bytes, 52)?,
        longest: be32(&bytes, 56)?,
        tree_blocks: be32(&bytes, 60)?,
        reverse_blocks: be32(&bytes, 80)?,
        patched,
    })
}

/// The blocks that the list of a group reserves for its trees, which count as used here.
fn list(source: &Source<'_>, ag: u32, header: &Header) -> Result<(HashSet<u32>, bool), Refusal> {
    let geometry = source.geometry;
    let offset = sum(geometry.offset(ag, 0)?, product(3, geometry.sector)?)?;
    let (bytes, patched) = source.read(offset, geometry.sector)?;
    let first = if geometry.v5 { 36 } else { 0 };
    if geometry.v5 {
        if be32(&bytes, 0)? != 0x5841_464c || be32(&bytes, 4)? != ag || slice(&bytes, 8, 16)? != geometry.meta_uuid {
            return Err(Refusal::corrupt(format!("group {ag} has no free list")));
        }
        source.check_seal(&bytes, patched, (32, 24), "a free list")?;
    }
    let size = (bytes.len().saturating_sub(first) / 4) as u32;
    let (from, to, count) = (header.list_first, header.list_last, header.list_count);
    let misplaced = from >= size || to >= size || count > size;
    corrupt_if(misplaced, format_args!("the free list of group {ag} lies outside itself"))?;
    let holds = if to >= from { to - from + 1 } else { size - from + to + 1 };
    // An empty list's end is just before its start.
    corrupt_if(holds % size != count % size, format_args!("the free list of group {ag} has another length"))?;
    let mut blocks = HashSet::new();
    for step in 0..count {
        let block = be32(&bytes, first + 4 * ((from + step) % size) as usize)?;
        let wrong = u64::from(block) >= geometry.blocks_of(ag) || !blocks.insert(block);
        corrupt_if(wrong, format_args!("the free list of group {ag} is wrong"))?;
    }
    Ok((blocks, patched))
}

/// A run of free blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// The first block, within its allocation group.
    start: u32,
    len: u32,
}

/// What a tree is sorted by.
type Key = fn(Run) -> (u32, u32);
const BY_BLOCK: Key = |run| (run.start, 0);
const BY_SIZE: Key = |run| (run.len, run.start);

/// What a walk over one tree found.
struct Walk {
    blocks: HashSet<u32>,
    /// Whether the log changed one of them.
    patched: bool,
}

/// Visits every record in the order of the tree. Beside what [`Tree::nodes`] checks, no block may occur twice, and the
/// order of records and that the parent's key is that of the first record are checked.
fn walk(tree: &Tree<'_>, key: Key, mut visit: impl FnMut(Run) -> Result<(), Refusal>) -> Result<Walk, Refusal> {
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
