//! The boot region of an exFAT volume: its geometry, under a checksum, and the flags that are not.

use crate::bytes::{array, le16, le32, le64, product, sum, u8_at};
use crate::fs::clusters::{FIRST, Heap, Width};
use crate::image::View;
use crate::refusal::{Refusal, corrupt_if, dirty_if, unsupported_if};

/// How many sectors of the boot region its checksum covers; the next one is full of it.
const SUMMED: u64 = 11;

/// Sectors in the main boot region and its copy, in front of the first table.
const REGIONS: u64 = 24;

const ACTIVE_FAT: u16 = 1;
const DIRTY: u16 = 2;
const MEDIA_FAILURE: u16 = 4;

/// PercentInUse when it is not known.
const UNKNOWN: u8 = 0xff;

/// A boot region that makes sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Boot {
    pub(super) heap: Heap,
    /// Where the tables are, in bytes; the active one first.
    pub(super) tables: Vec<u64>,
    pub(super) root: u32,
    /// How much of the heap is in use, if that is maintained.
    pub(super) percent: Option<u8>,
}

pub(super) fn is_one(sector: &[u8]) -> Result<bool, Refusal> {
    Ok(array(sector, 3)? == *b"EXFAT   " && le16(sector, 510)? == 0xaa55)
}

impl Boot {
    pub(super) fn read(region: &View<'_>) -> Result<Boot, Refusal> {
        let sector = region.read(0, 512)?;
        corrupt_if(!is_one(&sector)? || array(&sector, 0)? != [0xeb, 0x76, 0x90], "no exFAT boot sector")?;
        let shift = u8_at(&sector, 108)?;
        corrupt_if(!(9..=12).contains(&shift), "the size of a sector")?;
        check_sum(region, 1 << shift)?;
        let flags = le16(&sector, 106)?;
        dirty_if(flags & DIRTY != 0, "VolumeDirty is set")?;
        dirty_if(flags & MEDIA_FAILURE != 0, "MediaFailure is set")?;
        Boot::parse(&sector, region.size())
    }

    fn parse(sector: &[u8], size: u64) -> Result<Boot, Refusal> {
        unsupported_if(u8_at(sector, 105)? != 1, "an unknown version of exFAT")?;
        let (unit_shift, cluster_shift) = (u8_at(sector, 108)?, u8_at(sector, 109)?);
        corrupt_if(!(9..=12).contains(&unit_shift) || cluster_shift > 25 - unit_shift, "the size of a cluster")?;
        let unit = 1_u64 << unit_shift;
        let total = le64(sector, 72)?;
        let (table, table_len) = (u64::from(le32(sector, 80)?), u64::from(le32(sector, 84)?));
        let (heap, count) = (u64::from(le32(sector, 88)?), le32(sector, 92)?);
        let copies = u64::from(u8_at(sector, 110)?);
        corrupt_if(!(1..=2).contains(&copies), "the number of tables")?;
        corrupt_if(product(total, unit)? > size, "the volume is longer than its region")?;
        let heap_end = sum(heap, u64::from(count) << cluster_shift)?;
        let overlap = count == 0 || table < REGIONS || sum(table, table_len * copies)? > heap || heap_end > total;
        corrupt_if(overlap, "tables and clusters that overlap")?;
        let too_short = Width::ThirtyTwo.table(u64::from(count) + u64::from(FIRST)) > table_len * unit;
        corrupt_if(too_short, "the table is too short for the volume")?;
        let mut tables: Vec<u64> = (0..copies).map(|copy| (table + copy * table_len) * unit).collect();
        if le16(sector, 106)? & ACTIVE_FAT != 0 {
            corrupt_if(copies < 2, "the second table is active, and there is none")?;
            tables.reverse();
        }
        // mkfs.exfat writes 0, and Linux does not maintain it.
        let percent = Some(u8_at(sector, 112)?).filter(|percent| !matches!(*percent, 0 | UNKNOWN));
        let heap = Heap { start: heap * unit, cluster: unit << cluster_shift, count };
        Ok(Boot { heap, tables, root: le32(sector, 96)?, percent })
    }
}

/// The checksum of the main boot region. It leaves out the flags and the percentage, which change all the time.
fn check_sum(region: &View<'_>, unit: u64) -> Result<(), Refusal> {
    let bytes = region.read(0, (SUMMED * unit) as usize)?;
    let mut checksum = 0_u32;
    for (at, byte) in bytes.iter().enumerate() {
        if !matches!(at, 106 | 107 | 112) {
            checksum = checksum.rotate_right(1).wrapping_add(u32::from(*byte));
        }
    }
    let stored = region.read(SUMMED * unit, unit as usize)?;
    corrupt_if(stored.chunks_exact(4).any(|word| word != checksum.to_le_bytes()), "the checksum of the boot region")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 clusters of 4 KiB.
    fn sector() -> Vec<u8> {
        let mut sector = vec![0; 512];
        sector[72..80].copy_from_slice(&9000_u64.to_le_bytes());
        for (at, value) in [(80, 24_u32), (84, 8), (88, 64), (92, 1000), (96, 4)] {
            sector[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        sector[105] = 1;
        sector[108..111].copy_from_slice(&[9, 3, 1]);
        sector[112] = 0xff;
        sector
    }

    fn parse(change: impl FnOnce(&mut Vec<u8>)) -> Result<Boot, Refusal> {
        let mut sector = sector();
        change(&mut sector);
        Boot::parse(&sector, 9000 * 512)
    }

    #[test]
    fn an_honest_boot_sector_is_understood() {
        let boot = parse(|_| ()).unwrap();
        assert_eq!(boot.heap, Heap { start: 64 * 512, cluster: 4096, count: 1000 });
        assert_eq!((boot.tables, boot.root, boot.percent), (vec![24 * 512], 4, None));
        assert_eq!(parse(|s| s[112] = 7).unwrap().percent, Some(7));
    }

    #[test]
    fn the_active_table_comes_first() {
        let boot = parse(|s| (s[110], s[106]) = (2, 1)).unwrap();
        assert_eq!(boot.tables, [32 * 512, 24 * 512]);
        assert!(parse(|s| s[106] = 1).is_err());
    }

    #[test]
    fn sizes_that_contradict_each_other_are_refused() {
        assert!(parse(|s| s[72..80].fill(0xff)).is_err(), "longer than there are numbers");
        assert!(parse(|s| s[72..76].copy_from_slice(&9001_u32.to_le_bytes())).is_err(), "longer than the region");
        assert!(parse(|s| s[92..96].fill(0xff)).is_err(), "too many clusters");
        assert!(parse(|s| s[92..96].fill(0)).is_err(), "no clusters");
        assert!(parse(|s| s[84..88].fill(0)).is_err(), "no table");
        assert!(parse(|s| s[84..88].fill(0xff)).is_err(), "the table covers the clusters");
        assert!(parse(|s| s[80] = 23).is_err(), "the table covers the boot regions");
        assert!(parse(|s| s[88..92].fill(0xff)).is_err(), "the clusters begin behind the end");
        assert!(parse(|s| s[108] = 255).is_err(), "the size of a sector");
        assert!(parse(|s| s[109] = 17).is_err(), "the size of a cluster");
        assert!(parse(|s| s[110] = 3).is_err(), "three tables");
        assert!(parse(|s| s[105] = 2).is_err(), "another version");
    }
}
