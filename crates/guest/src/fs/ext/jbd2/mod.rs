//! The journal of ext3 and ext4 (jbd2): what a replay would write.
//!
//! What the kernel replays is known only if the log is whole. So everything that it would accept in silence is doubted
//! here: a log that ends in the middle of a transaction, and blocks of later transactions than the last one.

mod log;
mod tags;
#[cfg(test)]
mod tests;

use std::ops::Range;

use super::blocks::{Blocks, Replayed};
use super::inode::{self, Mapped};
use super::sums::crc32c;
use super::superblock::Layout;
use crate::bytes::{be32, le16, le32, slice, u8_at};
use crate::refusal::Refusal;

/// What each block of the journal that is not a copy starts with.
pub(super) const MAGIC: u32 = 0xc03b_3998;

/// A longer journal is not looked through. mke2fs makes none of more than 1 GiB by itself, with at most
/// half as many blocks.
const MOST_BLOCKS: u64 = 1 << 19;

/// As many blocks that only their first bytes are read of count as a node.
const HEADS_OF_NODE: u64 = 16;

/// Fast commits take this many blocks where the journal does not say it.
const FAST_COMMIT_BLOCKS: u64 = 256;
/// The first entry of a run of fast commits.
const FAST_COMMIT_HEAD: u16 = 9;

mod incompat {
    pub(super) const SIXTY_FOUR: u32 = 0x2;
    pub(super) const CSUM_V2: u32 = 0x8;
    pub(super) const CSUM_V3: u32 = 0x10;
    pub(super) const FAST_COMMIT: u32 = 0x20;
    /// Revoked blocks and asynchronous commits too: the checksums of the latter are all verified.
    pub(super) const KNOWN: u32 = 0x1 | SIXTY_FOUR | 0x4 | CSUM_V2 | CSUM_V3 | FAST_COMMIT;
}

/// What is guarded by checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sums {
    /// Nothing.
    None,
    /// Each transaction as a whole.
    Transactions,
    /// Everything, with half of the checksum for the copies.
    V2,
    /// Everything.
    V3,
}

/// How the journal is written.
#[derive(Debug, Clone, Copy)]
struct Form {
    /// Bytes of a block.
    block: usize,
    /// Block numbers have 64 bits.
    wide: bool,
    sums: Sums,
    /// Where CRC-32C starts.
    seed: u32,
}

impl Form {
    /// Whether each block has a checksum.
    fn guarded(&self) -> bool {
        matches!(self.sums, Sums::V2 | Sums::V3)
    }

    /// Bytes of a block of tags or revocations in front of its checksum.
    fn body(&self) -> usize {
        self.block - if self.guarded() { 4 } else { 0 }
    }

    /// Checks the checksum at the end of a block of tags or revocations.
    fn check(&self, block: &[u8]) -> Result<(), Refusal> {
        if !self.guarded() {
            return Ok(());
        }
        let sum = crc32c(crc32c(self.seed, slice(block, 0, self.body())?), &[0; 4]);
        match sum == be32(block, self.body())? {
            true => Ok(()),
            false => Err(Refusal::corrupt("a checksum in the journal is wrong")),
        }
    }
}

/// An internal journal.
pub(super) struct Journal {
    file: Mapped,
    form: Form,
    /// The blocks of the ring.
    ring: Range<u64>,
    /// The blocks of the fast commits, which may be none.
    fast: Range<u64>,
    /// Where the oldest transaction starts; none if everything is in its place.
    start: Option<u64>,
    /// The number of the oldest transaction, or of the next one.
    sequence: u32,
}

impl Journal {
    /// Finds the journal and reads its superblock.
    pub(super) fn open(blocks: &Blocks<'_>, layout: &Layout) -> Result<Journal, Refusal> {
        // The kernel looks for it before the replay, in the descriptors as they are on the disk.
        let group = super::groups::first(blocks, layout)?;
        let file = inode::journal(blocks, layout, &group)?;
        let head = blocks.read(file.place(0)?)?;
        if be32(&head, 0)? != MAGIC || be32(&head, 0x0c)? != layout.block {
            return Err(Refusal::corrupt("the journal has no superblock"));
        }
        if be32(&head, 4)? != 4 {
            return Err(Refusal::unsupported("a journal of the first version"));
        }
        if be32(&head, 0x20)? != 0 {
            return Err(Refusal::dirty("its journal has recorded an error"));
        }
        let (form, features) = form(&head, layout)?;
        let (end, first) = (u64::from(be32(&head, 0x10)?), u64::from(be32(&head, 0x14)?));
        let fast = match features & incompat::FAST_COMMIT {
            0 => 0,
            _ => match u64::from(be32(&head, 0x54)?) {
                0 => FAST_COMMIT_BLOCKS,
                blocks => blocks,
            },
        };
        let last = end.checked_sub(fast).filter(|last| first >= 1 && first < *last && end <= file.blocks());
        let Some(last) = last else {
            return Err(Refusal::corrupt("the journal's size is wrong"));
        };
        let start = Some(u64::from(be32(&head, 0x1c)?)).filter(|start| *start != 0);
        if start.is_some_and(|start| !(first..last).contains(&start)) {
            return Err(Refusal::corrupt("the journal starts outside"));
        }
        Ok(Journal { file, form, ring: first..last, fast: last..end, start, sequence: be32(&head, 0x18)? })
    }

    /// Whether there is nothing to replay.
    pub(super) fn is_empty(&self) -> bool {
        self.start.is_none()
    }

    /// All blocks of the filesystem that it takes.
    pub(super) fn taken(&self) -> Vec<Range<u64>> {
        self.file.taken()
    }

    /// Whether a replay would change the journal.
    pub(super) fn writes_into_itself(&self, replayed: &Replayed) -> bool {
        self.taken().into_iter().flatten().any(|block| replayed.contains_key(&block))
    }

    /// What a replay would write, and how many transactions that are.
    ///
    /// # Errors
    /// If anything in the log is doubtful, or there are fast commits behind it.
    pub(super) fn replay(&self, blocks: &Blocks<'_>, layout: &Layout) -> Result<(Replayed, u32), Refusal> {
        if self.file.blocks() > MOST_BLOCKS {
            return Err(Refusal::Budget("blocks of the journal"));
        }
        let log = log::read(self, blocks, layout)?;
        self.nothing_newer(blocks, log.end)?;
        self.no_fast_commits(blocks, log.end)?;
        Ok((log.replayed(), log.end.wrapping_sub(self.sequence)))
    }

    /// Whether the file has the same blocks after the replay.
    pub(super) fn check_place(&self, blocks: &Blocks<'_>, layout: &Layout) -> Result<(), Refusal> {
        let group = super::groups::first(blocks, layout)?;
        match inode::journal(blocks, layout, &group)? == self.file {
            true => Ok(()),
            false => Err(Refusal::corrupt("the journal moves by its own replay")),
        }
    }

    /// Refuses blocks of the transaction `end` or a later one: then the log has a gap, or its last transaction was
    /// just being written.
    fn nothing_newer(&self, blocks: &Blocks<'_>, end: u32) -> Result<(), Refusal> {
        for block in self.ring.clone() {
            if block % HEADS_OF_NODE == 0 {
                blocks.region.budget().take_node()?;
            }
            let head = self.head(blocks, block)?;
            if be32(&head, 0)? == MAGIC && (be32(&head, 8)?.wrapping_sub(end) as i32) >= 0 {
                return Err(Refusal::dirty("its journal does not say where it ends"));
            }
        }
        Ok(())
    }

    /// Refuses fast commits that a replay would take, since they allocate blocks that no bitmap shows.
    fn no_fast_commits(&self, blocks: &Blocks<'_>, end: u32) -> Result<(), Refusal> {
        for block in self.fast.clone() {
            let head = self.head(blocks, block)?;
            if le16(&head, 0)? == FAST_COMMIT_HEAD && (le32(&head, 8)?.wrapping_sub(end) as i32) >= 0 {
                return Err(Refusal::dirty("its journal has fast commits"));
            }
        }
        Ok(())
    }

    /// The first 12 bytes of a block of the journal.
    fn head(&self, blocks: &Blocks<'_>, block: u64) -> Result<[u8; 12], Refusal> {
        let mut head = [0; 12];
        blocks.region.read_into(self.file.place(block)? * self.form.block as u64, &mut head)?;
        Ok(head)
    }
}

fn form(head: &[u8], layout: &Layout) -> Result<(Form, u32), Refusal> {
    let (compat, features) = (be32(head, 0x24)?, be32(head, 0x28)?);
    if compat & !1 != 0 || features & !incompat::KNOWN != 0 || be32(head, 0x2c)? != 0 {
        return Err(Refusal::unsupported("unknown features of its journal"));
    }
    let sums = match (compat & 1, features & (incompat::CSUM_V2 | incompat::CSUM_V3)) {
        (0, 0) => Sums::None,
        (1, 0) => Sums::Transactions,
        (0, incompat::CSUM_V2) => Sums::V2,
        (0, incompat::CSUM_V3) => Sums::V3,
        _ => return Err(Refusal::corrupt("two kinds of checksums in its journal")),
    };
    let seed = crc32c(!0, slice(head, 0x30, 16)?);
    let form = Form { block: layout.block as usize, wide: features & incompat::SIXTY_FOUR != 0, sums, seed };
    if form.guarded() {
        if u8_at(head, 0x50)? != 4 {
            return Err(Refusal::unsupported("an unknown kind of checksum in its journal"));
        }
        let sum = crc32c(crc32c(crc32c(!0, slice(head, 0, 0xfc)?), &[0; 4]), slice(head, 0x100, 0x300)?);
        if sum != be32(head, 0xfc)? {
            return Err(Refusal::corrupt("the checksum of the journal's superblock is wrong"));
        }
    }
    Ok((form, features))
}
