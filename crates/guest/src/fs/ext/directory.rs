//! Blocks of directories: entries that follow one another to the end, and checksums where there are any.

use super::sums::crc32c;
use crate::bytes::{le16, le32, slice, u8_at};
use crate::refusal::{Refusal, corrupt_if};

/// The shortest entry: one with a name of up to four letters.
const SHORTEST: usize = 12;
/// An entry before its name.
const HEAD: usize = 8;
/// Where an index counts its entries: in the first block of a directory, and in others.
const ROOT_COUNTS: usize = 32;
const NODE_COUNTS: usize = 8;

/// What is the same for all blocks of a directory.
pub(super) struct Form {
    /// Where checksums start, if there are any.
    pub(super) seed: Option<u32>,
    /// Inodes of the filesystem.
    pub(super) inodes: u32,
    /// Whether it has an index of hashes, whose root is its first block.
    pub(super) indexed: bool,
    pub(super) blocks: u64,
}

impl Form {
    /// Checks a block; `first` says that it is the first of its directory.
    pub(super) fn check(&self, block: &[u8], first: bool) -> Result<(), Refusal> {
        if self.indexed && first {
            // The entries of the directory itself and of its parent, the second as long as the block.
            let own = length(block, 0)? == SHORTEST && length(block, SHORTEST)? == block.len() - SHORTEST;
            let wrong = !own || le32(block, 24)? != 0 || u8_at(block, 29)? != 8;
            corrupt_if(wrong, "the root of the index of a directory")?;
            return self.index(block, ROOT_COUNTS);
        }
        if self.indexed && le32(block, 0)? == 0 && length(block, 0)? == block.len() {
            // Without checksums a block without a name looks the same.
            return match self.seed {
                Some(_) => self.index(block, NODE_COUNTS),
                None => Ok(()),
            };
        }
        self.entries(block)
    }

    fn entries(&self, block: &[u8]) -> Result<(), Refusal> {
        let end = match self.seed {
            Some(seed) => {
                let end = block.len() - SHORTEST;
                let tail = slice(block, end, SHORTEST)?;
                corrupt_if(!tail.starts_with(&[0, 0, 0, 0, 12, 0, 0, 0xde]), "a block of a directory has no checksum")?;
                let wrong = crc32c(seed, slice(block, 0, end)?) != le32(tail, 8)?;
                corrupt_if(wrong, "the checksum of a block of a directory is wrong")?;
                end
            }
            None => block.len(),
        };
        let mut at = 0;
        while at < end {
            let (inode, len, name) = (le32(block, at)?, length(block, at)?, usize::from(u8_at(block, at + 6)?));
            let impossible = len < SHORTEST || len % 4 != 0 || len < HEAD + name || len > end - at;
            corrupt_if(impossible || inode > self.inodes || (inode != 0 && name == 0), "an entry of a directory")?;
            at += len;
        }
        Ok(())
    }

    /// A block of the index: how many entries it has room for, how many it has, and these.
    fn index(&self, block: &[u8], counts: usize) -> Result<(), Refusal> {
        let tail = if self.seed.is_some() { 8 } else { 0 };
        let (limit, count) = (usize::from(le16(block, counts)?), usize::from(le16(block, counts + 2)?));
        let room = (block.len() - counts - tail) / 8;
        corrupt_if(limit != room || count > limit || count == 0, "a count in the index of a directory")?;
        if let Some(seed) = self.seed {
            let tail = slice(block, counts + 8 * limit, 8)?;
            let sum = crc32c(crc32c(seed, slice(block, 0, counts + 8 * count)?), slice(tail, 0, 4)?);
            corrupt_if(crc32c(sum, &[0; 4]) != le32(tail, 4)?, "the checksum of the index of a directory is wrong")?;
        }
        for entry in 0..count {
            let outside = u64::from(le32(block, counts + 8 * entry + 4)? & 0x0fff_ffff) >= self.blocks;
            corrupt_if(outside, "an entry in the index of a directory")?;
        }
        Ok(())
    }
}

/// The length of the entry at `at`. Of blocks of 64 KiB the largest does not fit into its field.
fn length(block: &[u8], at: usize) -> Result<usize, Refusal> {
    Ok(match usize::from(le16(block, at + 4)?) {
        0 | 0xffff if block.len() == 1 << 16 => block.len(),
        len => len,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(inode: u32, len: u16, name: &[u8]) -> Vec<u8> {
        let mut entry = inode.to_le_bytes().to_vec();
        entry.extend(len.to_le_bytes());
        entry.extend([name.len() as u8, 1]);
        entry.extend(name);
        entry.resize(usize::from(len), 0);
        entry
    }

    fn check(block: &[u8], seed: Option<u32>) -> Result<(), Refusal> {
        Form { seed, inodes: 100, indexed: false, blocks: 1 }.check(block, true)
    }

    #[test]
    fn entries_must_follow_one_another_to_the_end() {
        let good = [entry(2, 12, b"."), entry(2, 12, b".."), entry(12, 1000, b"name")].concat();
        assert_eq!(check(&good, None), Ok(()));
        for (at, value) in
            [(4, 13), (4, 0), (16, 8), (28, 0xf0), (28, 0x10), (8, 0xff), (6, 0), (26, 1), (30, 1), (6, 9)]
        {
            let mut wrong = good.clone();
            wrong[at] = value;
            let harmless = at == 8 || (at, value) == (30, 1);
            assert_eq!(check(&wrong, None).is_ok(), harmless, "{at}: {value}");
        }
    }

    #[test]
    fn a_guarded_block_has_the_checksum_of_its_entries() {
        let mut block = [entry(2, 12, b"."), entry(2, 1000, b"..")].concat();
        let sum = crc32c(7, &block);
        block.extend([0, 0, 0, 0, 12, 0, 0, 0xde]);
        block.extend(sum.to_le_bytes());
        assert_eq!(check(&block, Some(7)), Ok(()));
        for at in [3, 500, 1011, 1012, 1016, 1019, 1023] {
            let mut wrong = block.clone();
            wrong[at] ^= 1;
            assert!(check(&wrong, Some(7)).is_err(), "{at}");
        }
    }
}
