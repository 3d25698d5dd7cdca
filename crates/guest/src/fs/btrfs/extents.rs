//! The extent tree: which logical addresses are allocated, and what lies between them.

use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;

use super::chunks::{Chunk, Chunks, DATA, METADATA, SYSTEM};
use super::key::{Key, kind};
use super::superblock::Superblock;
use crate::bytes::{self, le64};
use crate::refusal::{OrRefuse, Refusal, corrupt_if, over_budget_if};

const IS_DATA: u64 = 1;
const IS_TREE_BLOCK: u64 = 2;
/// The fields of an extent that all have: references, generation, flags.
const FIXED: usize = 24;
const HIGHEST_LEVEL: u64 = 7;

/// A sequence of free runs, as a number that two trees that tell it differently must agree on.
#[derive(Default)]
pub struct Runs {
    hasher: DefaultHasher,
    open: Option<Range<u64>>,
    count: u64,
}

impl Runs {
    /// Adds a run behind all others; one that touches the last in the same chunk continues it.
    pub fn push(&mut self, run: Range<u64>) -> Result<(), Refusal> {
        match &mut self.open {
            Some(open) if run.start < open.end => return Err(Refusal::corrupt("free space twice")),
            Some(open) if run.start == open.end => open.end = run.end,
            _ => {
                self.close();
                self.open = Some(run);
            }
        }
        Ok(())
    }

    /// Ends a chunk: what comes next does not continue its last run.
    pub fn close(&mut self) {
        if let Some(run) = self.open.take() {
            self.hasher.write_u64(run.start);
            self.hasher.write_u64(run.end);
            self.count += 1;
        }
    }

    pub fn count(&self) -> u64 {
        self.count + u64::from(self.open.is_some())
    }

    /// A number that another sequence has only by chance.
    pub fn digest(mut self) -> u64 {
        self.close();
        self.hasher.write_u64(self.count);
        self.hasher.finish()
    }
}

/// What of each chunk is allocated.
#[derive(Default)]
pub struct Allocation {
    /// How much of each chunk, in bytes, in their order.
    pub used: Vec<u64>,
    /// What of the device lies in a chunk and in no extent.
    pub free: Vec<Range<u64>>,
    /// The same in logical addresses.
    pub runs: Runs,
    /// How much of each chunk its block group says, unless block groups have a tree of their own.
    pub groups: Vec<u64>,
}

/// Takes the extents of the tree one by one.
pub struct ExtentTree<'a> {
    chunks: &'a Chunks,
    sb: &'a Superblock,
    most: usize,
    done: Allocation,
    /// Behind the last extent of the chunk that is being looked at.
    at: Option<u64>,
    /// The last extent, to which references may follow.
    last: Option<u64>,
}

impl<'a> ExtentTree<'a> {
    /// Nothing taken yet; at most `most` free ranges will be held.
    pub fn new(chunks: &'a Chunks, sb: &'a Superblock, most: usize) -> ExtentTree<'a> {
        ExtentTree { chunks, sb, most, done: Allocation::default(), at: None, last: None }
    }

    /// Takes the next item. An extent must lie behind the last, in a chunk of its kind.
    pub fn push(&mut self, key: Key, item: &[u8]) -> Result<(), Refusal> {
        match key.kind {
            kind::EXTENT | kind::METADATA => self.extent(key, item),
            kind::TREE_BLOCK_REF | kind::EXTENT_DATA_REF | kind::SHARED_BLOCK_REF | kind::SHARED_DATA_REF => {
                corrupt_if(self.last != Some(key.objectid), "a reference to no extent")
            }
            kind::BLOCK_GROUP if !self.sb.has_block_group_tree => {
                take_group(self.chunks, &mut self.done.groups, key, item)
            }
            other => Err(Refusal::corrupt(format!("an item of kind {other} in the extent tree"))),
        }
    }

    fn extent(&mut self, key: Key, item: &[u8]) -> Result<(), Refusal> {
        let impossible = item.len() < FIXED || le64(item, 0)? == 0 || le64(item, 8)? > self.sb.generation;
        corrupt_if(impossible, "an impossible extent")?;
        let what = le64(item, 16)? & (IS_DATA | IS_TREE_BLOCK);
        let (len, fits) = if key.kind == kind::METADATA {
            (self.sb.node, what == IS_TREE_BLOCK && key.offset <= HIGHEST_LEVEL)
        } else if what == IS_TREE_BLOCK {
            (key.offset, key.offset == self.sb.node)
        } else {
            (key.offset, what == IS_DATA)
        };
        let impossible = !fits || len == 0 || !self.sb.whole_sectors(key.objectid) || !self.sb.whole_sectors(len);
        corrupt_if(impossible, "an extent of impossible size or kind")?;
        let end = bytes::sum(key.objectid, len)?;
        let chunk = self.advance_to(key.objectid)?;
        let at = self.at.unwrap_or(chunk.start);
        corrupt_if(key.objectid < at || end > chunk.end(), "an extent that overlaps another or lies in no chunk")?;
        let home = if what == IS_DATA { DATA } else { METADATA | SYSTEM };
        corrupt_if(chunk.flags & home == 0, "an extent in a chunk of another kind")?;
        self.gap(chunk, at..key.objectid)?;
        self.at = Some(end);
        self.last = Some(key.objectid);
        *self.used() += len;
        Ok(())
    }

    /// How much of the current chunk is used so far.
    fn used(&mut self) -> &mut u64 {
        if self.done.used.is_empty() {
            self.done.used.push(0);
        }
        // One was just pushed if there was none.
        let last = self.done.used.len() - 1;
        &mut self.done.used[last]
    }

    /// Ends all chunks that end at or before an address; the next one.
    fn advance_to(&mut self, address: u64) -> Result<&'a Chunk, Refusal> {
        loop {
            self.used();
            let current = self.chunks.get(self.done.used.len() - 1);
            let chunk = current.or_corrupt("an extent behind all chunks")?;
            if address < chunk.end() {
                return Ok(chunk);
            }
            self.gap(chunk, self.at.unwrap_or(chunk.start)..chunk.end())?;
            self.done.runs.close();
            self.at = None;
            self.done.used.push(0);
        }
    }

    fn gap(&mut self, chunk: &Chunk, gap: Range<u64>) -> Result<(), Refusal> {
        if gap.is_empty() {
            return Ok(());
        }
        self.done.runs.push(gap.clone())?;
        self.done.free.extend(chunk.on_device(gap));
        over_budget_if(self.done.free.len() > self.most, "free extents")
    }

    /// Ends the last chunks. All extents together must be what the superblock says is used.
    pub fn finish(mut self) -> Result<Allocation, Refusal> {
        if let Some(last) = self.chunks.iter().last() {
            let before = last.end() - 1;
            let chunk = self.advance_to(before)?;
            self.gap(chunk, self.at.unwrap_or(chunk.start)..chunk.end())?;
            self.done.runs.close();
        }
        let differs = self.done.used.iter().sum::<u64>() != self.sb.bytes_used;
        corrupt_if(differs, "the extents are not as long as the superblock says")?;
        Ok(self.done)
    }
}

/// Takes the block group of the next chunk: how much of that is `used`.
pub fn take_group(chunks: &Chunks, used: &mut Vec<u64>, key: Key, item: &[u8]) -> Result<(), Refusal> {
    let chunk = chunks.get(used.len());
    let fits = chunk
        .is_some_and(|chunk| key.kind == kind::BLOCK_GROUP && chunk.start == key.objectid && chunk.len == key.offset);
    let disagree = !fits || item.len() != FIXED || chunk.map(|chunk| chunk.flags) != Some(le64(item, 16)?);
    corrupt_if(disagree, "block groups and chunks disagree")?;
    used.push(le64(item, 0)?);
    Ok(())
}
