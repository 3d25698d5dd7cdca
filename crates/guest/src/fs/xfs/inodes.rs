//! Everything in use that free space is not read from: the copies of the superblock, the other trees of the allocation
//! groups, inodes, and what these refer to.
//!
//! What free space trees call free, a damaged inode cannot contradict, and what is left of its file may be where nothing tells any
//! more that it is used. So all of it is read, and must have the right checksums and be where it belongs; nothing that a file has may
//! be free. Where the log holds changes, what it writes to is not compared: that has the checksums of the log.

use crate::bytes::{be16, be32, be64, slice, sum, u8_at};
use crate::extents::ExtentSet;
use crate::fs::file_type as kind;
use crate::refusal::{Refusal, corrupt_if};

use super::fork::{Content, Fork};
use super::overlay::Source;
use super::short::{INODES, Kind, REFERENCES, REVERSE, Tree};
use super::superblock::{self, Geometry};

/// Inodes of a chunk.
const CHUNK: u32 = 64;
/// As many of them share a bit of the mask of what is missing of a chunk.
const SPARSE: u32 = 4;

const MAGIC: u16 = 0x494e;
/// Counts of extents in other fields.
const LARGE_COUNTS: u64 = 1 << 4;

pub struct Check<'a> {
    pub source: &'a Source<'a>,
    pub free: &'a ExtentSet,
}

struct Chunk {
    /// The first inode, within the group.
    start: u32,
    /// A bit for each that is free or missing.
    free: u64,
    /// A bit for each that is missing.
    missing: u64,
}

impl Chunk {
    fn parse(record: &[u8], geometry: &Geometry) -> Result<Chunk, Refusal> {
        let wrong = || Refusal::corrupt("a chunk of inodes miscounts itself");
        let (start, free) = (be32(record, 0)?, be64(record, 8)?);
        let (mask, count, free_count) = match geometry.sparse_inodes {
            true => (be16(record, 4)?, u32::from(u8_at(record, 6)?), u32::from(u8_at(record, 7)?)),
            false => (0, CHUNK, be32(record, 4)?),
        };
        let group = (1_u64 << SPARSE) - 1;
        let missing = (0..16).filter(|bit| mask >> bit & 1 == 1).fold(0, |all, bit| all | group << (bit * SPARSE));
        let fits = missing & !free == 0
            && count == CHUNK - missing.count_ones()
            && free_count == (free & !missing).count_ones();
        if fits { Ok(Chunk { start, free, missing }) } else { Err(wrong()) }
    }
}

impl Check<'_> {
    /// Refuses if anything in use is damaged, or free.
    pub fn all(&self) -> Result<(), Refusal> {
        for ag in 0..self.source.geometry.ags {
            self.superblock(ag)?;
            self.group(ag)?;
        }
        Ok(())
    }

    /// The copy of the superblock in a group. It may be older than the first one.
    fn superblock(&self, ag: u32) -> Result<(), Refusal> {
        let (at, len) = (self.source.geometry.offset(ag, 0)?, self.source.geometry.sector);
        if ag == 0 || self.source.touches(at, len) {
            return Ok(());
        }
        let bytes = self.source.region.read(at, len as usize)?;
        let same = be32(&bytes, 0)? == superblock::MAGIC
            && u64::from(be32(&bytes, 4)?) == self.source.geometry.block
            && u64::from(be32(&bytes, 84)?) == self.source.geometry.ag_blocks
            && slice(&bytes, 32, 16)? == self.source.geometry.uuid;
        match same {
            true if self.source.geometry.v5 => {
                superblock::verify_sum(&bytes, superblock::CRC_AT, "a copy of the superblock")
            }
            true => Ok(()),
            false => Err(Refusal::corrupt(format!("the superblock of group {ag} is that of another"))),
        }
    }

    fn group(&self, ag: u32) -> Result<(), Refusal> {
        let geometry = self.source.geometry;
        let start = geometry.offset(ag, 0)?;
        let is_free = |block: u32| Ok(self.free.contains(geometry.offset(ag, u64::from(block))?));
        let tree = |kind: Kind, bytes: &[u8], root: usize, level: usize| {
            let (root, levels) = (be32(bytes, root)?, be32(bytes, level)?);
            Ok::<_, Refusal>(Tree { source: self.source, ag, kind, root, levels })
        };
        let (header, _) = self.source.read(sum(start, geometry.sector)?, geometry.sector)?;
        if geometry.reverse_map {
            tree(REVERSE, &header, 24, 36)?.walk(&is_free, &mut |_| Ok(()))?;
        }
        if geometry.references {
            tree(REFERENCES, &header, 88, 92)?.walk(&is_free, &mut |_| Ok(()))?;
        }
        let header = self.inode_header(ag, sum(start, 2 * geometry.sector)?)?;
        if geometry.free_inodes {
            tree(INODES[1], &header, 328, 332)?
                .walk(&is_free, &mut |record| Chunk::parse(record, geometry).map(drop))?;
        }
        let (mut inodes, mut free, mut next) = (0, 0, 0);
        tree(INODES[0], &header, 20, 24)?.walk(&is_free, &mut |record| {
            let chunk = Chunk::parse(record, geometry)?;
            corrupt_if(chunk.start < next, "chunks of inodes that overlap")?;
            next = chunk.start.saturating_add(CHUNK);
            inodes += CHUNK - chunk.missing.count_ones();
            free += (chunk.free & !chunk.missing).count_ones();
            self.chunk(ag, &chunk)
        })?;
        let counted = (be32(&header, 16)?, be32(&header, 28)?);
        corrupt_if(counted != (inodes, free), format_args!("group {ag} counts other inodes than it has"))
    }

    /// The header of a group about its inodes (AGI).
    fn inode_header(&self, ag: u32, offset: u64) -> Result<Vec<u8>, Refusal> {
        let geometry = self.source.geometry;
        let (bytes, patched) = self.source.read(offset, geometry.sector)?;
        let own = be32(&bytes, 0)? == 0x5841_4749
            && be32(&bytes, 4)? == 1
            && be32(&bytes, 8)? == ag
            && u64::from(be32(&bytes, 12)?) == geometry.blocks_of(ag);
        corrupt_if(!own, format_args!("group {ag} has no header of its inodes"))?;
        if geometry.v5 {
            self.source.check_seal(&bytes, patched, (312, 320), "a header of inodes")?;
            let foreign = slice(&bytes, 296, 16)? != geometry.meta_uuid;
            corrupt_if(foreign, format_args!("the inodes of group {ag} are of another filesystem"))?;
        }
        Ok(bytes)
    }

    fn chunk(&self, ag: u32, chunk: &Chunk) -> Result<(), Refusal> {
        let geometry = self.source.geometry;
        let size = geometry.inode;
        self.source.region.budget().take_node()?;
        // What is missing of a chunk may belong to somebody else.
        let mut from = 0;
        while from < CHUNK {
            let there = |index: u32| chunk.missing >> index & 1 == 0;
            let end = (from..CHUNK).find(|index| there(*index) != there(from)).unwrap_or(CHUNK);
            if there(from) {
                let first = u64::from(chunk.start) + u64::from(from);
                let (start, len) = (geometry.inode_place(ag, first)?, u64::from(end - from) * size);
                corrupt_if(self.free.touches(start..sum(start, len)?), "inodes that are free")?;
                let bytes = self.source.region.read(start, len as usize)?;
                for (index, inode) in (from..).zip(bytes.chunks_exact(size as usize)) {
                    let number = geometry.inode_number(ag, u64::from(chunk.start) + u64::from(index));
                    let place = start + u64::from(index - from) * size;
                    if !self.source.touches(place, size) {
                        self.inode(number, inode, chunk.free >> index & 1 == 0)
                            .map_err(|why| why.located(|why| format!("inode {number}: {why}")))?;
                        self.source.region.budget().give_back(size);
                    }
                }
            }
            from = end;
        }
        Ok(())
    }

    fn inode(&self, number: u64, inode: &[u8], in_use: bool) -> Result<(), Refusal> {
        let geometry = self.source.geometry;
        let version = u8_at(inode, 4)?;
        corrupt_if(be16(inode, 0)? != MAGIC || (version == 3) != geometry.v5 || version > 3, "it is none")?;
        if geometry.v5 {
            self.source.check_seal(inode, false, (100, 112), "it")?;
            let foreign = be64(inode, 152)? != number || slice(inode, 160, 16)? != geometry.meta_uuid;
            corrupt_if(foreign, "it belongs elsewhere")?;
        }
        let mode = be16(inode, 2)?;
        corrupt_if((mode != 0) != in_use, "whether it is in use is not what its tree says")?;
        if in_use { self.forks(number, inode, mode & 0xf000) } else { Ok(()) }
    }

    fn forks(&self, number: u64, inode: &[u8], mode: u16) -> Result<(), Refusal> {
        let content = match mode {
            kind::FIFO | kind::CHARACTERS | kind::BLOCKS | kind::SOCKET | kind::FILE => Content::Other,
            kind::DIRECTORY => Content::Directory,
            kind::SYMLINK => Content::Symlink,
            _ => return Err(Refusal::corrupt("it is of no known kind")),
        };
        let literal = if self.source.geometry.v5 { 176 } else { 100 };
        let room = inode.len().saturating_sub(literal);
        let behind = usize::from(u8_at(inode, 82)?) * 8;
        corrupt_if(behind > room, "its attributes are behind its end")?;
        let large = self.source.geometry.v5 && be64(inode, 120)? & LARGE_COUNTS != 0;
        let (extents, of_attributes) = match large {
            true => (be64(inode, 24)?, u64::from(be32(inode, 76)?)),
            false => (u64::from(be32(inode, 76)?), u64::from(be16(inode, 80)?)),
        };
        let len = if behind == 0 { room } else { behind };
        let fork = |content, format, extents, at, len| {
            let Check { source, free } = *self;
            let bytes = slice(inode, at, len)?;
            Fork { source, free, number, content, format, extents, bytes }.walk()
        };
        fork(content, u8_at(inode, 5)?, extents, literal, len)?;
        match behind {
            0 if of_attributes != 0 => Err(Refusal::corrupt("attributes without room")),
            0 => Ok(()),
            _ => fork(Content::Attributes, u8_at(inode, 83)?, of_attributes, literal + len, room - len),
        }
    }
}
