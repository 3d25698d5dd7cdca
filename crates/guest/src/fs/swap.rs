//! Swap areas: nothing in them is worth keeping but the header, unless a hibernated system sleeps there.
//!
//! Format: `union swap_header` of Linux (include/linux/swap.h); mkswap(8). The signature is at the end of the first page,
//! whose size is that of the machine which made it. Which signatures a sleeping system leaves is known from libblkid.

use crate::bytes::{be32, le32, product, slice};
use crate::extents::ExtentSet;
use crate::fs::free_map::{Findings, FreeMap, Options};
use crate::image::View;
use crate::refusal::{Refusal, corrupt_if, dirty_if, unsupported_if};

/// The sizes of pages that Linux knows, in bytes.
const PAGES: [u64; 5] = [4096, 8192, 16384, 32768, 65536];

/// What is kept in front, in bytes: the largest first page there is.
const KEPT: u64 = 65536;

/// How much of a region an area may leave, in bytes: less than the largest page. mkswap(8) takes all whole pages, and a
/// header alone proves little: what begins with an old one may be the first piece of a file, a member of a striped array, or
/// the data of a thin pool.
const LEFT: u64 = 65536;

/// Bytes of a signature. It is at the end of the first page.
pub const LEN: usize = 10;
const CURRENT: &[u8] = b"SWAPSPACE2";
const OLD: &[u8] = b"SWAP-SPACE";

/// What a hibernated system leaves at the place of the signature: the kernel, uswsusp, older ones, TuxOnIce.
const ASLEEP: [&[u8]; 6] =
    [b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND", b"LINHIB000", b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c", b"TuxOnIce"];

/// Where the list of bad pages begins, in bytes.
const BAD_PAGES: u64 = 1536;

/// Linux' swap areas.
#[derive(Debug)]
pub struct Swap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Current,
    Old,
    Asleep,
}

impl FreeMap for Swap {
    fn name(&self) -> &'static str {
        "swap"
    }

    fn detect(&self, region: &View<'_>) -> Result<bool, Refusal> {
        Ok(!signatures(region)?.is_empty())
    }

    fn free(&self, region: &View<'_>, _options: &Options) -> Result<Findings, Refusal> {
        let found = signatures(region)?;
        dirty_if(found.iter().any(|(_, kind)| *kind == Kind::Asleep), "a hibernated system")?;
        match found.as_slice() {
            [(page, Kind::Current)] => area(region, *page),
            [(_, Kind::Old)] => Err(Refusal::unsupported("the old version of swap areas")),
            [] => Err(Refusal::corrupt("no signature of a swap area")),
            _ => Err(Refusal::unsupported("ambiguous: signatures for several sizes of pages")),
        }
    }

    fn tells_use(&self) -> bool {
        false
    }
}

/// Whether a hibernated system left its memory in the region. It goes on where it stopped: all that it had mounted is
/// newer in its memory than on the disk, and its other swap areas are in use. (One that sleeps in a swap file is seen by
/// whoever reads that, with [`is_hibernated`]; one on another disk is not.)
pub(crate) fn is_asleep(region: &View<'_>) -> Result<bool, Refusal> {
    Ok(signatures(region)?.iter().any(|(_, kind)| *kind == Kind::Asleep))
}

/// Whether the last [`LEN`] bytes of a page are what a hibernated system leaves at the end of the first page of a swap
/// area: also one in a file of some filesystem, for which nobody can look by its place.
pub fn is_hibernated(signature: &[u8]) -> bool {
    ASLEEP.iter().any(|asleep| signature.starts_with(asleep))
}

/// All signatures, and the size of the page for which each is.
fn signatures(region: &View<'_>) -> Result<Vec<(u64, Kind)>, Refusal> {
    let mut found = Vec::new();
    for page in PAGES.into_iter().filter(|page| *page <= region.size()) {
        let signature = region.read(page - LEN as u64, LEN)?;
        let kind = match signature.as_slice() {
            CURRENT => Kind::Current,
            OLD => Kind::Old,
            other if is_hibernated(other) => Kind::Asleep,
            _ => continue,
        };
        found.push((page, kind));
    }
    // TuxOnIce also overwrites the beginning of the header.
    if let (Some((page, _)), true) = (found.first().copied(), region.size() >= KEPT.min(4096)) {
        let start = region.read(0, LEN)?;
        if is_hibernated(&start) {
            found.push((page, Kind::Asleep));
        }
    }
    Ok(found)
}

/// What of an area of pages of this size may be dropped.
fn area(region: &View<'_>, page: u64) -> Result<Findings, Refusal> {
    let header = region.read(0, page as usize)?;
    match (le32(&header, 1024)?, be32(&header, 1024)?) {
        (1, _) => {}
        (_, 1) => return Err(Refusal::unsupported("a swap area of a big-endian machine")),
        (version, _) => return Err(Refusal::unsupported(format!("version {version} of swap areas"))),
    }
    let last = u64::from(le32(&header, 1028)?);
    let end = product(last + 1, page)?;
    corrupt_if(last == 0 || end > region.size(), "the last page of the swap area is outside its region")?;
    unsupported_if(region.size() - end >= LEFT, "a swap area that ends before its region")?;
    let bad = bad_pages(&header, page, last)?;
    let free = ExtentSet::of(KEPT..end).without(&bad);
    let dropped = free.bytes();
    Ok(Findings { free, dropped, evidence: vec!["swap".to_owned(), "not hibernated".to_owned()] })
}

/// The bytes of the pages that the kernel does not use.
fn bad_pages(header: &[u8], page: u64, last: u64) -> Result<ExtentSet, Refusal> {
    let count = u64::from(le32(header, 1032)?);
    corrupt_if(count > (page - LEN as u64 - BAD_PAGES) / 4, "more bad pages than the header has room for")?;
    let list = slice(header, BAD_PAGES as usize, count as usize * 4)?;
    let mut pages = Vec::with_capacity(count as usize);
    for field in list.chunks_exact(4) {
        let number = u64::from(le32(field, 0)?);
        corrupt_if(number == 0 || number > last, "a bad page that is not in the swap area")?;
        pages.push(number * page..(number + 1) * page);
    }
    Ok(ExtentSet::from_ranges(pages))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::image::Session;

    const PAGE: usize = 4096;
    const COUNT: usize = 64;

    fn swap() -> Vec<u8> {
        let mut image = vec![0; COUNT * PAGE];
        image[1024] = 1;
        image[1028] = COUNT as u8 - 1;
        image[PAGE - LEN..PAGE].copy_from_slice(CURRENT);
        image
    }

    fn look(change: impl FnOnce(&mut Vec<u8>)) -> Result<Findings, Refusal> {
        let mut image = swap();
        change(&mut image);
        let session = Session::new(&image, Budget::for_image(image.len() as u64));
        assert_eq!(Swap.detect(&session.view()), Ok(true));
        Swap.free(&session.view(), &Options::default())
    }

    #[test]
    fn everything_behind_the_first_64_kib_is_free() {
        let found = look(|_| ()).unwrap();
        assert_eq!(found.free, ExtentSet::of(KEPT..(COUNT * PAGE) as u64));
        assert_eq!(found.dropped, found.free.bytes());
    }

    #[test]
    fn an_area_that_ends_before_its_region_is_refused() {
        for last in [1, 3, 20, COUNT as u8 - 17] {
            let found = look(|image| image[1028] = last);
            assert!(matches!(found, Err(Refusal::Unsupported(_))), "{last}: {found:?}");
        }
        for last in [COUNT as u8 - 16, COUNT as u8 - 2] {
            let free = look(|image| image[1028] = last).unwrap().free;
            assert_eq!(free, ExtentSet::of(KEPT..(u64::from(last) + 1) * PAGE as u64));
        }
        assert!(look(|image| image[1028] = COUNT as u8).is_err());
        assert!(look(|image| image[1028] = 0).is_err());
        assert!(look(|image| image[1028..1032].fill(0xff)).is_err());
    }

    #[test]
    fn bad_pages_are_used() {
        let with = |count: u8, number: u8| {
            look(move |image| {
                image[1032] = count;
                image[1536] = number;
            })
        };
        let expected = ExtentSet::from_ranges([KEPT..20 * PAGE as u64, 21 * PAGE as u64..(COUNT * PAGE) as u64]);
        assert_eq!(with(1, 20).unwrap().free, expected);
        assert!(with(1, 0).is_err());
        assert!(with(1, COUNT as u8).is_err());
        assert!(look(|image| image[1032..1036].fill(0xff)).is_err());
    }

    #[test]
    fn a_hibernated_system_is_kept() {
        for signature in ASLEEP {
            for at in [PAGE - LEN, 8192 - LEN, 0] {
                let found = look(|image| image[at..at + signature.len()].copy_from_slice(signature));
                assert!(matches!(found, Err(Refusal::Dirty(_))), "{signature:?} at {at}");
            }
        }
    }

    #[test]
    fn doubtful_signatures_are_refused() {
        assert!(look(|image| image[8192 - LEN..8192].copy_from_slice(CURRENT)).is_err(), "two sizes of pages");
        assert!(look(|image| image[PAGE - LEN..PAGE].copy_from_slice(OLD)).is_err(), "old");
        assert!(look(|image| image[1024..1028].copy_from_slice(&[0, 0, 0, 1])).is_err(), "big-endian");
        assert!(look(|image| image[1024] = 2).is_err(), "version 2");
        assert!(look(|image| image[1024] = 0).is_err(), "version 0");
    }

    #[test]
    fn a_region_shorter_than_a_page_is_no_swap_area() {
        let image = vec![0; 4000];
        let session = Session::new(&image, Budget::for_image(4000));
        assert_eq!(Swap.detect(&session.view()), Ok(false));
        assert!(Swap.free(&session.view(), &Options::default()).is_err());
    }
}
