//! What looking at an image may cost.

use std::cell::Cell;

use crate::refusal::Refusal;

/// The largest piece of metadata that is held in memory at once, in bytes.
pub const LARGEST_PIECE: usize = 4 << 20;

/// Limits for the parsers of one image, counted down while they work. What runs out is named in the refusal.
///
/// A forged header must cost less than 64 MiB of memory and a second, whatever it says; an honest image of any size
/// must get by. So what may be read grows with the image, and what may be held does not.
#[derive(Debug)]
pub struct Budget {
    bytes: Cell<u64>,
    nodes: Cell<u64>,
    extents: usize,
}

impl Budget {
    /// What an image of `size` bytes may cost.
    ///
    /// Metadata bytes: a FAT32 with clusters of 512 bytes has 1/64 of its size in two tables, a full btrfs with small
    /// files about as much in its extent tree.
    pub fn for_image(size: u64) -> Budget {
        Budget::new((64 << 20) + size / 32, (1 << 16) + size / (256 << 10), 2 << 20)
    }

    /// What a region of `len` bytes may cost where an image of `image` bytes has `regions` of them, `all` bytes long
    /// together (they may overlap). Each has its own share, so that a hostile one takes nothing from the others, and all
    /// together stay within a few times [`Budget::for_image`], however many there are.
    pub fn share(image: u64, len: u64, all: u64, regions: usize) -> Budget {
        let regions = (regions as u64).max(1);
        // Of what grows with the size, each has its part, less if they overlap.
        let part = |whole: u64| (u128::from(whole) * u128::from(len) / u128::from(all.max(image).max(1))) as u64;
        let bytes = (64 << 20).min((512 << 20) / regions);
        let nodes = (1 << 16).min((1 << 19) / regions);
        let extents = (1 << 20) / regions + part(1 << 20);
        Budget::new(bytes + part(image / 32), nodes + part(image / (256 << 10)), extents as usize)
    }

    /// Exactly these limits: bytes of metadata read, nodes (blocks of trees, records, steps) visited, and free extents
    /// found in one filesystem (16 bytes each in memory).
    pub fn new(bytes: u64, nodes: u64, extents: usize) -> Budget {
        Budget { bytes: Cell::new(bytes), nodes: Cell::new(nodes), extents }
    }

    /// Takes `count` bytes of metadata.
    ///
    /// # Errors
    /// If there are not so many left.
    pub fn take_bytes(&self, count: u64) -> Result<(), Refusal> {
        take(&self.bytes, count, "bytes of metadata")
    }

    /// Takes one node of a tree, one record, one step of a search.
    ///
    /// # Errors
    /// If there is none left.
    pub fn take_node(&self) -> Result<(), Refusal> {
        take(&self.nodes, 1, "nodes")
    }

    /// The most free extents that one filesystem may have.
    pub fn extents(&self) -> usize {
        self.extents
    }
}

fn take(left: &Cell<u64>, count: u64, what: &'static str) -> Result<(), Refusal> {
    left.set(left.get().checked_sub(count).ok_or(Refusal::Budget(what))?);
    Ok(())
}
