//! The btrees of an allocation group, in short format: free space, inodes, reverse mappings, reference counts.

use crate::bytes::{be16, be32, be64, slice};
use crate::refusal::{Refusal, refuse_if};

use super::overlay::Source;
use super::superblock::BASIC_BLOCK;

/// No kernel makes them higher.
const HIGHEST: u32 = 9;

const NONE: u32 = u32::MAX;

/// How a kind of tree is written.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// What it is called in refusals.
    pub name: &'static str,
    /// What its blocks start with, in version 4 and in version 5.
    pub magic: [u32; 2],
    /// Bytes of a record.
    pub record: usize,
    /// Bytes of what a parent says of a child, in front of its number.
    pub key: usize,
}

/// Free space, by block ("ABTB", "AB3B") and by size ("ABTC", "AB3C"). Its keys are the beginnings of records, which is all of them.
pub const FREE_SPACE: [Kind; 2] = [
    Kind { name: "the free space tree by block", magic: [0x4142_5442, 0x4142_3342], record: 8, key: 8 },
    Kind { name: "the free space tree by size", magic: [0x4142_5443, 0x4142_3343], record: 8, key: 8 },
];
/// Inodes in chunks of 64: all, or those chunks of which some are free.
pub const INODES: [Kind; 2] = [
    Kind { name: "the tree of inodes", magic: [0x4941_4254, 0x4941_4233], record: 16, key: 4 },
    Kind { name: "the tree of free inodes", magic: [0x4649_4254, 0x4649_4233], record: 16, key: 4 },
];
/// What each block belongs to. Its keys are pairs.
pub const REVERSE: Kind = Kind { name: "the tree of reverse mappings", magic: [0, 0x524d_4233], record: 24, key: 40 };
/// How often blocks are shared.
pub const REFERENCES: Kind = Kind { name: "the tree of reference counts", magic: [0, 0x5233_4643], record: 12, key: 4 };

/// One tree of one allocation group.
pub struct Tree<'a> {
    pub source: &'a Source<'a>,
    pub ag: u32,
    pub kind: Kind,
    pub root: u32,
    pub levels: u32,
}

/// One block of a tree, checked.
pub struct Node<'a> {
    /// Where it is, within its allocation group.
    pub block: u32,
    /// Its height above the leaves.
    pub level: u32,
    /// Whether the log changed it.
    pub patched: bool,
    /// The records of a leaf, the keys of another block, without gaps.
    pub records: &'a [u8],
    /// The numbers of the blocks below, four bytes each.
    pub children: &'a [u8],
}

impl Tree<'_> {
    fn wrong(&self, what: &str) -> Refusal {
        Refusal::corrupt(format!("{} of group {}: {what}", self.kind.name, self.ag))
    }

    /// Visits every record, left to right, and checks what [`Tree::nodes`] does. No block may be one that `is_free`.
    pub fn walk(
        &self,
        is_free: &dyn Fn(u32) -> Result<bool, Refusal>,
        visit: &mut dyn FnMut(&[u8]) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.nodes(is_free, &mut |node| {
            if self.source.geometry.v5 {
                self.source.region.budget().give_back(self.source.geometry.block);
            }
            let records = if node.level == 0 { node.records } else { &[] };
            records.chunks_exact(self.kind.record).try_for_each(&mut *visit)
        })
    }

    /// Visits every block, the root first, and the leaves left to right. Every block is checked: kind, level, address,
    /// owner, checksum, neighbours. It must be none that `is_free`.
    pub fn nodes(
        &self,
        is_free: &dyn Fn(u32) -> Result<bool, Refusal>,
        visit: &mut dyn FnMut(&Node<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        refuse_if(self.levels == 0 || self.levels > HIGHEST, || self.wrong("an impossible height"))?;
        let header = if self.source.geometry.v5 { 56 } else { 16 };
        // The last block on each level, and the one that it says comes next.
        let mut rows = vec![(NONE, NONE); self.levels as usize];
        let mut steps = vec![(self.root, self.levels - 1)];
        while let Some((block, level)) = steps.pop() {
            self.source.region.budget().take_node()?;
            let outside = u64::from(block) >= self.source.geometry.blocks_of(self.ag) || is_free(block)?;
            refuse_if(outside, || self.wrong("a block that is free or outside"))?;
            let (bytes, patched) = self.read(block, level)?;
            let row = rows.get_mut(level as usize).ok_or_else(|| self.wrong("too high"))?;
            let (left, right) = (be32(&bytes, 8)?, be32(&bytes, 12)?);
            let astray = left != row.0 || (row.0 != NONE && row.1 != block);
            refuse_if(astray, || self.wrong("blocks that are not neighbours"))?;
            *row = (block, right);
            let (count, room) = (usize::from(be16(&bytes, 6)?), bytes.len().saturating_sub(header));
            let record = if level == 0 { self.kind.record } else { self.kind.key };
            let most = room / if level == 0 { record } else { record + 4 };
            // Only a tree without records, as that of a group without free space, has an empty block: a root alone.
            let impossible = count > most || (count == 0 && self.levels > 1);
            refuse_if(impossible, || self.wrong("an impossible number of records"))?;
            let records = slice(&bytes, header, record * count)?;
            let children = if level == 0 { &[] } else { slice(&bytes, header + record * most, 4 * count)? };
            visit(&Node { block, level, patched, records, children })?;
            // The leftmost is visited next.
            for child in children.chunks_exact(4).rev() {
                steps.push((be32(child, 0)?, level - 1));
            }
        }
        refuse_if(!rows.iter().all(|row| row.1 == NONE), || self.wrong("a row that does not end"))
    }

    fn read(&self, block: u32, level: u32) -> Result<(Vec<u8>, bool), Refusal> {
        let geometry = self.source.geometry;
        let offset = geometry.offset(self.ag, u64::from(block))?;
        let (bytes, patched) = self.source.read(offset, geometry.block)?;
        let magic = self.kind.magic[usize::from(geometry.v5)];
        let other = be32(&bytes, 0)? != magic || u32::from(be16(&bytes, 4)?) != level;
        refuse_if(other, || self.wrong("a block of another kind or level"))?;
        if geometry.v5 {
            self.source.check_seal(&bytes, patched, (52, 24), self.kind.name)?;
            let own = be64(&bytes, 16)? == offset / BASIC_BLOCK
                && slice(&bytes, 32, 16)? == geometry.meta_uuid
                && be32(&bytes, 48)? == self.ag;
            refuse_if(!own, || self.wrong("a block that belongs elsewhere"))?;
        }
        Ok((bytes, patched))
    }
}
