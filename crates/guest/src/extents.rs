//! Sets of bytes, as sorted runs.

use std::ops::Range;

/// A run of bytes, never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// The offset of its first byte.
    pub start: u64,
    /// Its length in bytes.
    pub len: u64,
}

impl Extent {
    /// The offset behind its last byte.
    pub fn end(self) -> u64 {
        self.start + self.len
    }

    /// Its bytes.
    pub(crate) fn range(self) -> Range<u64> {
        self.start..self.end()
    }
}

#[cfg(test)]
thread_local! {
    /// How many extents this thread has looked at to make sets of others.
    pub(crate) static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
fn steps(count: usize) {
    STEPS.set(STEPS.get() + count);
}

#[cfg(not(test))]
fn steps(_: usize) {}

/// A set of bytes: extents that are sorted, not empty, and neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtentSet {
    extents: Vec<Extent>,
}

impl ExtentSet {
    /// The empty set.
    pub fn new() -> ExtentSet {
        ExtentSet::default()
    }

    /// The bytes of one range.
    pub fn of(range: Range<u64>) -> ExtentSet {
        ExtentSet::from_ranges(std::iter::once(range))
    }

    /// The bytes of `ranges`, in whatever order they come, overlapping or not. Empty and reversed ones count nothing.
    pub fn from_ranges(ranges: impl IntoIterator<Item = Range<u64>>) -> ExtentSet {
        let mut sorted: Vec<Range<u64>> = ranges.into_iter().filter(|range| range.start < range.end).collect();
        sorted.sort_unstable_by_key(|range| range.start);
        steps(sorted.len());
        let mut set = ExtentSet::new();
        for range in sorted {
            set.push(range);
        }
        set
    }

    /// Adds a range that starts at or behind the start of the last extent; quicker than [`ExtentSet::insert`].
    ///
    /// # Panics
    /// If it starts before.
    pub fn push(&mut self, range: Range<u64>) {
        if range.start >= range.end {
            return;
        }
        match self.extents.last_mut() {
            Some(last) if range.start <= last.end() => {
                assert!(range.start >= last.start, "extents must be pushed in order");
                last.len = range.end.max(last.end()) - last.start;
            }
            _ => self.extents.push(Extent { start: range.start, len: range.end - range.start }),
        }
    }

    /// Adds a range anywhere.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.start >= range.end {
            return;
        }
        // All that touch it become one.
        let first = self.extents.partition_point(|extent| extent.end() < range.start);
        let behind = self.extents.partition_point(|extent| extent.start <= range.end);
        let joined = self.extents[first..behind]
            .iter()
            .fold(range, |all, extent| all.start.min(extent.start)..all.end.max(extent.end()));
        let extent = Extent { start: joined.start, len: joined.end - joined.start };
        self.extents.splice(first..behind, [extent]);
    }

    /// The extents, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Extent> + Clone + '_ {
        self.extents.iter().copied()
    }

    /// How many extents there are.
    pub fn count(&self) -> usize {
        self.extents.len()
    }

    /// Whether no byte is in it.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// How many bytes are in it.
    pub fn bytes(&self) -> u64 {
        self.extents.iter().map(|extent| extent.len).sum()
    }

    /// Whether a byte is in it.
    pub fn contains(&self, offset: u64) -> bool {
        let next = self.extents.partition_point(|extent| extent.end() <= offset);
        self.extents.get(next).is_some_and(|extent| extent.start <= offset)
    }

    /// Whether a byte of `range` is in it.
    pub fn touches(&self, range: Range<u64>) -> bool {
        let next = self.extents.partition_point(|extent| extent.end() <= range.start);
        range.start < range.end && self.extents.get(next).is_some_and(|extent| extent.start < range.end)
    }

    /// Whether all its bytes are in `other`.
    pub fn is_subset_of(&self, other: &ExtentSet) -> bool {
        self.without(other).is_empty()
    }

    /// The bytes that are in either.
    #[must_use]
    pub fn union(&self, other: &ExtentSet) -> ExtentSet {
        ExtentSet::from_ranges(self.iter().chain(other.iter()).map(Extent::range))
    }

    /// The bytes that are in both.
    #[must_use]
    pub fn intersection(&self, other: &ExtentSet) -> ExtentSet {
        let mut both = ExtentSet::new();
        let mut at = 0;
        for extent in self.iter() {
            at = other.next_behind(at, extent.start);
            let touched = other.extents.iter().skip(at).take_while(|other| other.start < extent.end());
            touched.for_each(|other| both.push(extent.start.max(other.start)..extent.end().min(other.end())));
        }
        both
    }

    /// The bytes that are in `self` and not in `other`.
    #[must_use]
    pub fn without(&self, other: &ExtentSet) -> ExtentSet {
        let mut rest = ExtentSet::new();
        let mut at = 0;
        for extent in self.iter() {
            at = other.next_behind(at, extent.start);
            let mut from = extent.start;
            steps(1);
            for hole in other.extents.iter().skip(at).take_while(|hole| hole.start < extent.end()) {
                steps(1);
                rest.push(from..hole.start);
                from = hole.end();
            }
            rest.push(from..extent.end());
        }
        rest
    }

    /// The index, from `at` on, of the first extent that ends behind `offset`. Takes few steps if it is near, and never many:
    /// so a small set and a large one are compared at the price of the small one.
    fn next_behind(&self, at: usize, offset: u64) -> usize {
        let mut step = 1;
        while self.extents.get(at + step).is_some_and(|extent| extent.end() <= offset) {
            step *= 2;
        }
        let near = self.extents.get(at..self.extents.len().min(at + step + 1)).unwrap_or_default();
        at + near.partition_point(|extent| extent.end() <= offset)
    }

    /// The bytes of `within` that are not in it.
    #[must_use]
    pub fn complement(&self, within: Range<u64>) -> ExtentSet {
        ExtentSet::of(within).without(self)
    }

    /// The bytes of `within` that are in it.
    #[must_use]
    pub fn clipped(&self, within: Range<u64>) -> ExtentSet {
        self.intersection(&ExtentSet::of(within))
    }

    /// The parts of its extents that lie in `within`, in order, without looking at those before.
    pub fn between(&self, within: Range<u64>) -> impl Iterator<Item = Extent> + '_ {
        let first = self.extents.partition_point(|extent| extent.end() <= within.start);
        let touched = self.extents[first..].iter().take_while(move |extent| extent.start < within.end);
        touched.map(move |extent| {
            let start = extent.start.max(within.start);
            Extent { start, len: extent.end().min(within.end) - start }
        })
    }

    /// All of it, `by` bytes further on.
    ///
    /// # Panics
    /// If an offset overflows.
    #[must_use]
    pub fn shifted(&self, by: u64) -> ExtentSet {
        let shift = |extent: Extent| Extent { start: extent.start.checked_add(by).expect("too far"), ..extent };
        ExtentSet { extents: self.iter().map(shift).collect() }
    }

    /// The part that consists of whole granules of `granule` bytes at multiples of `granule`.
    ///
    /// # Panics
    /// If `granule` is zero.
    #[must_use]
    pub fn trimmed_to(&self, granule: u64) -> ExtentSet {
        let mut whole = ExtentSet::new();
        for extent in self.iter() {
            let start = extent.start.checked_next_multiple_of(granule).unwrap_or(u64::MAX);
            whole.push(start..extent.end() / granule * granule);
        }
        whole
    }
}

impl FromIterator<Range<u64>> for ExtentSet {
    fn from_iter<T: IntoIterator<Item = Range<u64>>>(ranges: T) -> ExtentSet {
        ExtentSet::from_ranges(ranges)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        prop::collection::vec((0_u64..200, 0_u64..20).prop_map(|(start, len)| start..start + len), 0..20)
    }

    fn model(ranges: &[Range<u64>]) -> Vec<bool> {
        (0..256).map(|byte| ranges.iter().any(|range| range.contains(&byte))).collect()
    }

    fn same(set: &ExtentSet, model: &[bool]) {
        let bytes: Vec<bool> = (0..256).map(|byte| set.contains(byte)).collect();
        assert_eq!(bytes, model);
        assert!(set.extents.windows(2).all(|pair| pair[0].end() < pair[1].start), "{set:?}");
        assert!(set.iter().all(|extent| extent.len > 0));
        assert_eq!(set.bytes(), model.iter().filter(|byte| **byte).count() as u64);
    }

    fn zip(a: &[bool], b: &[bool], operation: fn(bool, bool) -> bool) -> Vec<bool> {
        a.iter().zip(b).map(|(a, b)| operation(*a, *b)).collect()
    }

    proptest! {
        #[test]
        fn every_operation_is_that_of_sets_of_bytes(a in ranges(), b in ranges(), at in 0_u64..64, granule in 1_u64..9) {
            let (left, right) = (ExtentSet::from_ranges(a.clone()), ExtentSet::from_ranges(b.clone()));
            let (model_a, model_b) = (model(&a), model(&b));
            same(&left, &model_a);
            let mut inserted = ExtentSet::new();
            a.iter().for_each(|range| inserted.insert(range.clone()));
            same(&inserted, &model_a);
            same(&left.union(&right), &zip(&model_a, &model_b, |a, b| a | b));
            same(&left.intersection(&right), &zip(&model_a, &model_b, |a, b| a & b));
            same(&left.without(&right), &zip(&model_a, &model_b, |a, b| a & !b));
            same(&left.complement(0..256), &model_a.iter().map(|byte| !byte).collect::<Vec<_>>());
            let within: Vec<bool> = (0..256).map(|byte| (at..at + 50).contains(&byte)).collect();
            let expected = (at..at + granule).any(|byte| model_a.get(byte as usize) == Some(&true));
            prop_assert_eq!(left.touches(at..at + granule), expected);
            prop_assert!(!left.touches(at..at));
            same(&left.clipped(at..at + 50), &zip(&model_a, &within, |a, b| a & b));
            prop_assert_eq!(left.shifted(at).bytes(), left.bytes());
            let whole: Vec<bool> = (0..256_u64).map(|byte| {
                let first = byte / granule * granule;
                (first..first + granule).all(|byte| model_a.get(byte as usize) == Some(&true))
            }).collect();
            same(&left.trimmed_to(granule), &whole);
            prop_assert_eq!(left.is_subset_of(&right), zip(&model_a, &model_b, |a, b| a & !b).iter().all(|byte| !byte));
        }
    }
}
