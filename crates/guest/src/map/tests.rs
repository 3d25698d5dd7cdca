use std::ops::Range;

use super::*;
use crate::extents::STEPS;

/// A region of a partition with these free bytes, relative to its start.
fn leaf(partition: Extent, at: Range<u64>, free: impl Iterator<Item = Range<u64>>) -> Leaf<'static> {
    let mut leaf = Leaf::whole("part".to_owned(), partition, None, Verdict::Mapped { evidence: Vec::new() });
    leaf.region.extents = vec![Extent { start: at.start, len: at.end - at.start }];
    leaf.free = ExtentSet::from_ranges(free).shifted(at.start);
    leaf
}

#[test]
fn overlapping_regions_are_free_where_all_of_them_are() {
    let partition = |start, len| Extent { start, len };
    let granules = |from: u64, to: u64| std::iter::once(from * GRANULE..to * GRANULE);
    let mut leaves = [
        leaf(partition(0, 64 * GRANULE), 0..64 * GRANULE, granules(8, 60)),
        leaf(partition(32 * GRANULE, 64 * GRANULE), 32 * GRANULE..80 * GRANULE, granules(4, 48)),
        leaf(partition(32 * GRANULE, 64 * GRANULE), 80 * GRANULE..96 * GRANULE, granules(0, 16)),
    ];
    let tables = ExtentSet::of(90 * GRANULE..91 * GRANULE);
    let free = agree(&mut leaves, &tables);
    let set =
        |ranges: &[(u64, u64)]| ranges.iter().map(|(from, to)| from * GRANULE..to * GRANULE).collect::<ExtentSet>();
    assert_eq!(leaves[0].free, set(&[(8, 32), (36, 60)]));
    // What the first region uses behind its free bytes counts.
    assert_eq!(leaves[1].free, set(&[(36, 60), (64, 80)]));
    assert_eq!(leaves[2].free, set(&[(80, 90), (91, 96)]));
    assert_eq!(free, set(&[(8, 32), (36, 60), (64, 90), (91, 96)]));
}

#[test]
fn many_regions_are_compared_in_steps_of_their_extents() {
    // Two overlapping volume groups of as many volumes as there may be, with as many extents as their budgets allow.
    const VOLUMES: u64 = MOST_REGIONS as u64 / 2;
    const EXTENTS: u64 = 500;
    let volume = EXTENTS * 2 * GRANULE;
    let mut leaves = Vec::new();
    for start in [0, GRANULE] {
        let partition = Extent { start, len: VOLUMES * volume };
        for number in 0..VOLUMES {
            let at = start + number * volume;
            let free = (0..EXTENTS).map(|extent| extent * 2 * GRANULE..(extent * 2 + 1) * GRANULE);
            leaves.push(leaf(partition, at..at + volume, free));
        }
    }
    STEPS.set(0);
    let free = agree(&mut leaves, &ExtentSet::new());
    // Only the first granule is free where there is one partition alone.
    assert_eq!(free, ExtentSet::of(0..GRANULE));
    // Comparing each region with each other one would be four thousand times as much.
    let extents = (VOLUMES * EXTENTS * 2) as usize;
    assert!(STEPS.get() < 16 * extents, "{} steps for {extents} extents", STEPS.get());
}
