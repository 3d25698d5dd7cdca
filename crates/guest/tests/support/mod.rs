//! What the tests of the parsers share.
#![allow(dead_code, unused_imports)]

pub mod disk;

pub use haul_forge::{Fix, Pages, lvm, open};

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_guest::fs::{Findings, FreeMap, Options};
use haul_guest::image::Session;
use haul_guest::{Budget, ExtentSet, ReadAt, Refusal};
use haul_testbed::guest::Noise;

/// What a parser proves of an image that is one filesystem.
pub fn free(parser: &dyn FreeMap, image: &dyn ReadAt) -> Result<Findings, Refusal> {
    let session = Session::new(image, Budget::for_image(image.size()));
    parser.free(&session.view(), &Options::default())
}

/// An image that counts what is read of it: the work of a parser, on a machine of any speed.
pub struct Counted<'a> {
    image: &'a dyn ReadAt,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl<'a> Counted<'a> {
    pub fn new(image: &'a dyn ReadAt) -> Counted<'a> {
        Counted { image, reads: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// How many reads there were, and of how many bytes together.
    pub fn work(&self) -> (u64, u64) {
        (self.reads.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

impl ReadAt for Counted<'_> {
    fn size(&self) -> u64 {
        self.image.size()
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.image.read_exact_at(offset, buffer)
    }
}

/// What `look` finds in an image, with at most so many reads and bytes.
pub fn within<T>(image: &dyn ReadAt, reads: u64, bytes: u64, look: impl FnOnce(&Counted<'_>) -> T) -> T {
    let counted = Counted::new(image);
    let found = look(&counted);
    let work = counted.work();
    assert!(work.0 <= reads && work.1 <= bytes, "{} reads of {} bytes", work.0, work.1);
    found
}

/// Makes the smart copy of an image as the slow reference does.
pub fn copy_without(image: &Path, free: &ExtentSet, to: &Path) {
    haul_testbed::guest::copy_without(image, free.iter().map(|extent| (extent.start, extent.len)), to);
}

/// How often mutated images were refused and accepted.
#[derive(Debug, Default)]
pub struct Soundness {
    pub refused: u64,
    pub accepted: u64,
}

/// Mutates one to three bytes in `places` of an image, `rounds` times, lets `repair` fix the checksums, and asserts that
/// the parser refuses or finds only bytes free that are in `truly_free`.
pub fn assert_sound(
    parser: &dyn FreeMap,
    image: &Pages,
    truly_free: &ExtentSet,
    places: &[Range<u64>],
    rounds: u64,
    repair: impl Fn(&mut Pages),
) -> Soundness {
    let mut counts = Soundness::default();
    for round in 0..rounds {
        let mut noise = Noise::new(round);
        let mut mutated = image.clone();
        let mut changes = Vec::new();
        for _ in 0..=noise.below(3) {
            let place = &places[noise.below(places.len() as u64) as usize];
            let at = place.start + noise.below(place.end - place.start);
            let old = mutated.read(at, 1)[0];
            // Single bits, interesting values and anything.
            let new = match noise.below(3) {
                0 => old ^ (1 << noise.below(8)),
                1 => [0, 1, 0x7f, 0x80, 0xff][noise.below(5) as usize],
                _ => noise.number() as u8,
            };
            mutated.write(at, &[new]);
            changes.push((at, old, new));
        }
        repair(&mut mutated);
        match free(parser, &mutated) {
            Err(_) => counts.refused += 1,
            Ok(found) => {
                let wrong = found.free.without(truly_free);
                assert!(
                    wrong.is_empty(),
                    "round {round}, changed (offset, old, new) {changes:?}: {wrong:?} is not free"
                );
                counts.accepted += 1;
            }
        }
    }
    counts
}

/// The size of a file on its disk, in bytes.
pub fn allocated(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).unwrap().blocks() * 512
}
