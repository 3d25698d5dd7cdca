//! What FAT and exFAT share: one bit for each cluster, a table of links that is read by pages, and runs of free clusters.
//!
//! Clusters are numbered from 2, as on the disk.

use crate::bytes;
use crate::extents::ExtentSet;
use crate::image::View;
use crate::refusal::{Refusal, corrupt_if, over_budget_if};

/// The first number that a cluster has.
pub(super) const FIRST: u32 = 2;

/// The most clusters that are looked at: 2 TiB of FAT32 with clusters of 32 KiB. Two bits for each are 16 MiB of memory.
const MOST_CLUSTERS: u32 = 1 << 26;

/// The most directories that wait to be looked at.
const MOST_PENDING: usize = 1 << 19;

/// How deep directories are followed.
const DEEPEST: u32 = 256;

/// How many pages of a table of links are kept: 4 MiB.
const SLOTS: u64 = 1024;

/// How much of a table is looked at together when all of it is, in bytes. One of 12 bits is shorter than that, so no
/// entry reaches over the end of a piece.
const PIECE: u64 = 256 << 10;

/// One bit for each cluster.
pub(super) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// All clear, for this many clusters.
    pub(super) fn new(clusters: u32) -> Result<Bits, Refusal> {
        over_budget_if(clusters > MOST_CLUSTERS, "clusters")?;
        Ok(Bits { words: vec![0; (clusters as usize + FIRST as usize).div_ceil(64)] })
    }

    /// Sets the bit of a cluster; whether it was clear. Those of clusters that do not exist never are.
    #[must_use]
    pub(super) fn claim(&mut self, cluster: u32) -> bool {
        let Some(word) = self.words.get_mut(cluster as usize / 64) else { return false };
        let was_clear = *word >> (cluster % 64) & 1 == 0;
        *word |= 1 << (cluster % 64);
        was_clear
    }

    /// Whether every bit that is set here is set there too.
    pub(super) fn is_subset_of(&self, other: &Bits) -> bool {
        self.words.iter().zip(&other.words).all(|(mine, theirs)| mine & !theirs == 0)
    }
}

/// How many bits an entry of a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// Two entries in three bytes.
    Twelve = 12,
    Sixteen = 16,
    ThirtyTwo = 32,
}

impl Width {
    /// How long a table of so many entries is, in bytes.
    pub(super) fn table(self, entries: u64) -> u64 {
        (entries * self as u64).div_ceil(8)
    }

    /// How many entries a table of so many bytes has, at most.
    fn entries(self, bytes: u64) -> u32 {
        u32::try_from(bytes * 8 / self as u64).unwrap_or(u32::MAX)
    }

    /// Where in the table an entry begins, in bytes.
    fn offset(self, number: u64) -> u64 {
        number * self as u64 / 8
    }

    /// The entry at `offset` of a piece, for a cluster.
    fn decode(self, piece: &[u8], offset: usize, cluster: u32) -> Result<u32, Refusal> {
        Ok(match self {
            Width::Twelve if cluster.is_multiple_of(2) => u32::from(bytes::le16(piece, offset)? & 0xfff),
            Width::Twelve => u32::from(bytes::le16(piece, offset)? >> 4),
            Width::Sixteen => u32::from(bytes::le16(piece, offset)?),
            Width::ThirtyTwo => bytes::le32(piece, offset)?,
        })
    }

    /// How much of a table is read at once for one entry, in bytes. No entry reaches over the end of a page: a table of 12 bits is
    /// shorter than its page.
    fn page(self) -> u64 {
        match self {
            Width::Twelve => 16384,
            Width::Sixteen | Width::ThirtyTwo => 4096,
        }
    }
}

/// A table of links, one entry for each cluster, of which the pages in use are kept.
pub(super) struct Table<'a> {
    region: View<'a>,
    start: u64,
    bytes: u64,
    /// The number behind that of the last entry.
    behind: u32,
    width: Width,
    slots: Vec<Option<(u64, Vec<u8>)>>,
}

impl<'a> Table<'a> {
    /// The table at `start` of the region, for so many clusters.
    pub(super) fn new(region: &View<'a>, start: u64, clusters: u32, width: Width) -> Table<'a> {
        let bytes = width.table(u64::from(clusters) + u64::from(FIRST));
        let slots = (0..bytes.div_ceil(width.page()).min(SLOTS)).map(|_| None).collect();
        let behind = clusters.saturating_add(FIRST);
        Table { region: region.clone(), start, bytes, behind, width, slots }
    }

    /// The entry of a cluster (or of the two numbers before the first one) as it is on the disk.
    pub(super) fn entry(&mut self, cluster: u32) -> Result<u32, Refusal> {
        let width = self.width;
        let at = width.offset(u64::from(cluster));
        let page = self.page(at / width.page())?;
        width.decode(page, (at % width.page()) as usize, cluster)
    }

    /// Looks at the whole table: whether those that begin at `copies` say the same, byte for byte, and hands the entry
    /// of each cluster to `see` unless it is zero.
    pub(super) fn scan(
        &self,
        copies: &[u64],
        mut see: impl FnMut(u32, u32) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut cluster = 0_u32;
        for at in (0..self.bytes).step_by(PIECE as usize) {
            let len = (self.bytes - at).min(PIECE);
            self.region.budget().take_node()?;
            let piece = self.region.read(bytes::sum(self.start, at)?, len as usize)?;
            for copy in copies {
                let differ = piece != self.region.read(bytes::sum(*copy, at)?, len as usize)?;
                corrupt_if(differ, "the copies of the table differ")?;
            }
            let behind = if at + len == self.bytes { self.behind } else { self.width.entries(at + len) };
            if piece.iter().all(|byte| *byte == 0) {
                cluster = behind;
            }
            while cluster < behind {
                let entry =
                    self.width.decode(&piece, (self.width.offset(u64::from(cluster)) - at) as usize, cluster)?;
                if entry != 0 && cluster >= FIRST {
                    see(cluster, entry)?;
                }
                cluster += 1;
            }
        }
        Ok(())
    }

    fn page(&mut self, number: u64) -> Result<&Vec<u8>, Refusal> {
        let outside = || Refusal::corrupt("a link lies outside its table");
        let page_len = self.width.page();
        let left = self.bytes.checked_sub(number * page_len).filter(|left| *left > 0).ok_or_else(outside)?;
        let slot = self.slots.get_mut((number % SLOTS) as usize).ok_or_else(outside)?;
        let kept = slot.take().filter(|(have, _)| *have == number);
        let page = match kept {
            Some(page) => page,
            None => {
                self.region.budget().take_node()?;
                let at = bytes::sum(self.start, number * page_len)?;
                (number, self.region.read(at, left.min(page_len) as usize)?)
            }
        };
        Ok(&slot.insert(page).1)
    }
}

/// Where the clusters lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Heap {
    /// The offset of the first cluster in the region, in bytes.
    pub(super) start: u64,
    /// The size of a cluster in bytes.
    pub(super) cluster: u64,
    /// How many there are.
    pub(super) count: u32,
}

impl Heap {
    /// Whether a cluster of this number exists.
    pub(super) fn has(&self, cluster: u32) -> bool {
        (FIRST..self.behind()).contains(&cluster)
    }

    /// The number behind the last one.
    pub(super) fn behind(&self) -> u32 {
        self.count + FIRST
    }

    /// The offset of a cluster that exists, in bytes.
    pub(super) fn offset(&self, cluster: u32) -> Result<u64, Refusal> {
        corrupt_if(!self.has(cluster), format_args!("cluster {cluster} does not exist"))?;
        bytes::sum(self.start, bytes::product(u64::from(cluster - FIRST), self.cluster)?)
    }

    /// How many clusters so many bytes need.
    pub(super) fn needed(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.cluster)
    }

    /// The bytes of the clusters whose bits are clear.
    pub(super) fn free(&self, used: &Bits, most: usize) -> Result<ExtentSet, Refusal> {
        let mut free = ExtentSet::new();
        for (word, at) in used.words.iter().zip((0..).step_by(64)) {
            for run in bytes::runs_of_ones(!word) {
                // The numbers of clusters have 32 bits.
                let (from, end) = ((at + run.start as u32).max(FIRST), (at + run.end as u32).min(self.behind()));
                if from < end {
                    let start = self.offset(from)?;
                    free.push(start..bytes::sum(start, bytes::product(u64::from(end - from), self.cluster)?)?);
                    over_budget_if(free.count() > most, "free extents")?;
                }
            }
        }
        Ok(free)
    }
}

/// Directories that are found and not yet looked at.
pub(super) struct Pending<T> {
    found: Vec<(T, u32)>,
}

impl<T> Pending<T> {
    pub(super) fn root(root: T) -> Pending<T> {
        Pending { found: vec![(root, 0)] }
    }

    /// The next one, and how deep it lies.
    pub(super) fn take(&mut self) -> Option<(T, u32)> {
        self.found.pop()
    }

    /// One more, found in a directory that lies so deep. Refused if it lies too deep, or too many wait.
    pub(super) fn add(&mut self, directory: T, parent_depth: u32) -> Result<(), Refusal> {
        over_budget_if(parent_depth >= DEEPEST, "depth of directories")?;
        over_budget_if(self.found.len() >= MOST_PENDING, "directories")?;
        self.found.push((directory, parent_depth + 1));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::image::Session;

    #[test]
    fn free_clusters_become_runs_of_bytes() {
        let heap = Heap { start: 1000, cluster: 10, count: 6 };
        let mut used = Bits::new(6).unwrap();
        assert!(used.claim(4) && used.claim(5));
        assert!(!used.claim(5));
        let free = heap.free(&used, 2).unwrap();
        assert_eq!(free, ExtentSet::from_ranges([1000..1020, 1040..1060]));
        assert_eq!(heap.free(&used, 1), Err(Refusal::Budget("free extents")));
        assert_eq!(heap.free(&Bits::new(6).unwrap(), 1).unwrap(), ExtentSet::of(1000..1060));
    }

    #[test]
    fn clusters_that_do_not_exist_are_never_claimed() {
        let mut bits = Bits::new(6).unwrap();
        assert!(!bits.claim(u32::MAX));
        let heap = Heap { start: 0, cluster: 1, count: 6 };
        assert!(heap.offset(1).is_err() && heap.offset(8).is_err() && heap.offset(7) == Ok(5));
        assert_eq!(Bits::new(u32::MAX).err(), Some(Refusal::Budget("clusters")));
    }

    #[test]
    fn a_scan_sees_every_entry_that_is_not_zero() {
        let mut image = vec![0_u8; 1 << 20];
        // The first cluster, the last and first ones of two pieces, the last one of all.
        let numbers = [2_u32, 65535, 65536, 200_000, 200_001];
        for number in numbers {
            image[number as usize * 4 + 100] = 9;
        }
        let session = Session::new(&image, Budget::for_image(1 << 20));
        let mut table = Table::new(&session.view(), 100, 200_000, Width::ThirtyTwo);
        let mut seen = Vec::new();
        table
            .scan(&[], |cluster, entry| {
                seen.push((cluster, entry));
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, numbers.map(|number| (number, 9)));
        assert!(numbers.iter().all(|number| table.entry(*number) == Ok(9)));
        let mut twelve = Table::new(&session.view(), 99, 4000, Width::Twelve);
        let mut seen = Vec::new();
        twelve
            .scan(&[], |cluster, entry| {
                seen.push((cluster, entry));
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, [(6, 9)]);
        assert_eq!(twelve.entry(6), Ok(9));
    }

    #[test]
    fn directories_have_a_depth() {
        let mut pending = Pending::root(0_u32);
        for _ in 0..DEEPEST {
            let (_, depth) = pending.take().unwrap();
            pending.add(1, depth).unwrap();
        }
        let (_, depth) = pending.take().unwrap();
        assert_eq!(pending.add(1, depth), Err(Refusal::Budget("depth of directories")));
    }

    #[test]
    fn entries_of_every_width_are_read() {
        let image: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
        let session = Session::new(&image, Budget::for_image(1 << 20));
        let mut twelve = Table::new(&session.view(), 1, 100, Width::Twelve);
        assert_eq!((twelve.entry(0), twelve.entry(1), twelve.entry(2)), (Ok(0x201), Ok(0x030), Ok(0x504)));
        let mut wide = Table::new(&session.view(), 4, 49_000, Width::ThirtyTwo);
        assert_eq!(wide.entry(40_000), Ok(u32::from_le_bytes(std::array::from_fn(|i| image[160_004 + i]))));
        assert!(wide.entry(49_002).is_err());
        assert!(wide.scan(&[4], |_, _| Ok(())).is_ok() && wide.scan(&[5], |_, _| Ok(())).is_err());
    }
}
