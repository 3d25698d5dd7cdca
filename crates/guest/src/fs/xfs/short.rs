//! The btrees of an allocation group that no free space is read from: inodes, reverse mappings, reference counts.

use crate::bytes::{be16, be32, be64, slice};
use crate::refusal::{Refusal, refuse_if};

use super::btree::HIGHEST;
use super::checksum;
use super::overlay::Source;
use super::superblock::{BASIC_BLOCK, Geometry};

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
    /// Where to read.
    pub source: &'a Source<'a>,
    /// Of this filesystem.
    pub geometry: &'a Geometry,
    /// The allocation group.
    pub ag: u32,
    /// Which tree.
    pub kind: Kind,
    /// Its root.
    pub root: u32,
    /// How many levels it has.
    pub levels: u32,
}

impl Tree<'_> {
    fn wrong(&self, what: &str) -> Refusal {
        Refusal::corrupt(format!("{} of group {}: {what}", self.kind.name, self.ag))
    }

    /// Visits every record, left to right. Every block is checked: kind, level, address, owner, checksum, neighbours. It
    /// must be none that `is_free`.
    pub fn walk(
        &self,
        is_free: &dyn Fn(u32) -> Result<bool, Refusal>,
        visit: &mut dyn FnMut(&[u8]) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        if self.levels == 0 || self.levels > HIGHEST {
            return Err(self.wrong("an impossible height"));
        }
        let header = if self.geometry.v5 { 56 } else { 16 };
        // The last block on each level, and the one that it says comes next.
        let mut rows = vec![(NONE, NONE); self.levels as usize];
        let mut steps = vec![(self.root, self.levels - 1)];
        while let Some((block, level)) = steps.pop() {
            self.source.region.budget().take_node()?;
            if u64::from(block) >= self.geometry.blocks_of(self.ag) || is_free(block)? {
                return Err(self.wrong("a block that is free or outside"));
            }
            let bytes = self.read(block, level)?;
            let row = rows.get_mut(level as usize).ok_or_else(|| self.wrong("too high"))?;
            let (left, right) = (be32(&bytes, 8)?, be32(&bytes, 12)?);
            if left != row.0 || (row.0 != NONE && row.1 != block) {
                return Err(self.wrong("blocks that are not neighbours"));
            }
            *row = (block, right);
            let (count, room) = (usize::from(be16(&bytes, 6)?), bytes.len().saturating_sub(header));
            let most = if level == 0 { room / self.kind.record } else { room / (self.kind.key + 4) };
            if count > most || (count == 0 && self.levels > 1) {
                return Err(self.wrong("an impossible number of records"));
            }
            for index in 0..count {
                if level == 0 {
                    visit(slice(&bytes, header + self.kind.record * index, self.kind.record)?)?;
                } else {
                    // The leftmost is visited next.
                    let index = count - 1 - index;
                    steps.push((be32(&bytes, header + self.kind.key * most + 4 * index)?, level - 1));
                }
            }
        }
        refuse_if(!rows.iter().all(|row| row.1 == NONE), || self.wrong("a row that does not end"))
    }

    fn read(&self, block: u32, level: u32) -> Result<Vec<u8>, Refusal> {
        let geometry = self.geometry;
        let offset = geometry.offset(self.ag, u64::from(block))?;
        let (bytes, patched) = self.source.read(offset, geometry.block)?;
        if be32(&bytes, 0)? != self.kind.magic[usize::from(geometry.v5)] || u32::from(be16(&bytes, 4)?) != level {
            return Err(self.wrong("a block of another kind or level"));
        }
        if geometry.v5 {
            if !patched {
                checksum::verify(&bytes, 52, self.kind.name)?;
            }
            let own = be64(&bytes, 16)? == offset / BASIC_BLOCK
                && slice(&bytes, 32, 16)? == geometry.meta_uuid
                && be32(&bytes, 48)? == self.ag;
            if !own {
                return Err(self.wrong("a block that belongs elsewhere"));
            }
            self.source.check_lsn(be64(&bytes, 24)?)?;
            self.source.region.budget().give_back(geometry.block);
        }
        Ok(bytes)
    }
}
