//! Reading an image: whole, and in regions that know their bounds and what they may cost.

use std::cell::RefCell;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::unix::fs::FileExt;

use crate::budget::{Budget, LARGEST_PIECE};
use crate::extents::{Extent, ExtentSet};
use crate::refusal::{OrRefuse, Refusal, over_budget_if};

/// Something that can be read at any offset: an image file, a virtual disk in a container, bytes in memory.
pub trait ReadAt: Send + Sync {
    /// Its length in bytes.
    fn size(&self) -> u64;

    /// Fills the buffer from `offset`.
    ///
    /// # Errors
    /// If it cannot be read, or ends before the buffer is full ([`io::ErrorKind::UnexpectedEof`]).
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let end = start.checked_add(buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(self.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A file or block device of a size that was looked at once.
#[derive(Debug)]
pub struct ImageFile {
    file: File,
    size: u64,
}

impl ImageFile {
    /// Reads `file`, of which `size` bytes exist. For block devices stat knows no size, so the caller says it.
    pub fn new(file: File, size: u64) -> ImageFile {
        ImageFile { file, size }
    }
}

impl ReadAt for ImageFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}

/// What was read for the map, so that it can be read again: a map is good only while this is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Witness {
    /// Where in the image, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
    hash: u64,
}

impl Witness {
    fn of(offset: u64, bytes: &[u8]) -> Witness {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        Witness { offset, len: bytes.len() as u64, hash: hasher.finish() }
    }

    /// Whether the image still says the same there.
    pub fn holds(&self, image: &dyn ReadAt) -> io::Result<bool> {
        let len = usize::try_from(self.len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut bytes = vec![0; len];
        image.read_exact_at(self.offset, &mut bytes)?;
        Ok(Witness::of(self.offset, &bytes) == *self)
    }
}

/// One look at an image: its budget, and a witness for each piece that was read.
pub struct Session<'a> {
    image: &'a dyn ReadAt,
    budget: Budget,
    witnesses: RefCell<Vec<Witness>>,
}

impl<'a> Session<'a> {
    /// A new look at an image.
    pub fn new(image: &'a dyn ReadAt, budget: Budget) -> Session<'a> {
        Session { image, budget, witnesses: RefCell::default() }
    }

    /// The whole image as a region.
    pub fn view(&self) -> View<'_> {
        let whole = Extent { start: 0, len: self.image.size() };
        View { session: self, segments: vec![Segment { at: 0, place: whole }], size: whole.len }
    }

    /// What everything that was read looked like.
    pub fn into_witnesses(self) -> Vec<Witness> {
        self.witnesses.into_inner()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Refusal> {
        self.budget.take_piece(buffer.len() as u64)?;
        self.image.read_exact_at(offset, buffer)?;
        self.witnesses.borrow_mut().push(Witness::of(offset, buffer));
        Ok(())
    }
}

/// A region of an image: a partition, or a volume of several pieces. Offsets are relative to its start.
#[derive(Clone)]
pub struct View<'a> {
    session: &'a Session<'a>,
    /// Where its bytes are in the image, in the order of the view.
    segments: Vec<Segment>,
    size: u64,
}

/// A piece of a region.
#[derive(Clone, Copy)]
struct Segment {
    /// Its offset in the region.
    at: u64,
    /// Where it is in the image.
    place: Extent,
}

impl<'a> View<'a> {
    /// Its length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What may still be spent.
    pub fn budget(&self) -> &'a Budget {
        &self.session.budget
    }

    /// A region of this region.
    pub fn part(&self, start: u64, len: u64) -> Result<View<'a>, Refusal> {
        self.joined(&[Extent { start, len }])
    }

    /// A region of several pieces of this region, in the given order, as a logical volume is.
    ///
    /// # Errors
    /// If one does not lie inside, or together they are longer than there are numbers.
    pub fn joined(&self, pieces: &[Extent]) -> Result<View<'a>, Refusal> {
        let mut segments = Vec::new();
        let mut size = 0_u64;
        for piece in pieces {
            self.check(piece.start, piece.len)?;
            let end = size.checked_add(piece.len).or_corrupt("a volume is too long")?;
            for place in self.pieces(piece.start, piece.len) {
                segments.push(Segment { at: size, place });
                size += place.len;
            }
            debug_assert_eq!(size, end);
        }
        Ok(View { session: self.session, segments, size })
    }

    /// Reads `len` bytes of metadata, at most `LARGEST_PIECE`, and remembers what they were.
    ///
    /// # Errors
    /// If they do not lie in the region, are too many, or cannot be read.
    pub fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, Refusal> {
        // Before anything is allocated: the length may come from a forged header.
        self.check(offset, len as u64)?;
        over_budget_if(len > LARGEST_PIECE, "bytes of metadata at once")?;
        let mut buffer = vec![0; len];
        self.read_into(offset, &mut buffer)?;
        Ok(buffer)
    }

    /// Fills a buffer that the caller has.
    pub(crate) fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Refusal> {
        self.check(offset, buffer.len() as u64)?;
        let mut filled = 0;
        for piece in self.pieces(offset, buffer.len() as u64) {
            let end = filled + piece.len as usize;
            self.session.read(piece.start, &mut buffer[filled..end])?;
            filled = end;
        }
        Ok(())
    }

    /// Where in the image the bytes of this region that are in `set` are.
    ///
    /// # Panics
    /// If the set reaches beyond the region.
    pub(crate) fn in_image(&self, set: &ExtentSet) -> ExtentSet {
        let ranges = set.iter().flat_map(|extent| {
            assert!(extent.end() <= self.size, "beyond the region");
            self.pieces(extent.start, extent.len)
        });
        ExtentSet::from_ranges(ranges.map(Extent::range))
    }

    fn check(&self, offset: u64, len: u64) -> Result<(), Refusal> {
        match offset.checked_add(len) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(Refusal::corrupt(format!("{len} bytes at {offset} are not in a region of {} bytes", self.size))),
        }
    }

    /// The pieces of the image that `len` bytes at `offset` consist of.
    fn pieces(&self, offset: u64, len: u64) -> impl Iterator<Item = Extent> + '_ {
        let end = offset + len;
        let first = self.segments.partition_point(|segment| segment.at + segment.place.len <= offset);
        let touched = self.segments[first..].iter().take_while(move |segment| segment.at < end);
        touched.filter_map(move |segment| {
            let (from, to) = (offset.max(segment.at), end.min(segment.at + segment.place.len));
            (from < to).then(|| Extent { start: segment.place.start + (from - segment.at), len: to - from })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Vec<u8> {
        (0..=255).collect()
    }

    #[test]
    fn a_volume_of_several_pieces_reads_as_one() {
        let image = image();
        let session = Session::new(&image, Budget::for_image(256));
        let pieces = [Extent { start: 100, len: 3 }, Extent { start: 10, len: 2 }];
        let volume = session.view().part(50, 200).and_then(|part| part.joined(&pieces)).unwrap();
        assert_eq!(volume.size(), 5);
        assert_eq!(volume.read(1, 4).unwrap(), [151, 152, 60, 61]);
        let free = ExtentSet::of(2..4);
        assert_eq!(volume.in_image(&free), ExtentSet::from_ranges([152..153, 60..61]));
    }

    #[test]
    fn nothing_outside_a_region_is_read_or_allocated() {
        let image = image();
        let session = Session::new(&image, Budget::for_image(256));
        let part = session.view().part(200, 56).unwrap();
        assert!(part.read(50, 7).is_err());
        assert!(part.read(u64::MAX, 7).is_err());
        assert!(part.read(0, usize::MAX).is_err());
        assert!(session.view().part(200, 57).is_err());
    }

    #[test]
    fn a_witness_notices_a_changed_byte() {
        let mut image = image();
        let witnesses = {
            let session = Session::new(&image, Budget::for_image(256));
            session.view().read(16, 16).unwrap();
            session.into_witnesses()
        };
        assert!(witnesses[0].holds(&image).unwrap());
        image[31] ^= 1;
        assert!(!witnesses[0].holds(&image).unwrap());
    }

    #[test]
    fn a_budget_ends_the_reading() {
        let image = image();
        let session = Session::new(&image, Budget::new(20, 1, 1));
        assert!(session.view().read(0, 20).is_ok());
        assert_eq!(session.view().read(0, 1), Err(Refusal::Budget("bytes of metadata")));
        assert!(session.view().budget().take_node().is_ok());
        assert!(session.view().budget().take_node().is_err());
    }
}
