//! The area of the fast commits behind the log: what was synced since the last transaction, in a few bytes each.
//!
//! The format is that of Linux's fs/ext4/fast_commit.h: tags with a length and a value, in blocks that each start with a
//! tag. The first one is a head; the tail of each commit guards everything since the tail before. They are read as the
//! kernel scans them (`ext4_fc_replay_scan`): it replays up to the last tail that is right.
//!
//! What lies behind that tail and can be read is taken along, though no replay uses it: of used blocks too many are
//! harmless. Where the kernel gives up, or another version could go on, everything is refused.

use std::collections::BTreeSet;
use std::ops::Range;

use super::super::blocks::Blocks;
use super::super::sums::crc32c;
use super::super::superblock::Layout;
use super::super::tree;
use super::journal::Journal;
use crate::bytes::{array, le16, le32, slice};
use crate::refusal::{Refusal, dirty_if, over_budget_if, unsupported_if};

/// More tags than this would need more memory than a parser may have.
const MOST_TAGS: usize = 1 << 16;

/// A tag's kind and the length of its value.
const BASE: usize = 4;
/// What of an inode is looked at: what the oldest ones have.
const INODE: usize = 128;
const LONGEST_NAME: usize = 255;

mod kind {
    pub(super) const ADD_RANGE: u16 = 1;
    pub(super) const DEL_RANGE: u16 = 2;
    pub(super) const CREAT: u16 = 3;
    pub(super) const LINK: u16 = 4;
    pub(super) const UNLINK: u16 = 5;
    pub(super) const INODE: u16 = 6;
    pub(super) const PAD: u16 = 7;
    pub(super) const TAIL: u16 = 8;
    pub(super) const HEAD: u16 = 9;
}

/// What the fast commits behind the last transaction name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FastCommits {
    /// How many a replay would take.
    pub(in super::super) commits: u32,
    /// Blocks that files get.
    pub(in super::super) ranges: Vec<Range<u64>>,
    /// The numbers of all inodes that are named.
    pub(in super::super) named: BTreeSet<u32>,
    /// The beginnings of inodes as they were when they were synced.
    pub(in super::super) inodes: Vec<[u8; INODE]>,
}

/// Reads the fast commits that belong to the transaction `expected`, which is the one after the last of the log.
pub(super) fn read(
    journal: &Journal,
    blocks: &Blocks<'_>,
    layout: &Layout,
    expected: u32,
) -> Result<FastCommits, Refusal> {
    // The kernel leaves out the first block of the area (`j_fc_first`).
    let first = journal.fast.start + 1;
    let mut current = false;
    for block in journal.fast.clone() {
        let head = journal.head(blocks, block)?;
        let newer = match le16(&head, 0)? {
            kind::HEAD => le32(&head, 8)?.wrapping_sub(expected) as i32,
            _ => continue,
        };
        let astray = newer > 0 || (newer == 0 && block != first);
        dirty_if(astray, "its journal has fast commits that do not follow its log")?;
        current |= newer == 0;
    }
    let mut scan = Scan { layout, expected, sum: 0, tags: 0, found: FastCommits::default() };
    if !current {
        return Ok(scan.found);
    }
    for block in first..journal.fast.end {
        let bytes = blocks.read(journal.file.place(block)?)?;
        if !scan.block(&bytes)? {
            break;
        }
    }
    match scan.found.commits {
        0 => Err(torn()),
        _ => Ok(scan.found),
    }
}

fn torn() -> Refusal {
    Refusal::dirty("the first fast commit of its journal is not whole")
}

struct Scan<'a> {
    layout: &'a Layout,
    expected: u32,
    /// The checksum of everything since the last tail.
    sum: u32,
    tags: usize,
    found: FastCommits,
}

impl Scan<'_> {
    /// Reads the tags of a block. Says whether the kernel would read the next one.
    fn block(&mut self, block: &[u8]) -> Result<bool, Refusal> {
        let mut at = 0;
        while at + BASE <= block.len() {
            let (kind, len) = (le16(block, at)?, usize::from(le16(block, at + 2)?));
            // Nothing was ever written here.
            if (kind, len) == (0, 0) && self.found.commits > 0 {
                return Ok(false);
            }
            self.tags += 1;
            over_budget_if(self.tags > MOST_TAGS, "tags of fast commits")?;
            let Some(tag) = block.get(at..at + BASE + len).filter(|_| self.is_length(kind, len)) else {
                return Err(Refusal::unsupported(format!("a fast commit has a tag {kind} of {len} bytes")));
            };
            if !self.tag(kind, tag)? {
                return match self.found.commits {
                    0 => Err(torn()),
                    _ => Ok(false),
                };
            }
            at += tag.len();
        }
        Ok(true)
    }

    /// Whether a tag of this kind is known and may be as long.
    fn is_length(&self, kind: u16, len: usize) -> bool {
        match kind {
            kind::ADD_RANGE => len == 16,
            kind::DEL_RANGE => len == 12,
            kind::CREAT | kind::LINK | kind::UNLINK => len > 8 && len <= 8 + LONGEST_NAME,
            kind::INODE => len >= 4 + INODE && len as u64 <= 4 + self.layout.inode_size,
            kind::PAD => true,
            kind::TAIL => len >= 8,
            kind::HEAD => len == 8,
            _ => false,
        }
    }

    /// Takes a tag. Says whether the kernel would read the next one.
    fn tag(&mut self, kind: u16, tag: &[u8]) -> Result<bool, Refusal> {
        let value = slice(tag, BASE, tag.len() - BASE)?;
        match kind {
            kind::ADD_RANGE => {
                let run = tree::extent(slice(value, 4, 12)?)?.blocks;
                if run.is_empty() || run.start < self.layout.first_data_block || run.end > self.layout.blocks {
                    return Err(Refusal::corrupt("a fast commit names blocks that are outside"));
                }
                self.found.ranges.push(run);
                self.found.named.insert(le32(value, 0)?);
            }
            kind::DEL_RANGE => drop(self.found.named.insert(le32(value, 0)?)),
            // The directory, and the inode that the entry is of.
            kind::CREAT | kind::LINK | kind::UNLINK => self.found.named.extend([le32(value, 0)?, le32(value, 4)?]),
            kind::INODE => {
                self.found.named.insert(le32(value, 0)?);
                self.found.inodes.push(array(value, 4)?);
            }
            kind::HEAD => {
                unsupported_if(le32(value, 0)? != 0, "unknown features of fast commits")?;
                if le32(value, 4)? != self.expected {
                    return Ok(false);
                }
            }
            kind::TAIL => {
                let sum = crc32c(self.sum, slice(tag, 0, BASE + 4)?);
                self.sum = 0;
                let right = le32(value, 0)? == self.expected && le32(value, 4)? == sum;
                self.found.commits += u32::from(right);
                return Ok(right);
            }
            _ => {}
        }
        self.sum = crc32c(self.sum, tag);
        Ok(true)
    }
}
