//! Chunks: which logical addresses lie where on the device.

use std::ops::Range;

use super::key::{Key, kind};
use super::superblock::Superblock;
use crate::bytes::{self, le16, le64};
use crate::refusal::{OrRefuse, Refusal, corrupt_if, over_budget_if};

pub const DATA: u64 = 1;
/// Chunk of the chunk tree.
pub const SYSTEM: u64 = 2;
/// Chunk of the other trees.
pub const METADATA: u64 = 4;
const KINDS: u64 = DATA | SYSTEM | METADATA;
const DUP: u64 = 0x20;

const STRIPE_LEN: u64 = 64 << 10;
const FIXED: usize = 48;
const PER_STRIPE: usize = 32;
/// Where the numbers of chunks begin; also their owner's number in the tree.
const FIRST_CHUNK_TREE: u64 = 256;
const OWNER: u64 = 2;
/// The most chunks of one filesystem; 16 MiB in memory, 256 TiB of ordinary chunks.
const MOST: usize = 256 << 10;

/// A run of logical addresses and where it lies: once, or twice with the profile DUP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The first logical address.
    pub start: u64,
    /// The length in bytes, of each copy too.
    pub len: u64,
    /// What is in it, and the profile.
    pub flags: u64,
    /// Where the first copy starts on the device.
    first: u64,
    /// Where the second copy starts.
    second: Option<u64>,
}

impl Chunk {
    /// A CHUNK_ITEM: on this device, with a profile that needs no other one.
    pub fn parse(key: Key, item: &[u8], sb: &Superblock) -> Result<Chunk, Refusal> {
        if key.objectid != FIRST_CHUNK_TREE || key.kind != kind::CHUNK {
            return Err(Refusal::corrupt("something else in the place of a chunk"));
        }
        let (len, flags, stripes) = (le64(item, 0)?, le64(item, 24)?, le16(item, 44)?);
        let what = flags & KINDS;
        corrupt_if(what == 0 || (what & SYSTEM != 0 && what != SYSTEM), "a chunk of no known kind")?;
        let copies = match flags & !KINDS {
            0 => 1,
            DUP => 2,
            other => return Err(Refusal::unsupported(format!("chunks of profile {other:#x}"))),
        };
        let miscounted = stripes != copies || item.len() != FIXED + PER_STRIPE * usize::from(copies);
        corrupt_if(miscounted, "a chunk with a wrong number of stripes")?;
        let end = bytes::sum(key.offset, len)?;
        let uneven = len == 0 || !sb.whole_sectors(key.offset) || !sb.whole_sectors(end);
        corrupt_if(uneven, "a chunk that does not consist of sectors")?;
        corrupt_if(le64(item, 8)? != OWNER || le64(item, 16)? != STRIPE_LEN, "a chunk with odd fields")?;
        let stripe = |number: usize| -> Result<u64, Refusal> {
            let at = FIXED + PER_STRIPE * number;
            let (device, offset) = (le64(item, at)?, le64(item, at + 8)?);
            let foreign = device != sb.device.id || bytes::array(item, at + 16)? != sb.device.uuid;
            corrupt_if(foreign, "a chunk on another device")?;
            let misplaced = bytes::sum(offset, len)? > sb.device.total_bytes || !sb.whole_sectors(offset);
            corrupt_if(misplaced, "a chunk beyond the device")?;
            Ok(offset)
        };
        let second = if copies == 2 { Some(stripe(1)?) } else { None };
        Ok(Chunk { start: key.offset, len, flags, first: stripe(0)?, second })
    }

    /// The logical address behind its last byte.
    pub fn end(&self) -> u64 {
        self.start + self.len // was checked
    }

    /// Where its copies start on the device.
    pub fn copies(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.first).chain(self.second)
    }

    /// Where the copies of a part of it are on the device; it must be a part.
    pub fn on_device(&self, part: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let (from, to) = (part.start - self.start, part.end - self.start);
        self.copies().map(move |copy| copy + from..copy + to)
    }
}

/// All chunks that are known so far, by their logical addresses.
#[derive(Debug, Default)]
pub struct Chunks {
    chunks: Vec<Chunk>,
}

impl Chunks {
    /// Those in the superblock, which hold the chunk tree.
    pub fn of_superblock(sb: &Superblock) -> Result<Chunks, Refusal> {
        let mut found = Chunks::default();
        let mut at = 0;
        while at < sb.sys_chunks.len() {
            let key = Key::parse(&sb.sys_chunks, at)?;
            at += Key::SIZE;
            let len = FIXED + PER_STRIPE * usize::from(le16(&sb.sys_chunks, at + 44)?);
            let chunk = Chunk::parse(key, bytes::slice(&sb.sys_chunks, at, len)?, sb)?;
            corrupt_if(chunk.flags & KINDS != SYSTEM, "a chunk in the superblock that is not of the system")?;
            found.chunks.push(chunk);
            at += len;
        }
        // In the order in which they were made.
        found.chunks.sort_unstable_by_key(|chunk| chunk.start);
        let overlap = found.chunks.windows(2).any(|pair| pair[0].end() > pair[1].start);
        corrupt_if(overlap, "chunks in the superblock overlap")?;
        Ok(found)
    }

    /// Adds a chunk with higher addresses than all others.
    pub fn push(&mut self, chunk: Chunk) -> Result<(), Refusal> {
        corrupt_if(self.chunks.last().is_some_and(|last| last.end() > chunk.start), "chunks overlap")?;
        over_budget_if(self.chunks.len() >= MOST, "chunks")?;
        self.chunks.push(chunk);
        Ok(())
    }

    /// All of them, by their logical addresses.
    pub fn iter(&self) -> impl Iterator<Item = &Chunk> {
        self.chunks.iter()
    }

    /// The chunk at a position in that order.
    pub fn get(&self, position: usize) -> Option<&Chunk> {
        self.chunks.get(position)
    }

    /// The chunk that holds all of some logical addresses.
    pub fn holding(&self, start: u64, len: u64) -> Result<&Chunk, Refusal> {
        let end = bytes::sum(start, len)?;
        let behind = self.chunks.partition_point(|chunk| chunk.start <= start);
        let chunk = behind.checked_sub(1).and_then(|position| self.chunks.get(position));
        chunk.filter(|chunk| end <= chunk.end()).or_corrupt("an address that lies in no chunk")
    }

    /// Where all copies of some logical addresses are on the device; they must be of one chunk.
    pub fn on_device(&self, part: Range<u64>) -> Result<impl Iterator<Item = Range<u64>>, Refusal> {
        Ok(self.holding(part.start, part.end - part.start)?.on_device(part))
    }

    /// Whether those of `superblock` are these, as far as they are of the system.
    pub fn agree_with(&self, superblock: &Chunks) -> bool {
        let system = self.chunks.iter().filter(|chunk| chunk.flags & KINDS == SYSTEM);
        system.eq(superblock.chunks.iter())
    }
}
