//! A fork of an inode: where its contents or its attributes are, and what checksums those have.

use std::ops::Range;

use crate::bytes::{be16, be32, be64, product, slice, sum};
use crate::extents::ExtentSet;
use crate::refusal::{Refusal, corrupt_if};

use super::overlay::Source;
use super::superblock::BASIC_BLOCK;

const DEVICE: u8 = 0;
const LOCAL: u8 = 1;
const EXTENTS: u8 = 2;
const BTREE: u8 = 3;

const EXTENT: usize = 16;
/// No kernel makes trees of extents higher.
const HIGHEST: u16 = 12;
/// As many extents count as a node.
const EXTENTS_OF_NODE: u64 = 128;

/// What the blocks of a fork hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Nothing that has checksums.
    Other,
    /// Blocks of a directory, which may be larger than those of the filesystem.
    Directory,
    /// The target of a long symbolic link.
    Symlink,
    Attributes,
}

pub struct Fork<'a> {
    pub source: &'a Source<'a>,
    pub free: &'a ExtentSet,
    pub number: u64,
    pub content: Content,
    pub format: u8,
    /// How many extents it says that it has.
    pub extents: u64,
    /// Its part of the inode.
    pub bytes: &'a [u8],
}

/// How far a fork was walked.
#[derive(Default)]
struct Walked {
    extents: u64,
    /// The block of the file behind the last extent.
    end: u64,
    /// The beginning of a block of a directory that lies in several extents: its first byte on the disk, its bytes, and the
    /// block of the file that continues it.
    part: Option<(u64, Vec<u8>, u64)>,
}

/// Where a structure has its checksum, its own address, the time of its last change, the filesystem and its owner.
struct Seal {
    crc: usize,
    address: usize,
    lsn: usize,
    uuid: usize,
    owner: usize,
}

/// Blocks of directories with entries or free space.
const DATA: Seal = Seal { crc: 4, address: 8, lsn: 16, uuid: 24, owner: 40 };
/// Blocks of hashes, and of attributes.
const HASHES: Seal = Seal { crc: 12, address: 16, lsn: 24, uuid: 32, owner: 48 };
/// Long values of attributes, and long symbolic links.
const REMOTE: Seal = Seal { crc: 12, address: 40, lsn: 48, uuid: 16, owner: 32 };
/// Blocks of trees of extents.
const MAP: Seal = Seal { crc: 64, address: 24, lsn: 32, uuid: 40, owner: 56 };

impl Fork<'_> {
    /// Checks everything that it refers to.
    pub fn walk(&self) -> Result<(), Refusal> {
        let mut walked = Walked::default();
        match self.format {
            DEVICE if self.content == Content::Other => {}
            LOCAL if self.content != Content::Other => {}
            EXTENTS => {
                let len = product(self.extents, EXTENT as u64)?;
                corrupt_if(len > self.bytes.len() as u64, "more extents than it has room for")?;
                self.records(slice(self.bytes, 0, len as usize)?, &mut walked)?;
            }
            BTREE => self.tree(&mut walked)?,
            _ => return Err(Refusal::corrupt("an odd format of a fork")),
        }
        let whole = walked.part.is_none() && walked.extents == self.extents;
        corrupt_if(!whole && self.format >= EXTENTS, "it lacks extents")
    }

    fn tree(&self, walked: &mut Walked) -> Result<(), Refusal> {
        let (level, count) = (be16(self.bytes, 0)?, usize::from(be16(self.bytes, 2)?));
        let most = self.bytes.len().saturating_sub(4) / EXTENT;
        corrupt_if(level == 0 || level > HIGHEST || count == 0 || count > most, "the root of a tree of extents")?;
        // What is still to be looked at, the next one last, each with its level.
        let mut steps = Vec::new();
        for index in (0..count).rev() {
            steps.push((be64(self.bytes, 4 + 8 * most + 8 * index)?, level - 1));
        }
        let header = if self.source.geometry.v5 { 72 } else { 24 };
        while let Some((block, level)) = steps.pop() {
            self.source.region.budget().take_node()?;
            let bytes = self.node(self.place(block, 1)?, level)?;
            let (count, most) = (usize::from(be16(&bytes, 6)?), (bytes.len() - header) / EXTENT);
            corrupt_if(count == 0 || count > most, "a tree of extents has an impossible number of records")?;
            if level == 0 {
                self.records(slice(&bytes, header, count * EXTENT)?, walked)?;
                continue;
            }
            for index in (0..count).rev() {
                steps.push((be64(&bytes, header + 8 * most + 8 * index)?, level - 1));
            }
        }
        Ok(())
    }

    fn node(&self, place: Range<u64>, level: u16) -> Result<Vec<u8>, Refusal> {
        let v5 = self.source.geometry.v5;
        let (bytes, patched) = self.source.read(place.start, place.end - place.start)?;
        let magic = if v5 { 0x424d_4133 } else { 0x424d_4150 };
        let other = be32(&bytes, 0)? != magic || be16(&bytes, 4)? != level;
        corrupt_if(other, "a block of a tree of extents is of another kind or level")?;
        if v5 {
            self.sealed(&bytes, place.start, &MAP, patched, "a tree of extents")?;
        }
        Ok(bytes)
    }

    /// Where blocks of the filesystem are, in bytes. None of them may be free.
    fn place(&self, block: u64, count: u64) -> Result<Range<u64>, Refusal> {
        let geometry = self.source.geometry;
        let (ag, at) = geometry.of_block(block)?;
        let misplaced = count == 0 || sum(at, count)? > geometry.blocks_of(ag) || at < geometry.header_blocks();
        corrupt_if(misplaced, "it uses blocks outside their group")?;
        let place = geometry.offset(ag, at)?..geometry.offset(ag, at + count)?;
        match self.free.touches(place.clone()) {
            true => Err(Refusal::corrupt(format!("it uses free bytes between {} and {}", place.start, place.end))),
            false => Ok(place),
        }
    }

    fn records(&self, records: &[u8], walked: &mut Walked) -> Result<(), Refusal> {
        for record in records.chunks_exact(EXTENT) {
            let (high, low) = (be64(record, 0)?, be64(record, 8)?);
            let (first, count) = ((high >> 9) & ((1 << 54) - 1), low & 0x1f_ffff);
            let place = self.place((high & 0x1ff) << 43 | low >> 21, count)?;
            corrupt_if(first < walked.end, "its extents are not in order")?;
            walked.end = first + count;
            walked.extents += 1;
            if walked.extents.is_multiple_of(EXTENTS_OF_NODE) {
                self.source.region.budget().take_node()?;
            }
            match self.content {
                Content::Other => {}
                _ if high >> 63 == 1 => return Err(Refusal::corrupt("metadata that were never written")),
                Content::Directory => self.directory(first, place, walked)?,
                Content::Symlink => self.block(place)?,
                Content::Attributes => {
                    for at in place.step_by(self.source.geometry.block as usize) {
                        self.block(at..at + self.source.geometry.block)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes an extent of a directory, and checks the blocks that it completes.
    fn directory(&self, first: u64, place: Range<u64>, walked: &mut Walked) -> Result<(), Refusal> {
        let geometry = self.source.geometry;
        let (block, size) = (geometry.block, geometry.directory_block);
        let mut at = place.start;
        let mut file = first;
        while at < place.end {
            let mut part = walked.part.take();
            if part.is_none() && place.end - at >= size && (file * block).is_multiple_of(size) {
                self.block(at..at + size)?;
                (at, file) = (at + size, file + size / block);
                continue;
            }
            let (start, bytes, next) = part.get_or_insert_with(|| (at, Vec::new(), file));
            let torn = *next != file || (bytes.is_empty() && !(file * block).is_multiple_of(size));
            corrupt_if(torn, "a block of a directory is not whole")?;
            bytes.extend(self.source.region.read(at, block as usize)?);
            if bytes.len() as u64 == size {
                self.content(bytes, *start)?;
            } else {
                *next += 1;
                walked.part = part;
            }
            (at, file) = (at + block, file + 1);
        }
        Ok(())
    }

    fn block(&self, place: Range<u64>) -> Result<(), Refusal> {
        let len = place.end - place.start;
        corrupt_if(len > crate::budget::LARGEST_PIECE as u64, "an extent is too long for what it holds")?;
        if self.source.touches(place.start, len) {
            return Ok(());
        }
        self.source.region.budget().take_node()?;
        self.content(&self.source.region.read(place.start, len as usize)?, place.start)
    }

    /// Checks a block of what a fork holds by what it says that it is.
    fn content(&self, bytes: &[u8], at: u64) -> Result<(), Refusal> {
        if self.source.touches(at, bytes.len() as u64) {
            return Ok(());
        }
        let (magic, inner) = (be32(bytes, 0)?.to_be_bytes(), be16(bytes, 8)?);
        if !self.source.geometry.v5 {
            let known = match self.content {
                Content::Directory => {
                    matches!(&magic, b"XD2B" | b"XD2D" | b"XD2F") || matches!(inner, 0xd2f1 | 0xd2ff | 0xfebe)
                }
                // Values of attributes and targets have no headers.
                Content::Attributes | Content::Symlink | Content::Other => true,
            };
            return if known { Ok(()) } else { Err(Refusal::corrupt("a block of a directory is none")) };
        }
        let (seal, what) = match (self.content, &magic, inner) {
            (Content::Directory, b"XDB3" | b"XDD3" | b"XDF3", _) => (DATA, "a block of a directory"),
            (Content::Directory, _, 0x3df1 | 0x3dff | 0x3ebe) => (HASHES, "the index of a directory"),
            (Content::Attributes, b"XARM", _) => (REMOTE, "a value of an attribute"),
            (Content::Attributes, _, 0x3bee | 0x3ebe) => (HASHES, "a block of attributes"),
            (Content::Symlink, b"XSLM", _) => (REMOTE, "a symbolic link"),
            _ => return Err(Refusal::corrupt("a block of a directory, a link or attributes is none")),
        };
        self.sealed(bytes, at, &seal, false, what)
    }

    /// Checks the checksum of a structure, and that it belongs where it is.
    fn sealed(&self, bytes: &[u8], at: u64, seal: &Seal, patched: bool, what: &str) -> Result<(), Refusal> {
        self.source.check_seal(bytes, patched, (seal.crc, seal.lsn), what)?;
        let own = be64(bytes, seal.address)? == at / BASIC_BLOCK
            && slice(bytes, seal.uuid, 16)? == self.source.geometry.meta_uuid
            && be64(bytes, seal.owner)? == self.number;
        corrupt_if(!own, format_args!("{what} belongs elsewhere"))?;
        self.source.region.budget().give_back(bytes.len() as u64);
        Ok(())
    }
}
