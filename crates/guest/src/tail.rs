//! What lies behind a filesystem in its own region.
//!
//! A hash tree of dm-verity is often appended to the data that it covers: `veritysetup format` with one device for both, and
//! `--hash-offset` at the end of the filesystem. No signature is at a place that is known beforehand then.

use crate::image::View;
use crate::refusal::{Refusal, over_budget_if};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A superblock is at a multiple of this, in bytes; that is all that veritysetup asks for.
const SECTOR: u64 = 512;

/// How much right behind a filesystem is looked at in full: the next multiple of 512 bytes, 4 KiB, 64 KiB or 1 MiB is in it.
const NEAR: u64 = 2 * MIB;

/// How many multiples of 1 MiB behind that are looked at.
const FAR: u64 = 256;

/// How much may be read behind the filesystems of one image: all that is looked at of 100 long tails.
const MOST: u64 = 100 * (NEAR + FAR * SECTOR);

/// How a sector begins that says that a hash tree is there: dm-verity's superblock, and the metadata of Android up to 7,
/// version 0.
const SIGNATURES: [&[u8]; 2] = [b"verity\0\0", b"\x01\xb0\x01\xb0\0\0\0\0"];

/// Looks behind filesystems, as long as all of them together do not cost too much.
#[derive(Debug)]
pub struct Tails {
    /// How many bytes may still be read.
    left: u64,
}

impl Default for Tails {
    fn default() -> Tails {
        Tails { left: MOST }
    }
}

impl Tails {
    /// Whether there is a hash tree of dm-verity in a region behind a filesystem that ends at `end`.
    ///
    /// # Errors
    /// If it cannot be read, or too much was read for other filesystems.
    pub fn has_verity(&mut self, region: &View<'_>, end: u64) -> Result<bool, Refusal> {
        let size = region.size() / SECTOR * SECTOR;
        let start = end / SECTOR * SECTOR;
        let near = start.saturating_add(NEAR).min(size);
        let mut at = start;
        while at < near {
            let len = (near - at).min(512 * KIB);
            if self.read(region, at, len)?.chunks_exact(SECTOR as usize).any(is_verity) {
                return Ok(true);
            }
            at += len;
        }
        for number in (near.div_ceil(MIB)..size / MIB).take(FAR as usize) {
            if is_verity(&self.read(region, number * MIB, SECTOR)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn read(&mut self, region: &View<'_>, at: u64, len: u64) -> Result<Vec<u8>, Refusal> {
        over_budget_if(self.left < len, "what lies behind filesystems")?;
        self.left -= len;
        region.read(at, len as usize)
    }
}

fn is_verity(sector: &[u8]) -> bool {
    SIGNATURES.iter().any(|signature| sector.starts_with(signature))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::image::Session;

    fn look(tails: &mut Tails, image: &Vec<u8>, end: u64) -> Result<bool, Refusal> {
        let session = Session::new(image, Budget::for_image(image.len() as u64));
        tails.has_verity(&session.view(), end)
    }

    #[test]
    fn a_superblock_is_found_at_any_sector_near_and_any_mebibyte_further() {
        let end = MIB + 1536;
        for at in [end, 2 * MIB - 512, 2 * MIB, 3 * MIB + 512, 4 * MIB, 7 * MIB] {
            for signature in SIGNATURES {
                let mut image = vec![0; 8 << 20];
                image[at as usize..][..signature.len()].copy_from_slice(signature);
                assert_eq!(look(&mut Tails::default(), &image, end), Ok(true), "{at}");
                assert_eq!(look(&mut Tails::default(), &image, at + 512), Ok(false), "{at}: it ends behind that");
            }
        }
    }

    #[test]
    fn no_end_of_a_filesystem_reads_outside_its_region() {
        let image = vec![0; 3 << 20];
        for end in [0, MIB - 1, 3 * MIB - 1, 3 * MIB, 3 * MIB + 1, u64::MAX] {
            assert_eq!(look(&mut Tails::default(), &image, end), Ok(false), "{end}");
        }
        assert_eq!(look(&mut Tails::default(), &vec![0; 511], 0), Ok(false));
    }

    #[test]
    fn what_is_behind_many_filesystems_is_bounded() {
        let image = vec![0; 4 << 20];
        let mut tails = Tails { left: 2 * NEAR + 2 * SECTOR };
        assert_eq!(look(&mut tails, &image, MIB), Ok(false));
        assert_eq!(look(&mut tails, &image, MIB), Ok(false));
        assert_eq!(look(&mut tails, &image, MIB), Err(Refusal::Budget("what lies behind filesystems")));
        assert_eq!(look(&mut tails, &image, 4 * MIB), Ok(false), "nothing to read");
    }
}
