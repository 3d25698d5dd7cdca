//! Group descriptors, and where the filesystem keeps its own metadata.

use std::ops::Range;

use super::blocks::Blocks;
use super::sums::{crc16, crc32c};
use super::superblock::{Layout, Sums};
use super::tally::Tally;
use crate::bytes::{difference, le16, le32, slice, sum};
use crate::refusal::{Refusal, corrupt_if};

/// The inode table was never written: no inode of the group is in use.
const INODE_UNINIT: u16 = 1;
/// The bitmap was never written: nothing but metadata is in the group.
const BLOCK_UNINIT: u16 = 2;

/// A group descriptor. Places are block numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) bitmap: u64,
    pub(super) inode_bitmap: u64,
    pub(super) inode_table: u64,
    /// Free clusters.
    pub(super) free: u32,
    /// The checksum of the block bitmap; its lower half alone where descriptors are short.
    pub(super) bitmap_sum: u32,
    /// Whether the block bitmap on the disk means nothing.
    pub(super) uninitialised: bool,
    /// How many of its inodes have ever been in use; what its table has of the others may never have been written.
    pub(super) inodes: u64,
    pub(super) free_inodes: u64,
    /// The checksum of the bitmap of the inodes, as that of the blocks.
    pub(super) inode_bitmap_sum: u32,
    /// Whether the bitmap of the inodes on the disk means nothing.
    pub(super) inodes_uninitialised: bool,
}

impl Group {
    fn parse(from: &[u8], number: u64, layout: &Layout) -> Result<Group, Refusal> {
        let wrong = !sum_is_right(from, number, layout)?;
        corrupt_if(wrong, format_args!("the checksum of group descriptor {number} is wrong"))?;
        let wide = layout.descriptor >= 64;
        let place = |low: usize, high: usize| -> Result<u64, Refusal> {
            let high = if wide { le32(from, high)? } else { 0 };
            Ok(u64::from(high) << 32 | u64::from(le32(from, low)?))
        };
        let halves = |low: usize, high: usize| -> Result<u32, Refusal> {
            let high = if wide { le16(from, high)? } else { 0 };
            Ok(u32::from(high) << 16 | u32::from(le16(from, low)?))
        };
        // Without checksums nobody sets the flags, and the kernel does not look at them.
        let flags = if layout.sums == Sums::None { 0 } else { le16(from, 0x12)? };
        let never_used = match layout.sums {
            Sums::None => 0,
            _ if flags & INODE_UNINIT != 0 => layout.inodes_per_group,
            _ => u64::from(halves(0x1c, 0x32)?),
        };
        let group = Group {
            bitmap: place(0x00, 0x20)?,
            inode_bitmap: place(0x04, 0x24)?,
            inode_table: place(0x08, 0x28)?,
            free: halves(0x0c, 0x2c)?,
            bitmap_sum: halves(0x18, 0x38)?,
            uninitialised: flags & BLOCK_UNINIT != 0,
            inodes: difference(layout.inodes_per_group, never_used)?,
            free_inodes: u64::from(halves(0x0e, 0x2e)?),
            inode_bitmap_sum: halves(0x1a, 0x3a)?,
            inodes_uninitialised: flags & INODE_UNINIT != 0,
        };
        group.check(number, layout)?;
        Ok(group)
    }

    fn check(&self, number: u64, layout: &Layout) -> Result<(), Refusal> {
        let (first, end) = match layout.flex_bg {
            true => (layout.first_data_block, layout.blocks),
            false => (layout.first_block(number), layout.end_block(number)),
        };
        let inside = |place: &Range<u64>| place.start >= first && place.end <= end;
        match self.own(layout)?.iter().all(inside) {
            true if number == 0 && self.uninitialised => {
                Err(Refusal::corrupt("the first group says that it is unused"))
            }
            true => Ok(()),
            false => Err(Refusal::corrupt(format!("metadata of group {number} lie outside"))),
        }
    }

    /// The blocks of its bitmaps and its inode table.
    fn own(&self, layout: &Layout) -> Result<[Range<u64>; 3], Refusal> {
        let run = |start: u64, len: u64| sum(start, len).map(|end| start..end);
        Ok([run(self.bitmap, 1)?, run(self.inode_bitmap, 1)?, run(self.inode_table, layout.inode_table)?])
    }

    /// Whether both keep their metadata in the same places.
    pub(super) fn same_places(&self, other: &Group) -> bool {
        let places = |group: &Group| [group.bitmap, group.inode_bitmap, group.inode_table];
        places(self) == places(other)
    }
}

fn sum_is_right(from: &[u8], number: u64, layout: &Layout) -> Result<bool, Refusal> {
    let number = (number as u32).to_le_bytes();
    let (before, behind) = (slice(from, 0, 0x1e)?, slice(from, 0x20, layout.descriptor - 0x20)?);
    let found = le16(from, 0x1e)?;
    Ok(match layout.sums {
        Sums::None => true,
        Sums::Groups => crc16(crc16(crc16(crc16(!0, &layout.uuid), &number), before), behind) == found,
        Sums::All => {
            let sum = crc32c(crc32c(layout.seed, &number), before);
            crc32c(crc32c(sum, &[0, 0]), behind) as u16 == found
        }
    })
}

/// All group descriptors, each checked.
pub(super) fn read(blocks: &Blocks<'_>, layout: &Layout) -> Result<Vec<Group>, Refusal> {
    let mut groups = Vec::new();
    for index in 0..layout.descriptor_blocks() {
        let block = blocks.read(place_of_descriptors(index, layout))?;
        for descriptor in block.chunks_exact(layout.descriptor).take((layout.groups - groups.len() as u64) as usize) {
            blocks.region.budget().take_node()?;
            groups.push(Group::parse(descriptor, groups.len() as u64, layout)?);
        }
    }
    Ok(groups)
}

pub(super) fn first(blocks: &Blocks<'_>, layout: &Layout) -> Result<Group, Refusal> {
    let block = blocks.read(place_of_descriptors(0, layout))?;
    Group::parse(slice(&block, 0, layout.descriptor)?, 0, layout)
}

/// In which block the first copy of a block of descriptors is.
fn place_of_descriptors(index: u64, layout: &Layout) -> u64 {
    match layout.first_meta_bg {
        Some(first) if index >= first => {
            let group = index * layout.descriptors_per_block();
            superblock_of(group, layout).end
        }
        _ => layout.superblock().0 + 1 + index,
    }
}

/// The superblock that a group starts with, or the empty range where there would be one.
fn superblock_of(group: u64, layout: &Layout) -> Range<u64> {
    // With blocks of 1 KiB and larger clusters, block 0 is in a group but the superblock is in block 1.
    let start = if group == 0 { layout.superblock().0 } else { layout.first_block(group) };
    start..start + u64::from(layout.has_superblock(group))
}

/// Where a group has its superblock, descriptors, and room for more descriptors.
fn head_of(group: u64, layout: &Layout) -> Range<u64> {
    let superblock = superblock_of(group, layout);
    let per_block = layout.descriptors_per_block();
    let descriptors = match layout.first_meta_bg {
        // Beside the first group of those it describes, there are copies in the second and in the last.
        Some(first) if group / per_block >= first => {
            let place = group % per_block;
            u64::from(place == 0 || place == 1 || place == per_block - 1)
        }
        Some(first) if layout.has_superblock(group) => first,
        None if layout.has_superblock(group) => layout.descriptor_blocks() + layout.reserved_gdt,
        _ => 0,
    };
    superblock.start..superblock.end + descriptors
}

/// How many blocks at the end of the head of a group belong to the inode for resizing.
fn room_of_inode(head: &Range<u64>, group: u64, layout: &Layout) -> u64 {
    match layout.first_meta_bg {
        None if layout.has_resize_inode && layout.has_superblock(group) => {
            layout.reserved_gdt.min(head.end - head.start)
        }
        _ => 0,
    }
}

/// Blocks that the filesystem keeps for itself: sorted runs that do not overlap.
pub(super) struct Metadata {
    runs: Vec<Range<u64>>,
    /// Those that belong to no inode.
    pub(super) ownerless: Tally,
}

impl Metadata {
    /// All of it: superblocks, descriptors, bitmaps, inode tables, and `more` (the journal); no two in one place.
    pub(super) fn of(groups: &[Group], layout: &Layout, more: &[Range<u64>]) -> Result<Metadata, Refusal> {
        let mut runs = more.to_vec();
        let mut ownerless = Tally::default();
        if let Some(block) = layout.mmp {
            let run = block..block.saturating_add(1);
            ownerless.add(run.clone());
            runs.push(run);
        }
        for (number, group) in (0..).zip(groups) {
            let head = head_of(number, layout);
            let too_small = head.end > layout.end_block(number);
            corrupt_if(too_small, format_args!("group {number} is too small for its metadata"))?;
            ownerless.add(head.start..head.end - room_of_inode(&head, number, layout));
            group.own(layout)?.into_iter().for_each(|run| ownerless.add(run));
            runs.push(head);
            runs.extend(group.own(layout)?);
        }
        runs.retain(|run| !run.is_empty());
        runs.sort_unstable_by_key(|run| run.start);
        let overlap = runs.iter().zip(runs.iter().skip(1)).any(|(run, next)| run.end > next.start);
        corrupt_if(overlap, "two kinds of metadata lie in one place")?;
        corrupt_if(runs.last().is_some_and(|run| run.end > layout.blocks), "metadata lie behind the end")?;
        // Neighbours are one, which makes them few.
        runs.dedup_by(|next, run| {
            let touch = run.end == next.start;
            if touch {
                run.end = next.end;
            }
            touch
        });
        Ok(Metadata { runs, ownerless })
    }

    /// The parts that lie within a range.
    pub(super) fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.runs.partition_point(|run| run.end <= range.start);
        let inside = self.runs.iter().skip(first).take_while({
            let end = range.end;
            move |run| run.start < end
        });
        inside.map(move |run| run.start.max(range.start)..run.end.min(range.end))
    }
}
