//! The tree of roots: where the other trees start.

use std::ops::Range;

use super::chunks::{Chunk, Chunks};
use super::key::{Key, kind};
use super::superblock::{Device, Superblock};
use super::tree::{Forest, Root, owner};
use crate::bytes::{le32, le64, sum, u8_at};
use crate::refusal::{Refusal, corrupt_if, over_budget_if, unsupported_if};

/// The most subvolumes that are remembered; 8 MiB.
const MOST_ROOTS: usize = 1 << 18;
const FIRST_TREES: std::ops::RangeInclusive<u64> = 1..=11;

/// What the tree of roots says.
#[derive(Debug, Default)]
pub struct Roots {
    pub extent: Option<Root>,
    pub device: Option<Root>,
    pub free_space: Option<Root>,
    pub block_group: Option<Root>,
    /// All trees that are in use, also those above.
    pub all: Vec<Root>,
}

/// Reads a ROOT_ITEM.
pub fn root_item(item: &[u8], owner: u64) -> Result<Root, Refusal> {
    Ok(Root { address: le64(item, 176)?, level: u8_at(item, 238)?, generation: le64(item, 160)?, owner })
}

impl Roots {
    /// Walks the tree of roots, which must name no tree of an unknown kind.
    pub fn read(forest: &Forest<'_>, chunks: &Chunks, sb: &Superblock) -> Result<Roots, Refusal> {
        let mut roots = Roots::default();
        let top = Root { address: sb.root, level: sb.root_level, generation: sb.generation, owner: owner::ROOT };
        forest.walk(chunks, top, &mut |key, item| roots.push(key, item))?;
        Ok(roots)
    }

    fn push(&mut self, key: Key, item: &[u8]) -> Result<(), Refusal> {
        if key.kind != kind::ROOT {
            return Ok(());
        }
        let root = root_item(item, key.objectid)?;
        let place = match key.objectid {
            owner::EXTENT => Some(&mut self.extent),
            owner::DEVICE => Some(&mut self.device),
            owner::FREE_SPACE => Some(&mut self.free_space),
            owner::BLOCK_GROUP => Some(&mut self.block_group),
            // The trees of relocation and of relocated data have high numbers.
            other if FIRST_TREES.contains(&other) || other >= *owner::SUBVOLUMES.start() => None,
            other => return Err(Refusal::unsupported(format!("tree {other}"))),
        };
        if let Some(place) = place {
            unsupported_if(key.offset != 0 || place.is_some(), "more than one tree of a kind")?;
            *place = Some(root);
        }
        // A deleted subvolume may be gone already but for its name.
        if le32(item, 216)? != 0 && root.address != 0 {
            over_budget_if(self.all.len() >= MOST_ROOTS, "subvolumes")?;
            self.all.push(root);
        }
        Ok(())
    }
}

/// Walks the chunk tree: all chunks, and the device as it says, which must agree with the superblock.
pub fn read_chunks(forest: &Forest<'_>, sb: &Superblock) -> Result<Chunks, Refusal> {
    let first = Chunks::of_superblock(sb)?;
    let generation = sb.chunk_root_generation;
    let top = Root { address: sb.chunk_root, level: sb.chunk_root_level, generation, owner: owner::CHUNK };
    let (mut chunks, mut device) = (Chunks::default(), None);
    forest.walk(&first, top, &mut |key, item| {
        if key.kind != kind::DEVICE {
            return chunks.push(Chunk::parse(key, item, sb)?);
        }
        let found = Device::parse(item)?;
        corrupt_if(device.is_some() || key.offset != found.id, "more devices than one")?;
        device = Some(found);
        Ok(())
    })?;
    corrupt_if(device != Some(sb.device) || !chunks.agree_with(&first), "superblock and chunk tree disagree")?;
    Ok(chunks)
}

/// Walks the device tree, the device's own list of what belongs to chunks: what of the device that is, in order. It must
/// agree with the chunks, and the device must not be on its way to be replaced.
pub fn read_device(
    forest: &Forest<'_>,
    chunks: &Chunks,
    sb: &Superblock,
    root: Root,
) -> Result<Vec<Range<u64>>, Refusal> {
    // They are disjoint and in order, so this is all that must be remembered to see whether a copy comes twice.
    let mut taken: Vec<Range<u64>> = Vec::new();
    forest.walk(chunks, root, &mut |key, item| match key.kind {
        kind::DEVICE_EXTENT => {
            let (start, len) = (le64(item, 16)?, le64(item, 24)?);
            corrupt_if(key.objectid != sb.device.id, "an extent of another device")?;
            let chunk = chunks.holding(start, len)?;
            let disagree = chunk.start != start || chunk.len != len || chunk.copies().all(|copy| copy != key.offset);
            corrupt_if(disagree, "device extents and chunks disagree")?;
            corrupt_if(taken.last().is_some_and(|last| last.end > key.offset), "device extents overlap")?;
            taken.push(key.offset..sum(key.offset, len)?);
            Ok(())
        }
        kind::PERSISTENT => Ok(()),
        // Never started, finished, cancelled.
        kind::DEVICE_REPLACE if matches!(le64(item, 32)?, 0 | 2 | 3) => Ok(()),
        kind::DEVICE_REPLACE => Err(Refusal::unsupported("the device is being replaced")),
        other => Err(Refusal::corrupt(format!("an item of kind {other} in the device tree"))),
    })?;
    // Each is a copy of a chunk, and no two are the same one: if there are as many, they are all.
    let copies: usize = chunks.iter().map(|chunk| chunk.copies().count()).sum();
    let bytes = taken.iter().map(|range| range.end - range.start).sum::<u64>();
    corrupt_if(copies != taken.len() || bytes != sb.device.bytes_used, "device extents do not cover the chunks")?;
    Ok(taken)
}
