//! FAT12, FAT16 and FAT32: free is what the table says is free, once the tables, the flags and all directories agree.
//!
//! Format: Microsoft's "FAT: General Overview of On-Disk Format" (fatgen103), ECMA-107. There are no checksums, so
//! everything that is written twice is compared, and every chain of every file is followed. FSInfo is never looked at.

mod boot;
mod walk;

use crate::fs::clusters::{Bits, Heap, Table, Width};
use crate::fs::{Findings, FreeMap, Options};
use crate::image::View;
use crate::refusal::Refusal;
use boot::{Boot, looks_like_one};

/// FAT12, FAT16 and FAT32, with or without long names.
#[derive(Debug)]
pub struct Fat;

impl FreeMap for Fat {
    fn name(&self) -> &'static str {
        "vfat"
    }

    fn detect(&self, region: &View<'_>) -> Result<bool, Refusal> {
        if region.size() < 512 {
            return Ok(false);
        }
        looks_like_one(&region.read(0, 512)?)
    }

    fn free(&self, region: &View<'_>, _options: &Options) -> Result<Findings, Refusal> {
        let boot = Boot::read(region)?;
        let Some((first, others)) = boot.tables.split_first() else {
            return Err(Refusal::corrupt("no table"));
        };
        let mut table = Table::new(region, *first, boot.heap.count, boot.width);
        check_flags(&boot, &mut table)?;
        let links = Links::read(boot.width, boot.heap, table, others)?;
        let used = walk::check(region, &boot, links)?;
        let free = boot.heap.free(&used, region.budget().extents())?;
        let mut evidence = vec!["clean".to_owned()];
        if !others.is_empty() {
            evidence.push("all copies of the table agree".to_owned());
        }
        evidence.push("every chain is whole".to_owned());
        Ok(Findings { free, dropped: 0, evidence })
    }
}

/// The first two entries belong to no cluster: the media byte, and on FAT16 and FAT32 the bits "clean" and "no errors".
/// FAT12 has no such bits; there the state byte of the boot sector and the walk must do.
fn check_flags(boot: &Boot, table: &mut Table<'_>) -> Result<(), Refusal> {
    let (ones, flags) = match boot.width {
        Width::Twelve => (0xfff, 0),
        Width::Sixteen => (0xffff, 0xc000),
        Width::ThirtyTwo => (0x0fff_ffff, 0x0c00_0000),
    };
    if table.entry(0)? & ones != (ones & !0xff) | u32::from(boot.media) {
        return Err(Refusal::corrupt("the media byte in the table"));
    }
    let state = table.entry(1)? & ones;
    if (state | flags) < ones - 7 {
        return Err(Refusal::corrupt("the second entry of the table"));
    }
    if state & flags != flags {
        return Err(Refusal::dirty("the flags in the table"));
    }
    Ok(())
}

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
struct Links<'a> {
    width: Width,
    heap: Heap,
    table: Table<'a>,
    /// The clusters that are not free.
    used: Bits,
    /// The clusters that somebody refers to: another cluster, or a directory entry that was seen.
    referred: Bits,
}

impl<'a> Links<'a> {
    /// No two clusters may have the same successor. Then the clusters form chains and rings that never meet, and a chain
    /// that starts where nobody refers to ends in the end.
    fn read(width: Width, heap: Heap, table: Table<'a>, copies: &[u64]) -> Result<Links<'a>, Refusal> {
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
        if !referred.is_subset_of(&used) {
            return Err(Refusal::corrupt("a chain runs into a free cluster"));
        }
        Ok(Links { width, heap, table, used, referred })
    }

    /// Begins a chain at a cluster that a directory entry names.
    fn begin(&mut self, first: u32) -> Result<Chain, Refusal> {
        if !self.heap.has(first) {
            return Err(Refusal::corrupt(format!("a file starts with cluster {first}, which does not exist")));
        }
        if !self.referred.claim(first) {
            return Err(Refusal::corrupt(format!("cluster {first} is in two chains")));
        }
        Ok(Chain { next: Some(first) })
    }
}

/// A walk along a chain.
struct Chain {
    next: Option<u32>,
}

impl Chain {
    /// The next cluster of the chain.
    fn step(&mut self, links: &mut Links<'_>) -> Result<Option<u32>, Refusal> {
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
