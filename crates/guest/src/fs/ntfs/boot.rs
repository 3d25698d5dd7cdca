//! The boot sector: sizes, and where the tables begin.

use crate::bytes::{is_power_in, le16, le32, le64, product, slice, u8_at};
use crate::image::View;
use crate::refusal::{Refusal, corrupt_if, unsupported_if};

/// Windows makes no volume of more clusters.
const MOST_CLUSTERS: u64 = u32::MAX as u64;

const LARGEST_CLUSTER: u64 = 2 << 20;

/// The sizes of a volume. All are powers of two but the count of clusters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Geometry {
    /// Bytes of a cluster.
    pub cluster: u64,
    /// How many clusters there are. What lies behind them (the copy of the boot sector, the end of the partition) is
    /// in no map.
    pub clusters: u64,
    /// Bytes of a record of the master file table.
    pub record: u64,
    /// The first cluster of the master file table.
    pub mft: u64,
    /// The first cluster of the copy of its first records.
    pub mirror: u64,
}

impl Geometry {
    /// Reads the boot sector and compares it with its copy in the last sector.
    pub fn read(region: &View<'_>) -> Result<Geometry, Refusal> {
        let boot = region.read(0, 512)?;
        let other = slice(&boot, 3, 8)? != b"NTFS    " || le16(&boot, 510)? != 0xaa55;
        corrupt_if(other, "the boot sector has no signature")?;
        let sector = u64::from(le16(&boot, 11)?);
        unsupported_if(!is_power_in(sector, 512..=4096), format_args!("sectors of {sector} bytes"))?;
        // These would be in use if it were a FAT.
        let fat = [le16(&boot, 14)?, le16(&boot, 17)?, le16(&boot, 19)?, le16(&boot, 22)?, u8_at(&boot, 16)?.into()];
        corrupt_if(fat != [0; 5] || le32(&boot, 32)? != 0, "the boot sector has fields of a FAT")?;
        let cluster = product(sector, sectors_per_cluster(u8_at(&boot, 13)?)?)?;
        unsupported_if(!is_power_in(cluster, 1..=LARGEST_CLUSTER), format_args!("clusters of {cluster} bytes"))?;
        let sectors = le64(&boot, 40)?;
        let bytes = product(sectors, sector)?;
        // The copy of the boot sector is in the sector behind the last that is counted.
        let too_long = bytes.checked_add(512).is_none_or(|end| end > region.size());
        corrupt_if(too_long, "the volume is longer than its place")?;
        let copy = region.read(bytes, 512)?;
        let differ = slice(&boot, 0, 0x54)? != slice(&copy, 0, 0x54)? || le16(&copy, 510)? != 0xaa55;
        corrupt_if(differ, "the boot sector and its copy differ")?;
        let clusters = bytes / cluster;
        unsupported_if(clusters > MOST_CLUSTERS, format_args!("{clusters} clusters"))?;
        let record = record_size(u8_at(&boot, 64)?, cluster)?;
        let (mft, mirror) = (le64(&boot, 48)?, le64(&boot, 56)?);
        let misplaced = mft == 0 || mft >= clusters || mirror == 0 || mirror >= clusters;
        corrupt_if(misplaced, "the master file table lies outside the volume")?;
        Ok(Geometry { cluster, clusters, record, mft, mirror })
    }
}

/// A power of two, or, above 128, the negative binary logarithm of it (since clusters may have more than 64 KiB).
fn sectors_per_cluster(field: u8) -> Result<u64, Refusal> {
    match field {
        1..=128 if field.is_power_of_two() => Ok(field.into()),
        0xf4..=0xff => Ok(1 << field.wrapping_neg()),
        _ => Err(Refusal::corrupt(format!("{field} sectors in a cluster"))),
    }
}

/// Clusters of a record, or, where a record is smaller than a cluster, the negative binary logarithm of its bytes.
fn record_size(field: u8, cluster: u64) -> Result<u64, Refusal> {
    let size = match field {
        1..=127 => product(field.into(), cluster)?,
        0xe1..=0xff => 1 << field.wrapping_neg(),
        _ => 0,
    };
    match size {
        1024 | 2048 | 4096 => Ok(size),
        _ => Err(Refusal::unsupported(format!("records of {size} bytes"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counts_or_negative_logarithms() {
        assert_eq!(sectors_per_cluster(8), Ok(8));
        assert_eq!(sectors_per_cluster(0xf4), Ok(4096));
        assert!(
            sectors_per_cluster(0).is_err() && sectors_per_cluster(3).is_err() && sectors_per_cluster(0x81).is_err()
        );
        assert_eq!(record_size(0xf6, 4096), Ok(1024));
        assert_eq!(record_size(2, 512), Ok(1024));
        assert_eq!(record_size(1, 4096), Ok(4096));
        assert!(record_size(0, 4096).is_err() && record_size(0x80, 512).is_err() && record_size(127, 65536).is_err());
    }
}
