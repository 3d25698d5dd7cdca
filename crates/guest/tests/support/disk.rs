//! Disks for tests: a filesystem that is nothing but its list of free bytes, and invariants of every map.
#![allow(dead_code, unused_imports)]

use std::ops::Range;

pub use haul_forge::fuzz::assert_sane;
use haul_guest::fs::{Findings, FreeMap, Options};
use haul_guest::{ExtentSet, ReadAt, Refusal, View, bytes};

use super::Pages;

/// A filesystem whose superblock, 2 KiB from its start, lists what is free: the signature, its size, the number of
/// extents, and their offsets and lengths.
pub struct Listed;

const PLACE: u64 = 2048;
const SIGNATURE: &[u8] = b"LISTEDFS";

impl FreeMap for Listed {
    fn name(&self) -> &'static str {
        "listed"
    }

    fn detect(&self, region: &View<'_>) -> Result<bool, Refusal> {
        Ok(region.size() >= 4096 && region.read(PLACE, SIGNATURE.len())? == SIGNATURE)
    }

    fn end(&self, region: &View<'_>) -> Result<Option<u64>, Refusal> {
        bytes::le64(&region.read(PLACE + 8, 8)?, 0).map(Some)
    }

    fn free(&self, region: &View<'_>, _options: &Options) -> Result<Findings, Refusal> {
        let superblock = region.read(PLACE, 2048)?;
        if bytes::le64(&superblock, 8)? > region.size() {
            return Err(Refusal::corrupt("larger than its region"));
        }
        let mut free = ExtentSet::new();
        for number in 0..bytes::le64(&superblock, 16)? as usize {
            let start = bytes::le64(&superblock, 24 + number * 16)?;
            free.insert(start..bytes::sum(start, bytes::le64(&superblock, 32 + number * 16)?)?);
        }
        Ok(Findings { free, dropped: 0, evidence: vec!["listed".to_owned()] })
    }
}

/// The parsers for disks of [`Listed`].
pub const LISTED: &[&dyn FreeMap] = &[&Listed];

/// A superblock of [`Listed`], to be written 2 KiB from the start.
pub fn superblock(size: u64, free: &[Range<u64>]) -> Vec<u8> {
    let mut block = SIGNATURE.to_vec();
    block.extend(size.to_le_bytes());
    block.extend((free.len() as u64).to_le_bytes());
    for range in free {
        block.extend(range.start.to_le_bytes());
        block.extend((range.end - range.start).to_le_bytes());
    }
    block
}

/// Makes a filesystem of a part of an image, of which everything behind the first 4 KiB but every fourth 64 KiB is free.
/// Returns what is free, in the image.
pub fn make_listed(image: &mut Pages, start: u64, size: u64) -> ExtentSet {
    let mut free: Vec<Range<u64>> = (0..size / (256 << 10)).map(|at| at << 18..(at << 18) + (192 << 10)).collect();
    free.truncate(100);
    if let Some(first) = free.first_mut() {
        first.start = 4096;
    }
    image.write(start + PLACE, &superblock(size, &free));
    ExtentSet::from_ranges(free).shifted(start).trimmed_to(4096)
}

/// An image of `size` bytes, all zero.
pub fn blank(size: u64) -> Pages {
    struct Zeros(u64);
    impl ReadAt for Zeros {
        fn size(&self) -> u64 {
            self.0
        }
        fn read_exact_at(&self, _offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
            buffer.fill(0);
            Ok(())
        }
    }
    Pages::of(&Zeros(size), [])
}
