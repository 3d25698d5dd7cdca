//! What FAT and exFAT share: one bit for each cluster, a table of links that is read by pages, and runs of free clusters.
//!
//! Clusters are numbered from 2, as on the disk.

use crate::bytes;
use crate::extents::ExtentSet;
use crate::image::View;
use crate::refusal::Refusal;

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

/// One bit for each cluster.
pub(super) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// All clear, for this many clusters.
    ///
    /// # Errors
    /// If that are too many.
    pub(super) fn new(clusters: u32) -> Result<Bits, Refusal> {
        if clusters > MOST_CLUSTERS {
            return Err(Refusal::Budget("clusters"));
        }
        Ok(Bits { words: vec![0; (clusters as usize + FIRST as usize).div_ceil(64)] })
    }

    /// Whether the bit of a cluster is set. Those of clusters that do not exist are not.
    pub(super) fn has(&self, cluster: u32) -> bool {
        self.words.get(cluster as usize / 64).is_some_and(|word| word >> (cluster % 64) & 1 != 0)
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
    Twelve,
    /// Two bytes.
    Sixteen,
    /// Four bytes.
    ThirtyTwo,
}

impl Width {
    /// How long a table of so many entries is, in bytes.
    pub(super) fn table(self, entries: u64) -> u64 {
        match self {
            Width::Twelve => (entries * 3).div_ceil(2),
            Width::Sixteen => entries * 2,
            Width::ThirtyTwo => entries * 4,
        }
    }

    /// How much of a table is read at once, in bytes. No entry reaches over the end of a page: a table of 12 bits is
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
    width: Width,
    slots: Vec<Option<(u64, Vec<u8>)>>,
}

impl<'a> Table<'a> {
    /// The table at `start` of the region, for so many clusters.
    pub(super) fn new(region: &View<'a>, start: u64, clusters: u32, width: Width) -> Table<'a> {
        let bytes = width.table(u64::from(clusters) + u64::from(FIRST));
        let slots = (0..bytes.div_ceil(width.page()).min(SLOTS)).map(|_| None).collect();
        Table { region: region.clone(), start, bytes, width, slots }
    }

    /// The entry of a cluster (or of the two numbers before the first one) as it is on the disk.
    ///
    /// # Errors
    /// If it cannot be read, or too many pages were read again and again.
    pub(super) fn entry(&mut self, cluster: u32) -> Result<u32, Refusal> {
        let number = u64::from(cluster);
        let at = match self.width {
            Width::Twelve => number * 3 / 2,
            Width::Sixteen => number * 2,
            Width::ThirtyTwo => number * 4,
        };
        let width = self.width;
        let inside = (at % width.page()) as usize;
        let page = self.page(at / width.page())?;
        Ok(match width {
            Width::Twelve if number % 2 == 0 => u32::from(bytes::le16(page, inside)? & 0xfff),
            Width::Twelve => u32::from(bytes::le16(page, inside)? >> 4),
            Width::Sixteen => u32::from(bytes::le16(page, inside)?),
            Width::ThirtyTwo => bytes::le32(page, inside)?,
        })
    }

    /// Whether the table at `start` says the same, byte for byte.
    ///
    /// # Errors
    /// If either cannot be read.
    pub(super) fn equals(&mut self, start: u64) -> Result<bool, Refusal> {
        let (region, page_len) = (self.region.clone(), self.width.page());
        for number in 0..self.bytes.div_ceil(page_len) {
            let page = self.page(number)?;
            if *page != region.read(bytes::sum(start, number * page_len)?, page.len())? {
                return Ok(false);
            }
        }
        Ok(true)
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
    ///
    /// # Errors
    /// If it does not.
    pub(super) fn offset(&self, cluster: u32) -> Result<u64, Refusal> {
        if !self.has(cluster) {
            return Err(Refusal::corrupt(format!("cluster {cluster} does not exist")));
        }
        bytes::sum(self.start, bytes::product(u64::from(cluster - FIRST), self.cluster)?)
    }

    /// How many clusters so many bytes need.
    pub(super) fn needed(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.cluster)
    }

    /// The bytes of the clusters whose bits are clear.
    ///
    /// # Errors
    /// If they are too many extents.
    pub(super) fn free(&self, used: &Bits, most: usize) -> Result<ExtentSet, Refusal> {
        let mut free = ExtentSet::new();
        let mut from = FIRST;
        while from < self.behind() {
            let end = (from..self.behind()).find(|cluster| used.has(*cluster)).unwrap_or(self.behind());
            if end > from {
                let len = bytes::product(u64::from(end - from), self.cluster)?;
                let start = self.offset(from)?;
                free.push(start..bytes::sum(start, len)?);
                if free.count() > most {
                    return Err(Refusal::Budget("free extents"));
                }
            }
            from = end + 1;
        }
        Ok(free)
    }
}

/// Directories that are found and not yet looked at.
pub(super) struct Pending<T> {
    found: Vec<(T, u32)>,
}

impl<T> Pending<T> {
    /// Only the root.
    pub(super) fn root(root: T) -> Pending<T> {
        Pending { found: vec![(root, 0)] }
    }

    /// The next one, and how deep it lies.
    pub(super) fn take(&mut self) -> Option<(T, u32)> {
        self.found.pop()
    }

    /// One more, found in a directory that lies so deep.
    ///
    /// # Errors
    /// If it lies too deep, or too many wait.
    pub(super) fn add(&mut self, directory: T, parent_depth: u32) -> Result<(), Refusal> {
        if parent_depth >= DEEPEST {
            return Err(Refusal::Budget("depth of directories"));
        }
        if self.found.len() >= MOST_PENDING {
            return Err(Refusal::Budget("directories"));
        }
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
    fn clusters_that_do_not_exist_are_neither_had_nor_claimed() {
        let mut bits = Bits::new(6).unwrap();
        assert!(!bits.has(u32::MAX) && !bits.claim(u32::MAX));
        let heap = Heap { start: 0, cluster: 1, count: 6 };
        assert!(heap.offset(1).is_err() && heap.offset(8).is_err() && heap.offset(7) == Ok(5));
        assert_eq!(Bits::new(u32::MAX).err(), Some(Refusal::Budget("clusters")));
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
        assert!(wide.equals(4).unwrap() && !wide.equals(5).unwrap());
    }
}
