//! What all formats share: a layout that says for any byte of the disk where it is, and all that follows from it.

use std::io;
use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;

use super::tables::{Cached, FileWitness, Reader, Recent, Tables, all_hold};
use crate::bytes::sum;
use crate::extents::{Extent, ExtentSet};
use crate::guard::{guarded, guarded_io};
use crate::image::ReadAt;
use crate::refusal::{OrRefuse, Refusal, corrupt_if, over_budget_if};

/// How many gaps [`VirtualDisk::unallocated`] names at most; 16 bytes each.
const GAPS: usize = 500_000;

/// How many runs of data [`VirtualDisk::host_ranges`] looks at; 24 bytes each. Beyond that it gives up.
const RUNS: usize = 500_000;

/// Bytes of unpacked blocks that are kept.
const UNPACKED: usize = 8 << 20;

/// The largest unit (cluster, grain) that may be compressed, in bytes.
pub(super) const LARGEST_UNIT: u64 = 2 << 20;

/// Where bytes of the disk are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Nowhere; they are zero.
    Zero,
    /// In a file, as they are, from this offset on.
    Stored { file: usize, offset: u64 },
    /// Compressed: `stored` bytes at `offset` of a file unpack to `unit` bytes, of which they begin at `skip`.
    Packed { file: usize, offset: u64, stored: usize, unit: usize, skip: usize },
}

/// Bytes of the disk that are in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// How many; never zero.
    pub len: u64,
    pub place: Place,
}

impl Piece {
    /// Whether `next` goes on where this one ends, so that both are one.
    fn goes_on_in(&self, next: &Piece) -> bool {
        match (self.place, next.place) {
            (Place::Zero, Place::Zero) => true,
            (Place::Stored { file, offset }, Place::Stored { file: other, offset: behind }) => {
                file == other && offset.checked_add(self.len) == Some(behind)
            }
            _ => false,
        }
    }

    /// The bytes from `at` on until `upto` is reached, as long as each piece that `piece` says goes on in the next one.
    pub fn joined(at: u64, upto: u64, piece: impl Fn(u64) -> Result<Piece, Refusal>) -> Result<Piece, Refusal> {
        let mut joined = piece(at)?;
        while sum(at, joined.len)? < upto {
            let more = piece(at + joined.len)?;
            if !joined.goes_on_in(&more) {
                break;
            }
            joined.len = sum(joined.len, more.len)?;
        }
        Ok(joined)
    }

    /// `len` bytes at `offset` of a file that may end within them; what is behind its end is zero. The caller has seen to it
    /// that the file does not lack whole units.
    pub fn stored(tables: &dyn Tables, file: usize, offset: u64, len: u64) -> Piece {
        match tables.size(file).saturating_sub(offset) {
            0 => Piece { len, place: Place::Zero },
            there => Piece { len: len.min(there), place: Place::Stored { file, offset } },
        }
    }
}

/// Bytes of the files, by the index of the file.
pub(super) type Ranges = Vec<(usize, Range<u64>)>;

/// A disk that a format has understood.
pub(super) struct Disk {
    format: &'static str,
    /// The size of the virtual disk in bytes.
    size: u64,
    layout: Box<dyn Layout>,
}

impl Disk {
    pub fn new(format: &'static str, size: u64, layout: impl Layout + 'static) -> Disk {
        Disk { format, size, layout: Box::new(layout) }
    }

    /// Visits all its pieces, in order.
    fn walk(
        &self,
        tables: &dyn Tables,
        mut visit: impl FnMut(u64, &Piece) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut at = 0;
        while at < self.size {
            let piece = self.layout.piece(tables, at, self.size)?;
            let len = piece.len.min(self.size - at);
            corrupt_if(len == 0, "a piece of no length")?;
            visit(at, &Piece { len, ..piece })?;
            at += len;
        }
        Ok(())
    }
}

/// A format's view of its disk.
pub(super) trait Layout: Send + Sync {
    /// Where the bytes from `at` on are, which is below the size. Looks no further than is needed to reach `upto`.
    fn piece(&self, tables: &dyn Tables, at: u64, upto: u64) -> Result<Piece, Refusal>;

    /// Unpacks one unit of `unit` bytes whose first byte is at `at` of the disk.
    fn unpack(&self, _packed: &[u8], _unit: usize, _at: u64) -> Result<Vec<u8>, Refusal> {
        Err(Refusal::corrupt("compressed data where there can be none"))
    }

    /// What of the files is neither data nor read at open, by file: nothing, if a format does not say else. `None` if bytes of
    /// the files cannot be freed one by one.
    fn besides(&self, _reader: &Reader) -> Result<Option<Ranges>, Refusal> {
        Ok(Some(Vec::new()))
    }

    /// Whether each of these bytes of the first file is used exactly once, as far as the format counts.
    fn used_once(&self, _reader: &Reader, _bytes: &ExtentSet) -> Result<bool, Refusal> {
        Ok(true)
    }
}

/// A disk that lies in a file byte by byte: a raw image, and a VHD of fixed size, which has a footer behind the disk. The
/// first bytes of the file, so many, are the disk.
pub(super) struct Plain(pub u64);

pub(super) fn open_raw(reader: &Reader) -> Result<Disk, Refusal> {
    Ok(Disk::new("raw", reader.size(0), Plain(reader.size(0))))
}

impl Layout for Plain {
    fn piece(&self, _: &dyn Tables, at: u64, _: u64) -> Result<Piece, Refusal> {
        Ok(Piece { len: self.0.saturating_sub(at), place: Place::Stored { file: 0, offset: at } })
    }
}

/// A virtual disk of any format. As a [`ReadAt`] it is the disk as its guest sees it; it never gives bytes from outside the
/// container's files.
pub struct VirtualDisk {
    disk: Disk,
    tables: Cached,
    unallocated: ExtentSet,
    witnesses: Vec<FileWitness>,
    unpacked: Recent<(usize, u64)>,
}

impl VirtualDisk {
    /// Looks at all tables once.
    pub(super) fn new(disk: Disk, reader: Reader) -> Result<VirtualDisk, Refusal> {
        let mut unallocated = ExtentSet::new();
        disk.walk(&reader, |at, piece| {
            if piece.place == Place::Zero && unallocated.count() < GAPS {
                unallocated.push(at..at + piece.len);
            }
            Ok(())
        })?;
        let (files, witnesses) = reader.into_parts();
        let (tables, unpacked) = (Cached::new(files), Recent::new(UNPACKED));
        Ok(VirtualDisk { disk, tables, unallocated, witnesses, unpacked })
    }

    /// Reads what is compressed, at `at` of the disk.
    fn unpack(&self, at: u64, place: Place, buffer: &mut [u8]) -> Result<(), Refusal> {
        let Place::Packed { file, offset, stored, unit, skip } = place else {
            return Err(Refusal::corrupt("not compressed"));
        };
        let whole = self.unpacked.get((file, offset), || {
            let source = self.tables.file(file)?;
            let inside = offset.checked_add(stored as u64).is_some_and(|end| end <= source.size());
            let misplaced = !inside || stored as u64 > 2 * LARGEST_UNIT || unit as u64 > LARGEST_UNIT;
            corrupt_if(misplaced, "compressed data lies outside the file")?;
            let mut packed = vec![0; stored];
            source.read_exact_at(offset, &mut packed)?;
            self.disk.layout.unpack(&packed, unit, at.saturating_sub(skip as u64))
        })?;
        let bytes = skip.checked_add(buffer.len()).and_then(|end| whole.get(skip..end));
        buffer.copy_from_slice(bytes.or_corrupt("compressed data is too short")?);
        Ok(())
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.size());
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let piece = self.disk.layout.piece(&self.tables, at, end).map_err(broken)?;
            let len = usize::try_from(piece.len).unwrap_or(usize::MAX).min(rest.len());
            if len == 0 {
                return Err(broken(Refusal::corrupt("a piece of no length")));
            }
            let (now, later) = rest.split_at_mut(len);
            match piece.place {
                Place::Zero => now.fill(0),
                Place::Stored { file, offset } => {
                    self.tables.file(file).map_err(broken)?.read_exact_at(offset, now)?;
                }
                Place::Packed { .. } => self.unpack(at, piece.place, now).map_err(broken)?,
            }
            at += len as u64;
            rest = later;
        }
        Ok(())
    }

    fn find_host_ranges(&self, set: &ExtentSet) -> Result<Option<HostRanges>, Refusal> {
        let files = self.tables.files();
        let reader = Reader::new(files.to_vec());
        let Some(besides) = self.disk.layout.besides(&reader)? else { return Ok(None) };
        let mut found = Found { runs: Vec::new(), kept: besides, held: ExtentSet::new(), freed: Vec::new() };
        found.kept.extend(self.witnesses.iter().map(range_of));
        let mut asked = set.iter().peekable();
        self.disk.walk(&self.tables, |at, piece| found.add(at, piece, &mut asked))?;
        if found.runs.len() > RUNS {
            return Ok(None);
        }
        found.kept.extend(reader.seen().iter().map(range_of));
        if !found.nothing_twice(files.len()) {
            return Ok(None);
        }
        let freed: Vec<ExtentSet> = (0..files.len()).map(|file| of_file(&found.freed, file)).collect();
        if let Some(first) = freed.first()
            && !self.disk.layout.used_once(&reader, first)?
        {
            return Ok(None);
        }
        let (sources, witnesses) = reader.into_parts();
        Ok(Some(HostRanges { files: freed, held: found.held, witnesses, sources }))
    }
}

/// Bytes of the files of a container that may be left out of a copy of it.
pub struct HostRanges {
    /// For each of [`Opened::parts`](super::Opened::parts) the bytes of the file.
    pub files: Vec<ExtentSet>,
    /// The bytes of the virtual disk that these are: a subset of what was asked for.
    pub held: ExtentSet,
    /// What this was concluded from, beyond [`VirtualDisk::witnesses`](super::VirtualDisk::witnesses).
    pub witnesses: Vec<FileWitness>,
    sources: Vec<Arc<dyn ReadAt>>,
}

impl HostRanges {
    /// Whether what this was concluded from is unchanged. [`VirtualDisk::still_holds`](super::VirtualDisk::still_holds) must be asked besides.
    pub fn still_holds(&self) -> io::Result<bool> {
        all_hold(&self.witnesses, &self.sources)
    }
}

fn range_of(seen: &FileWitness) -> (usize, Range<u64>) {
    (seen.file, seen.witness.offset..seen.witness.offset.saturating_add(seen.witness.len))
}

fn of_file(ranges: &[(usize, Range<u64>)], file: usize) -> ExtentSet {
    ranges.iter().filter(|(of, _)| *of == file).map(|(_, range)| range.clone()).collect()
}

/// What a walk over all pieces finds in the files.
struct Found {
    /// Bytes that hold data.
    runs: Ranges,
    /// Bytes that hold something else: tables, compressed data, what only the format knows.
    kept: Ranges,
    /// What was asked for and is there: in the disk, and in the files.
    held: ExtentSet,
    freed: Ranges,
}

impl Found {
    fn add<I>(&mut self, at: u64, piece: &Piece, asked: &mut Peekable<I>) -> Result<(), Refusal>
    where
        I: Iterator<Item = Extent>,
    {
        let too_many = self.runs.len() > RUNS || self.kept.len() > 4 * RUNS || self.freed.len() > RUNS;
        over_budget_if(too_many, "runs of data")?;
        match piece.place {
            Place::Zero => {}
            Place::Packed { file, offset, stored, .. } => {
                let range = offset..offset.saturating_add(stored as u64);
                // Compressed clusters lie behind one another, or share a sector.
                match self.kept.last_mut() {
                    Some((last, before))
                        if *last == file && before.start <= range.start && range.start <= before.end =>
                    {
                        before.end = before.end.max(range.end);
                    }
                    _ => self.kept.push((file, range)),
                }
            }
            Place::Stored { file, offset } => {
                self.runs.push((file, offset..offset.saturating_add(piece.len)));
                let end = at + piece.len;
                while let Some(&next) = asked.peek() {
                    if next.start >= end {
                        break;
                    }
                    let (from, to) = (next.start.max(at), next.end().min(end));
                    if from < to {
                        self.held.push(from..to);
                        self.freed.push((file, offset + (from - at)..offset + (to - at)));
                    }
                    if next.end() > end {
                        break; // it may reach into the next piece too
                    }
                    asked.next();
                }
            }
        }
        Ok(())
    }

    /// Whether no byte of a file holds two things.
    fn nothing_twice(&mut self, files: usize) -> bool {
        self.runs.sort_unstable_by_key(|(file, range)| (*file, range.start));
        let apart = self.runs.windows(2).all(|pair| match pair {
            [(file, range), (next, behind)] => file != next || range.end <= behind.start,
            _ => true,
        });
        apart && (0..files).all(|file| of_file(&self.runs, file).intersection(&of_file(&self.kept, file)).is_empty())
    }
}

impl ReadAt for VirtualDisk {
    fn size(&self) -> u64 {
        self.disk.size
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        guarded_io(|| self.read(offset, buffer))
    }
}

fn broken(refusal: Refusal) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, refusal.to_string())
}

impl VirtualDisk {
    /// The name of the format: `raw`, `qcow2`, `vmdk`, `vhdx`, `vdi`, `vhd`.
    pub fn format(&self) -> &'static str {
        self.disk.format
    }

    /// Bytes of the virtual disk that the container does not hold. They read as zero. In a container with very many
    /// gaps it is not all of them.
    pub fn unallocated(&self) -> &ExtentSet {
        &self.unallocated
    }

    /// Which bytes of the container's own files hold bytes of `set`, and nothing else: no other byte of the disk, no
    /// snapshot, no table. With zeros there, the container is as valid as before, and these bytes of the disk read as zero.
    ///
    /// `None` where that cannot be said: internal snapshots, bitmaps, streams, counts that do not agree, tables that cannot be
    /// read. What is compressed, or not in the files at all, is left out.
    pub fn host_ranges(&self, set: &ExtentSet) -> Option<HostRanges> {
        // Why not is of no use to anybody: the container is copied whole.
        guarded(|| self.find_host_ranges(&set.clipped(0..self.size()))).ok().flatten()
    }

    /// Which bytes of the disk are stored, as they are, in these bytes of its files (by the index in [`Opened::parts`](super::Opened::parts)). Where
    /// those are holes, the disk reads as zero. If the pieces are very many it is not all of them.
    pub fn stored_in(&self, files: &[ExtentSet]) -> ExtentSet {
        let mut found = ExtentSet::new();
        // Where the tables cannot be read any more, or there is too much of it, what was found so far is right.
        let _enough = self.disk.walk(&self.tables, |at, piece| {
            over_budget_if(found.count() >= GAPS, "pieces of a disk")?;
            let Place::Stored { file, offset } = piece.place else { return Ok(()) };
            let Some(set) = files.get(file) else { return Ok(()) };
            for inside in set.between(offset..offset.saturating_add(piece.len)) {
                let start = at + (inside.start - offset);
                found.push(start..start + inside.len);
            }
            Ok(())
        });
        found
    }

    /// What the tables looked like when the container was opened.
    pub fn witnesses(&self) -> &[FileWitness] {
        &self.witnesses
    }

    /// Whether its tables are still what they were when it was opened.
    pub fn still_holds(&self) -> io::Result<bool> {
        all_hold(&self.witnesses, self.tables.files())
    }
}
