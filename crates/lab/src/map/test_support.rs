//! Pictures for tests.

use std::ops::Range;

use haul_guest::extents::{Extent, ExtentSet};
use haul_guest::report::{Map, Region, Verdict};

use super::strip::Picture;

pub const UNIT: u64 = 1 << 20;

pub fn region(place: &str, range: Range<u64>, kind: Option<&'static str>, verdict: Verdict) -> Region {
    let extents = vec![Extent { start: range.start * UNIT, len: (range.end - range.start) * UNIT }];
    Region { place: place.to_owned(), extents, kind, verdict, free: 0, dropped: 0 }
}

/// A disk of 80 MiB: a table, a filesystem, something unknown.
pub fn picture(name: &str) -> Picture {
    let mapped = || Verdict::Mapped { evidence: vec!["clean".to_owned()] };
    let map = Map {
        size: 80 * UNIT,
        free: ExtentSet::of(10 * UNIT..30 * UNIT),
        regions: vec![
            region("start of the disk", 0..2, None, Verdict::Framework),
            region(name, 2..50, Some("ext4"), mapped()),
            region("GPT partition 2", 50..80, None, Verdict::Unknown),
        ],
        witnesses: Vec::new(),
    };
    let holes = ExtentSet::from_ranges([20 * UNIT..24 * UNIT, 70 * UNIT..90 * UNIT]);
    let zeros = ExtentSet::from_ranges([12 * UNIT..14 * UNIT, 40 * UNIT..42 * UNIT, 60 * UNIT..64 * UNIT]);
    Picture::new(&map, &holes, &zeros)
}
