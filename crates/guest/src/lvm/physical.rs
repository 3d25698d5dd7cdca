//! What is known of a physical volume, and of the logical volumes on it.

use crate::extents::{Extent, ExtentSet};

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
