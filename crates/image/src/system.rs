//! Where the system tells who uses what, and how that is read.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use haul_sys::inode::{DeviceNumber, Inode, Kind};
use haul_sys::rustix::fs::{CWD, Mode, OFlags, openat};

/// Where the system tells things; tests have their own.
#[derive(Debug, Clone)]
pub struct System {
    /// Usually `/proc`.
    pub proc: PathBuf,
    /// Usually `/sys`.
    pub sys: PathBuf,
    /// Usually `/dev`.
    pub dev: PathBuf,
    /// Where libvirt saves the memory of machines: `/var/lib/libvirt/qemu/save`.
    pub saved: PathBuf,
}

impl Default for System {
    fn default() -> System {
        System {
            proc: PathBuf::from("/proc"),
            sys: PathBuf::from("/sys"),
            dev: PathBuf::from("/dev"),
            saved: PathBuf::from("/var/lib/libvirt/qemu/save"),
        }
    }
}

/// The paths in a directory; none if it cannot be read.
pub(super) fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// A regular file, open for reading. Nothing is waited for.
pub(super) fn open_regular(path: &Path) -> Option<(File, Inode)> {
    // What opening means is known of a regular file only, and what else may have its name: a FIFO, a device.
    if !fs::metadata(path).is_ok_and(|found| found.is_file()) {
        return None;
    }
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let inode = Inode::of(file.as_fd()).ok().filter(|inode| inode.kind == Kind::Regular)?;
    Some((file.into(), inode))
}

/// A device number as /sys and /proc write it: `8:1`.
pub(super) fn device_number(text: &str) -> Option<DeviceNumber> {
    let (major, minor) = text.split_once(':')?;
    Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// A path, and that of the file that it leads to.
pub(super) fn names_of(path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let real = fs::canonicalize(path).ok().filter(|real| real != path);
    std::iter::once(path.to_owned()).chain(real)
}

pub(super) fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
