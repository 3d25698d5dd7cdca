//! Everything that inodes refer to: the proof that the bitmaps are right, and that nothing in use is damaged.
//!
//! A bitmap says what is free, and a damaged inode cannot contradict it: whoever repairs it later, or only wants to look at
//! what is left, needs blocks of which nothing tells any more that they are used. So all inodes in use are read, with
//! the maps of their blocks, their directories and attributes, and whatever has a checksum must have the right one. What
//! they use must not be free, and each block that is used must have one owner, be it an inode or the filesystem itself.
//! That is also what proves the bitmaps of filesystems that have no checksums.
//!
//! What this costs is what the inode tables take, 1/64 of the filesystem as mke2fs makes them and less where the groups
//! know how far they were ever in use, with the maps of the files and the directories. All of it is in use and would be
//! read by a whole copy too.

use std::collections::HashMap;
use std::ops::Range;

use super::bitmaps::{Free, State, zeros};
use super::directory::Form;
use super::groups::{Group, Metadata};
use super::inode;
use super::sums::crc32c;
use super::superblock::{Layout, Sums, Superblock};
use super::tally::Tally;
use super::tree::{self, AT, EXTENTS, ROOT};
use crate::bytes::{le16, le32, slice};
use crate::fs::file_type as kind;
use crate::refusal::{Refusal, corrupt_if, over_budget_if};

/// How much of an inode table or a directory is read at once, in bytes.
const PIECE: u64 = 256 << 10;
/// As many inodes in use, and as many comparisons, count as a node.
const STEPS_OF_NODE: u64 = 128;
/// As many steps is a block that was read with others.
const STEPS_OF_BLOCK: u64 = 8;
/// The most pieces of one directory, and of shared blocks of attributes, 2 MiB each.
const MOST_PIECES: usize = 1 << 17;

pub(super) const INLINE_DATA: u32 = 0x1000_0000;
const HASHED: u32 = 0x1000;
const COUNTS_BLOCKS: u32 = 0x4_0000;
const ENCRYPTED: u32 = 0x800;
/// A symbolic link shorter than the map of an inode stands in its place.
pub(super) const SHORT: u32 = 60;
const ATTRIBUTES: u32 = 0xea02_0000;
const ORPHANS: u32 = 0x0b10_ca04;
/// The inode of blocks that are said to be bad, which may be those of the filesystem itself.
const BAD_BLOCKS: u32 = 1;
const ROOT_DIRECTORY: u32 = 2;

/// Refuses a filesystem of which an inode in use is damaged, uses bytes that are in `free`, or a block that another one
/// uses; or that has used blocks without an owner. Takes the inodes of `state`.
pub(super) fn check(
    state: &State<'_>,
    superblock: &Superblock,
    free: &Free,
    metadata: &Metadata,
) -> Result<(), Refusal> {
    let layout = &superblock.layout;
    let (claimed, shared) = (Tally::default(), HashMap::new());
    let mut walk = Walk { state, superblock, free, metadata, claimed, shared, pending: 0..0, taken: 0, steps: 0 };
    for (number, group) in (0..).zip(state.groups) {
        walk.group(number, group).map_err(|why| why.located(|why| format!("an inode of group {number}: {why}")))?;
    }
    let miscounted = walk.shared.values().any(|(seen, count)| seen != count);
    corrupt_if(miscounted, "attributes count other inodes than have them")?;
    let mut all = Tally::default();
    all.add(layout.first_data_block..layout.blocks);
    // A cluster may have blocks of which nothing tells.
    let unbalanced = layout.cluster_bits == 0 && free.tally.and(metadata.ownerless).and(walk.claimed) != all;
    corrupt_if(unbalanced, "used blocks without an owner, or with two")
}

struct Walk<'a> {
    state: &'a State<'a>,
    superblock: &'a Superblock,
    free: &'a Free,
    metadata: &'a Metadata,
    claimed: Tally,
    /// Blocks of attributes that several inodes have: how many were seen, and how many there are.
    shared: HashMap<u64, (u32, u32)>,
    /// Blocks that are used and were not compared yet; neighbours are compared together.
    pending: Range<u64>,
    /// How many blocks were taken.
    taken: u64,
    /// How many inodes in use were seen, and how many runs of blocks compared.
    steps: u64,
}

struct Inode<'a> {
    number: u32,
    bytes: &'a [u8],
    /// Where the checksums of its blocks start, if there are any.
    seed: Option<u32>,
    /// Whether its blocks are looked into.
    content: bool,
}

#[derive(Default)]
struct Used {
    /// How many, with those of its map and attributes.
    count: u64,
    /// Those of its contents, where they are looked into.
    content: Vec<Range<u64>>,
    /// That of its beginning.
    first: Option<u64>,
}

impl Walk<'_> {
    fn layout(&self) -> &Layout {
        &self.superblock.layout
    }

    fn group(&mut self, number: u64, group: &Group) -> Result<(), Refusal> {
        if group.inodes_uninitialised {
            return Ok(());
        }
        let bitmap = self.bitmap(group)?;
        let layout = self.layout();
        let (block, size) = (u64::from(layout.block), layout.inode_size);
        let first = number * layout.inodes_per_group + 1;
        let blocks = (group.inodes * size).div_ceil(block);
        let piece = (PIECE / block).max(1);
        let (mut index, mut used) = (0, 0);
        for from in (0..blocks).step_by(piece as usize) {
            let table = self.state.blocks.read_run(group.inode_table + from, piece.min(blocks - from))?;
            for bytes in table.chunks_exact(size as usize).take((group.inodes - index) as usize) {
                let bit = bitmap.get((index / 8) as usize).is_some_and(|bits| bits >> (index % 8) & 1 == 1);
                let linked = le16(bytes, 0x1a)? != 0;
                corrupt_if(linked && !bit, "one with a link is free")?;
                let number = (first + index) as u32;
                self.check_sum(number, bytes)?;
                if bit {
                    used += 1;
                    self.inode(number, bytes, linked)?;
                }
                if linked {
                    self.state.blocks.region.budget().give_back(size);
                }
                index += 1;
            }
        }
        let miscounted = used != self.layout().inodes_per_group - group.free_inodes;
        corrupt_if(miscounted, "one in use is behind those that were ever used")?;
        self.compare()
    }

    fn bitmap(&self, group: &Group) -> Result<Vec<u8>, Refusal> {
        let layout = self.layout();
        let bitmap = self.state.blocks.read(group.inode_bitmap)?;
        if layout.sums == Sums::All {
            let sum = crc32c(layout.seed, slice(&bitmap, 0, layout.inodes_per_group as usize / 8)?);
            let sum = if layout.descriptor >= 64 { sum } else { sum & 0xffff };
            corrupt_if(sum != group.inode_bitmap_sum, "the checksum of their bitmap is wrong")?;
        }
        let free = zeros(&bitmap, layout.inodes_per_group);
        corrupt_if(free != group.free_inodes, "their free count is not that of their bitmap")?;
        Ok(bitmap)
    }

    /// One that was deleted keeps its checksum; one that was never in use may have none.
    fn check_sum(&self, number: u32, bytes: &[u8]) -> Result<(), Refusal> {
        let guarded = self.layout().sums == Sums::All && bytes.iter().any(|byte| *byte != 0);
        let wrong = guarded && !inode::sum_is_right(number, bytes, self.layout())?;
        corrupt_if(wrong, format_args!("the checksum of inode {number} is wrong"))
    }

    fn inode(&mut self, number: u32, bytes: &[u8], linked: bool) -> Result<(), Refusal> {
        self.step(1)?;
        let reserved = number < self.superblock.first_inode;
        if reserved && bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let lost = !linked && !reserved && !self.superblock.has_orphans;
        corrupt_if(lost, format_args!("{number} is in use without a link"))?;
        let seed = match self.layout().sums {
            Sums::All => Some(inode::seed(number, bytes, self.layout())?),
            Sums::None | Sums::Groups => None,
        };
        let kind = le16(bytes, 0)? & 0xf000;
        let directory = kind == kind::DIRECTORY;
        let known = directory
            || matches!(kind, kind::FIFO | kind::CHARACTERS | kind::BLOCKS | kind::FILE | kind::SYMLINK | kind::SOCKET);
        // The inode of bad blocks has none.
        corrupt_if(!known && !reserved, format_args!("{number} is of no known kind"))?;
        // i_faddr, and the high half of i_blocks where no file is so large.
        let unused = [le32(bytes, 0x70)?, if self.superblock.has_huge_files { 0 } else { le16(bytes, 0x74)?.into() }];
        corrupt_if(linked && !reserved && unused != [0, 0], format_args!("{number} has a field that must be zero"))?;
        let flags = le32(bytes, 0x20)?;
        let link = kind == kind::SYMLINK && flags & ENCRYPTED == 0;
        let content = linked && (directory || link || self.superblock.orphan_file == Some(number));
        let inode = Inode { number, bytes, seed, content };
        let used = self.used(&inode)?;
        let counted = !reserved || number == ROOT_DIRECTORY;
        if counted && self.layout().cluster_bits == 0 && !self.superblock.has_attribute_inodes {
            self.check_count(&inode, used.count)?;
        }
        match content && flags & INLINE_DATA == 0 {
            true if link => self.target(&inode, &used),
            true => self.content(&inode, &used, directory),
            false => Ok(()),
        }
    }

    /// Takes everything that an inode uses.
    fn used(&mut self, inode: &Inode<'_>) -> Result<Used, Refusal> {
        let bytes = inode.bytes;
        let mut used = Used::default();
        let high = if self.layout().descriptor >= 64 { le16(bytes, 0x76)? } else { 0 };
        let attributes = u64::from(high) << 32 | u64::from(le32(bytes, 0x68)?);
        if attributes != 0 {
            self.attributes(attributes)?;
            used.count += 1;
        }
        let flags = le32(bytes, 0x20)?;
        let root = slice(bytes, AT, ROOT)?;
        match le16(bytes, 0)? & 0xf000 {
            kind::FIFO | kind::CHARACTERS | kind::BLOCKS | kind::SOCKET => {}
            kind::SYMLINK if self.is_in_place(bytes, attributes != 0)? => {}
            _ if flags & INLINE_DATA != 0 => {
                corrupt_if(!self.superblock.has_inline_data, "data in it, which the filesystem has not")?;
            }
            _ if flags & EXTENTS != 0 => {
                corrupt_if(!self.superblock.has_extents, "a tree of extents, which the filesystem has not")?;
                self.extents(inode, root, &mut used)?;
            }
            _ => self.pointers(inode, root, &mut used)?,
        }
        Ok(used)
    }

    fn step(&mut self, count: u64) -> Result<(), Refusal> {
        let before = self.steps / STEPS_OF_NODE;
        self.steps += count;
        match self.steps / STEPS_OF_NODE == before {
            true => Ok(()),
            false => self.state.blocks.region.budget().take_node(),
        }
    }

    /// Whether a symbolic link has no blocks, by the kernel's rule.
    fn is_in_place(&self, inode: &[u8], attributes: bool) -> Result<bool, Refusal> {
        let layout = self.layout();
        let (size, sectors) = (le32(inode, 0x04)?, le32(inode, 0x1c)?);
        let of_attributes = if attributes { (layout.block / 512) << layout.cluster_bits } else { 0 };
        // Attributes in inodes of their own are counted too, so that the count does not tell.
        Ok((1..SHORT).contains(&size) && (self.superblock.has_attribute_inodes || sectors == of_attributes))
    }

    /// Compares how many blocks an inode uses with what it says.
    fn check_count(&self, inode: &Inode<'_>, blocks: u64) -> Result<(), Refusal> {
        let (low, high) = (u64::from(le32(inode.bytes, 0x1c)?), u64::from(le16(inode.bytes, 0x74)?));
        let says = if self.superblock.has_huge_files { high << 32 | low } else { low };
        let in_blocks = self.superblock.has_huge_files && le32(inode.bytes, 0x20)? & COUNTS_BLOCKS != 0;
        let unit = if in_blocks { 1 } else { u64::from(self.layout().block) / 512 };
        corrupt_if(says != blocks * unit, format_args!("{} uses {blocks} blocks, and says another count", inode.number))
    }

    /// The old way: 12 blocks, then blocks of block numbers in one, two and three steps. Zero is a hole.
    fn pointers(&mut self, inode: &Inode<'_>, root: &[u8], used: &mut Used) -> Result<(), Refusal> {
        // What is still to be looked at, the next one last.
        let mut todo: Vec<(u64, u32)> = Vec::new();
        for slot in 0..15 {
            let block = u64::from(le32(root, slot * 4)?);
            if slot == 0 && block != 0 {
                used.first = Some(block);
            }
            self.pointer(inode, block, (slot as u32).saturating_sub(11), &mut todo, used)?;
        }
        while let Some((block, steps)) = todo.pop() {
            self.state.blocks.region.budget().take_node()?;
            let bytes = self.state.blocks.read(block)?;
            for slot in 0..bytes.len() / 4 {
                self.pointer(inode, u64::from(le32(&bytes, slot * 4)?), steps - 1, &mut todo, used)?;
            }
        }
        Ok(())
    }

    fn pointer(
        &mut self,
        inode: &Inode<'_>,
        block: u64,
        steps: u32,
        todo: &mut Vec<(u64, u32)>,
        used: &mut Used,
    ) -> Result<(), Refusal> {
        if block == 0 {
            return Ok(());
        }
        if steps > 0 {
            self.take(inode, block..block + 1, used)?;
            todo.push((block, steps));
            return Ok(());
        }
        self.take_content(inode, block..block + 1, used)
    }

    fn extents(&mut self, inode: &Inode<'_>, root: &[u8], used: &mut Used) -> Result<(), Refusal> {
        // What is still to be looked at, the next one last: each with the depth that it must have, and where it begins.
        let mut todo = Vec::new();
        let mut end = 0;
        self.node(inode, &tree::node(root)?, &mut end, &mut todo, used)?;
        while let Some((block, depth, first)) = todo.pop() {
            self.state.blocks.region.budget().take_node()?;
            let bytes = self.state.blocks.read(block)?;
            if let Some(seed) = inode.seed {
                tree::check_sum(&bytes, seed)?;
                self.state.blocks.region.budget().give_back(bytes.len() as u64);
            }
            let node = tree::node(&bytes)?;
            let begins = node.entries.first().map(|entry| tree::first(entry)).transpose()?;
            let uneven = node.depth != depth || begins.is_some_and(|begins| begins < first);
            corrupt_if(uneven, "an uneven tree of extents")?;
            self.node(inode, &node, &mut end, &mut todo, used)?;
        }
        Ok(())
    }

    /// Takes the extents of a leaf, or the children of another node; `end` is the block of the file behind the last extent.
    fn node(
        &mut self,
        inode: &Inode<'_>,
        node: &tree::Node<'_>,
        end: &mut u64,
        todo: &mut Vec<(u64, u16, u64)>,
        used: &mut Used,
    ) -> Result<(), Refusal> {
        if let Some(depth) = node.depth.checked_sub(1) {
            for entry in node.entries.iter().rev() {
                let child = tree::child(entry)?;
                self.take(inode, child..child + 1, used)?;
                todo.push((child, depth, tree::first(entry)?));
            }
            return Ok(());
        }
        for entry in &node.entries {
            let extent = tree::extent(entry)?;
            corrupt_if(extent.first < *end || (inode.content && !extent.written), "extents that are not in order")?;
            *end = extent.first + (extent.blocks.end - extent.blocks.start);
            if extent.first == 0 {
                used.first = Some(extent.blocks.start);
            }
            self.take_content(inode, extent.blocks, used)?;
        }
        Ok(())
    }

    /// A block of attributes, of which others may be users too.
    fn attributes(&mut self, block: u64) -> Result<(), Refusal> {
        self.step(STEPS_OF_BLOCK)?;
        if let Some((seen, _)) = self.shared.get_mut(&block) {
            *seen += 1;
            return Ok(());
        }
        self.take_blocks(block..block + 1)?;
        self.claimed.add(block..block + 1);
        let bytes = self.state.blocks.read(block)?;
        let users = le32(&bytes, 4)?;
        let other = le32(&bytes, 0)? != ATTRIBUTES || users == 0 || le32(&bytes, 8)? != 1;
        corrupt_if(other, "a block of attributes is none")?;
        if self.layout().sums == Sums::All {
            let sum = crc32c(crc32c(self.layout().seed, &block.to_le_bytes()), slice(&bytes, 0, 16)?);
            let wrong = crc32c(crc32c(sum, &[0; 4]), slice(&bytes, 20, bytes.len() - 20)?) != le32(&bytes, 16)?;
            corrupt_if(wrong, "the checksum of a block of attributes is wrong")?;
        }
        self.state.blocks.region.budget().give_back(bytes.len() as u64);
        if users > 1 {
            over_budget_if(self.shared.len() >= MOST_PIECES, "shared blocks of attributes")?;
            self.shared.insert(block, (1, users));
        }
        Ok(())
    }

    fn take(&mut self, inode: &Inode<'_>, blocks: Range<u64>, used: &mut Used) -> Result<(), Refusal> {
        self.take_blocks(blocks.clone())?;
        used.count += blocks.end - blocks.start;
        let own = inode.number == BAD_BLOCKS && self.metadata.within(blocks.clone()).next().is_some();
        if !own {
            self.claimed.add(blocks);
        }
        Ok(())
    }

    fn take_content(&mut self, inode: &Inode<'_>, blocks: Range<u64>, used: &mut Used) -> Result<(), Refusal> {
        self.take(inode, blocks.clone(), used)?;
        if !inode.content {
            return Ok(());
        }
        if let Some(last) = used.content.last_mut()
            && last.end == blocks.start
        {
            last.end = blocks.end;
        } else if used.content.len() < MOST_PIECES {
            used.content.push(blocks);
        } else {
            return Err(Refusal::Budget("pieces of a directory"));
        }
        Ok(())
    }

    fn take_blocks(&mut self, blocks: Range<u64>) -> Result<(), Refusal> {
        let layout = &self.superblock.layout;
        let misplaced = blocks.is_empty() || blocks.start < layout.first_data_block || blocks.end > layout.blocks;
        corrupt_if(misplaced, format_args!("blocks {} to {} are outside", blocks.start, blocks.end))?;
        // Each has one owner. A forged map that leads to itself would otherwise be walked without end.
        self.taken += blocks.end - blocks.start;
        corrupt_if(self.taken > layout.blocks, "more blocks are used than there are")?;
        if blocks.start == self.pending.end {
            self.pending.end = blocks.end;
            return Ok(());
        }
        self.compare()?;
        self.pending = blocks;
        Ok(())
    }

    /// Compares what was taken with what is free.
    fn compare(&mut self) -> Result<(), Refusal> {
        self.step(1)?;
        let Range { start, end } = std::mem::take(&mut self.pending);
        let block = u64::from(self.layout().block);
        let free = self.free.bytes.touches(start * block..end * block);
        corrupt_if(free, format_args!("it uses free blocks between {start} and {end}"))
    }

    /// Looks at the target of a symbolic link: as long as the link says, without a zero byte, and with one behind it, as
    /// e2fsck(8) wants it. No checksum guards one that has a block.
    fn target(&mut self, inode: &Inode<'_>, used: &Used) -> Result<(), Refusal> {
        let block;
        let room = match used.content.as_slice() {
            [] => slice(inode.bytes, AT, ROOT)?,
            [run] if run.end - run.start == 1 => {
                self.step(STEPS_OF_BLOCK)?;
                block = self.state.blocks.read(run.start)?;
                self.state.blocks.region.budget().give_back(block.len() as u64);
                &block[..]
            }
            _ => return Err(Refusal::corrupt(format!("symbolic link {} has several blocks", inode.number))),
        };
        let size = le32(inode.bytes, 0x04)? as usize;
        let says = room.iter().position(|byte| *byte == 0);
        let wrong = size == 0 || says != Some(size);
        corrupt_if(wrong, format_args!("symbolic link {} has another length than it says", inode.number))
    }

    /// Looks into the blocks of a directory, or of the list of inodes without names.
    fn content(&mut self, inode: &Inode<'_>, used: &Used, directory: bool) -> Result<(), Refusal> {
        let layout = self.layout();
        let size = u64::from(layout.block);
        let blocks: u64 = used.content.iter().map(|run| run.end - run.start).sum();
        let says = u64::from(le32(inode.bytes, 0x6c)?) << 32 | u64::from(le32(inode.bytes, 0x04)?);
        let differs = directory && says != blocks * size;
        corrupt_if(differs, format_args!("directory {} has another size than its blocks", inode.number))?;
        let inodes = (layout.inodes_per_group * layout.groups) as u32;
        let indexed = self.superblock.has_hashed_directories && le32(inode.bytes, 0x20)? & HASHED != 0;
        let form = Form { seed: inode.seed, inodes, indexed, blocks };
        let piece = (PIECE / size).max(1);
        for run in &used.content {
            for from in run.clone().step_by(piece as usize) {
                let count = piece.min(run.end - from);
                self.step(count * STEPS_OF_BLOCK)?;
                let bytes = self.state.blocks.read_run(from, count)?;
                for (at, block) in (from..).zip(bytes.chunks_exact(size as usize)) {
                    match directory {
                        true => form.check(block, used.first == Some(at))?,
                        false => orphans(block, at, inode.seed)?,
                    }
                }
                self.state.blocks.region.budget().give_back(bytes.len() as u64);
            }
        }
        Ok(())
    }
}

/// Checks a block of the list of inodes without names.
fn orphans(block: &[u8], at: u64, seed: Option<u32>) -> Result<(), Refusal> {
    let end = block.len() - 8;
    corrupt_if(le32(block, end)? != ORPHANS, "a block of the orphan file is none")?;
    let sum = seed.map(|seed| slice(block, 0, end).map(|list| crc32c(crc32c(seed, &at.to_le_bytes()), list)));
    match sum.transpose()? {
        Some(sum) if sum != le32(block, end + 4)? => Err(Refusal::corrupt("a checksum of the orphan file is wrong")),
        _ => Ok(()),
    }
}
