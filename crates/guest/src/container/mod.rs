//! Image containers: virtual disks in formats of their own (qcow2, VMDK, VHDX, VDI, VHD), read as plain disks.
//!
//! [`open`] finds out by magic numbers what a file is and gives the virtual disk as a [`VirtualDisk`], which is a
//! [`ReadAt`] like any raw image: the map of its guests is made of that. What nobody knows is raw.
//!
//! A container says two things more than a raw image. Which bytes of the disk it does not hold ([`VirtualDisk::unallocated`]):
//! they are zero, nobody needs to read them. And which bytes of its own files hold only given bytes of the disk
//! ([`VirtualDisk::host_ranges`]): a copy that keeps the format may leave these out, so that its clusters stay mapped and
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
//! * At the end ask [`VirtualDisk::still_holds`], and for a copy that keeps the format [`HostRanges::still_holds`] too. If
//!   one says no, somebody wrote into the container meanwhile: nothing that was concluded from it holds.

use std::ffi::OsStr;
use std::sync::Arc;

use crate::guard::guarded;
use crate::image::ReadAt;
use crate::refusal::{Refusal, unsupported_if};

mod base;
mod disk;
mod opened;
mod qcow2;
mod tables;
mod unpack;
mod vdi;
mod vhd;
mod vhdx;
mod vmdk;

pub use base::{Base, base};
pub use disk::{HostRanges, VirtualDisk};
pub use opened::{Alone, Opened, Part, Role, Siblings};
pub use tables::FileWitness;

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
    unsupported_if(start.starts_with(b"COWD"), "VMDK of the kind COWD")?;
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
    guarded(|| alone(file, name, disk::open_raw))
}

type Open = fn(&tables::Reader) -> Result<disk::Disk, Refusal>;

/// Opens what is one file.
fn alone(file: Arc<dyn ReadAt>, name: &OsStr, open: Open) -> Result<Opened, Refusal> {
    let reader = tables::Reader::new(vec![Arc::clone(&file)]);
    let disk = VirtualDisk::new(open(&reader)?, reader)?;
    let part = Part { name: name.to_owned(), role: Role::Data, file };
    Ok(Opened { disk: Arc::new(disk), parts: vec![part] })
}
