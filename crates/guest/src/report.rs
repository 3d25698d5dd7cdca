//! What is known of each region of an image, for people and for programs.

use crate::extents::{Extent, ExtentSet};
use crate::image::Witness;
use crate::refusal::Refusal;

/// What became of one region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Its allocation map was understood and proven.
    Mapped {
        /// What the proof rests on.
        evidence: Vec<String>,
    },
    /// Known by its signature, and never looked into (LUKS, BitLocker, ZFS ...).
    Opaque,
    /// No known signature.
    Unknown,
    /// Understood in kind, but nothing could be proven.
    Refused(Refusal),
    /// The tables, gaps and tails around partitions and volumes.
    Framework,
}

/// One region: a filesystem, a volume group's free space, an unknown partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// Where it is: "whole disk", "GPT partition 2", "LVM volume vg0/root".
    pub place: String,
    /// Its bytes in the image: one extent for a partition, perhaps several for a volume.
    pub extents: Vec<Extent>,
    /// The kind ("ext4", "swap", "crypto_LUKS"), if a signature told it.
    pub kind: Option<&'static str>,
    /// What could be proven.
    pub verdict: Verdict,
    /// How many of its bytes are provably free.
    pub free: u64,
}

impl Region {
    /// Its length in bytes.
    pub fn size(&self) -> u64 {
        self.extents.iter().map(|extent| extent.len).sum()
    }
}

/// What is known of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Map {
    /// The bytes of the image that are provably free.
    pub free: ExtentSet,
    /// Its regions, by their first byte. Together they cover the image.
    pub regions: Vec<Region>,
    /// What the map was made from; see [`Map::still_holds`](Map::still_holds).
    pub witnesses: Vec<Witness>,
}
