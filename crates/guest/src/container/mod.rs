//! Image containers: virtual disks in formats of their own (qcow2, VMDK, VHDX, VDI, VHD), read as plain disks.
//!
//! [`open`] finds out by magic numbers what a file is and gives the virtual disk as a [`Container`], which is a
//! [`ReadAt`] like any raw image: the map of its guests is made of that. What nobody knows is raw.
//!
//! A container says two things more than a raw image. Which bytes of the disk it does not hold ([`Container::unallocated`]):
//! they are zero, nobody needs to read them. And which bytes of its own files hold only given bytes of the disk
//! ([`Container::host_ranges`]): a copy that keeps the format may leave these out, so that its clusters stay mapped and
//! read as zero.
//!
//! A reader here never trusts: what it does not understand in full is refused, and then the file is copied byte for
//! byte, as any other. A disk that depends on a second one (backing file, parent, delta link) is always refused, and a
//! VMDK descriptor opens only plain names in its own directory, by [`Siblings`].
//!
//! # How to copy
//!
//! * To a raw image: read [`Opened::disk`]. Bytes in `unallocated()` need no reading; they become a hole.
//! * Keeping the format: copy every one of [`Opened::parts`] to its own name beside the copy of the first, whole, except
//!   the bytes that [`HostRanges::files`] names for it, which become holes there. The descriptor of a flat VMDK is one of the parts:
//!   it is copied as it is, since it names its extents by names that stay the same.
//! * At the end ask [`Container::still_holds`], and for a copy that keeps the format [`HostRanges::still_holds`] too. If
//!   one says no, somebody wrote into the container meanwhile: nothing that was concluded from it holds.

use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Arc;

use crate::extents::ExtentSet;
use crate::guard::guarded;
use crate::image::{ReadAt, Witness};
use crate::refusal::Refusal;

mod disk;
mod plain;
mod qcow2;
mod tables;
mod unpack;
mod vdi;
mod vhd;
mod vhdx;
mod vmdk;

/// A virtual disk. As a [`ReadAt`] it is the disk as its guest sees it; it never gives bytes from outside the
/// container's files.
pub trait Container: ReadAt {
    /// The name of the format: `raw`, `qcow2`, `vmdk`, `vhdx`, `vdi`, `vhd`.
    fn format(&self) -> &'static str;

    /// Bytes of the virtual disk that the container does not hold. They read as zero. In a container with very many
    /// gaps it is not all of them.
    fn unallocated(&self) -> &ExtentSet;

    /// Which bytes of the container's own files hold bytes of `set`, and nothing else: no other byte of the disk, no
    /// snapshot, no table. With zeros there, the container is as valid as before, and these bytes of the disk read as zero.
    ///
    /// `None` where that cannot be said: internal snapshots, bitmaps, streams, counts that do not agree, tables that cannot be
    /// read. What is compressed, or not in the files at all, is left out.
    fn host_ranges(&self, set: &ExtentSet) -> Option<HostRanges>;

    /// Which bytes of the disk are stored, as they are, in these bytes of its files (by the index in [`Opened::parts`]). Where
    /// those are holes, the disk reads as zero. If the pieces are very many it is not all of them.
    fn stored_in(&self, files: &[ExtentSet]) -> ExtentSet;

    /// What the tables looked like when the container was opened.
    fn witnesses(&self) -> &[FileWitness];

    /// Whether its tables are still what they were when it was opened.
    ///
    /// # Errors
    /// If they cannot be read any more.
    fn still_holds(&self) -> io::Result<bool>;
}

/// A [`Witness`] of one of several files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileWitness {
    /// The index of the file in [`Opened::parts`].
    pub file: usize,
    /// What was read there.
    pub witness: Witness,
}

/// Bytes of the files of a container that may be left out of a copy of it.
pub struct HostRanges {
    /// For each of [`Opened::parts`] the bytes of the file.
    pub files: Vec<ExtentSet>,
    /// The bytes of the virtual disk that these are: a subset of what was asked for.
    pub held: ExtentSet,
    /// What this was concluded from, beyond [`Container::witnesses`].
    pub witnesses: Vec<FileWitness>,
    sources: Vec<Arc<dyn ReadAt>>,
}

impl HostRanges {
    /// Whether what this was concluded from is unchanged. [`Container::still_holds`] must be asked besides.
    ///
    /// # Errors
    /// If it cannot be read any more.
    pub fn still_holds(&self) -> io::Result<bool> {
        tables::all_hold(&self.witnesses, &self.sources)
    }
}

/// A container and the files that it consists of.
pub struct Opened {
    /// The virtual disk.
    pub disk: Arc<dyn Container>,
    /// Its files. The first is the one that was opened.
    pub parts: Vec<Part>,
}

/// One file of a container.
#[derive(Clone)]
pub struct Part {
    /// Its name, without directory. That of the first is as given to [`open`], others are beside it.
    pub name: OsString,
    /// What is in it.
    pub role: Role,
    /// The file itself, byte by byte.
    pub file: Arc<dyn ReadAt>,
}

/// What a file of a container is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Data of the disk, with or without tables.
    Data,
    /// A text that names the other files. Holds no data; is copied as it is.
    Descriptor,
}

/// Opens the files that a container names beside itself.
pub trait Siblings {
    /// Opens a file of this name in the container's own directory, for reading. The name is never empty, `.` or `..`, and holds
    /// neither slash nor backslash nor NUL. Who follows a symbolic link there should say so.
    ///
    /// # Errors
    /// If it is not there or cannot be opened.
    fn open(&self, name: &OsStr) -> io::Result<Arc<dyn ReadAt>>;
}

/// No other files, for containers that must be one file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Siblings for Alone {
    fn open(&self, _: &OsStr) -> io::Result<Arc<dyn ReadAt>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "other files are not looked for"))
    }
}

/// Opens a file as what its magic numbers say, and as a raw image if they say nothing.
///
/// A guest owns every byte of a raw image, and can make it look like a container. What it can gain is little, since a
/// container opens no file but a VMDK descriptor's extents beside it, and a descriptor must be a small text and nothing
/// else. Who knows that an image is raw should call [`open_raw`] all the same.
///
/// # Errors
/// If it is a container that is dirty, damaged, depends on another disk, or uses what is not understood. Then it can be
/// copied only as a file.
pub fn open(file: Arc<dyn ReadAt>, name: &OsStr, siblings: &dyn Siblings) -> Result<Opened, Refusal> {
    guarded(|| open_unguarded(file, name, siblings))
}

fn open_unguarded(file: Arc<dyn ReadAt>, name: &OsStr, siblings: &dyn Siblings) -> Result<Opened, Refusal> {
    let mut start = vec![0; usize::try_from(file.size()).unwrap_or(usize::MAX).min(512)];
    file.read_exact_at(0, &mut start)?;
    if start.starts_with(&qcow2::MAGIC) {
        return alone(file, name, qcow2::open);
    }
    if start.starts_with(vhdx::MAGIC) {
        return alone(file, name, vhdx::open);
    }
    if vdi::detect(&start) {
        return alone(file, name, vdi::open);
    }
    if start.starts_with(vmdk::SPARSE_MAGIC) {
        return alone(file, name, vmdk::open_sparse);
    }
    if vmdk::is_descriptor(&start) {
        return vmdk::open_descriptor(file, name, siblings);
    }
    if start.starts_with(b"COWD") {
        return Err(Refusal::unsupported("VMDK of the kind COWD"));
    }
    if vhd::detect(&start, &*file)? {
        return alone(file, name, vhd::open);
    }
    open_raw(file, name)
}

/// Opens a file as a raw image, whatever it looks like.
///
/// # Errors
/// Only if the size of the file makes no sense.
pub fn open_raw(file: Arc<dyn ReadAt>, name: &OsStr) -> Result<Opened, Refusal> {
    guarded(|| alone(file, name, plain::open))
}

type Open = fn(&tables::Reader) -> Result<Box<dyn disk::Layout>, Refusal>;

/// Opens what is one file.
fn alone(file: Arc<dyn ReadAt>, name: &OsStr, open: Open) -> Result<Opened, Refusal> {
    let reader = tables::Reader::new(vec![Arc::clone(&file)]);
    let layout = open(&reader)?;
    let disk = disk::Disk::new(layout, reader)?;
    let part = Part { name: name.to_owned(), role: Role::Data, file };
    Ok(Opened { disk: Arc::new(disk), parts: vec![part] })
}
