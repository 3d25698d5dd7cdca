//! Hyper-V's VHDX: two headers, a log, two region tables, metadata, a block allocation table (BAT).
//!
//! Format: Microsoft, \[MS-VHDX\]: Virtual Hard Disk v2 (VHDX) File Format; fields are little-endian.

use std::ops::Range;

use super::disk::{Disk, Layout, Piece, Place, Ranges};
use super::tables::{Reader, Tables};
use super::vdi::join;
use crate::bytes::{array, guid, is_power_in, le16, le32, le64, product, slice, sum};
use crate::refusal::{Refusal, corrupt_if, dirty_if, unsupported_if};

pub(super) const MAGIC: &[u8] = b"vhdxfile";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// The largest number of entries of a region table or a metadata table.
const ENTRIES: usize = 2047;

type Guid = [u8; 16];

pub(super) const REGION_BAT: Guid = guid(0x2dc2_7766, 0xf623, 0x4200, 0x9d64_115e_9bfd_4a08);
pub(super) const REGION_METADATA: Guid = guid(0x8b7c_a206, 0x4790, 0x4b9a, 0xb8fe_575f_050f_886e);
pub(super) const FILE_PARAMETERS: Guid = guid(0xcaa1_6737, 0xfa36, 0x4d43, 0xb3b6_33f0_aa44_e76b);
const DISK_SIZE: Guid = guid(0x2fa5_4224, 0xcd1b, 0x4876, 0xb211_5dbe_d83b_f4b8);
const DISK_ID: Guid = guid(0xbeca_12ab, 0xb2e6, 0x4523, 0x93ef_c309_e000_c746);
const LOGICAL_SECTOR: Guid = guid(0x8141_bf1d, 0xa96f, 0x4709, 0xba47_f233_a8fa_ab5f);
pub(super) const PARENT_LOCATOR: Guid = guid(0xa8d3_5f2d, 0xb30b, 0x454d, 0xabf7_d3d8_4834_ab0c);
const PHYSICAL_SECTOR: Guid = guid(0xcda3_48c7, 0x445d, 0x4471, 0x9cc9_e988_5251_c556);

struct Vhdx {
    block: u64,
    /// How many blocks of data the table names between two entries for bitmaps of sectors.
    chunk: u64,
    table: Vec<u8>,
    /// The log.
    besides: Vec<Range<u64>>,
}

pub(super) fn open(reader: &Reader) -> Result<Disk, Refusal> {
    let start = reader.read(0, 0, 512)?;
    corrupt_if(!start.starts_with(MAGIC), "no VHDX")?;
    let header = current_header(reader)?;
    let log = log_of(&header)?;
    let regions = [192 * KIB, 256 * KIB].map(|at| regions(reader, at));
    let regions = match regions {
        [Ok(first), Ok(second)] if first == second => first,
        [Ok(_), Ok(_)] => return Err(Refusal::corrupt("the two region tables of a VHDX differ")),
        [Ok(only), Err(_)] | [Err(_), Ok(only)] => only,
        [Err(refusal), Err(_)] => return Err(refusal),
    };
    let about = about(reader, &regions.metadata)?;
    let blocks = about.size.div_ceil(about.block);
    // The size of a bitmap of sectors is fixed, so that it covers so many blocks.
    let chunk = (8 * MIB).checked_mul(about.sector).map_or(0, |covered| covered / about.block);
    corrupt_if(chunk == 0, "a VHDX with blocks that are too large")?;
    let entries = sum(blocks, blocks.saturating_sub(1) / chunk)?;
    let bytes = product(entries, 8)?;
    corrupt_if(bytes > regions.table.end - regions.table.start, "the block table of a VHDX is too short for its disk")?;
    let table = reader.read_long(0, regions.table.start, bytes)?;
    // Bitmaps of sectors are for disks with a parent; where they would be named nothing may be.
    for group in 0..blocks.saturating_sub(1) / chunk {
        let index = product(sum(product(group, chunk + 1)?, chunk)?, 8)?;
        let named = le64(&table, usize::try_from(index).unwrap_or(usize::MAX))? & 7 != 0;
        corrupt_if(named, "a VHDX without a parent has a bitmap of sectors")?;
    }
    let mut besides = vec![0..MIB, regions.table, regions.metadata];
    besides.extend(log);
    Ok(Disk::new("vhdx", about.size, Vhdx { block: about.block, chunk, table, besides }))
}

/// A structure of `len` bytes with a signature, and a CRC32C at its fifth byte.
fn checked(reader: &Reader, at: u64, len: usize, signature: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut bytes = reader.read(0, at, len)?;
    let sum = le32(&bytes, 4)?;
    corrupt_if(!bytes.starts_with(signature), "a structure of a VHDX has no signature")?;
    if let Some(field) = bytes.get_mut(4..8) {
        field.fill(0);
    }
    corrupt_if(crc32c::crc32c(&bytes) != sum, "a checksum of a VHDX is wrong")?;
    Ok(bytes)
}

/// The valid header with the greater sequence number.
fn current_header(reader: &Reader) -> Result<Vec<u8>, Refusal> {
    let header = |at| -> Result<(u64, Vec<u8>), Refusal> {
        let bytes = checked(reader, at, 4096, b"head")?;
        Ok((le64(&bytes, 8)?, bytes))
    };
    let (_, current) = match (header(64 * KIB), header(128 * KIB)) {
        (Ok(first), Ok(second)) if first.0 == second.0 && first.1 != second.1 => {
            return Err(Refusal::corrupt("the two headers of a VHDX are of the same age"));
        }
        (Ok(first), Ok(second)) => first.max(second),
        (Ok(only), Err(_)) | (Err(_), Ok(only)) => only,
        (Err(refusal), Err(_)) => return Err(refusal),
    };
    if le16(&current, 66)? != 1 {
        return Err(Refusal::unsupported(format!("VHDX version {}", le16(&current, 66)?)));
    }
    Ok(current)
}

/// Where the log is. It must have nothing to replay.
fn log_of(header: &[u8]) -> Result<Option<Range<u64>>, Refusal> {
    dirty_if(array::<16>(header, 48)? != [0; 16], "the VHDX has a log to replay")?;
    let (len, at) = (u64::from(le32(header, 68)?), le64(header, 72)?);
    Ok((len != 0).then_some(at..sum(at, len)?))
}

#[derive(PartialEq, Eq)]
struct Regions {
    table: Range<u64>,
    metadata: Range<u64>,
}

fn regions(reader: &Reader, at: u64) -> Result<Regions, Refusal> {
    let bytes = checked(reader, at, 64 << 10, b"regi")?;
    let count = le32(&bytes, 8)? as usize;
    corrupt_if(count > ENTRIES, "too many regions in a VHDX")?;
    let (mut table, mut metadata) = (None, None);
    for number in 0..count {
        let entry = slice(&bytes, 16 + number * 32, 32)?;
        let (offset, len) = (le64(entry, 16)?, u64::from(le32(entry, 24)?));
        let end = sum(offset, len)?;
        let known = match array::<16>(entry, 0)? {
            REGION_BAT => &mut table,
            REGION_METADATA => &mut metadata,
            _ if le32(entry, 28)? & 1 == 0 => continue,
            _ => return Err(Refusal::unsupported("an unknown region in a VHDX")),
        };
        let misplaced = !offset.is_multiple_of(MIB) || offset < MIB || end > reader.size(0) || known.is_some();
        corrupt_if(misplaced, "a region of a VHDX is where it cannot be")?;
        *known = Some(offset..end);
    }
    match (table, metadata) {
        (Some(table), Some(metadata)) if table.end <= metadata.start || metadata.end <= table.start => {
            Ok(Regions { table, metadata })
        }
        _ => Err(Refusal::corrupt("a VHDX without a block table or metadata")),
    }
}

struct About {
    size: u64,
    block: u64,
    sector: u64,
}

fn about(reader: &Reader, region: &Range<u64>) -> Result<About, Refusal> {
    corrupt_if(region.end - region.start < 64 * KIB, "the metadata of a VHDX are too short")?;
    let bytes = reader.read(0, region.start, 64 << 10)?;
    let count = usize::from(le16(&bytes, 10)?);
    corrupt_if(!bytes.starts_with(b"metadata") || count > ENTRIES, "the metadata of a VHDX are damaged")?;
    let (mut size, mut block, mut sector) = (None, None, None);
    for number in 0..count {
        let entry = slice(&bytes, 32 + number * 32, 32)?;
        let (id, flags) = (array::<16>(entry, 0)?, le32(entry, 24)?);
        let item = |len: u32| -> Result<Vec<u8>, Refusal> {
            let (offset, have) = (u64::from(le32(entry, 16)?), le32(entry, 20)?);
            if have != len || offset < 64 * KIB || sum(offset, u64::from(len))? > region.end - region.start {
                return Err(Refusal::corrupt("metadata of a VHDX are where they cannot be"));
            }
            reader.read(0, sum(region.start, offset)?, len as usize)
        };
        let twice = match id {
            // A user's item has nothing to do with the disk, whatever its name.
            _ if flags & 1 != 0 => {
                unsupported_if(flags & 4 != 0, "unknown metadata in a VHDX")?;
                None
            }
            FILE_PARAMETERS => {
                let item = item(8)?;
                unsupported_if(le32(&item, 4)? & 2 != 0, "VHDX with a parent")?;
                block.replace(u64::from(le32(&item, 0)?))
            }
            DISK_SIZE => size.replace(le64(&item(8)?, 0)?),
            LOGICAL_SECTOR => sector.replace(u64::from(le32(&item(4)?, 0)?)),
            DISK_ID | PHYSICAL_SECTOR => None,
            _ if flags & 4 == 0 => None,
            _ => return Err(Refusal::unsupported("unknown metadata in a VHDX")),
        };
        corrupt_if(twice.is_some(), "metadata of a VHDX are there twice")?;
    }
    match (size, block, sector) {
        (Some(size), Some(block), Some(sector @ (512 | 4096)))
            if size <= 64 * TIB && size.is_multiple_of(sector) && is_power_in(block, MIB..=256 * MIB) =>
        {
            Ok(About { size, block, sector })
        }
        _ => Err(Refusal::corrupt("the size of a VHDX, its blocks or sectors is missing or out of bounds")),
    }
}

/// The names of the parent of a disk, if it has one: all that the locator of the parent says.
pub(super) fn parent(reader: &Reader) -> Result<Option<Vec<Vec<u8>>>, Refusal> {
    let region = regions(reader, 192 * KIB).or_else(|_| regions(reader, 256 * KIB))?.metadata;
    let bytes = reader.read(0, region.start, 64 << 10)?;
    let (mut has_parent, mut names) = (false, Vec::new());
    for number in 0..usize::from(le16(&bytes, 10)?).min(ENTRIES) {
        let entry = slice(&bytes, 32 + number * 32, 32)?;
        let (at, len) = (sum(region.start, le32(entry, 16)?.into())?, le32(entry, 20)?.min(64 << 10) as usize);
        match array::<16>(entry, 0)? {
            FILE_PARAMETERS => has_parent = le32(&reader.read(0, at, 8)?, 4)? & 2 != 0,
            PARENT_LOCATOR => names = values(&reader.read(0, at, len)?).unwrap_or_default(),
            _ => {}
        }
    }
    Ok(has_parent.then_some(names))
}

/// The values of the pairs in a locator of a parent.
fn values(locator: &[u8]) -> Result<Vec<Vec<u8>>, Refusal> {
    let pairs = (0..usize::from(le16(locator, 18)?)).map(|number| {
        let pair = slice(locator, 20 + number * 12, 12)?;
        let value = slice(locator, le32(pair, 4)? as usize, le16(pair, 10)?.into())?;
        let letters = value.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
        let text: String = char::decode_utf16(letters).map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        Ok(text.into_bytes())
    });
    pairs.collect()
}

impl Vhdx {
    fn place(&self, tables: &dyn Tables, number: u64) -> Result<Place, Refusal> {
        let index = sum(number, number / self.chunk)?;
        let entry = le64(&self.table, usize::try_from(product(index, 8)?).unwrap_or(usize::MAX))?;
        corrupt_if(entry & 0xf_fff8 != 0, "an entry of a VHDX's block table has unknown bits")?;
        match entry & 7 {
            // Not present, undefined, zero, unmapped.
            0..=3 => Ok(Place::Zero),
            6 => {
                let offset = product(entry >> 20, MIB)?;
                corrupt_if(offset < MIB || sum(offset, self.block)? > tables.size(0), "a block lies outside the file")?;
                Ok(Place::Stored { file: 0, offset })
            }
            state => Err(Refusal::corrupt(format!("a block of a VHDX is in state {state}"))),
        }
    }
}

impl Layout for Vhdx {
    fn piece(&self, tables: &dyn Tables, at: u64, upto: u64) -> Result<Piece, Refusal> {
        join(at, upto, self.block, |number| self.place(tables, number))
    }

    fn besides(&self, _: &Reader) -> Result<Option<Ranges>, Refusal> {
        Ok(Some(self.besides.iter().map(|range| (0, range.clone())).collect()))
    }
}
