//! Disks that go on from an image: overlays of snapshots, differencing disks. A guest that was running when such a disk was
//! made had written blocks that the image's own map calls free: only the overlay has the map in which they are used.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use haul_guest::container::Base;
use haul_guest::image::ImageFile;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::CWD;

use super::neighbours::{Contents, neighbours};
use super::system::{System, dir_of, names_of};

/// What was found beside an image.
pub(super) enum Overlay {
    /// A disk goes on from it.
    At(PathBuf),
    /// One may, in a file that cannot be read.
    Hidden(PathBuf),
}

/// The file of a disk that goes on from this image, if it lies beside it, or where VirtualBox has such disks; or one that may
/// be such a file and cannot be read. What lies in other places cannot be found.
pub(super) fn overlay(path: &Path, image: BorrowedFd<'_>, inode: &Inode, system: &System) -> Option<Overlay> {
    if inode.kind == Kind::BlockDevice {
        return None;
    }
    let mut hidden = None;
    for name in names_of(path) {
        let dir = dir_of(&name);
        for dir in [dir.to_owned(), dir.join("Snapshots")] {
            for neighbour in neighbours(&dir, system).iter().filter(|neighbour| neighbour.id != Some(inode.id)) {
                match &neighbour.contents {
                    Contents::Disk(base) if !goes_on_from(base, &dir, &name, image, inode) => {}
                    Contents::Disk(_) => return Some(Overlay::At(dir.join(&neighbour.name))),
                    Contents::Memory(_) => {}
                    Contents::Hidden => hidden = hidden.or_else(|| Some(Overlay::Hidden(dir.join(&neighbour.name)))),
                }
            }
        }
    }
    hidden
}

fn goes_on_from(base: &Base, dir: &Path, name: &Path, image: BorrowedFd<'_>, inode: &Inode) -> bool {
    let is_named = name.file_name().is_some_and(|name| {
        // Without a descriptor of its own the image cannot be looked at, and may be the one.
        let copy = image.try_clone_to_owned().ok();
        copy.is_none_or(|copy| base.may_be(name.as_bytes(), &ImageFile::new(copy.into(), inode.size)))
    });
    is_named || leads_to(base, dir, inode)
}

/// Whether one of the names leads to the image, whatever that is called here.
fn leads_to(base: &Base, dir: &Path, inode: &Inode) -> bool {
    let Base::Named(names) = base else { return false };
    // Of JSON the strings.
    let paths = names.iter().flat_map(|name| match name.starts_with(b"json:") {
        true => name.split(|byte| *byte == b'"').collect(),
        false => vec![name.as_slice(), name.strip_prefix(b"file:").unwrap_or(name)],
    });
    paths.filter(|path| !path.is_empty()).any(|path| {
        let path = dir.join(OsString::from_vec(path.to_vec()));
        Inode::at_following(CWD, path.as_os_str()).is_ok_and(|found| found.id == inode.id)
    })
}
