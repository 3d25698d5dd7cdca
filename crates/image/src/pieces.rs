//! An image cut into what is read and what is not.

use std::ops::Range;

use haul_guest::{Extent as Run, ExtentSet};
use haul_sys::Errno;

use haul_io::ranges::Extent;

/// Why a piece is read, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is read.
    Data,
    /// Proven free by a guest's map: zeros take its place.
    Free,
    /// A hole of the source: it reads as zeros.
    Hole,
}

/// A range of the image, never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) kind: Kind,
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl Piece {
    /// Keeps so many bytes of it, which are not more than it has; gives the rest.
    pub(super) fn split_off(&mut self, len: u64) -> Piece {
        let rest = Piece { kind: self.kind, offset: self.offset + len, len: self.len - len };
        self.len = len;
        rest
    }
}

/// Where the pieces come from that are to be copied, in order.
pub(super) type PieceSource<'p> = dyn Iterator<Item = Result<Piece, Errno>> + Send + 'p;

/// The pieces of an image in order, without gaps. Free ranges and holes are trimmed inwards to whole granules, so every
/// piece begins at a multiple of the granule.
pub(super) struct Pieces<H, F> {
    holes: H,
    free: F,
    next_hole: Option<Range<u64>>,
    next_free: Option<Range<u64>>,
    at: u64,
    total: u64,
    granule: u64,
}

impl<H, F> Pieces<H, F>
where
    H: Iterator<Item = Result<Extent, Errno>>,
    F: Iterator<Item = Run>,
{
    /// An image of `total` bytes with these extents and these free ranges, both in order.
    pub(super) fn new(extents: H, free: F, total: u64, granule: u64) -> Pieces<H, F> {
        Pieces { holes: extents, free, next_hole: None, next_free: None, at: 0, total, granule }
    }

    /// The granules that lie in a range as a whole. The one at the end of the image may be cut short by that.
    fn trimmed(&self, start: u64, end: u64) -> Range<u64> {
        let start = start.checked_next_multiple_of(self.granule).unwrap_or(u64::MAX);
        let end = end.min(self.total);
        start..if end == self.total { end } else { end - end % self.granule }
    }

    fn find_hole(&mut self) -> Result<Range<u64>, Errno> {
        while self.next_hole.as_ref().is_none_or(|hole| hole.end <= self.at) {
            match self.holes.next() {
                // All the rest is data; if the source has become shorter, reading will tell.
                None => self.next_hole = Some(u64::MAX..u64::MAX),
                Some(extent) => {
                    if let Extent::Hole { offset, len } = extent? {
                        let hole = self.trimmed(offset, offset + len);
                        self.next_hole = (hole.start < hole.end).then_some(hole);
                    }
                }
            }
        }
        Ok(self.next_hole.clone().unwrap_or(u64::MAX..u64::MAX))
    }

    fn find_free(&mut self) -> Range<u64> {
        while self.next_free.as_ref().is_none_or(|free| free.end <= self.at) {
            let Some(run) = self.free.next() else {
                self.next_free = Some(u64::MAX..u64::MAX);
                break;
            };
            let free = self.trimmed(run.start, run.end());
            self.next_free = (free.start < free.end).then_some(free);
        }
        self.next_free.clone().unwrap_or(u64::MAX..u64::MAX)
    }

    fn step(&mut self) -> Result<Piece, Errno> {
        let (offset, free) = (self.at, self.find_free());
        let (kind, end) = if free.start <= offset {
            (Kind::Free, free.end)
        } else {
            let hole = self.find_hole()?;
            if hole.start <= offset {
                (Kind::Hole, hole.end.min(free.start))
            } else {
                (Kind::Data, hole.start.min(free.start))
            }
        };
        self.at = end.min(self.total);
        Ok(Piece { kind, offset, len: self.at - offset })
    }
}

impl<H, F> Iterator for Pieces<H, F>
where
    H: Iterator<Item = Result<Extent, Errno>>,
    F: Iterator<Item = Run>,
{
    type Item = Result<Piece, Errno>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.total {
            return None;
        }
        let step = self.step();
        if step.is_err() {
            self.at = self.total;
        }
        Some(step)
    }
}

/// The extents of an image whose zeros are known as a set: a virtual disk, whose container knows what it never stored.
pub(super) fn extents_of(zeros: &ExtentSet) -> impl Iterator<Item = Result<Extent, Errno>> + '_ {
    zeros.iter().map(|run| Ok(Extent::Hole { offset: run.start, len: run.len }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOTAL: u64 = 203;
    const GRANULE: u64 = 4;

    fn ranges() -> impl Strategy<Value = ExtentSet> {
        prop::collection::vec((0_u64..230, 1_u64..30).prop_map(|(start, len)| start..start + len), 0..12)
            .prop_map(ExtentSet::from_ranges)
    }

    /// Whether the whole granule of a byte, as far as there is one, is in the set.
    fn covered(set: &ExtentSet, byte: u64) -> bool {
        let first = byte - byte % GRANULE;
        (first..(first + GRANULE).min(TOTAL)).all(|byte| set.contains(byte))
    }

    proptest! {
        #[test]
        fn every_byte_is_in_one_piece_of_the_right_kind(holes in ranges(), free in ranges()) {
            let pieces: Vec<Piece> =
                Pieces::new(extents_of(&holes), free.iter(), TOTAL, GRANULE).map(Result::unwrap).collect();
            let mut at = 0;
            for piece in &pieces {
                prop_assert_eq!(piece.offset, at);
                prop_assert!(piece.len > 0 && piece.offset % GRANULE == 0);
                at += piece.len;
                for byte in piece.offset..at {
                    let expected = match (covered(&free, byte), covered(&holes, byte)) {
                        (true, _) => Kind::Free,
                        (false, true) => Kind::Hole,
                        _ => Kind::Data,
                    };
                    prop_assert_eq!(piece.kind, expected, "byte {}", byte);
                }
            }
            prop_assert_eq!(at, TOTAL);
        }
    }
}
