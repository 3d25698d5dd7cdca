//! Shadow copies ("previous versions", restore points): snapshots of the volume below the filesystem.
//!
//! A shadow copy keeps the old contents of a block only once somebody writes to it. What was deleted since lies where it
//! was, free in `$Bitmap` and in use by the shadow copy. So a volume that has one has no free space.
//!
//! The format is described by libvshadow (libyal).

use crate::bytes::{le32, le64, slice};
use crate::image::View;
use crate::refusal::{Refusal, corrupt_if, unsupported_if};

/// Where the header is, in bytes: behind the boot code, in the last sector of `$Boot`.
const HEADER_AT: u64 = 0x1e00;
const HEADER_LEN: usize = 128;

/// {3808876b-c176-4e48-b7ae-04046e6cc752}
const SIGNATURE: [u8; 16] = *b"\x6b\x87\x08\x38\x76\xc1\x48\x4e\xb7\xae\x04\x04\x6e\x6c\xc7\x52";

/// The catalog is a chain of blocks, each with a header and entries of the same length.
const BLOCK: usize = 16 << 10;
const ENTRY: usize = 128;
const CATALOG: u32 = 2;

/// Windows keeps at most 512 shadow copies, with two entries each: nine blocks.
const MOST_BLOCKS: usize = 64;

/// Refuses a volume with shadow copies.
pub(super) fn check(region: &View<'_>) -> Result<(), Refusal> {
    let header = region.read(HEADER_AT, HEADER_LEN)?;
    let mut at = le64(&header, 48)?;
    if slice(&header, 0, 16)? != SIGNATURE || at == 0 {
        return Ok(());
    }
    for _ in 0..MOST_BLOCKS {
        region.budget().take_node()?;
        let block = region.read(at, BLOCK)?;
        let misplaced = slice(&block, 0, 16)? != SIGNATURE || le32(&block, 20)? != CATALOG || le64(&block, 32)? != at;
        corrupt_if(misplaced, "the catalog of shadow copies is not where it should be")?;
        for entry in block.chunks_exact(ENTRY).skip(1) {
            // Never used, no more used; all others belong to a shadow copy.
            unsupported_if(!matches!(le64(entry, 0)?, 0 | 1), "shadow copies, which use what the volume calls free")?;
        }
        at = le64(&block, 40)?;
        if at == 0 {
            return Ok(());
        }
    }
    Err(Refusal::Budget("the catalog of shadow copies"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::image::Session;

    const AT: usize = 64 << 10;

    /// A volume with a catalog of two blocks, in whose second one is an entry of this kind.
    fn look(kind: u8, change: impl FnOnce(&mut Vec<u8>)) -> Result<(), Refusal> {
        let mut image = vec![0; 256 << 10];
        let (header, second) = (HEADER_AT as usize, AT + 2 * BLOCK);
        image[header..header + 16].copy_from_slice(&SIGNATURE);
        image[header + 48..header + 56].copy_from_slice(&(AT as u64).to_le_bytes());
        for (at, next) in [(AT, second), (second, 0)] {
            image[at..at + 16].copy_from_slice(&SIGNATURE);
            image[at + 20] = 2;
            image[at + 32..at + 40].copy_from_slice(&(at as u64).to_le_bytes());
            image[at + 40..at + 48].copy_from_slice(&(next as u64).to_le_bytes());
        }
        image[second + 3 * ENTRY] = kind;
        change(&mut image);
        let session = Session::new(&image, Budget::for_image(image.len() as u64));
        check(&session.view())
    }

    #[test]
    fn a_volume_with_shadow_copies_is_refused() {
        assert_eq!(look(0, |_| ()), Ok(()));
        assert_eq!(look(1, |_| ()), Ok(()));
        assert!(matches!(look(2, |_| ()), Err(Refusal::Unsupported(_))));
        assert!(matches!(look(3, |_| ()), Err(Refusal::Unsupported(_))));
        assert_eq!(look(2, |image| image[HEADER_AT as usize] = 0), Ok(()), "no header");
        assert_eq!(look(2, |image| image[HEADER_AT as usize + 48..][..8].fill(0)), Ok(()), "no catalog");
    }

    #[test]
    fn a_catalog_that_is_damaged_or_does_not_end_is_refused() {
        assert!(look(0, |image| image[AT] = 0).is_err(), "no signature");
        assert!(look(0, |image| image[AT + 20] = 3).is_err(), "another record");
        assert!(look(0, |image| image[HEADER_AT as usize + 48..][..8].fill(0xff)).is_err(), "outside");
        let circle = |image: &mut Vec<u8>| image[AT + 40..AT + 48].copy_from_slice(&(AT as u64).to_le_bytes());
        assert!(look(0, circle).is_err(), "a circle");
    }
}
