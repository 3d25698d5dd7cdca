//! Disks for tests: a filesystem that is nothing but its list of free bytes, and invariants of every map.
#![allow(dead_code)]

use std::io::Write;
use std::ops::Range;
use std::process::{Command, Stdio};

use haul_guest::fs::{Findings, FreeMap, Options};
use haul_guest::{ExtentSet, Map, ReadAt, Refusal, Verdict, View, bytes};

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

/// What every map keeps, whatever the image says: regions cover the image and nothing else, in order; what is free is
/// in whole granules inside regions that were mapped, and in no region that was not.
pub fn assert_sane(map: &Map) {
    let mut owned = Vec::new();
    let mut last = 0;
    let mut used = ExtentSet::new();
    let mut counted = 0;
    for region in &map.regions {
        assert!(!region.extents.is_empty() && region.extents.iter().all(|extent| extent.len > 0), "{region:?}");
        assert!(region.start() >= last, "{region:?} is out of order");
        last = region.start();
        let bytes = ExtentSet::from_ranges(region.extents.iter().map(|extent| extent.start..extent.end()));
        assert_eq!(bytes.bytes(), region.size(), "{region:?} overlaps itself");
        assert!(region.extents.iter().all(|extent| extent.end() <= map.size), "{region:?} is outside");
        assert!(bytes.intersection(&map.free).bytes() >= region.free);
        assert_eq!(region.used() + region.free, region.size());
        if !matches!(region.verdict, Verdict::Mapped { .. }) {
            assert_eq!((region.free, region.dropped), (0, 0), "{region:?}");
            used = used.union(&bytes);
        }
        counted += region.free;
        owned.extend(region.extents.iter().map(|extent| extent.start..extent.end()));
    }
    let owned = ExtentSet::from_ranges(owned);
    assert_eq!(owned, ExtentSet::of(0..map.size), "regions do not cover the image");
    assert!(map.free.intersection(&used).is_empty(), "free in a region that is used");
    assert!(map.free.iter().all(|extent| extent.start % 4096 == 0 && extent.len % 4096 == 0));
    assert!(map.free.bytes() <= counted);
}

/// Runs a program with something to read.
pub fn feed(command: &mut Command, input: &str) -> String {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}
