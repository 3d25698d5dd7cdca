//! Which storage an open file is on, distinguished from all others.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use haul_sys::Errno;
use haul_sys::inode::{DeviceNumber, Inode, Kind};
use haul_sys::mountinfo::{Mount, mounts};
use haul_sys::rustix::fs::{Mode, OFlags, openat};

use super::disk::{Disk, disk};
use crate::profile::Place;

/// The mount of an open file, also of one that was opened with `O_PATH`.
pub fn mount(file: BorrowedFd<'_>) -> Option<Mount> {
    let info = fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse::<u64>().ok()?;
    let table = fs::read("/proc/thread-self/mountinfo").ok()?;
    mounts(&table).find(|mount| mount.id == id)
}

/// What identifies the storage of an open file, for a [`crate::profile::Profile`]. `None` where it cannot be determined from
/// others.
///
/// A filesystem is known by its UUID, and the disk below it by its model and size, since a copied disk has the UUID of the
/// original. What has no UUID that lasts (network, FUSE, tmpfs) is known by what is mounted and where.
pub fn place(file: BorrowedFd<'_>) -> Option<Place> {
    let mount = mount(file)?;
    let node = device_below(&mount);
    let lasting = !matches!(mount.filesystem.as_str(), "tmpfs" | "ramfs" | "devtmpfs");
    let uuid = if lasting { uuid(file, node) } else { None };
    let id = match uuid {
        Some(uuid) => format!("uuid:{uuid}"),
        None => format!("mount:{} on {}", mount.source.display(), mount.point.display()),
    };
    let device = node.and_then(disk).map(|disk| describe(&disk)).unwrap_or_default();
    Some(Place { filesystem: plain(&mount.filesystem), id: plain(&id), device: plain(&device) })
}

/// What can stand in a file and on a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// The device that a filesystem is on. Those of several devices (btrfs) have a number of their own, but name one of them.
fn device_below(mount: &Mount) -> Option<DeviceNumber> {
    if mount.device.major != 0 {
        return Some(mount.device);
    }
    let source = Path::new(&mount.source);
    let node = source.starts_with("/dev/").then(|| node_of(source)).flatten();
    node.filter(|_| !mount.filesystem.starts_with("fuse"))
}

/// The device that a device node stands for.
fn node_of(path: &Path) -> Option<DeviceNumber> {
    let inode = Inode::at_following(haul_sys::rustix::fs::CWD, path.as_os_str()).ok()?;
    (inode.kind == Kind::BlockDevice).then_some(inode.node)
}

/// As the kernel reports it (Linux 6.9), or as udev has found it.
fn uuid(file: BorrowedFd<'_>, node: Option<DeviceNumber>) -> Option<String> {
    let uuid = match haul_sys::filesystem::uuid(file) {
        // Held by O_PATH, as directories may be.
        Err(Errno::BADF) => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            openat(file, ".", flags, Mode::empty()).and_then(|opened| haul_sys::filesystem::uuid(opened.as_fd()))
        }
        answer => answer,
    };
    match uuid {
        Ok(bytes) if bytes.iter().any(|byte| *byte != 0) => Some(hexadecimal(&bytes)),
        _ => udev_uuid(Path::new("/dev/disk/by-uuid"), node?),
    }
}

fn udev_uuid(dir: &Path, node: DeviceNumber) -> Option<String> {
    let mut links = fs::read_dir(dir).ok()?.flatten();
    let link = links.find(|link| node_of(&link.path()) == Some(node))?;
    // Without the dashes, as the kernel's bytes are shown. Short ones (of FAT) have capital letters.
    Some(link.file_name().to_string_lossy().replace('-', "").to_lowercase())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").unwrap_or_default();
        text
    })
}

/// Model and bytes of a disk: its name may be another one tomorrow.
fn describe(disk: &Disk) -> String {
    let read = |name: &str| fs::read_to_string(disk.path.join(name)).ok().map(|text| text.trim().to_owned());
    let name = disk.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // Of those without a model the kind is known: `vd`, `loop`, `dm-`.
    let lettered = || ["xvd", "vd", "sd"].into_iter().find(|kind| name.starts_with(kind));
    let kind = || lettered().unwrap_or_else(|| name.trim_end_matches(|c: char| c.is_ascii_digit())).to_owned();
    let model = read("device/model").filter(|model| !model.is_empty()).unwrap_or_else(kind);
    let sectors = read("size").and_then(|size| size.parse::<u64>().ok()).unwrap_or(0);
    format!("{model}, {} bytes", sectors.saturating_mul(512))
}

/// The place of a directory or file that is named by a path.
///
/// # Errors
/// As open(2).
pub fn place_of(path: &Path) -> std::io::Result<Option<Place>> {
    Ok(place(File::open(path)?.as_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_storage_is_one_place_by_whatever_file_and_descriptor_it_is_asked() {
        let dir = File::open("/proc").unwrap();
        let file = File::open("/proc/self/stat").unwrap();
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let held = openat(haul_sys::rustix::fs::CWD, "/proc", flags, Mode::empty()).unwrap();
        let place = place(dir.as_fd()).unwrap();
        assert_eq!(place.id, "mount:proc on /proc");
        for other in [file.as_fd(), held.as_fd()] {
            assert_eq!(super::place(other), Some(place.clone()));
        }
    }
}
