//! What looking at an image may cost.

use std::cell::Cell;

use crate::refusal::Refusal;

/// The largest piece of metadata that is held in memory at once, in bytes.
pub(crate) const LARGEST_PIECE: usize = 4 << 20;

/// Limits for the parsers of one image, counted down while they work. What runs out is named in the refusal.
///
/// A forged header must cost less than 64 MiB of memory and a second, whatever it says; an honest image of any size
/// must get by. So what may be read grows with the image, and what may be held does not.
///
/// Some filesystems are nothing but metadata: an NTFS whose files all fit into its table. What a header only claims to
/// be metadata costs, but records that prove to be some are given back (`Budget::give_back`), since nobody gets these for
/// the price of a header; and a whole copy would read them too.
#[derive(Debug)]
pub struct Budget {
    bytes: Cell<u64>,
    /// How many of them may be given back.
    returns: Cell<u64>,
    nodes: Cell<u64>,
    pieces: Cell<usize>,
    extents: usize,
}

/// How many pieces may be read, 24 bytes each in memory: 48 MiB. Each block of a journal or a tree is one of them.
pub(crate) const MOST_PIECES: usize = 2 << 20;

impl Budget {
    /// What an image of `size` bytes may cost.
    ///
    /// Metadata bytes: a FAT32 with clusters of 512 bytes has 1/64 of its size in two tables, a full btrfs with small
    /// files about as much in its extent tree.
    pub fn for_image(size: u64) -> Budget {
        Budget::new((64 << 20) + size / 32, (1 << 16) + size / (256 << 10), 2 << 20).returning(size)
    }

    /// What a region of `len` bytes may cost where an image of `image` bytes has `regions` of them, `all` bytes long
    /// together (they may overlap). Each has its own share, so that a hostile one takes nothing from the others, and all
    /// together stay within a few times [`Budget::for_image`], however many there are.
    pub fn share(image: u64, len: u64, all: u64, regions: usize) -> Budget {
        let regions = (regions as u64).max(1);
        // Of what grows with the size, each has its part, less if they overlap.
        let part = |whole: u64| (u128::from(whole) * u128::from(len) / u128::from(all.max(image).max(1))) as u64;
        let bytes = (64 << 20).min((512 << 20) / regions);
        let nodes = (1 << 16).min((1 << 19) / regions);
        let extents = (1 << 20) / regions + part(1 << 20);
        Budget::new(bytes + part(image / 32), nodes + part(image / (256 << 10)), extents as usize)
            .returning(part(image))
    }

    /// Exactly these limits: bytes of metadata read, nodes (blocks of trees, records, steps) visited, and free extents
    /// found in one filesystem (16 bytes each in memory).
    pub fn new(bytes: u64, nodes: u64, extents: usize) -> Budget {
        let pieces = Cell::new(MOST_PIECES);
        Budget { bytes: Cell::new(bytes), returns: Cell::new(0), nodes: Cell::new(nodes), pieces, extents }
    }

    /// The same, and at most so many pieces are read.
    #[must_use]
    pub(crate) fn of_pieces(self, pieces: usize) -> Budget {
        Budget { pieces: Cell::new(pieces), ..self }
    }

    /// The same, and `bytes` of metadata may be given back.
    #[must_use]
    pub fn returning(self, bytes: u64) -> Budget {
        Budget { returns: Cell::new(bytes), ..self }
    }

    /// Takes one piece of `count` bytes of metadata.
    pub(crate) fn take_piece(&self, count: u64) -> Result<(), Refusal> {
        take(&self.bytes, count, "bytes of metadata")?;
        let left = self.pieces.get().checked_sub(1).ok_or(Refusal::Budget("pieces that the map rests on"))?;
        self.pieces.set(left);
        Ok(())
    }

    /// Gives back `count` bytes that have been taken, and were what a header says they are. As long as any may be.
    pub(crate) fn give_back(&self, count: u64) {
        let count = count.min(self.returns.get());
        self.returns.set(self.returns.get() - count);
        self.bytes.set(self.bytes.get().saturating_add(count));
    }

    /// Takes one node of a tree, one record, one step of a search.
    pub(crate) fn take_node(&self) -> Result<(), Refusal> {
        take(&self.nodes, 1, "nodes")
    }

    /// The most free extents that one filesystem may have.
    pub fn extents(&self) -> usize {
        self.extents
    }
}

fn take(left: &Cell<u64>, count: u64, what: &'static str) -> Result<(), Refusal> {
    left.set(left.get().checked_sub(count).ok_or(Refusal::Budget(what))?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_taken_again_but_not_for_ever() {
        let budget = Budget::new(10, 1, 1).returning(15);
        for _ in 0..2 {
            assert_eq!(budget.take_piece(10), Ok(()));
            assert!(budget.take_piece(1).is_err());
            budget.give_back(10);
        }
        assert_eq!((budget.take_piece(5), budget.take_piece(1).is_err()), (Ok(()), true));
    }
}
