//! The directories of a FAT volume: every file's chain is there, is as long as the file, and is nobody else's.

use super::boot::{Boot, Root};
use super::links::{Chain, Links};
use crate::bytes::{le16, le32, slice, u8_at};
use crate::fs::clusters::{Bits, Pending, Width};
use crate::image::View;
use crate::refusal::{Refusal, corrupt_if};

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
