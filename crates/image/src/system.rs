//! Where the system tells who uses what, and how that is read.

use std::ffi::OsString;
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
    /// Where libvirt saves the memory of machines: `/var/lib/libvirt/qemu/save`, `/var/lib/libvirt/libxl/save`, and
    /// [`saved_machines`] of the user. Those of the user in whose home directory an image lies are looked for besides.
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

impl System {
    /// With more directories in which libvirt saves the memory of machines.
    #[must_use]
    pub fn with_saved(mut self, dirs: impl IntoIterator<Item = PathBuf>) -> System {
        self.saved.extend(dirs);
        self
    }
}

/// Where libvirt saves the memory of machines of a user's session, from the home directory: on the host, and in GNOME Boxes
/// by Flatpak.
pub(super) const SAVED_IN_HOME: [&str; 2] =
    [".config/libvirt/qemu/save", ".var/app/org.gnome.Boxes/config/libvirt/qemu/save"];

/// Where libvirt saves the memory of machines of the session of a user with these values of HOME and XDG_CONFIG_HOME.
pub fn saved_machines(home: Option<OsString>, config: Option<OsString>) -> Vec<PathBuf> {
    // One that is not absolute is to be ignored (XDG Base Directory Specification).
    let absolute = |dir: Option<OsString>| dir.map(PathBuf::from).filter(|dir| dir.is_absolute());
    let in_config = absolute(config).map(|dir| dir.join("libvirt/qemu/save"));
    let in_home = absolute(home).into_iter().flat_map(|dir| SAVED_IN_HOME.map(|saved| dir.join(saved)));
    in_config.into_iter().chain(in_home).collect()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_saved_below_the_users_directory_of_settings() {
        let found = |home: Option<&str>, config: Option<&str>| {
            let found = saved_machines(home.map(OsString::from), config.map(OsString::from));
            found.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>()
        };
        let boxes = "/home/me/.var/app/org.gnome.Boxes/config/libvirt/qemu/save";
        assert_eq!(found(Some("/home/me"), None), ["/home/me/.config/libvirt/qemu/save", boxes]);
        assert_eq!(found(None, Some("/settings")), ["/settings/libvirt/qemu/save"]);
        let both = found(Some("/home/me"), Some("/settings"));
        assert_eq!(both, ["/settings/libvirt/qemu/save", "/home/me/.config/libvirt/qemu/save", boxes]);
        assert_eq!(found(Some(""), Some("settings")), [""; 0]);
    }
}
