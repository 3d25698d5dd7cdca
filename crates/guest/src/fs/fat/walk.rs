//! The directories of a FAT volume: every file's chain is there, is as long as the file, and is nobody else's.

use super::boot::{Boot, Root};
use crate::bytes::{le16, le32, slice, u8_at};
use crate::fs::clusters::{Bits, Heap, Pending, Table, Width};
use crate::image::View;
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

/// The length of a directory entry in bytes.
const ENTRY: usize = 32;

/// How much of a fixed root directory is read at once, in bytes.
const PIECE: u64 = 64 << 10;

const VOLUME: u8 = 0x08;
const DIRECTORY: u8 = 0x10;

/// A directory in clusters: where it starts and where the one above it does (zero for the root).
#[derive(Clone, Copy)]
struct Directory {
    first: u32,
    parent: u32,
}

/// Follows everything from the root, and returns the clusters that are in use.
pub(super) fn check(region: &View<'_>, boot: &Boot, links: Links<'_>) -> Result<Bits, Refusal> {
    let mut walk = Walk { region, boot, links, pending: Pending::root(Directory { first: 0, parent: 0 }) };
    while let Some((directory, depth)) = walk.pending.take() {
        region.budget().take_node()?;
        walk.directory(directory, depth)?;
    }
    Ok(walk.links.used)
}

struct Walk<'a, 'v> {
    region: &'a View<'v>,
    boot: &'a Boot,
    links: Links<'v>,
    pending: Pending<Directory>,
}

/// How far a directory has been read.
struct Progress {
    directory: Directory,
    depth: u32,
    entries: u64,
    ended: bool,
}

impl Walk<'_, '_> {
    fn directory(&mut self, directory: Directory, depth: u32) -> Result<(), Refusal> {
        let mut progress = Progress { directory, depth, entries: 0, ended: false };
        let mut chain = match (directory.first, self.boot.root) {
            (0, Root::Fixed { start, len }) => return self.fixed(start, len, &mut progress),
            (0, Root::Chain(root)) => self.links.begin(root)?,
            // Its chain was begun when its entry was found.
            (first, _) => Chain::at(first),
        };
        while let Some(cluster) = chain.step(&mut self.links)? {
            self.region.budget().take_node()?;
            let heap = self.boot.heap;
            let bytes = self.region.read(heap.offset(cluster)?, heap.cluster as usize)?;
            self.entries(&bytes, &mut progress)?;
        }
        corrupt_if(directory.first != 0 && progress.entries < 2, "a directory without itself in it")
    }

    fn fixed(&mut self, start: u64, len: u64, progress: &mut Progress) -> Result<(), Refusal> {
        for at in (0..len).step_by(PIECE as usize) {
            let bytes = self.region.read(start + at, (len - at).min(PIECE) as usize)?;
            self.entries(&bytes, progress)?;
        }
        Ok(())
    }

    fn entries(&mut self, bytes: &[u8], progress: &mut Progress) -> Result<(), Refusal> {
        for entry in bytes.chunks_exact(ENTRY) {
            let number = progress.entries;
            progress.entries += 1;
            match u8_at(entry, 0)? {
                0 => progress.ended = true,
                // Windows stops at the end mark and Linux goes on: what is behind it exists for one of them only.
                _ if progress.ended && entry.first() != Some(&0xe5) => {
                    return Err(Refusal::corrupt("entries behind the end of a directory"));
                }
                _ => {}
            }
            if progress.directory.first != 0 && number < 2 {
                self.dots(entry, number, progress.directory)?;
            } else {
                self.entry(entry, progress)?;
            }
        }
        Ok(())
    }

    /// The first two entries of a directory name itself and the one above: they prove that it is a directory.
    fn dots(&self, entry: &[u8], number: u64, directory: Directory) -> Result<(), Refusal> {
        let (name, target): (&[u8], u32) =
            if number == 0 { (b".          ", directory.first) } else { (b"..         ", directory.parent) };
        let first = self.first_cluster(entry)?;
        // Zero means the root, but some write the number of its cluster.
        let root = target == 0 && self.boot.root == Root::Chain(first);
        let wrong = slice(entry, 0, 11)? != name || u8_at(entry, 11)? & DIRECTORY == 0 || (first != target && !root);
        corrupt_if(wrong, "a directory that does not name itself and the one above")
    }

    fn entry(&mut self, entry: &[u8], progress: &Progress) -> Result<(), Refusal> {
        let attributes = u8_at(entry, 11)?;
        // Never used, deleted, a piece of a long name, the name of the volume.
        if matches!(u8_at(entry, 0)?, 0 | 0xe5) || attributes & VOLUME != 0 {
            return Ok(());
        }
        let (first, size) = (self.first_cluster(entry)?, u64::from(le32(entry, 28)?));
        if attributes & DIRECTORY != 0 {
            let _begun = self.links.begin(first)?;
            return self.pending.add(Directory { first, parent: progress.directory.first }, progress.depth);
        }
        let needed = self.boot.heap.needed(size);
        if first == 0 && needed == 0 {
            return Ok(());
        }
        let mut chain = self.links.begin(first)?;
        let mut found = 0_u64;
        while found <= needed && chain.step(&mut self.links)?.is_some() {
            found += 1;
        }
        corrupt_if(found != needed, "a file whose size is not that of its chain")
    }

    fn first_cluster(&self, entry: &[u8]) -> Result<u32, Refusal> {
        let low = u32::from(le16(entry, 26)?);
        // OS/2 keeps something else in the upper half where clusters need no more than 16 bits.
        let high = if self.boot.width == Width::ThirtyTwo { u32::from(le16(entry, 20)?) } else { 0 };
        Ok(high << 16 | low)
    }
}
