//! The superblock and its mirrors.

use super::checksum::Checksum;
use crate::bytes::{self, is_power_in, le16, le32, le64, u8_at};
use crate::image::View;
use crate::refusal::{Refusal, corrupt_if, unsupported_if};

/// Where the primary superblock is, in bytes.
pub const PRIMARY: u64 = 64 << 10;
/// Where its mirrors are, on devices that are large enough.
pub const MIRRORS: [u64; 2] = [64 << 20, 256 << 30];
/// What no extent may use around each of them, in bytes.
pub const RESERVED: u64 = 64 << 10;
const SIZE: usize = 4096;
const MAGIC: &[u8; 8] = b"_BHRfS_M";

/// Where the item of this device is in the superblock.
const DEVICE: usize = 0xc9;

const FLAG_WRITTEN: u64 = 1;

const INCOMPAT_MIXED_BACKREF: u64 = 1;
const INCOMPAT_METADATA_UUID: u64 = 1 << 10;
/// mixed_backref, default_subvol, mixed_groups, compress_lzo, compress_zstd, big_metadata, extended_iref, skinny_metadata,
/// no_holes, metadata_uuid, simple_quota. Not: raid56, raid1c34, zoned, extent_tree_v2, raid_stripe_tree, what comes later.
const INCOMPAT_KNOWN: u64 = 0x0001_077f;

const COMPAT_RO_FREE_SPACE_TREE: u64 = 1;
const COMPAT_RO_FREE_SPACE_TREE_VALID: u64 = 2;
const COMPAT_RO_BLOCK_GROUP_TREE: u64 = 8;
/// The three above and verity.
const COMPAT_RO_KNOWN: u64 = 0xf;

/// One device, as the superblock or the chunk tree describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    pub id: u64,
    /// Its length in bytes, as far as the filesystem uses it.
    pub total_bytes: u64,
    /// How much of it belongs to chunks, in bytes.
    pub bytes_used: u64,
    pub uuid: [u8; 16],
    pub fsid: [u8; 16],
}

impl Device {
    /// A DEV_ITEM.
    pub fn parse(item: &[u8]) -> Result<Device, Refusal> {
        Ok(Device {
            id: le64(item, 0)?,
            total_bytes: le64(item, 8)?,
            bytes_used: le64(item, 16)?,
            uuid: bytes::array(item, 66)?,
            fsid: bytes::array(item, 82)?,
        })
    }
}

/// What the superblock says, checked as far as it can be alone.
#[derive(Debug)]
pub struct Superblock {
    pub fsid: [u8; 16],
    /// The fsid in the headers of nodes, which differs after `btrfstune -m`.
    pub metadata_fsid: [u8; 16],
    pub generation: u64,
    pub root: u64,
    pub root_level: u8,
    pub chunk_root: u64,
    pub chunk_root_level: u8,
    pub chunk_root_generation: u64,
    /// Zero if nothing waits in a log tree.
    pub log_root: u64,
    pub log_root_level: u8,
    pub bytes_used: u64,
    pub sector: u64,
    pub node: u64,
    pub checksum: Checksum,
    pub device: Device,
    pub sys_chunks: Vec<u8>,
    /// There is a free space tree, and it is up to date.
    pub has_free_space_tree: bool,
    /// Block groups are in a tree of their own.
    pub has_block_group_tree: bool,
}

pub fn has_magic(region: &View<'_>) -> Result<bool, Refusal> {
    Ok(region.size() >= PRIMARY + SIZE as u64 && region.read(PRIMARY + 0x40, MAGIC.len())? == MAGIC)
}

/// Where the filesystem ends on this device, by the primary superblock alone.
pub fn end(region: &View<'_>) -> Result<u64, Refusal> {
    le64(&region.read(PRIMARY + DEVICE as u64 + 8, 8)?, 0)
}

impl Superblock {
    /// Reads the primary one and compares the mirrors with it.
    pub fn read(region: &View<'_>) -> Result<Superblock, Refusal> {
        let raw = region.read(PRIMARY, SIZE)?;
        let sb = Superblock::parse(&raw)?;
        corrupt_if(sb.device.total_bytes > region.size(), "the device is said to be larger than it is")?;
        for mirror in MIRRORS {
            if mirror.saturating_add(SIZE as u64) <= sb.device.total_bytes {
                sb.compare_mirror(mirror, &region.read(mirror, SIZE)?)?;
            }
        }
        Ok(sb)
    }

    fn parse(raw: &[u8]) -> Result<Superblock, Refusal> {
        corrupt_if(bytes::slice(raw, 0x40, MAGIC.len())? != MAGIC, "no superblock")?;
        let checksum = Checksum::of_type(le16(raw, 0xc4)?)?;
        corrupt_if(!checksum.is_right(raw)?, "the superblock's checksum is wrong")?;
        corrupt_if(le64(raw, 0x30)? != PRIMARY, "the superblock belongs elsewhere")?;
        let incompat = features(raw)?;
        let compat_ro = le64(raw, 0xb4)?;
        let fsid = bytes::array(raw, 0x20)?;
        let metadata_fsid = if incompat & INCOMPAT_METADATA_UUID == 0 { fsid } else { bytes::array(raw, 0x23b)? };
        let sys_chunks_len = usize::try_from(le32(raw, 0xa0)?).unwrap_or(usize::MAX);
        corrupt_if(sys_chunks_len > 2048, "the superblock's chunk array is too long")?;
        let valid = COMPAT_RO_FREE_SPACE_TREE | COMPAT_RO_FREE_SPACE_TREE_VALID;
        let sb = Superblock {
            fsid,
            metadata_fsid,
            generation: le64(raw, 0x48)?,
            root: le64(raw, 0x50)?,
            root_level: u8_at(raw, 0xc6)?,
            chunk_root: le64(raw, 0x58)?,
            chunk_root_level: u8_at(raw, 0xc7)?,
            chunk_root_generation: le64(raw, 0xa4)?,
            log_root: le64(raw, 0x60)?,
            log_root_level: u8_at(raw, 0xc8)?,
            bytes_used: le64(raw, 0x78)?,
            sector: le32(raw, 0x90)?.into(),
            node: le32(raw, 0x94)?.into(),
            checksum,
            device: Device::parse(bytes::slice(raw, DEVICE, 98)?)?,
            sys_chunks: bytes::slice(raw, 0x32b, sys_chunks_len)?.to_vec(),
            has_free_space_tree: compat_ro & valid == valid,
            has_block_group_tree: compat_ro & COMPAT_RO_BLOCK_GROUP_TREE != 0,
        };
        sb.check_sizes(raw)?;
        Ok(sb)
    }

    /// Whether a size or an address is one of whole sectors.
    pub fn whole_sectors(&self, number: u64) -> bool {
        number.is_multiple_of(self.sector)
    }

    fn check_sizes(&self, raw: &[u8]) -> Result<(), Refusal> {
        let possible = is_power_in(self.sector, 4096..=65536) && is_power_in(self.node, self.sector..=65536);
        corrupt_if(!possible, "impossible sizes of sectors and nodes")?;
        corrupt_if(u64::from(le32(raw, 0x98)?) != self.node, "nodes and leaves differ in size")?;
        let disagree = le64(raw, 0x70)? != self.device.total_bytes || self.bytes_used > self.device.total_bytes;
        corrupt_if(disagree, "the sizes of device and filesystem disagree")?;
        corrupt_if(self.device.fsid != self.metadata_fsid, "the device belongs to another filesystem")?;
        corrupt_if(self.generation == 0 || self.chunk_root_generation > self.generation, "impossible generations")
    }

    /// A mirror may be older: fsync writes only the primary. One that belongs to another filesystem or is newer
    /// means that the primary is not what the next mount may use.
    fn compare_mirror(&self, offset: u64, raw: &[u8]) -> Result<(), Refusal> {
        let fits = bytes::slice(raw, 0x40, MAGIC.len())? == MAGIC
            && self.checksum.is_right(raw)?
            && le64(raw, 0x30)? == offset
            && bytes::array(raw, 0x20)? == self.fsid
            && le64(raw, 0x48)? <= self.generation;
        corrupt_if(!fits, format_args!("the superblock's mirror at {offset} does not fit"))
    }
}

/// Refuses what is not understood; the incompatible features that are in use.
fn features(raw: &[u8]) -> Result<u64, Refusal> {
    let flags = le64(raw, 0x38)?;
    if flags & !FLAG_WRITTEN != 0 {
        return Err(Refusal::unsupported(format!(
            "superblock flags {flags:#x} (seed device, errors, or a conversion)"
        )));
    }
    let (compat, compat_ro, incompat) = (le64(raw, 0xac)?, le64(raw, 0xb4)?, le64(raw, 0xbc)?);
    let unknown = compat != 0 || compat_ro & !COMPAT_RO_KNOWN != 0;
    unsupported_if(unknown, format_args!("compatible features {compat:#x}, {compat_ro:#x}"))?;
    unsupported_if(incompat & !INCOMPAT_KNOWN != 0, format_args!("features {:#x}", incompat & !INCOMPAT_KNOWN))?;
    unsupported_if(incompat & INCOMPAT_MIXED_BACKREF == 0, "extents of the first format")?;
    let devices = le64(raw, 0x88)?;
    unsupported_if(devices != 1, format_args!("{devices} devices"))?;
    Ok(incompat)
}
