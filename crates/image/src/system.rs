//! Where the system tells who uses what, and how that is read.

use std::fs;
use std::path::{Path, PathBuf};

use haul_sys::inode::DeviceNumber;

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
