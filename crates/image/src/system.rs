//! Where the system tells who uses what, and how that is read.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use haul_sys::Errno;
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
    /// Where libvirt saves the memory of machines: `/var/lib/libvirt/qemu/save` and `/var/lib/libvirt/libxl/save`.
    pub saved: Vec<PathBuf>,
}

impl Default for System {
    fn default() -> System {
        System {
            proc: PathBuf::from("/proc"),
            sys: PathBuf::from("/sys"),
            dev: PathBuf::from("/dev"),
            saved: ["/var/lib/libvirt/qemu/save", "/var/lib/libvirt/libxl/save"].map(PathBuf::from).to_vec(),
        }
    }
}

/// Where libvirt saves the memory of machines of a user's session, from the home directory: on the host, and in GNOME Boxes
/// by Flatpak.
pub(super) const SAVED_IN_HOME: [&str; 2] =
    [".config/libvirt/qemu/save", ".var/app/org.gnome.Boxes/config/libvirt/qemu/save"];

/// The paths in a directory; none if it cannot be read.
pub(super) fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// A regular file, open for reading; `None` of anything else. Nothing is waited for.
pub(super) fn open_regular(path: &Path) -> Result<Option<File>, Errno> {
    // What opening means is known of a regular file only, and what else may have its name: a FIFO, a device.
    if Inode::at_following(CWD, path.as_os_str())?.kind != Kind::Regular {
        return Ok(None);
    }
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let is_regular = Inode::of(file.as_fd())?.kind == Kind::Regular;
    Ok(is_regular.then(|| file.into()))
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
