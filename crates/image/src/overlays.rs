//! Disks that go on from an image: overlays of snapshots, differencing disks. A guest that was running when such a disk was
//! made had written blocks that the image's own map calls free: only the overlay has the map in which they are used.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use haul_guest::container::{Base, base};
use haul_guest::image::ImageFile;
use haul_sys::inode::{FileId, Inode, Kind, Time};
use haul_sys::rustix::fs::CWD;
use parking_lot::Mutex;

use super::system::{dir_of, entries, names_of, open_regular};

/// The file of a disk that goes on from this image, if it lies beside it, or where VirtualBox has such disks. What lies in
/// other places cannot be found.
pub(super) fn overlay(path: &Path, image: BorrowedFd<'_>, inode: &Inode) -> Option<PathBuf> {
    if inode.kind == Kind::BlockDevice {
        return None;
    }
    names_of(path).find_map(|name| {
        let dir = dir_of(&name);
        [dir.to_owned(), dir.join("Snapshots")].iter().find_map(|dir| {
            let overlays = overlays_in(dir);
            let found = overlays.iter().find(|overlay| overlay.goes_on_from(dir, &name, image, inode))?;
            Some(dir.join(&found.name))
        })
    })
}

/// A file with a disk that goes on from another one.
struct Overlay {
    name: OsString,
    id: FileId,
    base: Base,
}

impl Overlay {
    fn of(file: &Path) -> Option<Overlay> {
        let (opened, inode) = open_regular(file)?;
        let base = base(Arc::new(ImageFile::new(opened, inode.size))).ok().flatten()?;
        Some(Overlay { name: file.file_name()?.to_owned(), id: inode.id, base })
    }

    fn goes_on_from(&self, dir: &Path, name: &Path, image: BorrowedFd<'_>, inode: &Inode) -> bool {
        let is_named = || {
            name.file_name().is_some_and(|name| {
                // Without a descriptor of its own the image cannot be looked at, and may be the one.
                let copy = image.try_clone_to_owned().ok();
                let may_be = |copy| self.base.may_be(name.as_bytes(), &ImageFile::new(copy, inode.size));
                copy.is_none_or(|copy| may_be(copy.into()))
            })
        };
        self.id != inode.id && (is_named() || self.leads_to(dir, inode))
    }

    /// Whether one of the names leads to the image, whatever that is called here.
    fn leads_to(&self, dir: &Path, inode: &Inode) -> bool {
        let Base::Named(names) = &self.base else { return false };
        names.iter().any(|name| {
            let path = dir.join(OsString::from_vec(name.clone()));
            Inode::at_following(CWD, path.as_os_str()).is_ok_and(|found| found.id == inode.id)
        })
    }
}

/// What there is in a directory as it was.
struct Seen {
    directory: (FileId, Time, Time),
    overlays: Arc<[Overlay]>,
}

/// Two directories for each of the two names of an image, and for some threads in other directories.
const DIRECTORIES: usize = 16;

/// In seconds. A directory that changes within so long may have the times that it had before: those of FAT are of two
/// seconds.
const TICK: i64 = 3;

/// The directories that were looked at last: the images in one are many, it is asked for each, and each is copied by a thread
/// of its own.
static SEEN: Mutex<VecDeque<Seen>> = Mutex::new(VecDeque::new());

/// All overlays in a directory.
fn overlays_in(dir: &Path) -> Arc<[Overlay]> {
    let Ok(inode) = Inode::at_following(CWD, dir.as_os_str()) else { return Arc::default() };
    let directory = (inode.id, inode.modified, inode.changed);
    if let Some(seen) = SEEN.lock().iter().find(|seen| seen.directory == directory) {
        return Arc::clone(&seen.overlays);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs().cast_signed());
    let is_quiet = now.saturating_sub(inode.modified.seconds) > TICK;
    let overlays: Arc<[Overlay]> = entries(dir).filter_map(|file| Overlay::of(&file)).collect();
    if is_quiet {
        let mut seen = SEEN.lock();
        seen.truncate(DIRECTORIES - 1);
        seen.push_front(Seen { directory, overlays: Arc::clone(&overlays) });
    }
    overlays
}
