//! Disks that go on from an image: overlays of snapshots, differencing disks. A guest that was running when such a disk was
//! made had written blocks that the image's own map calls free: only the overlay has the map in which they are used.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_guest::container::{Base, base};
use haul_guest::image::ImageFile;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::CWD;

use super::system::{dir_of, entries, names_of, open_regular};

/// The file of a disk that goes on from this image, if it lies beside it, or where VirtualBox has such disks. What lies in
/// other places cannot be found.
pub(super) fn overlay(path: &Path, image: BorrowedFd<'_>, inode: &Inode) -> Option<PathBuf> {
    if inode.kind == Kind::BlockDevice {
        return None;
    }
    names_of(path).find_map(|name| {
        let dir = dir_of(&name);
        let is_overlay = |file: &PathBuf| goes_on_from(file, &name, image, inode);
        entries(dir).find(is_overlay).or_else(|| entries(&dir.join("Snapshots")).find(is_overlay))
    })
}

fn goes_on_from(file: &Path, name: &Path, image: BorrowedFd<'_>, inode: &Inode) -> bool {
    let Some((opened, own)) = open_regular(file).filter(|(_, own)| own.id != inode.id) else { return false };
    let Some(base) = base(Arc::new(ImageFile::new(opened, own.size))) else { return false };
    let is_named = name.file_name().is_some_and(|name| {
        // Without a descriptor of its own the image cannot be looked at, and may be the one.
        let copy = image.try_clone_to_owned().ok();
        copy.is_none_or(|copy| base.may_be(name.as_bytes(), &ImageFile::new(copy.into(), inode.size)))
    });
    is_named || leads_to(&base, dir_of(file), inode)
}

/// Whether one of the names leads to the image, whatever that is called here.
fn leads_to(base: &Base, dir: &Path, inode: &Inode) -> bool {
    let Base::Named(names) = base else { return false };
    names.iter().any(|name| {
        let path = dir.join(OsString::from_vec(name.clone()));
        Inode::at_following(CWD, path.as_os_str()).is_ok_and(|found| found.id == inode.id)
    })
}
