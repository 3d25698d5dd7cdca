//! The file of an internal journal, and what its superblock says.

use std::ops::Range;

use super::super::blocks::{Blocks, Replayed};
use super::super::groups;
use super::super::inode::{self, Mapped};
use super::super::superblock::Layout;
use super::form::{Form, MAGIC, incompat};
use crate::bytes::be32;
use crate::refusal::{OrRefuse, Refusal, corrupt_if, dirty_if, unsupported_if};

/// As many blocks that only their first bytes are read of count as a node.
const HEADS_OF_NODE: u64 = 16;

/// Fast commits take this many blocks where the journal does not say it.
const FAST_COMMIT_BLOCKS: u64 = 256;

pub struct Journal {
    pub(super) file: Mapped,
    pub(super) form: Form,
    pub(super) ring: Range<u64>,
    /// The blocks of the fast commits, which may be none.
    pub(super) fast: Range<u64>,
    /// Where the oldest transaction starts; none if everything is in its place.
    pub(super) start: Option<u64>,
    /// The number of the oldest transaction, or of the next one.
    pub(super) sequence: u32,
}

impl Journal {
    /// Finds the journal and reads its superblock.
    pub fn open(blocks: &Blocks<'_>, layout: &Layout) -> Result<Journal, Refusal> {
        // The kernel looks for it before the replay, in the descriptors as they are on the disk.
        let group = groups::first(blocks, layout)?;
        let file = inode::journal(blocks, layout, &group)?;
        let head = blocks.read(file.place(0)?)?;
        corrupt_if(be32(&head, 0)? != MAGIC || be32(&head, 0x0c)? != layout.block, "the journal has no superblock")?;
        unsupported_if(be32(&head, 4)? != 4, "a journal of the first version")?;
        dirty_if(be32(&head, 0x20)? != 0, "its journal has recorded an error")?;
        let (form, features) = Form::parse(&head, layout)?;
        let (end, first) = (u64::from(be32(&head, 0x10)?), u64::from(be32(&head, 0x14)?));
        let fast = match features & incompat::FAST_COMMIT {
            0 => 0,
            _ => match u64::from(be32(&head, 0x54)?) {
                0 => FAST_COMMIT_BLOCKS,
                blocks => blocks,
            },
        };
        let last = end
            .checked_sub(fast)
            .filter(|last| first >= 1 && first < *last && end <= file.blocks())
            .or_corrupt("the journal's size is wrong")?;
        let start = Some(u64::from(be32(&head, 0x1c)?)).filter(|start| *start != 0);
        corrupt_if(start.is_some_and(|start| !(first..last).contains(&start)), "the journal starts outside")?;
        Ok(Journal { file, form, ring: first..last, fast: last..end, start, sequence: be32(&head, 0x18)? })
    }

    /// Whether there is nothing to replay.
    pub fn is_empty(&self) -> bool {
        self.start.is_none()
    }

    /// All blocks of the filesystem that it takes.
    pub fn taken(&self) -> Vec<Range<u64>> {
        self.file.taken()
    }

    /// Whether a replay would change the journal.
    pub fn writes_into_itself(&self, replayed: &Replayed) -> bool {
        self.taken().into_iter().flatten().any(|block| replayed.contains_key(&block))
    }

    /// Whether the file has the same blocks after the replay.
    pub fn check_place(&self, blocks: &Blocks<'_>, layout: &Layout) -> Result<(), Refusal> {
        let group = groups::first(blocks, layout)?;
        corrupt_if(inode::journal(blocks, layout, &group)? != self.file, "the journal moves by its own replay")
    }

    /// Refuses blocks of the transaction `end` or a later one: then the log has a gap, or its last transaction was
    /// just being written.
    pub(super) fn nothing_newer(&self, blocks: &Blocks<'_>, end: u32) -> Result<(), Refusal> {
        for block in self.ring.clone() {
            if block % HEADS_OF_NODE == 0 {
                blocks.region.budget().take_node()?;
            }
            let head = self.head(blocks, block)?;
            let newer = be32(&head, 0)? == MAGIC && (be32(&head, 8)?.wrapping_sub(end) as i32) >= 0;
            dirty_if(newer, "its journal does not say where it ends")?;
        }
        Ok(())
    }

    /// The first 12 bytes of a block of the journal.
    pub(super) fn head(&self, blocks: &Blocks<'_>, block: u64) -> Result<[u8; 12], Refusal> {
        let mut head = [0; 12];
        blocks.region.read_into(self.file.place(block)? * self.form.block as u64, &mut head)?;
        Ok(head)
    }
}
