//! The boot sector of a FAT volume: its geometry, and what it says of its state.

use crate::bytes::{array, is_power_in, le16, le32, product, slice, sum, u8_at};
use crate::fs::clusters::{FIRST, Heap, Width};
use crate::image::View;
use crate::refusal::{Refusal, corrupt_if, dirty_if, refuse_if, unsupported_if};

/// The counts of clusters at which the width of an entry changes.
const SIXTEEN_FROM: u64 = 4085;
const THIRTY_TWO_FROM: u64 = 65525;

/// Formatters and drivers are known to be off by up to 16 there, so Microsoft's specification tells to stay away.
const DISPUTED: u64 = 16;

/// The most copies of the table.
const MOST_TABLES: u8 = 4;

/// At this offset BitLocker To Go has this identifier: its FAT32 is a cover for an encrypted volume.
const BITLOCKER_AT: usize = 424;
const BITLOCKER: [u8; 16] = *b"\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01";

/// A boot sector that makes sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Boot {
    pub(super) width: Width,
    pub(super) heap: Heap,
    /// Where the copies of the table are, in bytes.
    pub(super) tables: Vec<u64>,
    pub(super) media: u8,
    pub(super) root: Root,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    /// In front of the clusters: offset and length in bytes.
    Fixed { start: u64, len: u64 },
    /// In a chain that starts with this cluster.
    Chain(u32),
}

/// Whether a sector looks like the boot sector of a FAT volume. FAT has no magic number: this is the boot signature, the
/// jump, and fields that no other boot record has.
pub(super) fn looks_like_one(sector: &[u8]) -> Result<bool, Refusal> {
    let jump = slice(sector, 0, 3)?;
    let jumps = matches!(jump, [0xeb, _, 0x90] | [0xe9, ..]);
    let signed = le16(sector, 510)? == 0xaa55;
    let other = matches!(slice(sector, 3, 8)?, b"NTFS    " | b"EXFAT   " | b"-FVE-FS-" | b"ReFS\0\0\0\0");
    let fields = is_power_in(u64::from(le16(sector, 11)?), 512..=4096)
        && u8_at(sector, 13)?.is_power_of_two()
        && le16(sector, 14)? != 0
        && u8_at(sector, 16)? != 0
        && is_media(u8_at(sector, 21)?);
    Ok(jumps && signed && !other && fields)
}

fn is_media(byte: u8) -> bool {
    byte == 0xf0 || byte >= 0xf8
}

impl Boot {
    pub(super) fn read(region: &View<'_>) -> Result<Boot, Refusal> {
        let sector = region.read(0, 512)?;
        corrupt_if(!looks_like_one(&sector)?, "no FAT boot sector")?;
        unsupported_if(array(&sector, BITLOCKER_AT)? == BITLOCKER, "BitLocker To Go")?;
        let boot = Boot::parse(&sector, region.size())?;
        boot.check_state(&sector)?;
        if boot.width == Width::ThirtyTwo {
            check_backup(region, &sector)?;
        }
        Ok(boot)
    }

    fn parse(sector: &[u8], size: u64) -> Result<Boot, Refusal> {
        let unit = u64::from(le16(sector, 11)?);
        let cluster = unit * u64::from(u8_at(sector, 13)?);
        let reserved = u64::from(le16(sector, 14)?);
        let copies = u8_at(sector, 16)?;
        unsupported_if(copies > MOST_TABLES, format_args!("{copies} copies of the table"))?;
        let root_len = u64::from(le16(sector, 17)?) * 32;
        corrupt_if(root_len % unit != 0, "a root directory that does not end with a sector")?;
        let total = total_sectors(sector)?;
        corrupt_if(product(total, unit)? > size, "the volume is longer than its region")?;
        let short_table = u64::from(le16(sector, 22)?);
        let long_table = u64::from(le32(sector, 36)?);
        let table = if short_table == 0 { long_table } else { short_table };
        let root_start = sum(reserved, product(u64::from(copies), table)?)?;
        let heap_start = sum(root_start, root_len / unit)?;
        let clusters = total.saturating_sub(heap_start) / (cluster / unit);
        let count = u32::try_from(clusters).map_err(|_| Refusal::corrupt("too many clusters"))?;
        let width = width(clusters)?;
        check_width(sector, width, root_len)?;
        let too_short = table == 0 || width.table(clusters + u64::from(FIRST)) > product(table, unit)?;
        corrupt_if(too_short, "the table is too short for the volume")?;
        let root = match width {
            Width::ThirtyTwo => Root::Chain(le32(sector, 44)?),
            _ => Root::Fixed { start: root_start * unit, len: root_len },
        };
        Ok(Boot {
            width,
            heap: Heap { start: heap_start * unit, cluster, count },
            tables: (0..u64::from(copies)).map(|copy| (reserved + copy * table) * unit).collect(),
            media: u8_at(sector, 21)?,
            root,
        })
    }

    /// Windows and Linux note in a reserved byte that the volume is mounted or that its surface is to be tested.
    fn check_state(&self, sector: &[u8]) -> Result<(), Refusal> {
        let (state, extended) = if self.width == Width::ThirtyTwo { (0x41, 0x42) } else { (0x25, 0x26) };
        if !matches!(u8_at(sector, extended)?, 0x28 | 0x29) {
            // An old boot sector: that byte may be code, so nothing says that the volume is clean.
            return Err(Refusal::unsupported("a boot sector without extension"));
        }
        dirty_if(u8_at(sector, state)? & 3 != 0, "the state byte in the boot sector")
    }
}

fn total_sectors(sector: &[u8]) -> Result<u64, Refusal> {
    match (le16(sector, 19)?, le32(sector, 32)?) {
        (0, long) => Ok(u64::from(long)),
        (short, long) if long == 0 || long == u32::from(short) => Ok(u64::from(short)),
        _ => Err(Refusal::corrupt("two different sizes of the volume")),
    }
}

/// The width of an entry by Microsoft's rule, away from where tools disagree.
fn width(clusters: u64) -> Result<Width, Refusal> {
    corrupt_if(clusters == 0, "no clusters")?;
    for limit in [SIXTEEN_FROM, THIRTY_TWO_FROM] {
        let disputed = clusters.abs_diff(limit) <= DISPUTED;
        unsupported_if(disputed, format_args!("{clusters} clusters: tools disagree on the width of the table"))?;
    }
    Ok(match clusters {
        THIRTY_TWO_FROM.. => Width::ThirtyTwo,
        SIXTEEN_FROM.. => Width::Sixteen,
        _ => Width::Twelve,
    })
}

/// The other fields that tell the width must agree with the number of clusters: some readers go by them.
fn check_width(sector: &[u8], width: Width, root_len: u64) -> Result<(), Refusal> {
    let ambiguous = |why: &str| Refusal::unsupported(format!("ambiguous width of the table: {why}"));
    let long = width == Width::ThirtyTwo;
    let disagree = long != (le16(sector, 22)? == 0) || long != (root_len == 0);
    refuse_if(disagree, || ambiguous("the number of clusters says otherwise than the fields for FAT32"))?;
    let label = slice(sector, if long { 0x52 } else { 0x36 }, 8)?;
    let own: &[u8] = match width {
        Width::Twelve => b"FAT12   ",
        Width::Sixteen => b"FAT16   ",
        Width::ThirtyTwo => b"FAT32   ",
    };
    let another = label != own && matches!(label, b"FAT12   " | b"FAT16   " | b"FAT32   ");
    refuse_if(another, || ambiguous("the name of the type"))?;
    if long {
        refuse_if(le16(sector, 19)? != 0, || ambiguous("a short size on FAT32"))?;
        // Linux reads the first table whatever this says.
        unsupported_if(le16(sector, 40)? != 0, "tables that are not mirrored")?;
        unsupported_if(le16(sector, 42)? != 0, "an unknown version of FAT32")?;
    }
    Ok(())
}

/// FAT32 has a second boot sector; its geometry must be the same. Name, serial number and state may be newer in the first.
fn check_backup(region: &View<'_>, sector: &[u8]) -> Result<(), Refusal> {
    let (at, unit) = (le16(sector, 50)?, le16(sector, 11)?);
    if at == 0 || at == 0xffff {
        return Ok(());
    }
    corrupt_if(at >= le16(sector, 14)?, "the second boot sector lies outside the reserved sectors")?;
    let backup = region.read(u64::from(at) * u64::from(unit), 512)?;
    let differ = slice(&backup, 11, 0x40 - 11)? != slice(sector, 11, 0x40 - 11)? || le16(&backup, 510)? != 0xaa55;
    corrupt_if(differ, "the two boot sectors differ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &str = "the number of clusters says otherwise than the fields for FAT32";

    #[test]
    fn the_width_follows_from_the_number_of_clusters() {
        assert_eq!(width(1), Ok(Width::Twelve));
        assert_eq!(width(4068), Ok(Width::Twelve));
        assert_eq!(width(4102), Ok(Width::Sixteen));
        assert_eq!(width(65508), Ok(Width::Sixteen));
        assert_eq!(width(65542), Ok(Width::ThirtyTwo));
        for disputed in [0, 4069, 4084, 4085, 4101, 65509, 65524, 65525, 65541] {
            assert!(width(disputed).is_err(), "{disputed}");
        }
    }

    /// A boot sector of 20,000 clusters of 1 KiB, tables of 160 sectors.
    fn sixteen() -> Vec<u8> {
        let mut sector = vec![0; 512];
        sector[..3].copy_from_slice(&[0xeb, 0x3c, 0x90]);
        sector[11..24].copy_from_slice(&[0, 2, 2, 1, 0, 2, 0, 2, 0, 0, 0xf8, 160, 0]);
        sector[32..36].copy_from_slice(&(1 + 320 + 32 + 40_000_u32).to_le_bytes());
        sector[0x26] = 0x29;
        sector[0x36..0x3e].copy_from_slice(b"FAT16   ");
        sector[510..].copy_from_slice(&[0x55, 0xaa]);
        sector
    }

    fn parse(change: impl FnOnce(&mut Vec<u8>)) -> Result<Boot, Refusal> {
        let mut sector = sixteen();
        change(&mut sector);
        Boot::parse(&sector, 64 << 20)
    }

    #[test]
    fn an_honest_boot_sector_is_understood() {
        let boot = parse(|_| ()).unwrap();
        assert!(looks_like_one(&sixteen()).unwrap());
        assert_eq!(boot.heap, Heap { start: (1 + 320 + 32) * 512, cluster: 1024, count: 20_000 });
        assert_eq!(boot.tables, [512, 161 * 512]);
        assert_eq!(boot.root, Root::Fixed { start: 321 * 512, len: 16384 });
    }

    #[test]
    fn sizes_that_contradict_each_other_are_refused() {
        assert!(parse(|s| s[32..36].fill(0xff)).is_err(), "longer than the region");
        assert!(parse(|s| s[32..36].fill(0)).is_err(), "no sectors");
        assert!(parse(|s| s[19] = 1).is_err(), "two sizes");
        assert!(parse(|s| s[22] = 78).is_err(), "the table is too short");
        assert!(parse(|s| s[16] = 255).is_err(), "many tables");
        assert!(parse(|s| s[17] = 1).is_err(), "the root directory ends inside a sector");
        assert!(parse(|s| s[14..16].fill(0xff)).is_err(), "all is reserved");
    }

    #[test]
    fn an_ambiguous_width_is_refused() {
        assert!(parse(|s| s[0x36..0x3e].copy_from_slice(b"FAT12   ")).is_err());
        let other = parse(|s| {
            s[22..24].fill(0);
            s[36..40].copy_from_slice(&160_u32.to_le_bytes());
        });
        assert_eq!(other, Err(Refusal::unsupported(format!("ambiguous width of the table: {FIELDS}"))));
    }

    #[test]
    fn a_boot_sector_says_whether_the_volume_is_mounted() {
        let boot = parse(|_| ()).unwrap();
        let mut sector = sixteen();
        assert!(boot.check_state(&sector).is_ok());
        sector[0x25] = 1;
        assert!(matches!(boot.check_state(&sector), Err(Refusal::Dirty(_))));
        sector[0x25] = 0;
        sector[0x26] = 0;
        assert!(boot.check_state(&sector).is_err());
    }

    #[test]
    fn other_boot_sectors_are_not_taken_for_one() {
        for (at, bytes) in
            [(3, &b"NTFS    "[..]), (3, b"EXFAT   "), (0, b"\0\0\0"), (21, b"\x01"), (510, b"\0\0"), (11, b"\0\0")]
        {
            let mut sector = sixteen();
            sector[at..at + bytes.len()].copy_from_slice(bytes);
            assert!(!looks_like_one(&sector).unwrap(), "{bytes:?}");
        }
        assert!(looks_like_one(&[0; 511]).is_err());
    }
}
