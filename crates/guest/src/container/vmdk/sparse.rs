//! A hosted sparse extent: a grain directory, grain tables, grains; compressed in stream-optimised ones.

use std::ops::Range;

use super::super::disk::{LARGEST_UNIT, Piece, Place};
use super::super::tables::{Reader, Tables, any_twice};
use super::super::unpack::inflate;
use super::descriptor;
use crate::bytes::{is_power_in, le16, le32, le64, product, slice, sum, u8_at};
use crate::refusal::{OrRefuse, Refusal, corrupt_if, dirty_if, unsupported_if};

/// What a sparse extent starts with.
pub const MAGIC: &[u8] = b"KDMV";

/// Capacities and offsets count in these.
pub(super) const SECTOR: u64 = 512;

const NEWLINES: u32 = 1;
const REDUNDANT: u32 = 1 << 1;
const ZERO_GRAINS: u32 = 1 << 2;
const COMPRESSED: u32 = 1 << 16;
const MARKERS: u32 = 1 << 17;

/// The directory is named by a footer at the end of the file.
const AT_END: u64 = u64::MAX;

/// The type of the marker before a footer.
const FOOTER_MARKER: u32 = 3;

/// The entry of a grain table for a grain of zeros, if [`ZERO_GRAINS`] is set.
const ZEROED: u32 = 1;

/// The marker before a compressed grain: its sector, and its length.
const MARKER: usize = 12;

struct Header {
    flags: u32,
    /// Sectors of the disk, and of a grain.
    capacity: u64,
    grain: u64,
    descriptor: u64,
    descriptor_len: u64,
    per_table: u64,
    redundant: u64,
    directory: u64,
    overhead: u64,
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Header, Refusal> {
        unsupported_if(!bytes.starts_with(MAGIC), "a VMDK extent of another kind than hosted sparse")?;
        let version = le32(bytes, 4)?;
        unsupported_if(!(1..=3).contains(&version), format_args!("sparse VMDK version {version}"))?;
        let header = Header {
            flags: le32(bytes, 8)?,
            capacity: le64(bytes, 12)?,
            grain: le64(bytes, 20)?,
            descriptor: le64(bytes, 28)?,
            descriptor_len: le64(bytes, 36)?,
            per_table: u64::from(le32(bytes, 44)?),
            redundant: le64(bytes, 48)?,
            directory: le64(bytes, 56)?,
            overhead: le64(bytes, 64)?,
        };
        dirty_if(u8_at(bytes, 72)? != 0, "the VMDK was not closed")?;
        let unknown = header.flags & !(NEWLINES | REDUNDANT | ZERO_GRAINS | COMPRESSED | MARKERS) != 0;
        unsupported_if(unknown, "unknown flags in a sparse VMDK")?;
        let changed = header.flags & NEWLINES != 0 && slice(bytes, 73, 4)? != b"\n \r\n";
        corrupt_if(changed, "the VMDK was transferred as a text")?;
        let packed = header.flags & COMPRESSED != 0;
        if packed != (header.flags & MARKERS != 0) || packed != (le16(bytes, 77)? == 1) || le16(bytes, 77)? > 1 {
            return Err(Refusal::unsupported("compression or markers in a sparse VMDK"));
        }
        let possible = is_power_in(header.grain, 8..=LARGEST_UNIT / SECTOR) && (1..=512).contains(&header.per_table);
        corrupt_if(!possible, "the grains of a sparse VMDK are of no possible size")?;
        product(header.capacity, SECTOR)?;
        Ok(header)
    }
}

pub(super) struct Sparse {
    /// The index of the file that it is in.
    pub file: usize,
    /// The size of the extent in the disk, in bytes.
    pub size: u64,
    grain: u64,
    per_table: u64,
    zero_grains: bool,
    packed: bool,
    /// Little-endian sectors of the grain tables.
    directory: Vec<u8>,
    /// Whether the two directories and all their tables agree, or there is only one.
    whole: bool,
    overhead: u64,
}

impl Sparse {
    /// Opens the extent in a file of the reader; returns the descriptor inside too, if there is one.
    pub fn open(reader: &Reader, file: usize) -> Result<(Sparse, Option<Vec<u8>>), Refusal> {
        let mut header = Header::parse(&reader.read(file, 0, 512)?)?;
        let text = match (header.descriptor, header.descriptor_len) {
            (0, _) | (_, 0) => None,
            (at, len) => {
                let len = product(len, SECTOR)?;
                corrupt_if(len > descriptor::LARGEST, "the descriptor inside a VMDK is too long")?;
                Some(reader.read(file, product(at, SECTOR)?, len as usize)?)
            }
        };
        if header.directory == AT_END {
            header = footer(reader, file, &header)?;
        }
        let covered = product(product(header.grain, header.per_table)?, SECTOR)?;
        let size = product(header.capacity, SECTOR)?;
        let tables = size.div_ceil(covered);
        let first = directory(reader, file, header.directory, tables);
        let second = (header.flags & REDUNDANT != 0).then(|| directory(reader, file, header.redundant, tables));
        // The second one is there for when the first is lost.
        let (chosen, spare) = match (first, second) {
            (Ok(first), second) => (first, second),
            (Err(_), Some(Ok(second))) => (second, Some(Err(Refusal::corrupt("the first is lost")))),
            (Err(refusal), _) => return Err(refusal),
        };
        let mut sparse = Sparse {
            file,
            size,
            grain: product(header.grain, SECTOR)?,
            per_table: header.per_table,
            zero_grains: header.flags & ZERO_GRAINS != 0,
            packed: header.flags & COMPRESSED != 0,
            directory: chosen,
            whole: false,
            overhead: product(header.overhead, SECTOR)?.min(reader.size(file)),
        };
        sparse.whole = match spare {
            None => true,
            Some(Err(_)) => false,
            Some(Ok(spare)) => sparse.compare(reader, &spare, tables)?,
        };
        Ok((sparse, text))
    }

    /// Whether single grains can be freed, and reading what is left needs no repair.
    pub fn can_be_freed(&self) -> bool {
        self.whole && !self.packed
    }

    /// The bytes of the file that the header calls metadata.
    pub fn overhead(&self) -> (usize, Range<u64>) {
        (self.file, 0..self.overhead)
    }

    /// Whether the second directory leads to tables that say the same. Refuses tables that contradict each other.
    fn compare(&self, reader: &Reader, spare: &[u8], tables: u64) -> Result<bool, Refusal> {
        for number in 0..tables {
            let index = usize::try_from(product(number, 4)?).unwrap_or(usize::MAX);
            let (first, second) = (le32(&self.directory, index)?, le32(spare, index)?);
            if first == second {
                continue;
            }
            let disagree = first == 0 || second == 0 || self.table(reader, first)? != self.table(reader, second)?;
            corrupt_if(disagree, "the two grain directories of a VMDK disagree")?;
        }
        Ok(true)
    }

    fn table(&self, tables: &dyn Tables, sector: u32) -> Result<std::sync::Arc<Vec<u8>>, Refusal> {
        tables.table(self.file, u64::from(sector) * SECTOR, self.per_table as usize * 4)
    }

    /// Where the bytes from `at` of the extent on are; looks no further than `upto`.
    pub fn piece(&self, tables: &dyn Tables, at: u64, upto: u64) -> Result<Piece, Refusal> {
        let covered = product(self.grain, self.per_table)?;
        let number = at / covered;
        let end = product(sum(number, 1)?, covered)?;
        let sector = le32(&self.directory, usize::try_from(product(number, 4)?).unwrap_or(usize::MAX))?;
        if sector == 0 {
            return Ok(Piece { len: end - at, place: Place::Zero });
        }
        let table = self.table(tables, sector)?;
        Piece::joined(at, upto.min(end), |at| self.grain(tables, &table, at))
    }

    /// The bytes from `at` to the end of its grain.
    fn grain(&self, tables: &dyn Tables, table: &[u8], at: u64) -> Result<Piece, Refusal> {
        let (skip, index) = (at % self.grain, at / self.grain % self.per_table);
        let left = self.grain - skip;
        let entry = le32(table, index as usize * 4)?;
        if entry == 0 || entry == ZEROED && self.zero_grains {
            return Ok(Piece { len: left, place: Place::Zero });
        }
        let offset = u64::from(entry) * SECTOR;
        let there = tables
            .size(self.file)
            .checked_sub(offset)
            .filter(|there| *there > 0)
            .or_corrupt("a grain lies behind the end of the file")?;
        if !self.packed {
            return Ok(Piece::stored(tables, self.file, offset + skip, left));
        }
        // The length is in the marker before the grain, which is read only when the grain is.
        let most = MARKER as u64 + self.grain + self.grain / 64 + SECTOR;
        let place = Place::Packed {
            file: self.file,
            offset,
            stored: most.min(there) as usize,
            unit: self.grain as usize,
            skip: skip as usize,
        };
        Ok(Piece { len: left, place })
    }

    /// Unpacks the grain at `at` of the extent, with its marker.
    pub fn unpack(&self, packed: &[u8], unit: usize, at: u64) -> Result<Vec<u8>, Refusal> {
        corrupt_if(le64(packed, 0)? != at / SECTOR, "a grain's marker names another grain")?;
        let grain = inflate(slice(packed, MARKER, le32(packed, 8)? as usize)?, unit, true)?;
        // The last grain of a disk may end where the disk does.
        corrupt_if((grain.len() as u64) < (unit as u64).min(self.size.saturating_sub(at)), "a grain is too short")?;
        Ok(grain)
    }
}

fn directory(reader: &Reader, file: usize, sector: u64, tables: u64) -> Result<Vec<u8>, Refusal> {
    corrupt_if(sector == 0, "a sparse VMDK without a grain directory")?;
    let directory = reader.read_long(file, product(sector, SECTOR)?, product(tables, 4)?)?;
    let behind = |entry: &[u8]| {
        let sector = entry.try_into().map_or(u32::MAX, u32::from_le_bytes);
        u64::from(sector) * SECTOR >= reader.size(file)
    };
    corrupt_if(directory.chunks_exact(4).any(behind), "a grain table lies behind the end of the file")?;
    corrupt_if(any_twice::<4>(&directory), "two entries of a grain directory are the same")?;
    Ok(directory)
}

/// The header at the end of a stream: its marker, itself, the marker of the end; a sector each.
fn footer(reader: &Reader, file: usize, first: &Header) -> Result<Header, Refusal> {
    let at = reader.size(file).checked_sub(3 * SECTOR).or_corrupt("a stream without a footer")?;
    let bytes = reader.read(file, at, 1536)?;
    let end = slice(&bytes, 1024, 16)?;
    if le64(&bytes, 0)? != 1 || le32(&bytes, 8)? != 0 || le32(&bytes, 12)? != FOOTER_MARKER || end != [0; 16] {
        return Err(Refusal::corrupt("a stream without a footer"));
    }
    let header = Header::parse(slice(&bytes, 512, 512)?)?;
    let same = header.capacity == first.capacity
        && header.grain == first.grain
        && header.per_table == first.per_table
        && header.flags == first.flags;
    corrupt_if(!same || header.directory == AT_END, "the header and the footer of a stream disagree")?;
    Ok(header)
}
