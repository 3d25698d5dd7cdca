//! A disk as strips: what kind of bytes is where, in cells of equal size.

use haul_guest::extents::{Extent, ExtentSet};
use haul_guest::report::{Map, Region, Verdict};

use crate::names::named;

named! {
    /// A kind of bytes, in the order in which they are drawn. Every byte of an image is of exactly one.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Kind {
        /// Stored, in a region that is understood, and not free.
        Used = "used",
        /// Stored, in a region that nobody understands.
        Opaque = "opaque",
        /// Used or opaque, and zero.
        Zero = "zero",
        /// Proven free, and stored in the image file all the same.
        Free = "free",
        /// Not stored in the image file.
        Hole = "hole",
    }
}

/// How many bytes there are of each kind, in the order of [`Kind::ALL`].
pub type Counts = [u64; Kind::ALL.len()];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strip {
    pub title: String,
    pub size: u64,
    /// How many bytes of it are of each kind.
    pub counts: Counts,
    /// Where on the strip of the whole disk it lies, from first to last byte.
    pub reach: Extent,
    /// Its bytes, in its own order.
    extents: Vec<Extent>,
}

/// What is of which kind, in the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// In the order of [`Kind::ALL`]; together they are the image.
    sets: [ExtentSet; Kind::ALL.len()],
    /// The whole disk, then its regions by their first byte. A disk that is one region has only the first.
    pub strips: Vec<Strip>,
}

impl Picture {
    /// A picture of an image with these holes and, of what is not free, these zeros.
    pub fn new(map: &Map, holes: &ExtentSet, zeros: &ExtentSet) -> Picture {
        let holes = holes.clipped(0..map.size);
        let free = map.free.without(&holes);
        let zeros = zeros.clipped(0..map.size).without(&holes).without(&free);
        let known = union(map.regions.iter().filter(|region| is_understood(region)));
        let rest = ExtentSet::of(0..map.size).without(&holes).without(&free).without(&zeros);
        // Where regions overlap, what one of them does not understand is not understood.
        let unknown = union(map.regions.iter().filter(|region| !is_understood(region)));
        let opaque = rest.intersection(&unknown).union(&rest.without(&known));
        let used = rest.without(&opaque);
        let mut picture = Picture { sets: [used, opaque, zeros, free, holes], strips: Vec::new() };
        let disk = Extent { start: 0, len: map.size };
        let whole = |region: &Region| region.extents == [disk];
        let mut strips = Vec::new();
        if !matches!(&map.regions[..], [only] if whole(only)) && map.size > 0 {
            strips.push(picture.strip("the whole disk".to_owned(), vec![disk]));
        }
        strips.extend(map.regions.iter().map(|region| picture.strip(title(region), region.extents.clone())));
        picture.strips = strips;
        picture
    }

    fn strip(&self, title: String, extents: Vec<Extent>) -> Strip {
        let size = extents.iter().map(|extent| extent.len).sum();
        let start = extents.iter().map(|extent| extent.start).min().unwrap_or(0);
        let end = extents.iter().map(|extent| extent.end()).max().unwrap_or(0);
        let reach = Extent { start, len: end - start };
        let mut strip = Strip { title, size, counts: Counts::default(), reach, extents };
        strip.counts = self.cells(&strip, 1).first().copied().unwrap_or_default();
        strip
    }

    /// Cuts a strip into at most `count` cells of equal length, and counts what is in each.
    pub fn cells(&self, strip: &Strip, count: usize) -> Vec<Counts> {
        let count = (count as u64).min(strip.size);
        let mut cells = vec![Counts::default(); count as usize];
        if count == 0 {
            return cells;
        }
        // The first byte of a cell; the cells differ by a byte at most.
        let edge = |cell: u64| (u128::from(strip.size) * u128::from(cell) / u128::from(count)) as u64;
        let cell_of = |at: u64| {
            let cell = (u128::from(at) * u128::from(count) / u128::from(strip.size)) as u64;
            // Rounding down may stop one short of the cell that begins here.
            if cell + 1 < count && edge(cell + 1) <= at { cell + 1 } else { cell }
        };
        for (kind, set) in self.sets.iter().enumerate() {
            let mut at = 0;
            for place in &strip.extents {
                for piece in set.clipped(place.start..place.end()).iter() {
                    let mut from = at + (piece.start - place.start);
                    let end = from + piece.len;
                    while from < end {
                        let cell = cell_of(from);
                        let to = edge(cell + 1).min(end);
                        cells[cell as usize][kind] += to - from;
                        from = to;
                    }
                }
                at += place.len;
            }
        }
        cells
    }
}

fn is_understood(region: &Region) -> bool {
    matches!(region.verdict, Verdict::Mapped { .. } | Verdict::Framework)
}

fn union<'r>(regions: impl Iterator<Item = &'r Region>) -> ExtentSet {
    ExtentSet::from_ranges(regions.flat_map(|region| region.extents.iter().map(|extent| extent.start..extent.end())))
}

/// `GPT partition 2: ext4, mapped`. What the image says may be in it, and nothing that a terminal obeys.
fn title(region: &Region) -> String {
    let kind = region.kind.map(|kind| format!("{kind}, ")).unwrap_or_default();
    printable(&format!("{}: {kind}{}", region.place, region.verdict.word()))
}

/// Text without what a terminal obeys, what turns the direction of writing, and what cannot be seen.
pub fn printable(text: &str) -> String {
    let unseen = |letter| {
        matches!(letter, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
            || matches!(letter, '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
    };
    text.replace(|letter: char| letter.is_control() || unseen(letter), "?")
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{UNIT, picture, region};
    use super::*;

    #[test]
    fn every_byte_is_of_one_kind() {
        let picture = picture("GPT partition 1");
        let in_mib = |strip: &Strip| strip.counts.map(|bytes| bytes / UNIT);
        assert_eq!(in_mib(&picture.strips[0]), [28, 16, 6, 16, 14]);
        assert_eq!(in_mib(&picture.strips[2]), [26, 0, 2, 16, 4]);
        assert_eq!(in_mib(&picture.strips[3]), [0, 16, 4, 0, 10]);
        assert!(picture.strips.iter().all(|strip| strip.counts.iter().sum::<u64>() == strip.size));
    }

    #[test]
    fn cells_of_any_number_hold_the_whole_strip() {
        let picture = picture("GPT partition 1");
        for count in [1, 2, 3, 7, 79, 80, 81, 1000] {
            let cells = picture.cells(&picture.strips[0], count);
            assert_eq!(cells.len(), count);
            let sum = |kind: usize| cells.iter().map(|cell| cell[kind]).sum::<u64>();
            assert_eq!([0, 1, 2, 3, 4].map(sum), picture.strips[0].counts);
            let sizes: Vec<u64> = cells.iter().map(|cell| cell.iter().sum()).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{count}: {sizes:?}");
        }
    }

    #[test]
    fn tiny_and_empty_disks_have_pictures() {
        let nothing = Picture::new(&Map::default(), &ExtentSet::new(), &ExtentSet::new());
        assert!(nothing.strips.is_empty());
        let regions =
            vec![Region { extents: vec![Extent { start: 0, len: 3 }], ..region("x", 0..1, None, Verdict::Unknown) }];
        let tiny = Map { size: 3, regions, ..Map::default() };
        let tiny = Picture::new(&tiny, &ExtentSet::new(), &ExtentSet::new());
        assert_eq!((tiny.strips.len(), tiny.cells(&tiny.strips[0], 80).len()), (1, 3));
    }
}
