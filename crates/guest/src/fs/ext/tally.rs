//! Sets of blocks that are compared without being held.

use std::ops::Range;

/// A set of blocks, as how many there are, and the sums of their numbers and of the squares of these.
///
/// Of two sets with the same tally neither has one or two blocks that the other has not: two numbers are determined by
/// their sum and that of their squares. It is a proof against accidents, such as a block with two owners beside one without
/// an owner, and costs no memory, however large a filesystem is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    blocks: u64,
    sum: u128,
    squares: u128,
}

impl Tally {
    /// Adds blocks. One that comes twice counts twice.
    pub(super) fn add(&mut self, blocks: Range<u64>) {
        let [below, all] = [blocks.start, blocks.end.max(blocks.start)].map(Tally::of_first);
        self.blocks = self.blocks.wrapping_add(all.blocks.wrapping_sub(below.blocks));
        self.sum = self.sum.wrapping_add(all.sum.wrapping_sub(below.sum));
        self.squares = self.squares.wrapping_add(all.squares.wrapping_sub(below.squares));
    }

    /// Both together.
    pub(super) fn and(self, other: Tally) -> Tally {
        Tally {
            blocks: self.blocks.wrapping_add(other.blocks),
            sum: self.sum.wrapping_add(other.sum),
            squares: self.squares.wrapping_add(other.squares),
        }
    }

    /// All blocks below `count`. Numbers of blocks have at most 40 bits here, and three of them fit into 128.
    fn of_first(count: u64) -> Tally {
        let n = u128::from(count);
        let before = n.saturating_sub(1);
        let sum = n.wrapping_mul(before) / 2;
        let squares = before.wrapping_mul(n).wrapping_mul(2 * before + 1) / 6;
        Tally { blocks: count, sum, squares }
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // sets of ranges, some of one
mod tests {
    use super::*;

    fn of(ranges: &[Range<u64>]) -> Tally {
        let mut tally = Tally::default();
        ranges.iter().for_each(|range| tally.add(range.clone()));
        tally
    }

    #[test]
    fn a_set_in_any_pieces_has_one_tally() {
        assert_eq!(of(&[0..100]), of(&[50..100, 0..20, 20..50]));
        assert_eq!(of(&[0..100]), of(&[0..30]).and(of(&[30..100])));
        assert_eq!((of(&[3..5]).sum, of(&[3..5]).squares), (7, 25));
    }

    #[test]
    fn a_block_twice_and_another_missing_is_seen() {
        assert_ne!(of(&[0..10]), of(&[0..9, 4..5]));
        // One too low and one too high: the sums agree, the squares do not.
        assert_ne!(of(&[0..20]), of(&[0..9, 10..11, 10..20, 8..9]));
    }
}
