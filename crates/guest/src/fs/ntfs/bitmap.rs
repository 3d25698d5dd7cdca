//! The bitmap of the volume, held against the files.

use super::clusters::ClusterSet;
use super::volume::Volume;
use crate::bytes::{le64, product, runs_of_ones};
use crate::extents::ExtentSet;
use crate::refusal::{Refusal, corrupt_if, over_budget_if};

/// Bytes of the bitmap that are read at once.
const PIECE: u64 = 1 << 20;

/// What the clusters of the files and the free extents may take together, in bytes.
const MEMORY: usize = 56 << 20;

const BITMAP_FILE: u64 = 6;

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
    let (mut free, mut lost) = (ExtentSet::new(), 0);
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
            for run in runs_of_ones(!used) {
                let start = product(index * 64 + run.start, geometry.cluster)?;
                free.push(start..start + (run.end - run.start) * geometry.cluster);
                over_budget_if(free.count() > most, "free extents")?;
            }
        }
        at += piece.len() as u64;
    }
    Ok(Free { free, lost })
}
