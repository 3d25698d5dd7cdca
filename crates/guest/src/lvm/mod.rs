//! LVM2: a physical volume, and what its metadata say of it.
//!
//! Extents that no logical volume has are free, whatever they hold. A volume that lies on this physical volume alone, in
//! linear segments, and that nothing else is built of, can be looked into like a partition. All others are opaque:
//! snapshots, pools, mirrors and caches use their parts in ways that the parts do not show. (The origin of a snapshot
//! is the best example: blocks that its filesystem calls free may be in use by the snapshot.)

mod label;
mod metadata;
mod text;

pub use label::is_member;

use crate::extents::{Extent, ExtentSet};
use crate::image::View;
use crate::refusal::Refusal;

/// What is known of a physical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Physical {
    /// Its identifier.
    pub id: [u8; 32],
    /// The name of its volume group.
    pub group: String,
    /// The identifier of the volume group.
    pub group_id: Vec<u8>,
    /// The checksum and the number of the metadata: other physical volumes of the group must have the same.
    pub version: (u32, u64),
    /// The volumes that have a part of this physical volume.
    pub volumes: Vec<Volume>,
    /// The bytes of extents that no volume has, relative to the physical volume.
    pub free: ExtentSet,
    /// The bytes of all extents.
    pub extents: Extent,
}

/// A logical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Its name in the group.
    pub name: String,
    /// Where it is in the physical volume: of a plain volume in its own order, of others in no order.
    pub extents: Vec<Extent>,
    /// Why it cannot be looked into; `None` if it can.
    pub opaque: Option<&'static str>,
}

/// Understands a physical volume.
///
/// # Errors
/// Every doubt is a refusal; then the physical volume is used as a whole.
pub fn read(region: &View<'_>) -> Result<Physical, Refusal> {
    let label = label::read(region)?;
    let current = label.text(region)?;
    let root = text::parse(&current.text, region.budget())?;
    let mut physical = metadata::interpret(&root, &label, region)?;
    physical.version.0 = current.checksum;
    let overlaps = label.outside.intersection(&ExtentSet::of(physical.extents.start..physical.extents.end()));
    if !overlaps.is_empty() {
        return Err(Refusal::corrupt("LVM metadata lie among the extents"));
    }
    Ok(physical)
}
