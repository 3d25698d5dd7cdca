//! The superblock: geometry and features. Layout as in "XFS Algorithms & Data Structures", chapter "Superblocks".

use crate::bytes::{array, be16, be32, be64, difference, is_power_in, product, slice, sum, u8_at};
use crate::image::View;
use crate::refusal::{OrRefuse, Refusal, corrupt_if, dirty_if, unsupported_if};

/// "XFSB".
pub const MAGIC: u32 = 0x5846_5342;

/// Log addresses count in these, whatever the sector size is.
pub const BASIC_BLOCK: u64 = 512;

const SMALLEST_AG: u64 = 64;
/// Larger ones have no 31 bit block numbers.
const LARGEST_AG: u64 = 1 << 31;

/// Where its checksum is.
pub const CRC_AT: usize = 224;

mod feature {
    pub const LOG_V2: u16 = 0x0400;
    pub const MORE: u16 = 0x8000;
    /// Attributes, link counts, quotas, alignment, log version 2, sectors, unwritten extents, directory version 2,
    /// case-insensitive names, and the field `features2`. Not shared read-only (0x0200), which nobody implements.
    pub const KNOWN: u16 = 0xfdf0;

    pub const LAZY_COUNTS: u32 = 0x2;
    pub const CRC: u32 = 0x100;
    /// Lazy counts, attributes version 2, parent pointers, 32 bit projects, checksums, file types.
    pub const KNOWN_2: u32 = 0x39a;

    /// Free inode tree, reverse map, reflinks, inode tree counts.
    pub const RO_COMPAT_KNOWN: u32 = 0xf;
    pub const FREE_INODES: u32 = 0x1;
    pub const REVERSE_MAP: u32 = 0x2;
    pub const REFERENCES: u32 = 0x4;

    pub const SPARSE_INODES: u32 = 0x2;
    pub const META_UUID: u32 = 0x4;
    pub const NEEDS_REPAIR: u32 = 0x10;
    /// File types, sparse inodes, metadata UUID, big time, large extent counts, exchange of ranges, parent pointers.
    /// Not the metadata directory and zones, which bring realtime groups.
    pub const INCOMPAT_KNOWN: u32 = 0xef;

    /// Extended attributes logged as intents.
    pub const LOG_INCOMPAT_KNOWN: u32 = 0x1;
}

/// What the superblock says and nothing may change while the filesystem is mounted, except growing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a block.
    pub block: u64,
    /// Bytes of a sector.
    pub sector: u64,
    /// Blocks of the whole filesystem.
    pub blocks: u64,
    /// Blocks of each allocation group but the last.
    pub ag_blocks: u64,
    /// Allocation groups.
    pub ags: u32,
    /// Version 5: metadata has checksums, its own address, an owner and a log sequence number.
    pub v5: bool,
    /// The allocation groups count the blocks of their btrees.
    pub lazy_counts: bool,
    /// There is a reverse map btree in each allocation group.
    pub reverse_map: bool,
    /// There is a btree of reference counts.
    pub references: bool,
    /// There is a btree of the inodes that are free.
    pub free_inodes: bool,
    /// Chunks of inodes may have gaps.
    pub sparse_inodes: bool,
    /// Bytes of an inode.
    pub inode: u64,
    /// The bits of the number of a block that are within its allocation group.
    pub ag_log: u32,
    /// Bytes of a block of a directory.
    pub directory_block: u64,
    /// What the log's records carry.
    pub uuid: [u8; 16],
    /// What the metadata carries.
    pub meta_uuid: [u8; 16],
    /// Where the log is, in bytes.
    pub log_start: u64,
    pub log_len: u64,
    /// The log has records of version 2.
    pub log_v2: bool,
}

pub struct Superblock {
    pub geometry: Geometry,
    /// Free blocks of the whole filesystem; right only after a clean unmount.
    pub free_blocks: u64,
}

/// Reads and checks the first superblock of a region.
pub fn read(region: &View<'_>) -> Result<Superblock, Refusal> {
    let first = region.read(0, BASIC_BLOCK as usize)?;
    let sector = u64::from(be16(&first, 102)?);
    corrupt_if(!is_power_in(sector, 512..=32768), format_args!("a sector of {sector} bytes"))?;
    let bytes = region.read(0, sector as usize)?;
    let superblock = parse(&bytes, true)?;
    let geometry = &superblock.geometry;
    let size = product(geometry.blocks, geometry.block)?;
    corrupt_if(size > region.size(), format_args!("{size} bytes of filesystem in {} bytes", region.size()))?;
    Ok(superblock)
}

/// Understands the bytes of a superblock. The copy in the log carries a stale checksum, which must not be looked at.
pub fn parse(bytes: &[u8], sealed: bool) -> Result<Superblock, Refusal> {
    corrupt_if(be32(bytes, 0)? != MAGIC, "no superblock")?;
    let v5 = features(bytes)?;
    if v5 && sealed {
        verify_sum(bytes, CRC_AT, "the superblock")?;
    }
    corrupt_if(u8_at(bytes, 126)? != 0, "mkfs did not finish")?;
    unsupported_if(be64(bytes, 24)? != 0 || be64(bytes, 16)? != 0, "a realtime device")?;
    let geometry = geometry(bytes, v5)?;
    let free_blocks = be64(bytes, 144)?;
    corrupt_if(free_blocks > geometry.blocks, "more free blocks than blocks")?;
    Ok(Superblock { geometry, free_blocks })
}

/// Compares the CRC-32C of a whole structure of version 5, which is there little-endian and counts as zero itself.
pub fn verify_sum(bytes: &[u8], at: usize, what: &str) -> Result<(), Refusal> {
    let stored = u32::from_le_bytes(array(bytes, at)?);
    let crc = crc32c::crc32c(slice(bytes, 0, at)?);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    let behind = at + 4;
    let crc = crc32c::crc32c_append(crc, slice(bytes, behind, bytes.len() - behind)?);
    corrupt_if(crc != stored, format_args!("the checksum of {what} is wrong"))
}

/// Refuses what is not known to leave the free space map alone; says whether it is version 5.
fn features(bytes: &[u8]) -> Result<bool, Refusal> {
    let version = be16(bytes, 100)?;
    let unknown = |which: &str, bits: u32| Refusal::unsupported(format!("unknown {which} features {bits:#x}"));
    let (number, flags) = (version & 0xf, version & !0xf);
    let v5 = match number {
        4 => false,
        5 => true,
        other => return Err(Refusal::unsupported(format!("XFS version {other}"))),
    };
    if flags & !feature::KNOWN != 0 {
        return Err(unknown("version", u32::from(flags & !feature::KNOWN)));
    }
    let features2 = if flags & feature::MORE != 0 { be32(bytes, 200)? } else { 0 };
    if features2 & !feature::KNOWN_2 != 0 {
        return Err(unknown("version 4", features2 & !feature::KNOWN_2));
    }
    // Where old kernels put the field by mistake; newer ones take the features from both places.
    let misplaced = if flags & feature::MORE != 0 { be32(bytes, 204)? } else { 0 };
    corrupt_if(misplaced != 0 && misplaced != features2, "two different sets of version 4 features")?;
    corrupt_if(v5 != (features2 & feature::CRC != 0), "version and checksum feature disagree")?;
    if !v5 {
        return Ok(false);
    }
    let (compat, ro_compat) = (be32(bytes, 208)?, be32(bytes, 212)?);
    let (incompat, log) = (be32(bytes, 216)?, be32(bytes, 220)?);
    dirty_if(incompat & feature::NEEDS_REPAIR != 0, "marked as in need of repair")?;
    for (which, bits) in [
        ("compatible", compat),
        ("read-only compatible", ro_compat & !feature::RO_COMPAT_KNOWN),
        ("incompatible", incompat & !feature::INCOMPAT_KNOWN),
        ("log", log & !feature::LOG_INCOMPAT_KNOWN),
    ] {
        if bits != 0 {
            return Err(unknown(which, bits));
        }
    }
    Ok(true)
}

fn geometry(bytes: &[u8], v5: bool) -> Result<Geometry, Refusal> {
    let (block, sector) = (u64::from(be32(bytes, 4)?), u64::from(be16(bytes, 102)?));
    let smallest = if v5 { 1024 } else { 512 };
    let possible = is_power_in(block, smallest..=65536) && sector <= block;
    corrupt_if(!possible, format_args!("blocks of {block} bytes, sectors of {sector}"))?;
    if u32::from(u8_at(bytes, 120)?) != block.trailing_zeros()
        || u32::from(u8_at(bytes, 121)?) != sector.trailing_zeros()
    {
        return Err(Refusal::corrupt("block or sector size and its logarithm disagree"));
    }
    let (blocks, ag_blocks, ags) = (be64(bytes, 8)?, u64::from(be32(bytes, 84)?), be32(bytes, 88)?);
    if !(SMALLEST_AG..=LARGEST_AG).contains(&ag_blocks) || ags == 0 {
        return Err(Refusal::corrupt(format!("{ags} allocation groups of {ag_blocks} blocks")));
    }
    let before_last = product(u64::from(ags - 1), ag_blocks)?;
    let last = difference(blocks, before_last)?;
    corrupt_if(last < SMALLEST_AG || last > ag_blocks, "the allocation groups do not add up to the filesystem")?;
    let ag_log = u32::from(u8_at(bytes, 124)?);
    let disagree = ag_blocks.next_power_of_two().trailing_zeros() != ag_log;
    corrupt_if(disagree, "allocation group size and its logarithm disagree")?;
    product(blocks, block)?;

    let inode = u64::from(be16(bytes, 104)?);
    let per_block = u64::from(be16(bytes, 106)?);
    let possible = is_power_in(inode, 256..=2048) && per_block == block / inode;
    corrupt_if(!possible, format_args!("{per_block} inodes of {inode} bytes in a block"))?;
    if u32::from(u8_at(bytes, 122)?) != inode.trailing_zeros() || 1 << u8_at(bytes, 123)?.min(63) != per_block {
        return Err(Refusal::corrupt("the size of an inode and its logarithm disagree"));
    }
    let directory_block = u8_at(bytes, 192)?;
    corrupt_if(directory_block > 7 || block << directory_block > 65536, "the size of a block of a directory")?;

    let (version, uuid) = (be16(bytes, 100)?, array(bytes, 32)?);
    let features2 = if version & feature::MORE != 0 { be32(bytes, 200)? } else { 0 };
    let meta_uuid = if v5 && be32(bytes, 216)? & feature::META_UUID != 0 { array(bytes, 248)? } else { uuid };
    let mut geometry = Geometry {
        block,
        sector,
        blocks,
        ag_blocks,
        ags,
        v5,
        lazy_counts: features2 & feature::LAZY_COUNTS != 0,
        reverse_map: v5 && be32(bytes, 212)? & feature::REVERSE_MAP != 0,
        references: v5 && be32(bytes, 212)? & feature::REFERENCES != 0,
        free_inodes: v5 && be32(bytes, 212)? & feature::FREE_INODES != 0,
        sparse_inodes: v5 && be32(bytes, 216)? & feature::SPARSE_INODES != 0,
        inode,
        ag_log,
        directory_block: block << directory_block,
        uuid,
        meta_uuid,
        log_start: 0,
        log_len: 0,
        log_v2: version & feature::LOG_V2 != 0,
    };
    place_log(&mut geometry, be64(bytes, 48)?, u64::from(be32(bytes, 96)?), ag_log)?;
    Ok(geometry)
}

fn place_log(geometry: &mut Geometry, start: u64, blocks: u64, ag_log: u32) -> Result<(), Refusal> {
    unsupported_if(start == 0, "an external log")?;
    let (ag, at) = (start >> ag_log, start & ((1 << ag_log) - 1));
    let ag =
        u32::try_from(ag).ok().filter(|ag| *ag < geometry.ags).or_corrupt("the log lies outside the filesystem")?;
    // It lies in one allocation group, behind the headers of that.
    let misplaced = blocks == 0 || sum(at, blocks)? > geometry.blocks_of(ag) || at < geometry.header_blocks();
    corrupt_if(misplaced, "the log does not lie in its allocation group")?;
    geometry.log_start = geometry.offset(ag, at)?;
    geometry.log_len = product(blocks, geometry.block)?;
    Ok(())
}

impl Geometry {
    /// How many blocks an allocation group has; the last may be shorter.
    pub(crate) fn blocks_of(&self, ag: u32) -> u64 {
        let before = u64::from(ag).saturating_mul(self.ag_blocks);
        self.blocks.saturating_sub(before).min(self.ag_blocks)
    }

    /// How many blocks the four headers at the start of an allocation group take.
    pub(crate) fn header_blocks(&self) -> u64 {
        (4 * self.sector).div_ceil(self.block)
    }

    /// The allocation group of a block, and its number there.
    pub(crate) fn of_block(&self, block: u64) -> Result<(u32, u64), Refusal> {
        let ag = u32::try_from(block >> self.ag_log)
            .ok()
            .filter(|ag| *ag < self.ags)
            .or_corrupt("a block outside the filesystem")?;
        Ok((ag, block & ((1 << self.ag_log) - 1)))
    }

    /// Where an inode is, in bytes; `inode` is its number within its allocation group.
    pub(crate) fn inode_place(&self, ag: u32, inode: u64) -> Result<u64, Refusal> {
        let at = product(inode, self.inode)?;
        corrupt_if(at / self.block >= self.blocks_of(ag), "an inode outside its allocation group")?;
        sum(self.offset(ag, 0)?, at)
    }

    pub(crate) fn inode_number(&self, ag: u32, inode: u64) -> u64 {
        let bits = self.ag_log + (self.block / self.inode).trailing_zeros();
        u64::from(ag) << bits | inode
    }

    /// Where a block of an allocation group is, in bytes.
    pub fn offset(&self, ag: u32, block: u64) -> Result<u64, Refusal> {
        product(sum(product(u64::from(ag), self.ag_blocks)?, block)?, self.block)
    }
}

/// The fields that a log record may not change: all but labels, counts, quotas, checksum, sequence number, and the
/// version's flags, since the kernel sets some when they are first needed; [`parse`] looks at those.
const FIXED: [std::ops::Range<usize>; 6] = [0..56, 80..100, 102..108, 120..127, 208..220, 248..264];

/// Refuses a superblock from the log which is not the same filesystem: one that is being grown, or gets a feature.
pub fn check_unchanged(disk: &[u8], replayed: &[u8]) -> Result<(), Refusal> {
    for range in FIXED {
        let changes = slice(disk, range.start, range.len())? != slice(replayed, range.start, range.len())?;
        dirty_if(changes, "the log changes the geometry or the features")?;
    }
    Ok(())
}

#[cfg(test)]
impl Geometry {
    /// One group of 4096 blocks of 4 KiB, whose log starts at 8 MiB.
    pub fn for_tests() -> Geometry {
        Geometry {
            block: 4096,
            sector: 512,
            blocks: 4096,
            ag_blocks: 4096,
            ags: 1,
            v5: true,
            lazy_counts: true,
            reverse_map: false,
            references: false,
            free_inodes: false,
            sparse_inodes: false,
            inode: 512,
            ag_log: 12,
            directory_block: 4096,
            uuid: [7; 16],
            meta_uuid: [7; 16],
            log_start: 8 << 20,
            log_len: 4 << 20,
            log_v2: true,
        }
    }
}
