//! Partitions, and what the tables of a disk say of them.

use crate::extents::{Extent, ExtentSet};
use crate::image::View;
use crate::refusal::{Refusal, over_budget_if};

/// The most partitions of an image, whatever its tables say.
const MOST: usize = 256;

/// What a table says is in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// Nothing that matters: its signatures tell.
    Look,
    /// Something that only its owner understands.
    Opaque(&'static str),
    /// The entry makes no sense: the bytes have an owner, and nothing is known of them.
    Broken(Refusal),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Its name for people: "GPT partition 2".
    pub place: String,
    /// Where it is, as far as that is inside the disk.
    pub extent: Extent,
    pub claim: Claim,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tables {
    /// The kinds of tables found: "gpt", "dos".
    pub kinds: Vec<&'static str>,
    /// All partitions of all tables, by their start; each range once. They may overlap.
    pub partitions: Vec<Partition>,
    /// The bytes of the tables themselves.
    pub tables: ExtentSet,
    /// They are the two copies of a GPT without its protective MBR, which no system believes. What they say holds if every
    /// partition is a filesystem that is whole: nothing else has come to this disk then.
    pub unprotected: bool,
    /// An entry says that its partition has a hash tree of dm-verity, or the signature of one.
    pub names_verity: bool,
}

impl Tables {
    /// Adds the partition of the `sectors` from `first` on, cut at the end of the disk.
    pub(super) fn add(&mut self, disk: u64, sector: u64, place: String, first: u64, sectors: u64, claim: Claim) {
        let start = first.saturating_mul(sector);
        let end = first.saturating_add(sectors).saturating_mul(sector);
        if start >= disk || start >= end {
            return; // no byte of this disk
        }
        let claim = if end > disk { Claim::Broken(Refusal::corrupt("ends beyond the disk")) } else { claim };
        let extent = Extent { start, len: end.min(disk) - start };
        self.partitions.push(Partition { place, extent, claim });
    }

    pub(super) fn add_table(&mut self, disk: u64, start: u64, len: u64) {
        self.tables.insert(start..start.saturating_add(len).min(disk));
    }

    /// Doubts the first `count` partitions, which a GPT names that no entry of the MBR protects. No system believes it:
    /// it may be what was left at the end of a disk when something unknown was put there. So its partitions have an
    /// owner of whom nothing is known, unless they lie in one of the MBR.
    pub(super) fn doubt_unprotected(&mut self, count: usize) {
        let (unprotected, others) = self.partitions.split_at_mut(count);
        for partition in unprotected {
            let extent = partition.extent;
            let around = |other: &Partition| other.extent.start <= extent.start && extent.end() <= other.extent.end();
            if !others.iter().any(around) {
                partition.claim = Claim::Broken(Refusal::corrupt("a GPT without its protective MBR"));
            }
        }
    }

    /// One partition for each range: tables that agree say the same.
    pub(super) fn settle(&mut self) -> Result<(), Refusal> {
        // Stable: of the same range, the first table's word comes first.
        self.partitions.sort_by_key(|partition| partition.extent);
        self.partitions.dedup_by(|later, first| {
            let same = later.extent == first.extent;
            if same && first.claim == Claim::Look {
                first.claim = later.claim.clone();
            }
            same
        });
        over_budget_if(self.partitions.len() > MOST, "partitions")
    }
}

/// Says whether a part of a disk has the signature of anything.
pub type Known<'k> = &'k dyn Fn(&View<'_>) -> Result<bool, Refusal>;
