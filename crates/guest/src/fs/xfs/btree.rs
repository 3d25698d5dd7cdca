//! The two btrees of free space of an allocation group, in short format: one by block, one by size.

use std::collections::HashSet;

use crate::bytes::{be16, be32, be64, slice};
use crate::refusal::{OrRefuse, Refusal, corrupt_if};

use super::checksum;
use super::overlay::Source;
use super::superblock::{BASIC_BLOCK, Geometry};

/// No kernel makes them higher.
pub const HIGHEST: u32 = 9;

const NONE: u32 = u32::MAX;

/// Which order the records have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// "ABTB", "AB3B".
    ByBlock,
    /// "ABTC", "AB3C".
    BySize,
}

/// A run of free blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first block, within its allocation group.
    pub start: u32,
    /// How many blocks.
    pub len: u32,
}

impl Run {
    fn at(bytes: &[u8], offset: usize) -> Result<Run, Refusal> {
        Ok(Run { start: be32(bytes, offset)?, len: be32(bytes, offset + 4)? })
    }

    /// What the tree is sorted by.
    fn key(self, order: Order) -> (u32, u32) {
        match order {
            Order::ByBlock => (self.start, 0),
            Order::BySize => (self.len, self.start),
        }
    }
}

/// What a walk over one tree found.
pub struct Walk {
    /// All blocks of the tree, the root first.
    pub blocks: HashSet<u32>,
    /// Whether the log changed one of them.
    pub patched: bool,
}

struct Step {
    block: u32,
    level: u32,
    /// What the parent says the first record is.
    key: Option<(u32, u32)>,
}

/// How far the walk has come on one level, left to right.
#[derive(Clone, Copy)]
struct Row {
    last: u32,
    right: u32,
}

/// One tree of one allocation group.
pub struct Tree<'a> {
    /// Where to read.
    pub source: &'a Source<'a>,
    /// Of this filesystem.
    pub geometry: &'a Geometry,
    /// The allocation group.
    pub ag: u32,
    /// Which of the two.
    pub order: Order,
    /// Its root.
    pub root: u32,
    /// How many levels it has.
    pub levels: u32,
}

impl Tree<'_> {
    /// Visits every record in the order of the tree. Every block is checked: kind, level, address, owner, checksum,
    /// neighbours, order of records and that the parent's key is that of the first record.
    pub fn walk(&self, mut visit: impl FnMut(Run) -> Result<(), Refusal>) -> Result<Walk, Refusal> {
        if self.levels == 0 || self.levels > HIGHEST {
            return Err(Refusal::corrupt(format!("a free space tree of {} levels", self.levels)));
        }
        let mut walk = Walk { blocks: HashSet::new(), patched: false };
        let mut rows = vec![Row { last: NONE, right: NONE }; self.levels as usize];
        let mut steps = vec![Step { block: self.root, level: self.levels - 1, key: None }];
        let mut last = None;
        while let Some(step) = steps.pop() {
            self.source.region.budget().take_node()?;
            corrupt_if(!walk.blocks.insert(step.block), "a block of a free space tree occurs twice")?;
            let (bytes, patched) = self.read(&step)?;
            walk.patched |= patched;
            self.follow(&step, &bytes, &mut rows)?;
            let records = self.records(&step, &bytes)?;
            if step.level == 0 {
                for run in records {
                    corrupt_if(last.is_some_and(|last| last >= run.key(self.order)), "free space is not in order")?;
                    last = Some(run.key(self.order));
                    visit(run)?;
                }
            } else {
                self.descend(&step, &bytes, &records, &mut steps)?;
            }
        }
        corrupt_if(rows.iter().any(|row| row.right != NONE), "a row of a free space tree does not end")?;
        Ok(walk)
    }

    fn header(&self) -> usize {
        if self.geometry.v5 { 56 } else { 16 }
    }

    fn read(&self, step: &Step) -> Result<(Vec<u8>, bool), Refusal> {
        let geometry = self.geometry;
        if u64::from(step.block) >= geometry.blocks_of(self.ag) {
            return Err(Refusal::corrupt("a block of a free space tree lies outside its group"));
        }
        let offset = geometry.offset(self.ag, u64::from(step.block))?;
        let (bytes, patched) = self.source.read(offset, geometry.block)?;
        let magic = match (self.order, geometry.v5) {
            (Order::ByBlock, false) => 0x4142_5442,
            (Order::ByBlock, true) => 0x4142_3342,
            (Order::BySize, false) => 0x4142_5443,
            (Order::BySize, true) => 0x4142_3343,
        };
        if be32(&bytes, 0)? != magic || u32::from(be16(&bytes, 4)?) != step.level {
            return Err(Refusal::corrupt("a block of a free space tree is of another kind or level"));
        }
        if geometry.v5 {
            if !patched {
                checksum::verify(&bytes, 52, "a block of a free space tree")?;
            }
            let own = be64(&bytes, 16)? == offset / BASIC_BLOCK
                && slice(&bytes, 32, 16)? == geometry.meta_uuid
                && be32(&bytes, 48)? == self.ag;
            corrupt_if(!own, "a block of a free space tree belongs elsewhere")?;
            self.source.check_lsn(be64(&bytes, 24)?)?;
        }
        Ok((bytes, patched))
    }

    /// Checks that it is the right neighbour of the block before it on its level.
    fn follow(&self, step: &Step, bytes: &[u8], rows: &mut [Row]) -> Result<(), Refusal> {
        let row = rows.get_mut(step.level as usize).or_corrupt("a free space tree is too high")?;
        let (left, right) = (be32(bytes, 8)?, be32(bytes, 12)?);
        if left != row.last || (row.last != NONE && row.right != step.block) {
            return Err(Refusal::corrupt("blocks of a free space tree are not neighbours"));
        }
        *row = Row { last: step.block, right };
        Ok(())
    }

    /// The records of a leaf, the keys of another block; both are runs.
    fn records(&self, step: &Step, bytes: &[u8]) -> Result<Vec<Run>, Refusal> {
        let (count, room) = (usize::from(be16(bytes, 6)?), bytes.len().saturating_sub(self.header()));
        let most = if step.level == 0 { room / 8 } else { room / 12 };
        // Only a group without free space has an empty tree, which is a root alone.
        if count > most || (count == 0 && self.levels > 1) {
            return Err(Refusal::corrupt(format!("{count} records in a block of a free space tree")));
        }
        let runs = (0..count).map(|index| Run::at(bytes, self.header() + 8 * index)).collect::<Result<Vec<_>, _>>()?;
        if step.key.is_some_and(|key| runs.first().is_none_or(|run| run.key(self.order) != key)) {
            return Err(Refusal::corrupt("a free space tree and its keys disagree"));
        }
        Ok(runs)
    }

    fn descend(&self, step: &Step, bytes: &[u8], keys: &[Run], steps: &mut Vec<Step>) -> Result<(), Refusal> {
        let level = step.level.checked_sub(1).or_corrupt("a leaf with children")?;
        let most = bytes.len().saturating_sub(self.header()) / 12;
        // The leftmost is visited next.
        for (index, key) in keys.iter().enumerate().rev() {
            let block = be32(bytes, self.header() + 8 * most + 4 * index)?;
            steps.push(Step { block, level, key: Some(key.key(self.order)) });
        }
        Ok(())
    }
}
