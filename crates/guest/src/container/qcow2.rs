//! QEMU's qcow2, versions 2 and 3: two levels of tables, counts of references, clusters.
//!
//! Format: QEMU, docs/interop/qcow2; fields are big-endian.

use super::disk::{Disk, LARGEST_UNIT, Layout, Piece, Place, Ranges};
use super::tables::{LARGEST_TABLE, Reader, Tables, any_twice};
use super::unpack::{inflate, unzstd};
use crate::budget::LARGEST_PIECE;
use crate::bytes::{be32, be64, product, slice, sum, u8_at};
use crate::extents::ExtentSet;
use crate::refusal::{OrRefuse, Refusal, corrupt_if, dirty_if, over_budget_if, unsupported_if};

pub(super) const MAGIC: [u8; 4] = *b"QFI\xfb";

const DIRTY: u64 = 1;
const CORRUPT: u64 = 1 << 1;
const DATA_FILE: u64 = 1 << 2;
const COMPRESSION: u64 = 1 << 3;
const EXTENDED: u64 = 1 << 4;

/// The header extensions that matter here.
const END: u32 = 0;
const BITMAPS: u32 = 0x2385_2875;

/// A cluster, or a table, used exactly once.
const COPIED: u64 = 1 << 63;
const PACKED: u64 = 1 << 62;
/// In a table of the second level without subclusters: reads as zero.
const ZERO: u64 = 1;
/// The bits of an offset in either table.
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;

/// Subclusters of a cluster, where there are any.
const SUBCLUSTERS: u64 = 32;

/// How clusters are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    Deflate,
    Zstd,
}

struct Qcow2 {
    /// Version 2 has no clusters of zeros.
    version: u32,
    /// The size of a cluster, as a power of two.
    bits: u32,
    features: Features,
    /// The first level.
    l1: Vec<u8>,
    /// Where the table of counts is, and how many bytes it has.
    counts: (u64, u64),
    /// Whether clusters can be freed at all: no snapshots, no bitmaps.
    plain: bool,
}

pub(super) fn open(reader: &Reader) -> Result<Disk, Refusal> {
    let len = usize::try_from(reader.size(0)).unwrap_or(usize::MAX).min(4096);
    let header = reader.read(0, 0, len)?;
    let version = be32(&header, 4)?;
    unsupported_if(!matches!(version, 2 | 3), format_args!("qcow version {version}"))?;
    let bits = be32(&header, 20)?;
    corrupt_if(!(9..=21).contains(&bits), "a qcow2 with clusters of no possible size")?;
    let cluster = 1_u64 << bits;
    unsupported_if(be64(&header, 8)? != 0, "qcow2 with a backing file")?;
    unsupported_if(be32(&header, 32)? != 0, "encrypted qcow2")?;
    let features = Features::parse(&header, version)?;
    corrupt_if(features.extended && bits < 14, "a qcow2 with subclusters of no possible size")?;
    let bitmaps = has_bitmaps(&header, features.header, cluster)?;
    let (size, entries, at) = (be64(&header, 24)?, u64::from(be32(&header, 36)?), be64(&header, 40)?);
    let mut qcow = Qcow2 {
        version,
        bits,
        features,
        l1: Vec::new(),
        counts: (be64(&header, 48)?, product(u64::from(be32(&header, 56)?), cluster)?),
        plain: be32(&header, 60)? == 0 && !bitmaps,
    };
    let needed = size.div_ceil(qcow.covered());
    corrupt_if(entries < needed, "the first table of a qcow2 is too short for its disk")?;
    over_budget_if(entries * 8 > LARGEST_TABLE, "bytes of one table")?;
    let misplaced = !at.is_multiple_of(cluster) || at == 0 && entries > 0;
    corrupt_if(misplaced, "the first table of a qcow2 is where it cannot be")?;
    qcow.l1 = reader.read_long(0, at, entries * 8)?;
    // Entries behind the end of the disk belong to states of a machine, which snapshots have.
    let behind = qcow.l1.get(needed as usize * 8..).unwrap_or_default();
    qcow.plain &= behind.iter().all(|byte| *byte == 0);
    qcow.l1.truncate(needed as usize * 8);
    // With the flag beside the offset one table could still be there two times, which is bearable.
    corrupt_if(any_twice::<8>(&qcow.l1), "two entries of the first table of a qcow2 are the same")?;
    Ok(Disk::new("qcow2", size, qcow))
}

struct Features {
    /// Whether clusters have subclusters, and entries of the second level are twice as long.
    extended: bool,
    compression: Compression,
    /// The width of a count in bits, as a power of two.
    order: u32,
    /// The length of the header.
    header: usize,
}

impl Features {
    fn parse(header: &[u8], version: u32) -> Result<Features, Refusal> {
        if version == 2 {
            return Ok(Features { extended: false, compression: Compression::Deflate, order: 4, header: 72 });
        }
        let (incompatible, order, len) = (be64(header, 72)?, be32(header, 96)?, be32(header, 100)?);
        corrupt_if(incompatible & CORRUPT != 0, "the qcow2 is marked as corrupt")?;
        dirty_if(incompatible & DIRTY != 0, "the qcow2 was not closed")?;
        unsupported_if(incompatible & DATA_FILE != 0, "qcow2 with a data file")?;
        let unknown = incompatible & !(COMPRESSION | EXTENDED) != 0;
        unsupported_if(unknown, format_args!("qcow2 with incompatible features {incompatible:#x}"))?;
        let impossible = len < 104 || !len.is_multiple_of(8) || len as usize > header.len() || order > 6;
        corrupt_if(impossible, "the header of a qcow2")?;
        let kind = if len > 104 { u8_at(header, 104)? } else { 0 };
        let compression = match (incompatible & COMPRESSION != 0, kind) {
            (false, 0) => Compression::Deflate,
            (true, 1) => Compression::Zstd,
            _ => return Err(Refusal::unsupported(format!("qcow2 with compression {kind}"))),
        };
        Ok(Features { extended: incompatible & EXTENDED != 0, compression, order, header: len as usize })
    }
}

/// Whether the extensions of the header name bitmaps.
fn has_bitmaps(header: &[u8], mut at: usize, cluster: u64) -> Result<bool, Refusal> {
    // They end with the first cluster, or with an end mark; with neither in the first 4 KiB, there is more than one knows.
    let end = usize::try_from(cluster).unwrap_or(usize::MAX).min(header.len());
    while at + 8 <= end {
        let (kind, len) = (be32(header, at)?, be32(header, at + 4)? as usize);
        match kind {
            END => return Ok(false),
            BITMAPS => return Ok(true),
            _ => at = at.saturating_add(8).saturating_add(len.next_multiple_of(8)),
        }
    }
    Ok(cluster > header.len() as u64)
}

impl Qcow2 {
    fn cluster(&self) -> u64 {
        1 << self.bits
    }

    /// Bytes of one entry of the second level.
    fn entry(&self) -> u64 {
        if self.features.extended { 16 } else { 8 }
    }

    /// Bytes of the disk that one table of the second level covers.
    fn covered(&self) -> u64 {
        (self.cluster() / self.entry()) << self.bits
    }

    /// Whether a cluster of the file is where one can be. The last one may be cut short by the end of the file, as QEMU
    /// leaves it.
    fn check(&self, tables: &dyn Tables, offset: u64) -> Result<(), Refusal> {
        let misplaced = !offset.is_multiple_of(self.cluster()) || offset >= tables.size(0) || offset == 0;
        corrupt_if(misplaced, "a cluster lies where it cannot be")
    }

    /// The bytes from `at` to the end of its cluster or subcluster.
    fn unit(&self, tables: &dyn Tables, table: &[u8], at: u64) -> Result<Piece, Refusal> {
        let cluster = self.cluster();
        let (skip, number) = (at % cluster, (at >> self.bits) % (cluster / self.entry()));
        let index = (number * self.entry()) as usize;
        let entry = be64(table, index)?;
        let bitmap = if self.features.extended { be64(table, index + 8)? } else { 0 };
        if entry & PACKED != 0 {
            corrupt_if(entry & COPIED != 0 || bitmap != 0, "a compressed cluster has flags that it cannot have")?;
            return Ok(Piece { len: cluster - skip, place: self.packed(tables, entry, skip)? });
        }
        let zero = !self.features.extended && entry & ZERO != 0;
        let unknown = entry & !(OFFSET | COPIED | u64::from(zero)) != 0 || zero && self.version < 3;
        corrupt_if(unknown, "an entry of a qcow2 table has unknown bits")?;
        let offset = entry & OFFSET;
        if offset != 0 {
            self.check(tables, offset)?;
        } else if entry & COPIED != 0 {
            return Err(Refusal::corrupt("an entry of a qcow2 table counts no cluster"));
        }
        if !self.features.extended {
            let len = cluster - skip;
            return Ok(match zero || offset == 0 {
                true => Piece { len, place: Place::Zero },
                false => Piece::stored(tables, 0, offset + skip, len),
            });
        }
        let (there, zeros) = (bitmap & 0xffff_ffff, bitmap >> 32);
        let contradiction = there & zeros != 0 || offset == 0 && there != 0;
        corrupt_if(contradiction, "the subclusters of a cluster contradict one another")?;
        let subcluster = cluster / SUBCLUSTERS;
        let len = subcluster - skip % subcluster;
        if there >> (skip / subcluster) & 1 == 0 {
            return Ok(Piece { len, place: Place::Zero });
        }
        Ok(Piece::stored(tables, 0, offset + skip, len))
    }

    /// Where a compressed cluster is: its low bits are an offset, then comes a number of sectors.
    fn packed(&self, tables: &dyn Tables, entry: u64, skip: u64) -> Result<Place, Refusal> {
        let offset_bits = 62 - (self.bits - 8);
        let offset = entry & ((1 << offset_bits) - 1);
        let sectors = (entry & !(PACKED | COPIED)) >> offset_bits;
        // The data ends in the last of the sectors, the first of which it may share.
        let len = (sectors + 1) * 512 - offset % 512;
        let there = tables
            .size(0)
            .checked_sub(offset)
            .filter(|there| *there > 0 && offset != 0)
            .or_corrupt("a compressed cluster lies behind the end of the file")?;
        corrupt_if(len > 2 * LARGEST_UNIT, "a compressed cluster is too long")?;
        let stored = len.min(there) as usize;
        Ok(Place::Packed { file: 0, offset, stored, unit: self.cluster() as usize, skip: skip as usize })
    }
}

impl Layout for Qcow2 {
    fn piece(&self, tables: &dyn Tables, at: u64, upto: u64) -> Result<Piece, Refusal> {
        let number = at / self.covered();
        let end = product(sum(number, 1)?, self.covered())?;
        let entry = be64(&self.l1, usize::try_from(product(number, 8)?).unwrap_or(usize::MAX))?;
        if entry == 0 {
            return Ok(Piece { len: end - at, place: Place::Zero });
        }
        corrupt_if(entry & !(OFFSET | COPIED) != 0, "an entry of a qcow2 table has unknown bits")?;
        self.check(tables, entry & OFFSET)?;
        let table = tables.table(0, entry & OFFSET, self.cluster() as usize)?;
        Piece::joined(at, upto.min(end), |at| self.unit(tables, &table, at))
    }

    fn unpack(&self, packed: &[u8], unit: usize, _: u64) -> Result<Vec<u8>, Refusal> {
        let cluster = match self.features.compression {
            Compression::Deflate => inflate(packed, unit, false)?,
            Compression::Zstd => unzstd(packed, unit)?,
        };
        if cluster.len() == unit { Ok(cluster) } else { Err(Refusal::corrupt("a compressed cluster is too short")) }
    }

    /// The counts themselves.
    fn besides(&self, reader: &Reader) -> Result<Option<Ranges>, Refusal> {
        if !self.plain {
            return Ok(None);
        }
        let mut besides = vec![(0, 0..self.cluster())];
        let table = self.counts(reader)?;
        for index in (0..table.len()).step_by(8) {
            let block = be64(&table, index)?;
            if block != 0 {
                self.check(reader, block)?;
                besides.push((0, block..sum(block, self.cluster())?));
            }
        }
        Ok(Some(besides))
    }

    /// By the counts.
    fn used_once(&self, reader: &Reader, bytes: &ExtentSet) -> Result<bool, Refusal> {
        let table = self.counts(reader)?;
        let width = 1_u64 << self.features.order;
        let per_block = self.cluster() * 8 / width;
        let mut next = 0;
        for extent in bytes.iter() {
            // A cluster of two extents is looked at once.
            for cluster in (extent.start >> self.bits).max(next)..=(extent.end() - 1) >> self.bits {
                let index = usize::try_from(product(cluster / per_block, 8)?).unwrap_or(usize::MAX);
                let block = be64(&table, index)?;
                if block == 0 {
                    return Ok(false);
                }
                let block = reader.table(0, block, self.cluster() as usize)?;
                if count(&block, cluster % per_block, self.features.order)? != 1 {
                    return Ok(false);
                }
                next = cluster + 1;
            }
        }
        Ok(true)
    }
}

impl Qcow2 {
    fn counts(&self, reader: &Reader) -> Result<Vec<u8>, Refusal> {
        let (table, len) = self.counts;
        self.check(reader, table)?;
        over_budget_if(len > LARGEST_PIECE as u64, "bytes of one table")?;
        reader.read(0, table, len as usize)
    }
}

/// A count of 2^`order` bits. Narrow ones fill a byte from its lowest bit on.
fn count(block: &[u8], index: u64, order: u32) -> Result<u64, Refusal> {
    let bits = index << order;
    let at = (bits / 8) as usize;
    if order < 3 {
        return Ok(u64::from(u8_at(block, at)?) >> (bits % 8) & ((1 << (1 << order)) - 1));
    }
    Ok(slice(block, at, 1 << (order - 3))?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_every_width_are_read() {
        let block = [0b1101_1001, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(count(&block, 0, 0), Ok(1));
        assert_eq!(count(&block, 1, 0), Ok(0));
        assert_eq!(count(&block, 1, 1), Ok(0b10));
        assert_eq!(count(&block, 1, 2), Ok(0b1101));
        assert_eq!(count(&block, 1, 3), Ok(2));
        assert_eq!(count(&block, 1, 4), Ok(0x0304));
        assert_eq!(count(&block, 1, 5), Ok(0x0506_0708));
        assert_eq!(count(&block, 0, 6), Ok(0xd902_0304_0506_0708));
        assert!(count(&block, 1, 6).is_err());
    }
}
