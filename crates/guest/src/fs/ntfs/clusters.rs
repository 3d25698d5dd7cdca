//! Which clusters the files of a volume have.

use crate::refusal::{OrRefuse, Refusal, over_budget_if};

const LEAF: u64 = 4096;

/// Leaves that are held, 512 bytes each: 32 MiB, and as many clusters as 1 TiB of 4 KiB has, in the parts of the
/// volume that are neither free nor used throughout.
const MOST_LEAVES: usize = 1 << 16;

const FREE: u32 = 0;
const FULL: u32 = 1;

/// A set of clusters: a bit for each, but only where some are in it and others are not.
pub(super) struct ClusterSet {
    /// For each 4096 clusters: none, all, or two more than the number of a leaf.
    pages: Vec<u32>,
    #[expect(clippy::vec_box, reason = "a vector of leaves would need twice the memory while it grows")]
    leaves: Vec<Box<Leaf>>,
    spare: Vec<u32>,
    clusters: u64,
}

struct Leaf {
    count: u64,
    words: [u64; (LEAF / 64) as usize],
}

impl ClusterSet {
    /// None of `clusters`, of which there are at most 2^32.
    pub fn new(clusters: u64) -> ClusterSet {
        let pages = vec![FREE; clusters.div_ceil(LEAF) as usize];
        ClusterSet { pages, leaves: Vec::new(), spare: Vec::new(), clusters }
    }

    /// The memory that it takes, in bytes, or a little more.
    pub fn memory(&self) -> usize {
        4 * self.pages.len() + 560 * self.leaves.len()
    }

    /// Adds clusters that must not be in it.
    pub fn add(&mut self, start: u64, len: u64) -> Result<(), Refusal> {
        let end =
            start.checked_add(len).filter(|end| *end <= self.clusters).or_corrupt("a run lies outside the volume")?;
        let mut at = start;
        while at < end {
            let page = at / LEAF;
            let behind = end.min((page + 1) * LEAF);
            self.add_in_page(page, at % LEAF, behind - at)?;
            at = behind;
        }
        Ok(())
    }

    fn add_in_page(&mut self, page: u64, from: u64, len: u64) -> Result<(), Refusal> {
        let twice = || Refusal::corrupt(format!("cluster {} or one behind it is used twice", page * LEAF + from));
        let entry = self.pages.get(page as usize).copied().ok_or_else(twice)?;
        let number = match entry {
            FULL => return Err(twice()),
            FREE if len == LEAF => {
                self.put(page, FULL);
                return Ok(());
            }
            FREE => self.new_leaf()?,
            leaf => leaf - 2,
        };
        let leaf = self.leaves.get_mut(number as usize).ok_or_else(twice)?;
        leaf.add(from, len).ok_or_else(twice)?;
        if leaf.count == LEAF {
            self.spare.push(number);
            self.put(page, FULL);
        } else {
            self.put(page, number + 2);
        }
        Ok(())
    }

    fn put(&mut self, page: u64, entry: u32) {
        if let Some(place) = self.pages.get_mut(page as usize) {
            *place = entry;
        }
    }

    fn new_leaf(&mut self) -> Result<u32, Refusal> {
        if let Some(number) = self.spare.pop() {
            if let Some(leaf) = self.leaves.get_mut(number as usize) {
                **leaf = Leaf::EMPTY;
            }
            return Ok(number);
        }
        over_budget_if(self.leaves.len() == MOST_LEAVES, "memory for a volume of this size")?;
        self.leaves.push(Box::new(Leaf::EMPTY));
        Ok(self.leaves.len() as u32 - 1)
    }

    /// The 64 clusters from `64 * index`, the first in the lowest bit. What is behind the volume is not in it.
    pub fn word(&self, index: u64) -> u64 {
        let of_leaf = (LEAF / 64) as usize;
        let index = index as usize;
        match self.pages.get(index / of_leaf) {
            None | Some(&FREE) => 0,
            Some(&FULL) => u64::MAX,
            Some(leaf) => {
                let leaf = self.leaves.get((leaf - 2) as usize);
                leaf.and_then(|leaf| leaf.words.get(index % of_leaf)).copied().unwrap_or(0)
            }
        }
    }
}

impl Leaf {
    const EMPTY: Leaf = Leaf { count: 0, words: [0; (LEAF / 64) as usize] };

    /// Adds clusters; `None` if one is there already.
    fn add(&mut self, from: u64, len: u64) -> Option<()> {
        let end = from + len;
        let mut at = from;
        while at < end {
            let behind = end.min((at / 64 + 1) * 64);
            let mask = (u64::MAX >> (64 - (behind - at))) << (at % 64);
            let word = self.words.get_mut((at / 64) as usize)?;
            if *word & mask != 0 {
                return None;
            }
            *word |= mask;
            at = behind;
        }
        self.count += len;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_set_of_clusters_that_are_added_once() {
        let total = 5 * LEAF + 100;
        let mut set = ClusterSet::new(total);
        let mut model = vec![false; total as usize];
        for (start, len) in [(0, 1), (63, 2), (1, 62), (4000, 9000), (3000, 1), (65, 2935), (3001, 999), (20_500, 80)] {
            set.add(start, len).unwrap();
            model[start as usize..(start + len) as usize].fill(true);
            for cluster in 0..total {
                let bit = set.word(cluster / 64) >> (cluster % 64) & 1 == 1;
                assert_eq!(bit, model[cluster as usize], "{cluster}");
            }
        }
        assert!(set.leaves.len() < 5);
        for (start, len) in [(0, 1), (12_999, 5), (5000, 1), (20_400, 101), (total, 1), (1, u64::MAX)] {
            assert!(set.add(start, len).is_err(), "{start} {len}");
        }
    }
}
