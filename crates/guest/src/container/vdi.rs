//! VirtualBox's VDI: a header, a map of blocks, blocks.
//!
//! Format: as VirtualBox writes it since version 1.1 of the format (2004); fields are little-endian.

use super::disk::{Disk, Layout, Piece, Place};
use super::tables::{Reader, Tables};
use crate::bytes::{array, is_power_in, le32, le64, product, slice, sum};
use crate::refusal::{Refusal, corrupt_if, unsupported_if};

const SIGNATURE: u32 = 0xbeda_107f;
const VERSION: u32 = 0x0001_0001;
const DYNAMIC: u32 = 1;
const FIXED: u32 = 2;
const DIFFERENCING: u32 = 4;

/// Where the header has the identity of the disk, and that of its parent.
pub(super) const ID: usize = 392;
const PARENT: usize = 424;

/// A block that the guest has discarded; the number above is that of no block at all. Both read as zero.
const DISCARDED: u32 = 0xffff_fffe;

/// Whether the first bytes of a file are a VDI's.
pub(super) fn detect(start: &[u8]) -> bool {
    le32(start, 64) == Ok(SIGNATURE)
}

/// The identity of the parent of a disk with this header, if it has one.
pub(super) fn parent(header: &[u8]) -> Result<Option<[u8; 16]>, Refusal> {
    let parent = array(header, PARENT)?;
    Ok((parent != [0; 16] || le32(header, 76)? == DIFFERENCING).then_some(parent))
}

struct Vdi {
    block: u64,
    /// Where block 0 lies in the file.
    data: u64,
    /// Little-endian numbers of the blocks in the file.
    map: Vec<u8>,
}

pub(super) fn open(reader: &Reader) -> Result<Disk, Refusal> {
    let header = reader.read(0, 0, 512)?;
    if le32(&header, 68)? != VERSION {
        return Err(Refusal::unsupported(format!("VDI version {:#x}", le32(&header, 68)?)));
    }
    corrupt_if(le32(&header, 72)? < 0x180, "a VDI header that is too short")?;
    match le32(&header, 76)? {
        DYNAMIC | FIXED => {}
        kind => return Err(Refusal::unsupported(format!("VDI of type {kind}, which depends on another disk"))),
    }
    // The links to a parent: itself, and its last modification.
    unsupported_if(slice(&header, PARENT, 32)?.iter().any(|byte| *byte != 0), "VDI with a parent")?;
    let other = le32(&header, 360)? != 512 || le32(&header, 380)? != 0;
    unsupported_if(other, "VDI with other sectors or extra data in blocks")?;
    let block = u64::from(le32(&header, 376)?);
    unsupported_if(!is_power_in(block, 4096..=64 << 20), format_args!("VDI with blocks of {block} bytes"))?;
    let (map_at, data) = (u64::from(le32(&header, 340)?), u64::from(le32(&header, 344)?));
    let (size, blocks) = (le64(&header, 368)?, u64::from(le32(&header, 384)?));
    corrupt_if(size.div_ceil(block) > blocks, "the map of a VDI is too short for its disk")?;
    let map = reader.read_long(0, map_at, blocks * 4)?;
    corrupt_if(map_at < 512 || data < sum(map_at, blocks * 4)?, "the parts of a VDI overlap")?;
    Ok(Disk::new("vdi", size, Vdi { block, data, map }))
}

impl Vdi {
    /// Where the block is whose number in the disk is `number`.
    fn block(&self, tables: &dyn Tables, number: u64) -> Result<Place, Refusal> {
        let entry = le32(&self.map, usize::try_from(product(number, 4)?).unwrap_or(usize::MAX))?;
        if entry >= DISCARDED {
            return Ok(Place::Zero);
        }
        let offset = sum(self.data, product(u64::from(entry), self.block)?)?;
        corrupt_if(sum(offset, self.block)? > tables.size(0), "a block lies behind the end of the file")?;
        Ok(Place::Stored { file: 0, offset })
    }
}

impl Layout for Vdi {
    fn piece(&self, tables: &dyn Tables, at: u64, upto: u64) -> Result<Piece, Refusal> {
        join(at, upto, self.block, |number| self.block(tables, number))
    }
}

/// Joins blocks of `block` bytes, from the one of `at` until `upto` is reached, as long as they lie behind one another.
/// Its users have disks of no more blocks than fit in [`super::tables::LARGEST_TABLE`].
pub(super) fn join(
    at: u64,
    upto: u64,
    block: u64,
    place: impl Fn(u64) -> Result<Place, Refusal>,
) -> Result<Piece, Refusal> {
    Piece::joined(at, upto, |at| {
        let (number, skip) = (at / block, at % block);
        let place = match place(number)? {
            Place::Stored { file, offset } => Place::Stored { file, offset: sum(offset, skip)? },
            other => other,
        };
        Ok(Piece { len: block - skip, place })
    })
}
