//! What a region is, by the signatures in it.
//!
//! The idea is libblkid's: every signature is looked for, not only the first, and a region with two of them is
//! ambiguous. An old one that a later owner did not overwrite must not decide what is free.

use crate::bytes::{be16, be32, le32};
use crate::fs::FreeMap;
use crate::image::View;
use crate::lvm;
use crate::refusal::Refusal;

#[derive(Clone, Copy)]
pub enum Signature<'p> {
    /// A filesystem with a parser.
    Filesystem(&'p dyn FreeMap),
    /// A physical volume of LVM2.
    PhysicalVolume,
    /// Something that is known and not understood.
    Opaque(&'static str),
}

impl<'p> Signature<'p> {
    /// The name of the kind, as `blkid` says it where it knows it.
    pub fn kind(self) -> &'static str {
        match self {
            Signature::Filesystem(parser) => parser.name(),
            Signature::PhysicalVolume => "LVM2_member",
            Signature::Opaque(kind) => kind,
        }
    }

    /// The parser of a filesystem.
    pub fn parser(self) -> Option<&'p dyn FreeMap> {
        match self {
            Signature::Filesystem(parser) => Some(parser),
            _ => None,
        }
    }

    /// Why free blocks of filesystems elsewhere in the image may be needed, if it is of a kind that needs them.
    pub fn needs_free_blocks(self) -> Option<&'static str> {
        NEEDS_FREE_BLOCKS.iter().find(|(kind, _)| *kind == self.kind()).map(|(_, why)| *why)
    }
}

/// Why nothing is free beside a hash tree of dm-verity.
pub const VERITY: &str = "a dm-verity hash tree in this image covers its free blocks";

/// Kinds whose device-mapper target reads a second device, which nothing in them names: it may be any other part of the
/// image. A hash tree covers each block of its data device, and verification fails if a free one differs; so do checksums of
/// dm-integrity, which may be of another device, too (`integritysetup --data-device`). A snapshot has only the blocks of
/// which its origin has newer versions, so that it needs all others, and those that are free in the origin by now. A cache that
/// writes back later may have blocks that are newer than those of its origin, those of its filesystem's map among them. What
/// another part begins with may be the first block of a thin volume, and behind it those of others.
const NEEDS_FREE_BLOCKS: &[(&str, &str)] = &[
    ("DM_verity_hash", VERITY),
    ("avb_vbmeta", VERITY),
    ("DM_integrity", "checksums of dm-integrity in this image may cover its free blocks"),
    ("DM_snapshot_cow", "a dm-snapshot in this image may need its free blocks"),
    ("DM_writecache", "a dm-writecache in this image may have a newer map of its blocks"),
    ("DM_thin_metadata", "the data of a dm-thin pool in this image may look like a filesystem"),
    ("DM_cache_metadata", "a dm-cache in this image may have a newer map of its blocks"),
];

/// A kind, the places of its signature, any of which will do, in bytes from the start of the region or before its end, and
/// the signature.
type Magic = (&'static str, &'static [u64], &'static [u8]);

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// How much of the start is read at once; most signatures are there.
const HEAD: u64 = 80 * KIB;

/// Signatures of at least four bytes. Weaker ones tell nothing: what has none of these is unknown, and used like them.
const MAGICS: &[Magic] = &[
    // Encryption and integrity.
    ("crypto_LUKS", &[0], b"LUKS\xba\xbe"),
    // The second header of LUKS2, which stays when the first is overwritten.
    (
        "crypto_LUKS",
        &[16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB],
        b"SKUL\xba\xbe",
    ),
    ("BitLocker", &[3], b"-FVE-FS-"),
    // BitLocker To Go: a FAT32 boot sector with this identifier in it.
    ("BitLocker", &[424], b"\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01"),
    ("DM_integrity", &[0], b"integrt\0"),
    ("DM_verity_hash", &[0], b"verity\0\0"),
    // Android Verified Boot: says which partitions are covered, and where their hash trees are.
    ("avb_vbmeta", &[0], b"AVB0"),
    // Volume managers and what lies below filesystems.
    ("LVM1_member", &[0], b"HM\x01\0"),
    ("LVM1_member", &[0], b"HM\x02\0"),
    ("DM_snapshot_cow", &[0], b"SnAp"),
    ("DM_writecache", &[0], b"\x21\x93\x48\x23"),
    // 27022010.
    ("DM_thin_metadata", &[32], b"\xba\x52\x9c\x01\0\0\0\0"),
    // 06142003, in octal digits.
    ("DM_cache_metadata", &[32], b"\x03\xc4\x18\0\0\0\0\0"),
    ("linux_raid_member", &[0, 4 * KIB], b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
    ("bcache", &[4 * KIB + 24], b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    ("bcachefs", &[4 * KIB + 24], b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    ("vdo", &[0], b"dmvdo001"),
    ("stratis", &[512 + 4, 9 * 512 + 4], b"!Stra0tis\x86\xff\x02^\x41rh"),
    ("LDM", &[6 * 512], b"PRIVHEAD"),
    ("VMFS_volume_member", &[MIB], b"\x0d\xd0\x01\xc0"),
    ("VMFS", &[2 * MIB, 18 * MIB], b"\x5e\xf1\xab\x2f"),
    ("ceph_bluestore", &[0], b"bluestore block device"),
    ("oracleasm", &[32], b"ORCLDISK"),
    // Filesystems.
    ("ReFS", &[3], b"ReFS\0\0\0\0"),
    ("apfs", &[32], b"NXSB"),
    ("hfsplus", &[KIB], b"H+\0\x04"),
    ("hfsplus", &[KIB], b"HX\0\x05"),
    ("f2fs", &[KIB], b"\x10\x20\xf5\xf2"),
    ("ufs", &[8 * KIB + 1372], b"\x54\x19\x01\0"),
    ("ufs", &[8 * KIB + 1372], b"\0\x01\x19\x54"),
    ("ufs", &[64 * KIB + 1372, 256 * KIB + 1372], b"\x19\x01\x54\x19"),
    ("ufs", &[64 * KIB + 1372], b"\x19\x54\x01\x19"),
    ("jfs", &[32 * KIB], b"JFS1"),
    ("reiserfs", &[8 * KIB + 20, 8 * KIB + 52, 64 * KIB + 52], b"ReIsErFs"),
    ("reiserfs", &[64 * KIB + 52], b"ReIsEr2Fs"),
    ("reiserfs", &[64 * KIB + 52], b"ReIsEr3Fs"),
    ("reiser4", &[64 * KIB], b"ReIsEr4"),
    ("nilfs2", &[KIB], b"\x02\0\0\0\0\0\x34\x34"),
    ("gfs2", &[64 * KIB], b"\x01\x16\x19\x70"),
    ("ocfs2", &[KIB, 2 * KIB, 4 * KIB, 8 * KIB], b"OCFSV2"),
    ("squashfs", &[0], b"hsqs"),
    ("squashfs", &[0], b"sqsh"),
    ("erofs", &[KIB], b"\xe2\xe1\xf5\xe0"),
    ("cramfs", &[0], b"\x45\x3d\xcd\x28"),
    ("romfs", &[0], b"-rom1fs-"),
    ("iso9660", &[32 * KIB + 1], b"CD001"),
    ("udf", &[32 * KIB + 1, 34 * KIB + 1], b"BEA01"),
    ("hpfs", &[8 * KIB], b"\x49\xe8\x95\xf9"),
    ("vxfs", &[KIB], b"\xf5\xfc\x01\xa5"),
    ("ubifs", &[0], b"\x31\x18\x10\x06"),
    ("xfs_external_log", &[0], b"\xfe\xed\xba\xbe"),
    // Partition tables that are not understood.
    ("mac", &[512], b"PM\0\0"),
    ("sgi", &[0], b"\x0b\xe5\xa9\x41"),
    ("bsd", &[512, 64], b"\x57\x45\x56\x82"),
];

/// Bytes at a distance from the end.
const AT_END: &[Magic] = &[
    ("isw_raid_member", &[1024], b"Intel Raid ISM Cfg Sig. "),
    ("ddf_raid_member", &[512], b"\xde\x11\xde\x11"),
    ("ddf_raid_member", &[512], b"\x11\xde\x11\xde"),
    ("nvidia_raid_member", &[1024], b"NVIDIA"),
    ("lsi_mega_raid_member", &[512], b"$XIDE$"),
    ("LDM", &[512], b"PRIVHEAD"),
    // Android Verified Boot: a hash tree lies between the filesystem and this.
    ("avb_footer", &[64], b"AVBf"),
];

/// All kinds of which the region has a signature, each once.
pub fn signatures<'p>(region: &View<'_>, parsers: &[&'p dyn FreeMap]) -> Result<Vec<Signature<'p>>, Refusal> {
    let mut found = Vec::new();
    for parser in parsers {
        if parser.detect(region)? {
            found.push(Signature::Filesystem(*parser));
        }
    }
    if lvm::is_member(region)? {
        found.push(Signature::PhysicalVolume);
    }
    let look = Look::new(region)?;
    let mut opaque = Vec::new();
    for (kind, places, bytes) in MAGICS {
        for at in *places {
            if look.has(*at, bytes)? {
                opaque.push(*kind);
            }
        }
    }
    for (kind, places, bytes) in AT_END {
        for at in places.iter().filter_map(|at| region.size().checked_sub(*at)) {
            if look.has(at, bytes)? {
                opaque.push(*kind);
            }
        }
    }
    for (kind, test) in TESTS {
        if test(&look)? {
            opaque.push(kind);
        }
    }
    opaque.sort_unstable();
    opaque.dedup();
    found.extend(opaque.into_iter().map(Signature::Opaque));
    Ok(found)
}

type Test = fn(&Look<'_, '_>) -> Result<bool, Refusal>;

/// Signatures that take more than a comparison.
const TESTS: &[(&str, Test)] =
    &[("linux_raid_member", raid_at_end), ("drbd", drbd), ("zfs_member", zfs), ("sun", sun_label)];

/// A region whose start has been read.
struct Look<'v, 'a> {
    region: &'v View<'a>,
    head: Vec<u8>,
}

impl<'v, 'a> Look<'v, 'a> {
    fn new(region: &'v View<'a>) -> Result<Look<'v, 'a>, Refusal> {
        let head = region.read(0, HEAD.min(region.size()) as usize)?;
        Ok(Look { region, head })
    }

    /// The bytes at a place; `None` if they are not all in the region.
    fn bytes(&self, at: u64, len: usize) -> Result<Option<Vec<u8>>, Refusal> {
        let Some(end) = at.checked_add(len as u64).filter(|end| *end <= self.region.size()) else { return Ok(None) };
        if end <= self.head.len() as u64 {
            return Ok(self.head.get(at as usize..end as usize).map(<[u8]>::to_vec));
        }
        self.region.read(at, len).map(Some)
    }

    fn has(&self, at: u64, bytes: &[u8]) -> Result<bool, Refusal> {
        Ok(self.bytes(at, bytes.len())?.is_some_and(|have| have == bytes))
    }
}

const RAID: u32 = 0xa92b_4efc;

/// Superblocks of md at the end: version 0.90 in the last whole 64 KiB, of either byte order, and 1.0 in the last 8 to
/// 12 KiB.
fn raid_at_end(look: &Look<'_, '_>) -> Result<bool, Refusal> {
    let size = look.region.size();
    if let Some(at) = (size / (64 * KIB) * (64 * KIB)).checked_sub(64 * KIB)
        && let Some(bytes) = look.bytes(at, 4)?
        && (le32(&bytes, 0)? == RAID || be32(&bytes, 0)? == RAID)
    {
        return Ok(true);
    }
    let Some(sector) = (size / 512).checked_sub(16) else { return Ok(false) };
    look.has(sector / 8 * 8 * 512, b"\xfc\x4e\x2b\xa9\x01\0\0\0")
}

/// DRBD's internal metadata are in the last 4 KiB; where in their first bytes the signature is depends on the version.
fn drbd(look: &Look<'_, '_>) -> Result<bool, Refusal> {
    let size = look.region.size();
    for end in [size, size / (4 * KIB) * (4 * KIB)] {
        let Some(at) = end.checked_sub(4 * KIB) else { continue };
        let Some(bytes) = look.bytes(at, 128)? else { continue };
        for field in bytes.chunks_exact(4) {
            if (0x8374_026a..=0x8374_026d).contains(&be32(field, 0)?) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// ZFS has four labels of 256 KiB, two at each end. Each begins with 16 KiB for others, then a list of names and values in
/// XDR: encoding and byte order in four bytes, the version 0, and a flag that names are unique.
fn zfs(look: &Look<'_, '_>) -> Result<bool, Refusal> {
    const LABEL: u64 = 256 * KIB;
    let labels = look.region.size() / LABEL;
    for label in [Some(0), Some(1), labels.checked_sub(2), labels.checked_sub(1)].into_iter().flatten() {
        for order in [0, 1] {
            if look.has(label * LABEL + 16 * KIB, &[1, order, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// A Sun label: two bytes of signature, and all 16-bit words of the sector cancel out.
fn sun_label(look: &Look<'_, '_>) -> Result<bool, Refusal> {
    let Some(sector) = look.bytes(0, 512)? else { return Ok(false) };
    if be16(&sector, 508)? != 0xdabe {
        return Ok(false);
    }
    let mut all = 0;
    for word in sector.chunks_exact(2) {
        all ^= be16(word, 0)?;
    }
    Ok(all == 0)
}
