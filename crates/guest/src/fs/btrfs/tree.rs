//! Walking the trees: every node is checked before anything in it is believed.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use super::chunks::Chunks;
use super::key::Key;
use super::superblock::Superblock;
use crate::budget::Budget;
use crate::bytes::{self, le32, le64, u8_at};
use crate::image::View;
use crate::refusal::{OrRefuse, Refusal, corrupt_if, over_budget_if};

/// The numbers of the trees.
pub mod owner {
    pub const ROOT: u64 = 1;
    pub const EXTENT: u64 = 2;
    pub const CHUNK: u64 = 3;
    pub const DEVICE: u64 = 4;
    /// The first subvolume.
    pub const FILES: u64 = 5;
    pub const FREE_SPACE: u64 = 10;
    pub const BLOCK_GROUP: u64 = 11;
    /// The tree of log trees, and each of them.
    pub const LOG: u64 = 6_u64.wrapping_neg();
    /// The trees of a relocation, which become nodes of subvolumes.
    pub const RELOCATION: u64 = 8_u64.wrapping_neg();
    /// The first and the last of the numbers that the other subvolumes have.
    pub const SUBVOLUMES: std::ops::RangeInclusive<u64> = 256..=256_u64.wrapping_neg();

    /// Whether a tree is one that may share nodes with others of its kind: a subvolume.
    pub fn is_shared(number: u64) -> bool {
        number == FILES || number == RELOCATION || SUBVOLUMES.contains(&number)
    }
}

const HEADER: usize = 101;
const ITEM: usize = Key::SIZE + 8;
const POINTER: usize = Key::SIZE + 16;
const HIGHEST_LEVEL: u8 = 7;
const WRITTEN: u64 = 1;
/// The revision of back references, in the top byte of the flags.
const MIXED_BACKREF: u64 = 1;
/// The most nodes that are remembered, 16 MiB: the extent tree of some 40 TB of ordinary extents.
const MOST_NODES: usize = 2 << 20;

/// What looks at the items of a tree.
type Take<'a> = &'a mut dyn FnMut(Key, &[u8]) -> Result<(), Refusal>;

/// Where a tree starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    /// The logical address of its topmost node.
    pub address: u64,
    /// The level of that node; leaves are on level 0.
    pub level: u8,
    /// The transaction that wrote it.
    pub generation: u64,
    /// The tree's number, which all its nodes carry.
    pub owner: u64,
}

/// Reads the trees of a filesystem.
pub struct Forest<'a> {
    region: &'a View<'a>,
    sb: &'a Superblock,
    /// All nodes carry the same.
    chunk_tree_uuid: Cell<Option<[u8; 16]>>,
    visited: RefCell<Vec<u64>>,
}

/// Which nodes were visited; `None` if that is not remembered, and each is new.
pub type Seen = Option<HashSet<u64>>;

/// A node on the way down, and which of its pointers is next.
struct Step {
    node: Vec<u8>,
    count: usize,
    next: usize,
    level: u8,
}

impl<'a> Forest<'a> {
    pub fn new(region: &'a View<'a>, sb: &'a Superblock) -> Forest<'a> {
        Forest { region, sb, chunk_tree_uuid: Cell::new(None), visited: RefCell::default() }
    }

    pub fn budget(&self) -> &Budget {
        self.region.budget()
    }

    /// The logical addresses of the nodes that were read since the last call.
    pub fn take_visited(&self) -> Vec<u64> {
        self.visited.take()
    }

    /// Hands all items of a tree to `take`, in the order of their keys.
    ///
    /// That keys only rise, over the whole tree, and that each node starts with the key that its parent says, also
    /// means that no node comes twice; that levels fall by one, that the walk ends.
    pub fn walk(&self, chunks: &Chunks, root: Root, take: Take<'_>) -> Result<(), Refusal> {
        self.walk_unseen(chunks, root, &mut None, take)
    }

    /// [`Forest::walk`], but for the nodes that other trees had already.
    pub fn walk_unseen(&self, chunks: &Chunks, root: Root, seen: &mut Seen, take: Take<'_>) -> Result<(), Refusal> {
        corrupt_if(root.level > HIGHEST_LEVEL, "a tree is too high")?;
        let mut is_new = |address| seen.as_mut().is_none_or(|nodes| nodes.insert(address));
        if !is_new(root.address) {
            return Ok(());
        }
        let mut last = None;
        let mut path = vec![self.step(chunks, root, None)?];
        while let Some(step) = path.last_mut() {
            if step.level == 0 {
                items(step, &mut last, take)?;
                path.pop();
            } else if step.next == step.count {
                path.pop();
            } else {
                let at = HEADER + POINTER * step.next;
                step.next += 1;
                let key = Key::parse(&step.node, at)?;
                let child = Root {
                    address: le64(&step.node, at + Key::SIZE)?,
                    level: step.level - 1,
                    generation: le64(&step.node, at + Key::SIZE + 8)?,
                    owner: root.owner,
                };
                if is_new(child.address) {
                    let child = self.step(chunks, child, Some(key))?;
                    path.push(child);
                }
            }
        }
        Ok(())
    }

    /// Reads a node and checks that it is the one that is meant.
    fn step(&self, chunks: &Chunks, wanted: Root, first: Option<Key>) -> Result<Step, Refusal> {
        self.region.budget().take_node()?;
        corrupt_if(!self.sb.whole_sectors(wanted.address), "a node between sectors")?;
        let chunk = chunks.holding(wanted.address, self.sb.node)?;
        let place = chunk
            .on_device(wanted.address..wanted.address + self.sb.node)
            .next()
            .or_corrupt("a chunk without copies")?;
        // At most 64 KiB: the superblock was checked.
        let node = self.region.read(place.start, self.sb.node as usize)?;
        corrupt_if(!self.sb.checksum.is_right(&node)?, "the checksum of a node is wrong")?;
        self.check_header(&node, wanted)?;
        let count = usize::try_from(le32(&node, 0x60)?).unwrap_or(usize::MAX);
        let most = (node.len() - HEADER) / if wanted.level == 0 { ITEM } else { POINTER };
        // Only a tree that is one leaf may be empty.
        let impossible = count > most || (count == 0 && (wanted.level > 0 || first.is_some()));
        corrupt_if(impossible, "a node with an impossible number of items")?;
        let other = first.is_some() && first != Some(Key::parse(&node, HEADER)?);
        corrupt_if(other, "a node starts with another key than its parent says")?;
        let mut visited = self.visited.borrow_mut();
        over_budget_if(visited.len() >= MOST_NODES, "nodes")?;
        visited.push(wanted.address);
        self.region.budget().give_back(self.sb.node);
        Ok(Step { node, count, next: 0, level: wanted.level })
    }

    fn check_header(&self, node: &[u8], wanted: Root) -> Result<(), Refusal> {
        let flags = le64(node, 0x38)?;
        corrupt_if(flags & WRITTEN == 0 || flags >> 56 != MIXED_BACKREF, "a node with odd flags")?;
        let foreign = bytes::array(node, 0x20)? != self.sb.metadata_fsid || le64(node, 0x30)? != wanted.address;
        corrupt_if(foreign, "a node that belongs elsewhere")?;
        let found = le64(node, 0x58)?;
        // Snapshots have the nodes of what they are of.
        let fits = found == wanted.owner || (owner::is_shared(found) && owner::is_shared(wanted.owner));
        corrupt_if(!fits || u8_at(node, 0x64)? != wanted.level, "a node of another tree or level")?;
        // A log is written for the transaction that comes next.
        let newest = self.sb.generation.saturating_add(u64::from(wanted.owner == owner::LOG));
        let generation = le64(node, 0x50)?;
        corrupt_if(generation != wanted.generation || generation > newest, "a node of another generation")?;
        let uuid = bytes::array(node, 0x40)?;
        corrupt_if(self.chunk_tree_uuid.get().is_some_and(|others| others != uuid), "a node of another chunk tree")?;
        self.chunk_tree_uuid.set(Some(uuid));
        Ok(())
    }
}

/// Hands out the items of a leaf. Their data lie one before the other, from the end of the leaf, without gaps.
fn items(leaf: &Step, last: &mut Option<Key>, take: Take<'_>) -> Result<(), Refusal> {
    let mut end = leaf.node.len() - HEADER;
    for number in 0..leaf.count {
        let at = HEADER + ITEM * number;
        let key = Key::parse(&leaf.node, at)?;
        corrupt_if(last.is_some_and(|last| last >= key), "keys that do not rise")?;
        *last = Some(key);
        let offset = le32(&leaf.node, at + Key::SIZE)? as usize;
        let len = le32(&leaf.node, at + Key::SIZE + 4)? as usize;
        let gap = offset.checked_add(len) != Some(end) || offset < ITEM * leaf.count;
        corrupt_if(gap, "items that do not fill their leaf")?;
        end = offset;
        take(key, bytes::slice(&leaf.node, HEADER + offset, len)?)?;
    }
    Ok(())
}
