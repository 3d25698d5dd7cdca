//! The log: transactions one behind the other, round a ring of blocks.

use std::collections::HashMap;

use super::super::blocks::{Blocks, Replayed, Version};
use super::super::sums::{crc32_be, crc32c};
use super::super::superblock::Layout;
use super::form::{Form, MAGIC, Sums};
use super::journal::Journal;
use super::tags::{Tag, revoked, tags};
use crate::bytes::{be32, slice, u8_at};
use crate::refusal::{OrRefuse, Refusal, corrupt_if, dirty_if, over_budget_if, unsupported_if};

/// More copies or revocations than this would need more memory than a parser may have.
const MOST: usize = 1 << 18;

const DESCRIPTOR: u32 = 1;
const COMMIT: u32 = 2;
const REVOCATION: u32 = 5;

/// A copy of a block in the log.
struct Copied {
    tag: Tag,
    /// The block of the filesystem where the copy is.
    at: u64,
    /// The transaction, counted from the oldest.
    transaction: u32,
}

/// All committed transactions.
#[derive(Default)]
pub(super) struct Log {
    copies: Vec<Copied>,
    /// The newest transaction, counted from the oldest, that revoked a block: copies up to it are not written.
    revoked: HashMap<u64, u32>,
    /// The number of the transaction that would be the next one.
    pub(super) end: u32,
}

impl Log {
    /// The newest copy of each block.
    pub(super) fn replayed(&self) -> Replayed {
        let mut replayed = Replayed::new();
        for copy in &self.copies {
            if self.revoked.get(&copy.tag.block).is_none_or(|until| *until < copy.transaction) {
                replayed.insert(copy.tag.block, Version { at: copy.at, escaped: copy.tag.escaped });
            }
        }
        replayed
    }
}

struct Walk<'a> {
    journal: &'a Journal,
    blocks: &'a Blocks<'a>,
    layout: &'a Layout,
    /// The next block, in the journal.
    at: u64,
    /// How many blocks may still be visited: each one once.
    left: u64,
    /// How many transactions were complete.
    committed: u32,
    /// The copies of the transaction that is not complete yet.
    pending: Vec<Copied>,
    /// The checksum of that transaction.
    sum: u32,
    log: Log,
}

/// Reads the log from its start to the last commit.
///
/// # Errors
/// If a checksum is wrong, or something is not as the kernel writes it.
pub(super) fn read(journal: &Journal, blocks: &Blocks<'_>, layout: &Layout) -> Result<Log, Refusal> {
    let Some(start) = journal.start else {
        return Ok(Log { end: journal.sequence, ..Log::default() });
    };
    let left = journal.ring.end - journal.ring.start;
    let log = Log::default();
    let mut walk = Walk { journal, blocks, layout, at: start, left, committed: 0, pending: Vec::new(), sum: !0, log };
    while walk.step()? {}
    dirty_if(walk.committed == 0 || !walk.pending.is_empty(), "its journal ends in the middle of a transaction")?;
    walk.log.end = walk.number();
    Ok(walk.log)
}

impl Walk<'_> {
    /// The number of the transaction that is expected.
    fn number(&self) -> u32 {
        self.journal.sequence.wrapping_add(self.committed)
    }

    fn form(&self) -> &Form {
        &self.journal.form
    }

    /// Where the next block of the log is in the filesystem; goes on to the one behind.
    fn next(&mut self) -> Result<u64, Refusal> {
        let left = self.left.checked_sub(1).or_corrupt("the journal's log runs into itself")?;
        self.left = left;
        let place = self.journal.file.place(self.at)?;
        self.at += 1;
        if self.at == self.journal.ring.end {
            // Kernels have not always agreed on where the ring ends if fast commits are behind it.
            unsupported_if(!self.journal.fast.is_empty(), "a log that goes round, with room for fast commits")?;
            self.at = self.journal.ring.start;
        }
        Ok(place)
    }

    /// Reads the next block of the log, and what belongs to it. Says whether the log goes on.
    fn step(&mut self) -> Result<bool, Refusal> {
        self.blocks.region.budget().take_node()?;
        if self.left == 0 {
            return Ok(false);
        }
        let head = self.journal.head(self.blocks, self.at)?;
        if be32(&head, 0)? != MAGIC || be32(&head, 8)? != self.number() {
            return Ok(false);
        }
        let place = self.next()?;
        let block = self.blocks.read(place)?;
        match be32(&head, 4)? {
            DESCRIPTOR => self.descriptor(&block)?,
            COMMIT => self.commit(&block)?,
            REVOCATION => self.revocation(&block)?,
            _ => return Err(Refusal::corrupt("an unknown block in the journal")),
        }
        Ok(true)
    }

    fn descriptor(&mut self, block: &[u8]) -> Result<(), Refusal> {
        self.form().check(block)?;
        if self.form().sums == Sums::Transactions {
            self.sum = crc32_be(self.sum, block);
        }
        for tag in tags(self.form(), block)? {
            corrupt_if(tag.block >= self.layout.blocks, "the journal would write outside")?;
            over_budget_if(self.pending.len() + self.log.copies.len() >= MOST, "copies in the journal")?;
            let at = self.next()?;
            if self.form().sums == Sums::Transactions {
                let copy = self.blocks.read(at)?;
                self.sum = crc32_be(self.sum, &copy);
            }
            self.pending.push(Copied { tag, at, transaction: self.committed });
        }
        Ok(())
    }

    fn revocation(&mut self, block: &[u8]) -> Result<(), Refusal> {
        self.form().check(block)?;
        for revoked in revoked(self.form(), block)? {
            over_budget_if(self.log.revoked.len() >= MOST, "revoked blocks in the journal")?;
            // If the transaction is not committed, the whole log is refused.
            self.log.revoked.insert(revoked, self.committed);
        }
        Ok(())
    }

    fn commit(&mut self, block: &[u8]) -> Result<(), Refusal> {
        let form = *self.form();
        let found = be32(block, 16)?;
        let right = match form.sums {
            Sums::None => true,
            Sums::Transactions => (u8_at(block, 12)?, u8_at(block, 13)?, found) == (1, 4, self.sum),
            Sums::V2 | Sums::V3 => {
                let before = crc32c(crc32c(form.seed, slice(block, 0, 16)?), &[0; 4]);
                crc32c(before, slice(block, 20, form.block - 20)?) == found
            }
        };
        corrupt_if(!right, "the checksum of a commit is wrong")?;
        if form.guarded() {
            self.check_copies()?;
        }
        self.log.copies.append(&mut self.pending);
        self.sum = !0;
        self.committed = self.committed.wrapping_add(1);
        Ok(())
    }

    /// Checks the checksums of the copies of one transaction.
    fn check_copies(&self) -> Result<(), Refusal> {
        let seed = crc32c(self.form().seed, &self.number().to_be_bytes());
        for copy in &self.pending {
            let sum = crc32c(seed, &self.blocks.read(copy.at)?);
            let sum = if self.form().sums == Sums::V3 { sum } else { sum & 0xffff };
            corrupt_if(sum != copy.tag.sum, "the checksum of a block in the journal is wrong")?;
        }
        Ok(())
    }
}
