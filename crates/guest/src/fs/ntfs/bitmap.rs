//! The bitmap of the volume, held against the files.

use super::boot::Geometry;
use super::clusters::ClusterSet;
use super::volume::Volume;
use crate::bytes::{le64, product};
use crate::extents::ExtentSet;
use crate::refusal::{Refusal, corrupt_if, over_budget_if};

/// Bytes of the bitmap that are read at once.
const PIECE: u64 = 1 << 20;

/// What the clusters of the files and the free extents may take together, in bytes.
const MEMORY: usize = 56 << 20;

/// The record of the bitmap.
const BITMAP_FILE: u64 = 6;

/// The free space of a volume.
pub(super) struct Free {
    /// In bytes.
    pub free: ExtentSet,
    /// Clusters that the bitmap calls used and no file has.
    pub lost: u64,
}

/// What neither the bitmap nor a file says is used. A cluster that a file has and the bitmap calls free is a refusal:
/// somebody could write there at any time, and the map cannot be trusted.
pub(super) fn free(volume: &Volume<'_, '_>, files: &ClusterSet) -> Result<Free, Refusal> {
    let geometry = volume.geometry;
    let bitmap = volume.contents(BITMAP_FILE, "$Bitmap")?;
    bitmap.require_plain(&geometry, "$Bitmap")?;
    // A bit for each cluster, up to a multiple of 64; see the loop below.
    let len = geometry.clusters.div_ceil(64) * 8;
    corrupt_if(bitmap.sizes.data < len, "$Bitmap is too short")?;
    // Extents have 16 bytes, and twice that while their vector grows.
    let most = volume.region.budget().extents().min(MEMORY.saturating_sub(files.memory()) / 32);
    let mut found = Runs { geometry, most, free: ExtentSet::new() };
    let mut lost = 0;
    let mut at = 0;
    while at < len {
        let piece = volume.read(&bitmap, at, PIECE.min(len - at) as usize)?;
        for start in (0..piece.len()).step_by(8) {
            let index = (at + start as u64) / 8;
            // What is behind the volume is used, whatever is written there.
            let here = (geometry.clusters - index * 64).min(64);
            let used = le64(&piece, start)? | u64::MAX.checked_shl(here as u32).unwrap_or(0);
            let of_files = files.word(index);
            if of_files & !used != 0 {
                let cluster = index * 64 + u64::from((of_files & !used).trailing_zeros());
                return Err(Refusal::corrupt(format!("$Bitmap calls cluster {cluster} free, which a file has")));
            }
            lost += u64::from((used & !of_files).count_ones()) - (64 - here);
            found.add(index * 64, !used)?;
        }
        at += piece.len() as u64;
    }
    Ok(Free { free: found.free, lost })
}

struct Runs {
    geometry: Geometry,
    most: usize,
    free: ExtentSet,
}

impl Runs {
    /// Adds the clusters of a word, the lowest bit being cluster `first`.
    fn add(&mut self, first: u64, mut bits: u64) -> Result<(), Refusal> {
        let mut at = first;
        while bits != 0 {
            let skip = bits.trailing_zeros();
            bits >>= skip;
            at += u64::from(skip);
            let len = bits.trailing_ones();
            let start = product(at, self.geometry.cluster)?;
            self.free.push(start..start + u64::from(len) * self.geometry.cluster);
            over_budget_if(self.free.count() > self.most, "free extents")?;
            bits = bits.checked_shr(len).unwrap_or(0);
            at += u64::from(len);
        }
        Ok(())
    }
}
