//! LVM2: a physical volume, and what its metadata say of it.
//!
//! Extents that no logical volume has are free, whatever they hold. A volume that lies on this physical volume alone, in
//! linear segments, and that nothing else is built of, can be looked into like a partition. All others are opaque:
//! snapshots, pools, mirrors and caches use their parts in ways that the parts do not show. (The origin of a snapshot
//! is the best example: blocks that its filesystem calls free may be in use by the snapshot.)

mod label;
mod metadata;
mod text;

pub(crate) use label::is_member;
pub use metadata::Physical;

use crate::extents::ExtentSet;
use crate::image::View;
use crate::refusal::{Refusal, corrupt_if};

/// Understands a physical volume.
///
/// # Errors
/// Every doubt is a refusal; then the physical volume is used as a whole.
pub fn read(region: &View<'_>) -> Result<Physical, Refusal> {
    let label = label::read(region)?;
    let (text, checksum) = label.text(region)?;
    let root = text::parse(&text, region.budget())?;
    let mut physical = metadata::interpret(&root, &label, region)?;
    physical.version.0 = checksum;
    let overlaps = label.outside.intersection(&ExtentSet::of(physical.extents.range()));
    corrupt_if(!overlaps.is_empty(), "LVM metadata lie among the extents")?;
    Ok(physical)
}
