//! What the tests of the parsers share.
#![allow(dead_code)]

pub mod disk;
pub mod lvm;
pub mod whole;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use haul_guest::fs::{Findings, FreeMap, Options};
use haul_guest::image::{ImageFile, Session};
use haul_guest::{Budget, ExtentSet, ReadAt, Refusal};
use haul_testbed::guest::Noise;

/// Opens an image file for parsers.
pub fn open(path: &Path) -> ImageFile {
    let file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    ImageFile::new(file, size)
}

/// What a parser proves of an image that is one filesystem.
pub fn free(parser: &dyn FreeMap, image: &dyn ReadAt) -> Result<Findings, Refusal> {
    let session = Session::new(image, Budget::for_image(image.size()));
    parser.free(&session.view(), &Options::default())
}

/// Makes the smart copy of an image as the slow reference does.
pub fn copy_without(image: &Path, free: &ExtentSet, to: &Path) {
    haul_testbed::guest::copy_without(image, free.iter().map(|extent| (extent.start, extent.len)), to);
}

/// Pages of 4 KiB of an image that are not in a file: what a test keeps in memory of a large one. Others are zero.
#[derive(Clone)]
pub struct Pages {
    size: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

const PAGE: u64 = 4096;

impl Pages {
    /// Nothing but zeros, however large.
    pub fn empty(size: u64) -> Pages {
        Pages { size, pages: BTreeMap::new() }
    }

    /// The pages that `ranges` of an image touch.
    pub fn of(image: &dyn ReadAt, ranges: impl IntoIterator<Item = Range<u64>>) -> Pages {
        let mut pages = BTreeMap::new();
        for range in ranges {
            for page in range.start / PAGE..range.end.min(image.size()).div_ceil(PAGE) {
                pages.entry(page).or_insert_with(|| {
                    let mut bytes = vec![0; PAGE.min(image.size() - page * PAGE) as usize];
                    image.read_exact_at(page * PAGE, &mut bytes).unwrap();
                    bytes.resize(PAGE as usize, 0);
                    bytes
                });
            }
        }
        Pages { size: image.size(), pages }
    }

    /// Everything that `parser` reads of an image: enough to parse it again without the image.
    pub fn read_by(parser: &dyn FreeMap, image: &dyn ReadAt) -> Pages {
        let session = Session::new(image, Budget::for_image(image.size()));
        parser.free(&session.view(), &Options::default()).expect("refused");
        let witnesses = session.into_witnesses();
        Pages::of(image, witnesses.iter().map(|witness| witness.offset..witness.offset + witness.len))
    }

    /// Writes the image to a sparse file.
    pub fn save(&self, path: &Path) {
        let file = File::create(path).unwrap();
        for (page, bytes) in &self.pages {
            let len = PAGE.min(self.size - page * PAGE) as usize;
            file.write_all_at(&bytes[..len], page * PAGE).unwrap();
        }
        file.set_len(self.size).unwrap();
    }

    /// Puts all its pages into another image, from `at` on.
    pub fn copy_to(&self, other: &mut Pages, at: u64) {
        for (page, bytes) in &self.pages {
            other.write(at + page * PAGE, bytes);
        }
    }

    /// The same at the start of an image of another size.
    pub fn with_size(self, size: u64) -> Pages {
        Pages { size, ..self }
    }

    /// The bytes at `offset`, which must be in a page that is there.
    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.read_exact_at(offset, &mut bytes).unwrap();
        bytes
    }

    /// Changes bytes; makes the pages if they are not there.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (at, byte) in (offset..).zip(bytes) {
            let page = self.pages.entry(at / PAGE).or_insert_with(|| vec![0; PAGE as usize]);
            page[(at % PAGE) as usize] = *byte;
        }
    }
}

impl ReadAt for Pages {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset + filled as u64;
            let inside = (at % PAGE) as usize;
            let piece = (PAGE as usize - inside).min(buffer.len() - filled);
            match self.pages.get(&(at / PAGE)) {
                Some(page) => buffer[filled..filled + piece].copy_from_slice(&page[inside..inside + piece]),
                None => buffer[filled..filled + piece].fill(0),
            }
            filled += piece;
        }
        Ok(())
    }
}

/// How often mutated images were refused and accepted.
#[derive(Debug, Default)]
pub struct Soundness {
    pub refused: u64,
    pub accepted: u64,
}

/// Mutates one to three bytes in `places` of an image, `rounds` times, lets `repair` mend the checksums, and asserts that
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
