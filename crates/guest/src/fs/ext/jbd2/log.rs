//! The log: transactions one behind the other, round a ring of blocks.

use std::collections::HashMap;

use super::super::blocks::{Blocks, Replayed, Version};
use super::super::sums::{crc32_be, crc32c};
use super::super::superblock::Layout;
use super::form::{Form, MAGIC, Sums};
use super::journal::Journal;
use crate::bytes::{be16, be32, be64, slice, u8_at};
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

const ESCAPED: u32 = 1;
const SAME_UUID: u32 = 2;
const LAST: u32 = 8;

/// What a descriptor block says of one of the copies behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tag {
    /// The block of the filesystem that it is a copy of.
    block: u64,
    /// Its first four bytes were replaced.
    escaped: bool,
    /// Its checksum, or the lower half.
    sum: u32,
}

fn tags(form: &Form, descriptor: &[u8]) -> Result<Vec<Tag>, Refusal> {
    let body = slice(descriptor, 0, form.body())?;
    let len = match form.sums {
        Sums::V3 => 16,
        Sums::V2 => 10,
        Sums::None | Sums::Transactions => 8,
    } + if form.wide && form.sums != Sums::V3 { 4 } else { 0 };
    let mut found = Vec::new();
    let mut at = 12;
    while at + len <= body.len() {
        let tag = slice(body, at, len)?;
        let low = u64::from(be32(tag, 0)?);
        let (flags, high, sum) = match form.sums {
            // Its upper half is there without 64bit too.
            Sums::V3 => (be32(tag, 4)?, be32(tag, 8)?, be32(tag, 12)?),
            _ => (u32::from(be16(tag, 6)?), if form.wide { be32(tag, 8)? } else { 0 }, u32::from(be16(tag, 4)?)),
        };
        let odd = flags & !(ESCAPED | SAME_UUID | LAST) != 0 || (high != 0 && !form.wide);
        corrupt_if(odd, "a tag in the journal makes no sense")?;
        found.push(Tag { block: u64::from(high) << 32 | low, escaped: flags & ESCAPED != 0, sum });
        if flags & LAST != 0 {
            return Ok(found);
        }
        at += len + if flags & SAME_UUID == 0 { 16 } else { 0 };
    }
    // The kernel takes it, but never writes it.
    Err(Refusal::corrupt("a list of tags in the journal has no end"))
}

/// The blocks that a revocation block names.
fn revoked(form: &Form, block: &[u8]) -> Result<Vec<u64>, Refusal> {
    let used = be32(block, 12)? as usize;
    let len = if form.wide { 8 } else { 4 };
    let wrong = used < 16 || used > form.body() || !(used - 16).is_multiple_of(len);
    corrupt_if(wrong, "a list of revoked blocks has a wrong length")?;
    let list = slice(block, 16, used - 16)?;
    list.chunks_exact(len)
        .map(|record| if form.wide { be64(record, 0) } else { Ok(u64::from(be32(record, 0)?)) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(sums: Sums, wide: bool) -> Form {
        Form { block: 1024, wide, sums, seed: 0 }
    }

    fn block(head: usize, bytes: &[u8]) -> Vec<u8> {
        let mut block = vec![0; 1024];
        block[head..head + bytes.len()].copy_from_slice(bytes);
        block
    }

    #[test]
    fn tags_are_read_in_each_of_their_shapes() {
        let short = block(12, &[&[0, 0, 0, 7, 0, 0, 0, 1][..], &[9; 16], &[0, 0, 0, 8, 0, 0, 0, 10]].concat());
        let found = tags(&form(Sums::None, false), &short).unwrap();
        assert_eq!(found.iter().map(|tag| (tag.block, tag.escaped)).collect::<Vec<_>>(), [(7, true), (8, false)]);
        let wide = block(12, &[0, 0, 0, 7, 0, 0, 0, 10, 0, 0, 0, 1]);
        assert_eq!(tags(&form(Sums::None, true), &wide).unwrap()[0].block, 1 << 32 | 7);
        let v2 = block(12, &[0, 0, 0, 7, 1, 2, 0, 2, 0, 0, 0, 0, 0, 8, 0, 0, 0, 10]);
        let found = tags(&form(Sums::V2, false), &v2).unwrap();
        assert_eq!(found.iter().map(|tag| (tag.block, tag.sum)).collect::<Vec<_>>(), [(7, 0x102), (8, 0)]);
        let v3 = block(12, &[0, 0, 0, 7, 0, 0, 0, 10, 0, 0, 0, 2, 1, 2, 3, 4]);
        assert_eq!(
            tags(&form(Sums::V3, true), &v3).unwrap(),
            [Tag { block: 2 << 32 | 7, escaped: false, sum: 0x0102_0304 }]
        );
    }

    #[test]
    fn a_list_of_tags_without_an_end_is_refused() {
        assert!(tags(&form(Sums::V3, true), &vec![0; 1024]).is_err());
        assert!(tags(&form(Sums::None, false), &block(12, &[0, 0, 0, 7, 0, 4, 0, 10])).is_ok());
        assert!(tags(&form(Sums::None, false), &block(12, &[0, 0, 0, 7, 0, 0, 0, 4 | 8])).is_err());
    }

    #[test]
    fn a_list_of_revoked_blocks_must_be_whole() {
        assert_eq!(
            revoked(&form(Sums::None, false), &block(12, &[0, 0, 0, 24, 0, 0, 0, 5, 0, 0, 0, 6])).unwrap(),
            [5, 6]
        );
        assert_eq!(
            revoked(&form(Sums::V3, true), &block(12, &[0, 0, 0, 24, 0, 0, 0, 1, 0, 0, 0, 6])).unwrap(),
            [1 << 32 | 6]
        );
        assert!(revoked(&form(Sums::V3, true), &block(12, &[0, 0, 0, 20])).is_err());
        assert!(revoked(&form(Sums::V3, true), &block(12, &[0, 0, 0, 15])).is_err());
        assert!(revoked(&form(Sums::V3, true), &block(12, &[0xff; 4])).is_err());
    }
}
