//! The part of an image that a test keeps in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use haul_guest::fs::{FreeMap, Options};
use haul_guest::image::{ImageFile, Session};
use haul_guest::{Budget, ReadAt};

/// Opens an image file for parsers.
///
/// # Panics
/// If it cannot be opened.
pub fn open(path: &Path) -> ImageFile {
    let file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    ImageFile::new(file, size)
}

/// Pages of 4 KiB of an image that are not in a file: what a test keeps in memory of a large one. Others are zero.
#[derive(Clone)]
pub struct Pages {
    size: u64,
    pages: BTreeMap<u64, Arc<Vec<u8>>>,
}

const PAGE: u64 = 4096;

impl Pages {
    /// Nothing but zeros, however large.
    pub fn empty(size: u64) -> Pages {
        Pages { size, pages: BTreeMap::new() }
    }

    /// The pages that `ranges` of an image touch.
    ///
    /// # Panics
    /// If one cannot be read.
    pub fn of(image: &dyn ReadAt, ranges: impl IntoIterator<Item = Range<u64>>) -> Pages {
        let mut pages = BTreeMap::new();
        for range in ranges {
            for page in range.start / PAGE..range.end.min(image.size()).div_ceil(PAGE) {
                pages.entry(page).or_insert_with(|| {
                    let mut bytes = vec![0; PAGE.min(image.size() - page * PAGE) as usize];
                    image.read_exact_at(page * PAGE, &mut bytes).unwrap();
                    bytes.resize(PAGE as usize, 0);
                    Arc::new(bytes)
                });
            }
        }
        Pages { size: image.size(), pages }
    }

    /// Everything that `parser` reads of an image: enough to parse it again without the image.
    ///
    /// # Panics
    /// If it refuses.
    pub fn read_by(parser: &dyn FreeMap, image: &dyn ReadAt) -> Pages {
        let session = Session::new(image, Budget::for_image(image.size()));
        parser.free(&session.view(), &Options::default()).expect("refused");
        let witnesses = session.into_witnesses();
        Pages::of(image, witnesses.iter().map(|witness| witness.offset..witness.offset + witness.len))
    }

    /// The pages that are there: their offsets, and their 4 KiB.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pages.iter().map(|(page, bytes)| (page * PAGE, bytes.as_slice()))
    }

    /// Writes the image to a sparse file.
    ///
    /// # Panics
    /// If it cannot be written.
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
    #[must_use]
    pub fn with_size(self, size: u64) -> Pages {
        Pages { size, ..self }
    }

    /// The bytes at `offset`.
    ///
    /// # Panics
    /// If they do not lie in the image.
    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.read_exact_at(offset, &mut bytes).unwrap();
        bytes
    }

    /// Changes bytes; makes the pages if they are not there.
    pub fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        let mut at = offset;
        while !bytes.is_empty() {
            let inside = (at % PAGE) as usize;
            let (piece, rest) = bytes.split_at(bytes.len().min(PAGE as usize - inside));
            let page = self.pages.entry(at / PAGE).or_insert_with(|| Arc::new(vec![0; PAGE as usize]));
            // Clones share their pages until they are changed.
            if page[inside..inside + piece.len()] != *piece {
                Arc::make_mut(page)[inside..inside + piece.len()].copy_from_slice(piece);
            }
            at += piece.len() as u64;
            bytes = rest;
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
