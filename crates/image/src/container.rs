//! Which sources of a smart copy are containers, and are copied as the disks that they hold or as what they are.
//!
//! A guest owns every byte of a raw image and can make it look like a container. So a file is taken for one only if its
//! name says so too, or the user. What looks like one under another name is copied byte for byte: what its bytes mean as
//! a raw disk is just as doubtful. So is one file of a VMDK in several: it is no disk, and what a guest keeps in a file
//! of its own may begin where it begins.
//!
//! In a run the descriptor `disk.vmdk` beside a file like `disk-f001.vmdk` is looked for. If it names this very file,
//! the map is of the whole disk.
//!
//! The descriptor of a container is not trusted: it names plain names in its own directory, regular files, none twice. A
//! copy gets such a name only if it ends in `.vmdk`. Symbolic links are followed if a user named the descriptor, and the
//! user is warned; in a run they are not followed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use haul_guest::container::{self, Opened, Siblings, VirtualDisk};
use haul_guest::{ExtentSet, ReadAt};
use haul_io::ranges::{Extent, Extents};
use haul_sys::inode::{FileId, Kind};
use haul_sys::kernel::Kernel;

use haul_fs::walk::Spot;

use super::keep::Kept;
use super::source::{Disk, RawImage, Source};

/// The most holes of a container's file that are looked for.
const HOLES: usize = 200_000;

/// What a source is taken for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// A container if both its name and its contents say so, raw if neither does.
    #[default]
    Auto,
    /// A raw disk, whatever it looks like.
    Raw,
    /// What its contents say, whatever its name.
    Container,
}

/// What a source turned out to be.
pub enum Contents {
    /// A raw disk.
    Raw,
    /// A container that is understood.
    Container(Contained),
    /// A file of which nothing can be known as a disk, and why.
    Bytes(String),
}

/// A container that is understood, with all its files open.
pub struct Contained {
    pub(super) disk: Arc<VirtualDisk>,
    /// Its files besides the first, which is the source that was looked at; in the order of the container.
    pub(super) others: Vec<Source>,
}

/// Finds out what a source is.
pub fn contents(kernel: &Arc<dyn Kernel>, source: &Source, format: Format) -> Contents {
    if format == Format::Raw || source.inode.kind != Kind::Regular {
        return Contents::Raw;
    }
    let image = Arc::new(RawImage::of(kernel, source));
    let name = source.path.file_name().unwrap_or_default();
    let beside = Beside::new(kernel, source);
    let Opened { disk, parts } = match container::open(image, name, &beside) {
        Ok(opened) => opened,
        Err(refusal) => return Contents::Bytes(format!("it looks like a container: {refusal}")),
    };
    let found = disk.format();
    if found == "raw" {
        return match is_one_of_several(&source.path) {
            true if format == Format::Auto => {
                Contents::Bytes("by its name it is one of the files of a disk".to_owned())
            }
            _ => Contents::Raw,
        };
    }
    if format == Format::Auto && format_of_name(&source.path) != Some(found) {
        return Contents::Bytes(format!("it looks like a container of the format {found}, and has no such name"));
    }
    let mut files = beside.into_files();
    let others = parts.iter().skip(1).map(|part| files.remove(&part.name)).collect::<Option<Vec<Source>>>();
    match others {
        Some(others) => Contents::Container(Contained { disk, others }),
        None => Contents::Bytes("it names a file that was not opened".to_owned()),
    }
}

/// The container in several files of which this source is one, by a descriptor that stands beside it under the usual name:
/// `disk.vmdk` for `disk-f001.vmdk`. And which of its files it is.
pub fn whole_of(kernel: &Arc<dyn Kernel>, source: &Source) -> Option<(Kept, usize)> {
    let dir = source.dir.as_ref().filter(|_| source.inode.kind == Kind::Regular)?;
    let name = source.path.file_name()?.as_bytes();
    let stem = name.get(..name.iter().rposition(|byte| *byte == b'-')?)?;
    let path = source.path.with_file_name(OsStr::from_bytes(&[stem, b".vmdk"].concat()));
    let spot = Spot::new(dir.as_fd(), path.file_name()?, &path);
    let descriptor = Source::open_at(&**kernel, spot).ok().filter(|_| !is_link(spot))?;
    let Contents::Container(container) = contents(kernel, &descriptor, Format::Auto) else { return None };
    // Nobody named these files, or wants to hear of links.
    if container.links().next().is_some() {
        return None;
    }
    let kept = container.keep(&descriptor);
    let number = kept.files().iter().skip(1).position(|file| file.inode.id == source.inode.id)?;
    Some((kept, number + 1))
}

impl Contained {
    /// The name of the format: `qcow2`, `vmdk`, `vhdx`, `vdi`, `vhd`.
    pub fn format(&self) -> &'static str {
        self.disk.format()
    }

    /// Its other files that stand there as symbolic links, which are followed.
    pub fn links(&self) -> impl Iterator<Item = &Path> {
        self.others.iter().filter(|file| file.is_link).map(Source::path)
    }

    /// A source that is the disk which it holds. `source` is what was looked at.
    pub fn into_disk(self, kernel: &dyn Kernel, source: Source) -> Source {
        let zeros = self.disk.unallocated().clone();
        let files: Vec<ExtentSet> =
            std::iter::once(&source).chain(&self.others).map(|file| holes(kernel, file)).collect();
        let holes = self.disk.stored_in(&files);
        let disk = Arc::clone(&self.disk);
        let holds = Box::new(move || disk.still_holds());
        let disk = Disk { image: self.disk, zeros, holes, holds };
        Source { others: self.others.into(), ..source.with_disk(disk) }
    }

    /// The container itself, as it is, with all its files. `source` is what was looked at.
    pub fn keep(self, source: &Source) -> Kept {
        Kept::new(self.disk, source, self.others)
    }
}

/// Opens files in the directory in which a source was found. Only regular files, and none twice: whoever wrote the names
/// may be no friend. Symbolic links are followed, like those that users name, and remembered.
pub struct Beside<'a> {
    kernel: &'a Arc<dyn Kernel>,
    source: &'a Source,
    files: RefCell<HashMap<OsString, Source>>,
}

impl<'a> Beside<'a> {
    /// The neighbours of this source.
    pub fn new(kernel: &'a Arc<dyn Kernel>, source: &'a Source) -> Beside<'a> {
        Beside { kernel, source, files: RefCell::default() }
    }

    /// The files that were opened, by their names.
    pub fn into_files(self) -> HashMap<OsString, Source> {
        self.files.into_inner()
    }

    fn is_known(&self, file: FileId) -> bool {
        self.source.inode.id == file || self.files.borrow().values().any(|known| known.inode.id == file)
    }
}

impl Siblings for Beside<'_> {
    fn open(&self, name: &OsStr) -> io::Result<Arc<dyn ReadAt>> {
        let refused = |why: &str| io::Error::new(io::ErrorKind::Unsupported, why.to_owned());
        let Some(dir) = &self.source.dir else { return Err(refused("other files are not looked for")) };
        let path = self.source.path.with_file_name(name);
        let spot = Spot::new(dir.as_fd(), name, &path);
        let is_link = spot.inode()?.kind == Kind::SymbolicLink;
        let file = Source::open_at(&**self.kernel, spot);
        let file =
            file.map_err(|error| error.errno.map_or_else(|| refused("it is no regular file"), io::Error::from))?;
        if file.inode.kind != Kind::Regular {
            return Err(refused("it is no regular file"));
        }
        if self.is_known(file.inode.id) {
            return Err(refused("it is the same file as another one"));
        }
        let image = RawImage::of(self.kernel, &file);
        self.files.borrow_mut().insert(name.to_owned(), Source { is_link, dir: None, ..file });
        Ok(Arc::new(image))
    }
}

fn is_link(spot: Spot<'_>) -> bool {
    spot.inode().is_ok_and(|inode| inode.kind == Kind::SymbolicLink)
}

/// The holes of a file, as far as they can be found.
fn holes(kernel: &dyn Kernel, file: &Source) -> ExtentSet {
    let mut holes = ExtentSet::new();
    for extent in Extents::new(kernel, file.file(), 0, file.size) {
        match extent {
            Ok(Extent::Hole { offset, len }) if holes.count() < HOLES => holes.push(offset..offset + len),
            Ok(Extent::Data { .. }) => {}
            _ => break,
        }
    }
    holes
}

/// The format that a name promises.
fn format_of_name(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.as_bytes().to_ascii_lowercase();
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    let (stem, extension) = name.split_at(dot);
    match extension {
        b".qcow2" | b".qcow" => Some("qcow2"),
        // The raw parts of a VMDK in several files.
        b".vmdk" if is_flat(stem) || is_numbered(stem, b'f') => None,
        b".vmdk" => Some("vmdk"),
        b".vhdx" => Some("vhdx"),
        b".vdi" => Some("vdi"),
        b".vhd" | b".vpc" => Some("vhd"),
        _ => None,
    }
}

/// Whether a name says that this is a file like `disk-f001.vmdk`, which holds a piece of a disk and not all of it.
pub fn is_one_of_several(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes().to_ascii_lowercase();
    name.strip_suffix(b".vmdk").is_some_and(|stem| is_numbered(stem, b'f') || is_numbered(stem, b's'))
}

/// `disk-flat`, and what maps a device (`disk-rdmp`).
fn is_flat(stem: &[u8]) -> bool {
    matches!(behind_dash(stem), Some(b"flat" | b"rdm" | b"rdmp"))
}

/// `disk-f001` with `f` as the letter.
fn is_numbered(stem: &[u8], letter: u8) -> bool {
    match behind_dash(stem) {
        Some([first, digits @ ..]) => *first == letter && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn behind_dash(stem: &[u8]) -> Option<&[u8]> {
    let dash = stem.iter().rposition(|byte| *byte == b'-')?;
    stem.get(dash + 1..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_part_of_a_vmdk_is_no_container_by_name() {
        let formats =
            ["a.qcow2", "A.VMDK", "a-flat.vmdk", "a-f001.vmdk", "a-s001.vmdk", "a-front.vmdk", "a.img", "vdi"];
        let found = formats.map(|name| format_of_name(Path::new(name)));
        let vmdk = Some("vmdk");
        assert_eq!(found, [Some("qcow2"), vmdk, None, None, vmdk, vmdk, None, None]);
    }

    #[test]
    fn one_file_of_several_is_known_by_its_name() {
        let names = ["a-f001.vmdk", "a-S12.VMDK", "a-flat.vmdk", "a-f.vmdk", "a-f001.img", "f001.vmdk", "a.vmdk"];
        let found = names.map(|name| is_one_of_several(Path::new(name)));
        assert_eq!(found, [true, true, false, false, false, false, false]);
    }
}
