//! What a transaction in the log holds: one item for each buffer, inode or promise of work.
//!
//! The structures are in the order of the machine that wrote them; only little-endian logs are read.

use crate::bytes::{be32, le16, le32, le64, product, slice, sum};
use crate::extents::Extent;
use crate::refusal::{Refusal, corrupt_if, refuse_if};

use super::superblock::{BASIC_BLOCK, Geometry};

/// A dirty buffer is logged in pieces of so many bytes.
const CHUNK: usize = 128;

mod kind {
    pub const INODE: u16 = 0x123b;
    pub const BUFFER: u16 = 0x123c;
    pub const DQUOT: u16 = 0x123d;
    pub const INODE_CREATE: u16 = 0x123f;
    /// Extents to free, quotas to turn off, reverse mappings, reference counts, block mappings, attributes and
    /// exchanges: promises, and that they were kept. They change nothing but through buffers and inodes.
    pub const WITHOUT_BLOCKS: [u16; 13] =
        [0x1236, 0x1237, 0x123e, 0x1240, 0x1241, 0x1242, 0x1243, 0x1244, 0x1245, 0x1246, 0x1247, 0x1248, 0x1249];
}

mod flag {
    pub const INODES: u16 = 1;
    pub const CANCEL: u16 = 2;
    pub const KIND_SHIFT: u32 = 11;
    /// Btree block, AGF, AGFL, AGI: the kinds of buffers that free space is in, or that lead to inodes.
    pub const KINDS: [u16; 4] = [4, 5, 6, 7];
}

/// A piece of a buffer that the log has.
pub struct Piece {
    /// Where in the buffer, in bytes.
    pub offset: usize,
    pub bytes: Vec<u8>,
}

/// What replaying an item does.
pub enum Item {
    /// Writes pieces of a buffer; `None` where it cannot be one of free space and they were not kept.
    Buffer {
        /// The whole buffer, in bytes of the filesystem.
        extent: Extent,
        pieces: Option<Vec<Piece>>,
        /// Replayed after others of its transaction.
        of_inodes: bool,
        /// The log sequence number of the transaction.
        lsn: u64,
    },
    /// Says that earlier items of this buffer count no more, since its blocks were freed.
    Cancel(Extent),
    /// Writes to a buffer in another way: an inode, a quota.
    Touch(Extent),
    /// Writes a new chunk of inodes.
    Create(Extent),
}

impl Item {
    /// In which order the items of one transaction are replayed.
    pub fn rank(&self) -> u8 {
        match self {
            Item::Buffer { of_inodes: false, .. } | Item::Create(_) => 0,
            Item::Touch(_) => 1,
            Item::Buffer { of_inodes: true, .. } => 2,
            Item::Cancel(_) => 3,
        }
    }
}

/// An item as it was logged: a description, and regions of contents.
#[derive(Default)]
pub struct Raw {
    /// How many regions it has, with the description.
    pub total: usize,
    /// The description, complete as soon as there is another region or item.
    pub description: Vec<u8>,
    /// The regions behind it: their length, and their bytes if they may be free space.
    pub regions: Vec<(usize, Vec<u8>)>,
    /// How many regions there are, with the description.
    pub count: usize,
}

impl Raw {
    /// Whether its contents may be those of the free space map or the superblock.
    pub fn is_wanted(&self) -> Result<bool, Refusal> {
        let description = &self.description;
        if le16(description, 0)? != kind::BUFFER {
            return Ok(false);
        }
        let (flags, block) = (le16(description, 4)?, le64(description, 8)?);
        Ok(flags & flag::CANCEL == 0 && (block == 0 || flag::KINDS.contains(&(flags >> flag::KIND_SHIFT))))
    }

    /// What replaying it does; `None` for nothing.
    pub fn understand(self, geometry: &Geometry, lsn: u64) -> Result<Option<Item>, Refusal> {
        corrupt_if(self.count != self.total, "an item in the log is not whole")?;
        let description = &self.description;
        match le16(description, 0)? {
            kind::BUFFER => self.buffer(geometry, lsn).map(Some),
            kind::INODE if description.len() == 56 => {
                Ok(Some(Item::Touch(buffer_extent(geometry, le64(description, 40)?, le32(description, 48)?)?)))
            }
            kind::DQUOT => {
                Ok(Some(Item::Touch(buffer_extent(geometry, le64(description, 8)?, le32(description, 16)?)?)))
            }
            kind::INODE_CREATE => {
                let (ag, block, len) = (be32(description, 4)?, be32(description, 8)?, be32(description, 20)?);
                let misplaced = ag >= geometry.ags || sum(block.into(), len.into())? > geometry.blocks_of(ag);
                corrupt_if(misplaced, "the log makes inodes outside their group")?;
                let extent = Extent { start: geometry.offset(ag, block.into())?, len: u64::from(len) * geometry.block };
                Ok(Some(Item::Create(extent)))
            }
            other if kind::WITHOUT_BLOCKS.contains(&other) => Ok(None),
            other => Err(Refusal::unsupported(format!("an item of kind {other:#x} in the log"))),
        }
    }

    fn buffer(self, geometry: &Geometry, lsn: u64) -> Result<Item, Refusal> {
        let wanted = self.is_wanted()?;
        let description = &self.description;
        let (flags, blocks) = (le16(description, 4)?, le16(description, 6)?);
        let extent = buffer_extent(geometry, le64(description, 8)?, u32::from(blocks))?;
        if flags & flag::CANCEL != 0 {
            return Ok(Item::Cancel(extent));
        }
        let pieces = if wanted { Some(self.pieces(extent.len as usize)?) } else { None };
        Ok(Item::Buffer { extent, pieces, of_inodes: flags & flag::INODES != 0, lsn })
    }

    /// The regions, at the places that the bitmap in the description says. One run of its bits may be several regions.
    fn pieces(self, len: usize) -> Result<Vec<Piece>, Refusal> {
        let wrong = || Refusal::corrupt("a buffer in the log and its bitmap disagree");
        let words = le32(&self.description, 16)? as usize;
        let map = slice(&self.description, 20, words.checked_mul(4).ok_or_else(wrong)?)?;
        let bit = |chunk: usize| map.get(chunk / 8).is_some_and(|byte| byte >> (chunk % 8) & 1 != 0);
        let chunks = map.len() * 8;
        let mut at = 0;
        let mut pieces = Vec::new();
        for (size, bytes) in self.regions {
            while at < chunks && !bit(at) {
                at += 1;
            }
            let count = size / CHUNK;
            let all_set = count > 0 && at + count <= chunks && (at..at + count).all(bit);
            refuse_if(size % CHUNK != 0 || !all_set || (at + count) * CHUNK > len || bytes.len() != size, wrong)?;
            pieces.push(Piece { offset: at * CHUNK, bytes });
            at += count;
        }
        refuse_if((at..chunks).any(bit), wrong)?;
        Ok(pieces)
    }
}

/// The bytes of a buffer of `count` basic blocks from basic block `first` on.
fn buffer_extent(geometry: &Geometry, first: u64, count: u32) -> Result<Extent, Refusal> {
    let (start, len) = (product(first, BASIC_BLOCK)?, u64::from(count) * BASIC_BLOCK);
    let misplaced = len == 0 || sum(start, len)? > product(geometry.blocks, geometry.block)?;
    corrupt_if(misplaced, "the log writes outside the filesystem")?;
    Ok(Extent { start, len })
}
