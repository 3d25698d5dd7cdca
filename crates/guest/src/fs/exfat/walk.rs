//! The directories of an exFAT volume: every cluster of every file is in the bitmap, and in no other file.

use std::ops::Range;

use super::boot::Boot;
use super::sets::{Data, ENTRY, Found, Sets};
use crate::fs::clusters::{Bits, FIRST, Heap, Pending, Table, Width};
use crate::image::View;
use crate::refusal::{OrRefuse, Refusal, corrupt_if, unsupported_if};

/// How much of a directory or a bitmap is read at once, in bytes.
const PIECE: u64 = 64 << 10;

/// The longest up-case table: all 65536 letters, two bytes each, and twice that if it is not compressed at all.
const LONGEST_UPCASE: u64 = 256 << 10;

const FAT_MEDIA: u32 = 0xffff_fff8;
const FAT_SECOND: u32 = 0xffff_ffff;
const LAST: u32 = 0xffff_ffff;

/// Follows everything from the root, and returns the clusters that are in use.
pub(super) fn check(region: &View<'_>, boot: &Boot) -> Result<Bits, Refusal> {
    let (active, others) = boot.tables.split_first().or_corrupt("no table")?;
    let mut table = Table::new(region, *active, boot.heap.count, Width::ThirtyTwo);
    corrupt_if(table.entry(0)? != FAT_MEDIA || table.entry(1)? != FAT_SECOND, "the first entries of the table")?;
    if !others.is_empty() {
        // Linux reads the first table whatever is said to be active.
        table.scan(others, |_, _| Ok(()))?;
    }
    let seen = Bits::new(boot.heap.count)?;
    let mut walk = Walk { region, heap: boot.heap, table, seen };
    let used = walk.bitmaps(boot)?;
    walk.everything(boot)?;
    corrupt_if(!walk.seen.is_subset_of(&used), "a file in clusters that the bitmap says are free")?;
    Ok(used)
}

struct Walk<'a, 'v> {
    region: &'a View<'v>,
    heap: Heap,
    table: Table<'v>,
    /// The clusters that were met.
    seen: Bits,
}

/// A walk along the clusters of a file.
struct Chain {
    next: Option<u32>,
    /// How many are to come; `None` where the table alone tells.
    left: Option<u64>,
    contiguous: bool,
    /// What of its last cluster is still to be read, in bytes of the region.
    unread: Range<u64>,
}

impl Walk<'_, '_> {
    /// A walk along `data`, whose length in clusters must be right.
    fn chain(&self, data: Data) -> Result<Chain, Refusal> {
        let needed = self.heap.needed(data.len);
        corrupt_if(needed > u64::from(self.heap.count), "a file longer than the volume")?;
        corrupt_if((needed == 0) != (data.first == 0), "an empty file with clusters, or the reverse")?;
        let next = (needed > 0).then_some(data.first);
        Ok(Chain { next, left: Some(needed), contiguous: data.contiguous, unread: 0..0 })
    }

    /// The next cluster of a chain, which nobody may have met before.
    fn step(&mut self, chain: &mut Chain) -> Result<Option<u32>, Refusal> {
        let Some(cluster) = chain.next else {
            return if chain.left.unwrap_or(0) == 0 { Ok(None) } else { Err(Refusal::corrupt("a chain is too short")) };
        };
        corrupt_if(!self.heap.has(cluster), format_args!("{cluster:#x} is no cluster"))?;
        corrupt_if(!self.seen.claim(cluster), format_args!("cluster {cluster} is in two files"))?;
        if let Some(left) = &mut chain.left {
            *left = left.checked_sub(1).or_corrupt("a chain is longer than its file")?;
        }
        chain.next = if chain.contiguous {
            chain.left.filter(|left| *left > 0).map(|_| cluster + 1)
        } else {
            Some(self.table.entry(cluster)?).filter(|next| *next != LAST)
        };
        Ok(Some(cluster))
    }

    fn file(&mut self, data: Data) -> Result<(), Refusal> {
        let mut chain = self.chain(data)?;
        while self.step(&mut chain)?.is_some() {}
        Ok(())
    }

    /// The next piece of a file that is read.
    fn piece(&mut self, file: &mut Chain) -> Result<Option<Vec<u8>>, Refusal> {
        if file.unread.is_empty() {
            let Some(cluster) = self.step(file)? else { return Ok(None) };
            self.region.budget().take_node()?;
            let start = self.heap.offset(cluster)?;
            file.unread = start..start + self.heap.cluster;
        }
        let len = (file.unread.end - file.unread.start).min(PIECE);
        let bytes = self.region.read(file.unread.start, len as usize)?;
        file.unread.start += len;
        Ok(Some(bytes))
    }

    fn root(boot: &Boot) -> Chain {
        Chain { next: Some(boot.root), left: None, contiguous: false, unread: 0..0 }
    }

    /// Finds the allocation bitmaps and reads them: a cluster is used if one of them says so. Only the root directory
    /// knows where they are, so that is read twice.
    fn bitmaps(&mut self, boot: &Boot) -> Result<Bits, Refusal> {
        let mut found: [Option<Data>; 2] = [None, None];
        let mut sets = Sets::default();
        let mut root = Walk::root(boot);
        while let Some(bytes) = self.piece(&mut root)? {
            for entry in bytes.chunks_exact(ENTRY) {
                if let Some(Found::Bitmap { second, data }) = sets.add(entry)?
                    && found[usize::from(second)].replace(data).is_some()
                {
                    return Err(Refusal::corrupt("an allocation bitmap that is there twice"));
                }
            }
        }
        // The second look shall meet the same clusters.
        self.seen = Bits::new(self.heap.count)?;
        let two = boot.tables.len() == 2;
        corrupt_if(found[0].is_none() || found[1].is_some() != two, "not one allocation bitmap for each table")?;
        let mut used = Bits::new(self.heap.count)?;
        for data in found.into_iter().flatten() {
            self.bitmap(data, &mut used)?;
        }
        Ok(used)
    }

    fn bitmap(&mut self, data: Data, used: &mut Bits) -> Result<(), Refusal> {
        corrupt_if(data.len != u64::from(self.heap.count).div_ceil(8), "the length of the allocation bitmap")?;
        // Windows follows the table, Linux reads on: only what is the same to both is certain.
        let mut chain = self.chain(data)?;
        let mut expected = data.first;
        while let Some(cluster) = self.step(&mut chain)? {
            unsupported_if(cluster != expected, "an allocation bitmap in pieces")?;
            expected += 1;
        }
        let start = self.heap.offset(data.first)?;
        let mut cluster = FIRST;
        for at in (0..data.len).step_by(PIECE as usize) {
            for byte in self.region.read(start + at, (data.len - at).min(PIECE) as usize)? {
                for bit in 0..8 {
                    if byte >> bit & 1 != 0 && self.heap.has(cluster) {
                        let _also_by_the_other = used.claim(cluster);
                    }
                    cluster += 1;
                }
            }
        }
        Ok(())
    }

    /// All directories, all files, and the up-case table. The bitmaps have been met already.
    fn everything(&mut self, boot: &Boot) -> Result<(), Refusal> {
        let mut pending: Pending<Option<Data>> = Pending::root(None);
        let mut upcase = 0_u32;
        while let Some((directory, depth)) = pending.take() {
            self.region.budget().take_node()?;
            let mut reading = match directory {
                None => Walk::root(boot),
                Some(data) if data.len.is_multiple_of(self.heap.cluster) => self.chain(data)?,
                Some(_) => return Err(Refusal::corrupt("a directory that ends inside a cluster")),
            };
            let mut sets = Sets::default();
            while let Some(bytes) = self.piece(&mut reading)? {
                for entry in bytes.chunks_exact(ENTRY) {
                    match sets.add(entry)? {
                        None => {}
                        Some(Found::File { directory, data, vendor }) => {
                            vendor.into_iter().try_for_each(|data| self.file(data))?;
                            if directory { pending.add(Some(data), depth)? } else { self.file(data)? }
                        }
                        Some(_) if depth > 0 => {
                            return Err(Refusal::corrupt("a system entry outside the root directory"));
                        }
                        Some(Found::Bitmap { .. }) => {}
                        Some(Found::Upcase { checksum, data }) => {
                            upcase += 1;
                            self.upcase(checksum, data)?;
                        }
                    }
                }
            }
            sets.finish()?;
        }
        corrupt_if(upcase != 1, "not exactly one up-case table")
    }

    fn upcase(&mut self, expected: u32, data: Data) -> Result<(), Refusal> {
        corrupt_if(data.len > LONGEST_UPCASE, "the length of the up-case table")?;
        let mut reading = self.chain(data)?;
        let (mut left, mut checksum) = (data.len as usize, 0_u32);
        while let Some(bytes) = self.piece(&mut reading)? {
            for byte in bytes.iter().take(left) {
                checksum = checksum.rotate_right(1).wrapping_add(u32::from(*byte));
            }
            left = left.saturating_sub(bytes.len());
        }
        corrupt_if(checksum != expected, "the checksum of the up-case table")
    }
}
