//! The chains of clusters in the table.

use crate::fs::clusters::{Bits, Heap, Table, Width};
use crate::refusal::{Refusal, corrupt_if};

/// What an entry says of its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Free,
    Next(u32),
    Last,
    Bad,
}

fn meaning(width: Width, heap: &Heap, raw: u32) -> Result<Link, Refusal> {
    let (value, ones) = match width {
        Width::Twelve => (raw, 0xfff),
        Width::Sixteen => (raw, 0xffff),
        Width::ThirtyTwo => (raw & 0x0fff_ffff, 0x0fff_ffff),
    };
    match value {
        0 => Ok(Link::Free),
        next if heap.has(next) => Ok(Link::Next(next)),
        last if last >= ones - 7 => Ok(Link::Last),
        bad if bad == ones - 8 => Ok(Link::Bad),
        _ => Err(Refusal::corrupt(format!("{value:#x} is no link"))),
    }
}

/// The table, after one look at all of it.
pub(super) struct Links<'a> {
    width: Width,
    heap: Heap,
    table: Table<'a>,
    /// The clusters that are not free.
    pub(super) used: Bits,
    /// The clusters that somebody refers to: another cluster, or a directory entry that was seen.
    referred: Bits,
}

impl<'a> Links<'a> {
    /// No two clusters may have the same successor. Then the clusters form chains and rings that never meet, and a chain
    /// that starts where nobody refers to ends in the end.
    pub(super) fn read(width: Width, heap: Heap, table: Table<'a>, copies: &[u64]) -> Result<Links<'a>, Refusal> {
        let (mut used, mut referred) = (Bits::new(heap.count)?, Bits::new(heap.count)?);
        table.scan(copies, |cluster, raw| {
            // FAT32 has four bits without a meaning. A free cluster with one of them is odd, so it is left alone.
            let _first = used.claim(cluster);
            match meaning(width, &heap, raw)? {
                Link::Next(next) if !referred.claim(next) => {
                    Err(Refusal::corrupt(format!("cluster {next} is in two chains")))
                }
                _ => Ok(()),
            }
        })?;
        corrupt_if(!referred.is_subset_of(&used), "a chain runs into a free cluster")?;
        Ok(Links { width, heap, table, used, referred })
    }

    /// Begins a chain at a cluster that a directory entry names.
    pub(super) fn begin(&mut self, first: u32) -> Result<Chain, Refusal> {
        corrupt_if(!self.heap.has(first), format_args!("a file starts with cluster {first}, which does not exist"))?;
        corrupt_if(!self.referred.claim(first), format_args!("cluster {first} is in two chains"))?;
        Ok(Chain::at(first))
    }
}

/// A walk along a chain.
pub(super) struct Chain {
    next: Option<u32>,
}

impl Chain {
    /// A chain whose first cluster somebody refers to already.
    pub(super) fn at(first: u32) -> Chain {
        Chain { next: Some(first) }
    }

    /// The next cluster of the chain.
    pub(super) fn step(&mut self, links: &mut Links<'_>) -> Result<Option<u32>, Refusal> {
        let Some(cluster) = self.next else { return Ok(None) };
        let raw = links.table.entry(cluster)?;
        self.next = match meaning(links.width, &links.heap, raw)? {
            Link::Next(next) => Some(next),
            Link::Last => None,
            Link::Free => return Err(Refusal::corrupt(format!("a chain runs into the free cluster {cluster}"))),
            Link::Bad => return Err(Refusal::corrupt(format!("a chain runs into the bad cluster {cluster}"))),
        };
        Ok(Some(cluster))
    }
}
