//! VMware's VMDK: a descriptor in words, and extents that are flat, sparse or nothing.
//!
//! Format: VMware, Virtual Disk Format 5.0 (2011). The descriptor is a text file that names its extents, or lies inside a single
//! sparse extent.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;

use super::disk::{Disk, Layout, Piece, Place, Ranges, VirtualDisk};
use super::opened::{Opened, Part, Role, Siblings};
use super::tables::{Reader, Tables};
use crate::bytes::{difference, le64, product, sum};
use crate::image::ReadAt;
use crate::refusal::{OrRefuse, Refusal, corrupt_if, dirty_if, unsupported_if};

mod descriptor;
mod sparse;

use descriptor::{Descriptor, Kind};
use sparse::{SECTOR, Sparse};

pub(super) use descriptor::{is_descriptor, parent};
pub(super) use sparse::MAGIC as SPARSE_MAGIC;

/// The extents of a disk, sorted, without gaps.
struct Vmdk {
    spans: Vec<Span>,
}

/// One extent: where it starts in the disk, in bytes, and what it is.
struct Span {
    start: u64,
    len: u64,
    data: Data,
}

enum Data {
    Zero,
    Flat { file: usize, offset: u64 },
    Sparse(Sparse),
}

/// The descriptor that a file is or has in it, of a file that begins so.
pub(super) fn description(reader: &Reader, start: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
    let (at, len) = if is_descriptor(start) {
        (0, reader.size(0))
    } else if start.starts_with(SPARSE_MAGIC) {
        (product(le64(start, 28)?, SECTOR)?, product(le64(start, 36)?, SECTOR)?)
    } else {
        return Ok(None);
    };
    if len == 0 || len > descriptor::LARGEST { Ok(None) } else { reader.read_long(0, at, len).map(Some) }
}

/// Opens a single sparse extent that carries its own descriptor.
pub(super) fn open_sparse(reader: &Reader) -> Result<Disk, Refusal> {
    let (sparse, text) = Sparse::open(reader, 0)?;
    let text = text.ok_or_else(|| Refusal::unsupported("a part of a VMDK: its descriptor is another file"))?;
    let descriptor = Descriptor::parse(&text)?;
    let size = sparse.size;
    match descriptor.extents.as_slice() {
        [only] if only.kind == Kind::Sparse && product(only.sectors, SECTOR)? == size => {}
        _ => return Err(Refusal::corrupt("the descriptor inside a VMDK does not fit it")),
    }
    let spans = vec![Span { start: 0, len: size, data: Data::Sparse(sparse) }];
    Ok(Disk::new("vmdk", size, Vmdk { spans }))
}

/// Opens a descriptor file and the extents that it names.
pub(super) fn open_descriptor(file: Arc<dyn ReadAt>, name: &OsStr, siblings: &dyn Siblings) -> Result<Opened, Refusal> {
    // A guest can write a descriptor to the start of its raw disk, to get at another image beside it. A disk is longer.
    unsupported_if(file.size() > descriptor::LARGEST, "a VMDK descriptor at the start of something larger")?;
    let alone = Reader::new(vec![Arc::clone(&file)]);
    let text = alone.read(0, 0, file.size() as usize)?;
    let descriptor = Descriptor::parse(&text)?;
    let mut parts = vec![Part { name: name.to_owned(), role: Role::Descriptor, file: Arc::clone(&file) }];
    let mut numbers = BTreeMap::new();
    for extent in &descriptor.extents {
        let Some(plain) = &extent.file else { continue };
        corrupt_if(plain.as_os_str() == name, "a VMDK descriptor names itself as an extent")?;
        if !numbers.contains_key(plain) {
            let opened = siblings.open(plain);
            let file =
                opened.map_err(|error| Refusal::Unreadable(format!("extent {}: {error}", plain.to_string_lossy())))?;
            numbers.insert(plain.clone(), parts.len());
            parts.push(Part { name: plain.clone(), role: Role::Data, file });
        }
    }
    let reader = Reader::new(parts.iter().map(|part| Arc::clone(&part.file)).collect());
    // For its witness.
    dirty_if(reader.read(0, 0, text.len())? != text, "the VMDK descriptor changes")?;
    let mut spans = Vec::with_capacity(descriptor.extents.len());
    let mut start = 0;
    for extent in &descriptor.extents {
        let len = product(extent.sectors, SECTOR)?;
        let number = extent.file.as_ref().and_then(|plain| numbers.get(plain)).copied();
        let data = match (extent.kind, number) {
            (Kind::Zero, _) => Data::Zero,
            (Kind::Flat, Some(file)) => flat(&reader, file, product(extent.offset, SECTOR)?, len)?,
            (Kind::Sparse, Some(file)) => {
                let (sparse, _) = Sparse::open(&reader, file)?;
                corrupt_if(sparse.size != len, "a sparse extent is not as long as its descriptor says")?;
                Data::Sparse(sparse)
            }
            _ => return Err(Refusal::corrupt("an extent of a VMDK without a file")),
        };
        spans.push(Span { start, len, data });
        start = sum(start, len)?;
    }
    corrupt_if(shares_bytes(&spans), "two extents of a VMDK are the same bytes")?;
    let disk = VirtualDisk::new(Disk::new("vmdk", start, Vmdk { spans }), reader)?;
    Ok(Opened { disk: Arc::new(disk), parts })
}

/// Whether two extents have bytes of a file in common. No disk has such, and a forged one could make a short file a long disk.
fn shares_bytes(spans: &[Span]) -> bool {
    let mut places: Vec<(usize, u64, u64)> = spans
        .iter()
        .filter_map(|span| match &span.data {
            Data::Zero => None,
            Data::Flat { file, offset } => Some((*file, *offset, offset.saturating_add(span.len))),
            Data::Sparse(sparse) => Some((sparse.file, 0, u64::MAX)),
        })
        .filter(|(_, start, end)| start < end)
        .collect();
    places.sort_unstable();
    places.windows(2).any(|pair| match pair {
        [(file, _, end), (next, start, _)] => file == next && start < end,
        _ => false,
    })
}

fn flat(reader: &Reader, file: usize, offset: u64, len: u64) -> Result<Data, Refusal> {
    corrupt_if(sum(offset, len)? > reader.size(file), "a flat extent is shorter than its descriptor says")?;
    Ok(Data::Flat { file, offset })
}

impl Vmdk {
    /// The last extent that starts at or before `at`.
    fn span(&self, at: u64) -> Option<&Span> {
        let behind = self.spans.partition_point(|span| span.start <= at);
        behind.checked_sub(1).and_then(|index| self.spans.get(index))
    }
}

impl Layout for Vmdk {
    fn piece(&self, tables: &dyn Tables, at: u64, upto: u64) -> Result<Piece, Refusal> {
        let span = self.span(at).or_corrupt("outside all extents")?;
        let inside = at - span.start;
        let left = difference(span.len, inside)?;
        let piece = match &span.data {
            Data::Zero => Piece { len: left, place: Place::Zero },
            Data::Flat { file, offset } => {
                Piece { len: left, place: Place::Stored { file: *file, offset: sum(*offset, inside)? } }
            }
            Data::Sparse(sparse) => sparse.piece(tables, inside, difference(upto, span.start)?.min(span.len))?,
        };
        Ok(Piece { len: piece.len.min(left), ..piece })
    }

    fn unpack(&self, packed: &[u8], unit: usize, at: u64) -> Result<Vec<u8>, Refusal> {
        match self.span(at) {
            Some(Span { start, data: Data::Sparse(sparse), .. }) => sparse.unpack(packed, unit, at - start),
            _ => Err(Refusal::corrupt("compressed data where there can be none")),
        }
    }

    fn besides(&self, _: &Reader) -> Result<Option<Ranges>, Refusal> {
        let mut all = Vec::new();
        for span in &self.spans {
            if let Data::Sparse(sparse) = &span.data {
                if !sparse.can_be_freed() {
                    return Ok(None);
                }
                all.push(sparse.overhead());
            }
        }
        Ok(Some(all))
    }
}
