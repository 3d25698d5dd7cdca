//! Virtual PC's VHD: a footer, and for dynamic disks a header and a table of blocks.
//!
//! Format: Microsoft, Virtual Hard Disk Image Format Specification, version 1.0; fields are big-endian.

use super::disk::{Disk, Layout, Piece, Place, Plain, Ranges};
use super::tables::{Reader, Tables};
use super::vdi::join;
use crate::bytes::{be32, be64, is_power_in, product, sum};
use crate::image::ReadAt;
use crate::refusal::{OrRefuse, Refusal, corrupt_if, unsupported_if};

pub(super) const COOKIE: &[u8] = b"conectix";
const FOOTER: u64 = 512;
const VERSION: u32 = 0x0001_0000;
const FIXED: u32 = 2;
const DYNAMIC: u32 = 3;
const DIFFERENCING: u32 = 4;
const SECTOR: u64 = 512;
const UNALLOCATED: u32 = u32::MAX;

/// Whether a file is a VHD: one of fixed size has nothing but a footer.
///
/// The disk before that footer belongs to a guest, and so do the last 512 bytes of a raw image. So the footer must be right in
/// every way, and name just the size that is before it.
pub(super) fn detect(start: &[u8], file: &dyn ReadAt) -> Result<bool, Refusal> {
    if start.starts_with(COOKIE) {
        return Ok(true);
    }
    let Some(disk) = file.size().checked_sub(FOOTER) else { return Ok(false) };
    let mut footer = vec![0; FOOTER as usize];
    file.read_exact_at(disk, &mut footer)?;
    Ok(footer.starts_with(COOKIE)
        && sum_is_right(&footer, 64)?
        && be32(&footer, 60)? == FIXED
        && be64(&footer, 16)? == u64::MAX
        && be64(&footer, 48)? == disk)
}

/// Whether the checksum at `at` is the complement of the sum of all other bytes.
fn sum_is_right(bytes: &[u8], at: usize) -> Result<bool, Refusal> {
    let others = bytes.iter().enumerate().filter(|(index, _)| !(at..at + 4).contains(index));
    let sum = others.fold(0_u32, |sum, (_, byte)| sum.wrapping_add(u32::from(*byte)));
    Ok(be32(bytes, at)? == !sum)
}

/// What the name of its parent is, if a disk that begins with this footer has one; empty if it cannot be read.
pub(super) fn parent(reader: &Reader, footer: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
    if be32(footer, 60)? != DIFFERENCING {
        return Ok(None);
    }
    let header = reader.read(0, be64(footer, 16)?, 1024).unwrap_or_default();
    let name = header.get(64..576).unwrap_or_default();
    let letters = name.as_chunks().0.iter().map(|bytes| u16::from_be_bytes(*bytes)).take_while(|letter| *letter != 0);
    let name: String =
        char::decode_utf16(letters).map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    Ok(Some(name.into_bytes()))
}

struct Dynamic {
    size: u64,
    block: u64,
    /// The length of the bitmap of sectors before the data of each block.
    bitmap: u64,
    /// Big-endian sectors of the blocks.
    table: Vec<u8>,
    /// How much of the file belongs to blocks; the footer is behind.
    end: u64,
}

pub(super) fn open(reader: &Reader) -> Result<Disk, Refusal> {
    let end = reader.size(0).checked_sub(FOOTER).or_corrupt("a VHD without a footer")?;
    let footer = reader.read(0, end, FOOTER as usize)?;
    corrupt_if(!footer.starts_with(COOKIE) || !sum_is_right(&footer, 64)?, "the footer of a VHD is damaged")?;
    unsupported_if(be32(&footer, 12)? != VERSION, "another version of VHD")?;
    let size = be64(&footer, 48)?;
    match be32(&footer, 60)? {
        FIXED if size == end => return Ok(Disk::new("vhd", size, Plain(size))),
        FIXED => return Err(Refusal::corrupt("a VHD of fixed size that has another size")),
        DYNAMIC => {}
        kind => return Err(Refusal::unsupported(format!("VHD of type {kind}, which depends on another disk"))),
    }
    corrupt_if(reader.read(0, 0, FOOTER as usize)? != footer, "the two footers of a VHD differ")?;
    let header = reader.read(0, be64(&footer, 16)?, 1024)?;
    let wrong = !header.starts_with(b"cxsparse") || !sum_is_right(&header, 36)?;
    corrupt_if(wrong, "the header of a dynamic VHD is damaged")?;
    unsupported_if(be32(&header, 24)? != VERSION, "another version of dynamic VHD")?;
    let (entries, block) = (u64::from(be32(&header, 28)?), u64::from(be32(&header, 32)?));
    unsupported_if(!is_power_in(block, 4096..=256 << 20), format_args!("VHD with blocks of {block} bytes"))?;
    corrupt_if(size.div_ceil(block) > entries, "the table of a VHD is too short for its disk")?;
    let table = reader.read_long(0, be64(&header, 16)?, entries * 4)?;
    let bitmap = (block / SECTOR).div_ceil(8).next_multiple_of(SECTOR);
    Ok(Disk::new("vhd", size, Dynamic { size, block, bitmap, table, end }))
}

impl Dynamic {
    /// Where the block's bitmap starts, if it has one.
    fn entry(&self, number: u64) -> Result<Option<u64>, Refusal> {
        let entry = be32(&self.table, usize::try_from(product(number, 4)?).unwrap_or(usize::MAX))?;
        if entry == UNALLOCATED {
            return Ok(None);
        }
        let at = u64::from(entry) * SECTOR;
        corrupt_if(sum(at, self.bitmap + self.block)? > self.end, "a block lies behind the end of the file")?;
        Ok(Some(at))
    }
}

impl Layout for Dynamic {
    /// The bitmaps of sectors are not looked at: what they call unwritten is read as it is, like others do.
    fn piece(&self, _: &dyn Tables, at: u64, upto: u64) -> Result<Piece, Refusal> {
        join(at, upto, self.block, |number| {
            let stored = |at| Place::Stored { file: 0, offset: at + self.bitmap };
            Ok(self.entry(number)?.map_or(Place::Zero, stored))
        })
    }

    fn besides(&self, _: &Reader) -> Result<Option<Ranges>, Refusal> {
        let mut bitmaps = Vec::new();
        for number in 0..self.size.div_ceil(self.block) {
            bitmaps.extend(self.entry(number)?.map(|at| (0, at..at + self.bitmap)));
        }
        Ok(Some(bitmaps))
    }
}
