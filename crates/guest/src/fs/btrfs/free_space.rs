//! The free space tree: a second account of what the extent tree says, kept beside it.
//!
//! It is never believed alone. Where it is up to date it must say exactly what the extent tree says.

use std::ops::Range;

use super::chunks::Chunks;
use super::extents::Runs;
use super::key::{Key, kind};
use super::superblock::Superblock;
use crate::bytes::{self, le32};
use crate::refusal::{Refusal, corrupt_if};

const USES_BITMAPS: u32 = 1;
const INFO: usize = 8;

/// Takes the items of the tree one by one.
pub struct FreeSpaceTree<'a> {
    chunks: &'a Chunks,
    sb: &'a Superblock,
    /// How many chunks have begun.
    begun: usize,
    /// Where what the items speak of begins and ends.
    place: Range<u64>,
    /// That is no chunk.
    gone: bool,
    bitmaps: bool,
    /// How many runs there will be when it has ended.
    expected: u64,
    runs: Runs,
}

impl<'a> FreeSpaceTree<'a> {
    pub fn new(chunks: &'a Chunks, sb: &'a Superblock) -> FreeSpaceTree<'a> {
        let runs = Runs::default();
        FreeSpaceTree { chunks, sb, begun: 0, place: 0..0, gone: false, bitmaps: false, expected: 0, runs }
    }

    /// Takes the next item, which must belong to the chunk whose turn it is.
    pub fn push(&mut self, key: Key, item: &[u8]) -> Result<(), Refusal> {
        let end = bytes::sum(key.objectid, key.offset)?;
        if key.kind == kind::FREE_SPACE_INFO {
            return self.begin(key.objectid..end, item);
        }
        let misplaced = end > self.place.end || key.offset == 0 || !self.sb.whole_sectors(key.objectid | end);
        corrupt_if(misplaced, "free space outside its chunk")?;
        if self.gone {
            return Ok(());
        }
        match (key.kind, self.bitmaps) {
            (kind::FREE_SPACE_EXTENT, false) if item.is_empty() => self.runs.push(key.objectid..end),
            (kind::FREE_SPACE_BITMAP, true) => self.bitmap(key, item),
            _ => Err(Refusal::corrupt("an odd item in the free space tree")),
        }
    }

    /// Begins a chunk, or the place of one that is gone: mkfs.btrfs (as of 6.2) forgets to delete the free space of its
    /// first, temporary chunks.
    fn begin(&mut self, place: Range<u64>, item: &[u8]) -> Result<(), Refusal> {
        self.check_count()?;
        let (count, flags) = (le32(item, 0)?, le32(item, 4)?);
        let odd = place.start < self.place.end || item.len() != INFO || flags & !USES_BITMAPS != 0;
        corrupt_if(odd, "an odd chunk in the free space tree")?;
        match self.chunks.get(self.begun) {
            Some(chunk) if chunk.start == place.start && chunk.end() == place.end => {
                self.begun += 1;
                self.gone = false;
                self.expected += u64::from(count);
            }
            Some(chunk) if chunk.start < place.end => {
                return Err(Refusal::corrupt("free space tree and chunks disagree"));
            }
            _ => self.gone = true,
        }
        self.place = place;
        self.bitmaps = flags == USES_BITMAPS;
        Ok(())
    }

    /// A bit for each sector, set if it is free.
    fn bitmap(&mut self, key: Key, item: &[u8]) -> Result<(), Refusal> {
        let sectors = key.offset / self.sb.sector;
        corrupt_if(sectors.div_ceil(8) != item.len() as u64, "a bitmap of free space has a wrong size")?;
        let bits = item.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
        for (sector, free) in (0..sectors).zip(bits) {
            if free {
                let start = key.objectid + sector * self.sb.sector;
                self.runs.push(start..start + self.sb.sector)?;
            }
        }
        Ok(())
    }

    fn check_count(&mut self) -> Result<(), Refusal> {
        self.runs.close();
        if self.runs.count() == self.expected {
            Ok(())
        } else {
            Err(Refusal::corrupt("the free space tree miscounts itself"))
        }
    }

    /// Ends the last chunk; all free runs.
    pub fn finish(mut self) -> Result<Runs, Refusal> {
        self.check_count()?;
        corrupt_if(self.chunks.get(self.begun).is_some(), "the free space tree lacks a chunk")?;
        Ok(self.runs)
    }
}
