//! Which storage an open file is on, distinguished from all others.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use haul_sys::Errno;
use haul_sys::inode::{DeviceNumber, Inode, Kind};
use haul_sys::rustix::fs::{Mode, OFlags, openat};

use super::disk::{Disk, disk};
use crate::profile::Place;

/// What is mounted where an open file is: a line of `/proc/thread-self/mountinfo`. Names that are not UTF-8 are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The device number of the filesystem inside the kernel; on btrfs it is not that of stat.
    pub device: DeviceNumber,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Type of the filesystem.
    pub filesystem: String,
    /// What is mounted.
    pub source: String,
    /// Options of the mount and of the filesystem, with commas between them.
    pub options: String,
}

/// The mount of an open file, also of one that was opened with `O_PATH`.
pub fn mount(file: BorrowedFd<'_>) -> Option<Mount> {
    let info = fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
    let table = fs::read("/proc/thread-self/mountinfo").ok()?;
    find_mount(&String::from_utf8_lossy(&table), id)
}

fn find_mount(table: &str, id: &str) -> Option<Mount> {
    let line = table.lines().find(|line| line.split(' ').next() == Some(id))?;
    let (first, rest) = line.split_once(" - ")?;
    let first: Vec<&str> = first.split(' ').collect();
    let mut rest = rest.split(' ');
    let (filesystem, source, of_filesystem) = (rest.next()?, rest.next()?, rest.next().unwrap_or_default());
    let (major, minor) = first.get(2)?.split_once(':')?;
    Some(Mount {
        device: DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? },
        point: PathBuf::from(unescaped(first.get(4)?)),
        filesystem: filesystem.to_owned(),
        source: unescaped(source),
        options: format!("{},{of_filesystem}", first.get(5)?),
    })
}

/// Undoes the octal escapes of mountinfo (space, tab, newline, backslash).
fn unescaped(field: &str) -> String {
    let mut text = String::with_capacity(field.len());
    let mut rest = field;
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => text.push(char::from(code)),
            None => text.push('\\'),
        }
        rest = if code.is_some() { &after[3..] } else { after };
    }
    text + rest
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
        None => format!("mount:{} on {}", mount.source, mount.point.display()),
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
    let node = mount.source.starts_with("/dev/").then(|| node_of(Path::new(&mount.source))).flatten();
    node.filter(|_| !mount.filesystem.starts_with("fuse"))
}

/// The device that a device node stands for.
fn node_of(path: &Path) -> Option<DeviceNumber> {
    let inode = Inode::at_following(haul_sys::rustix::fs::CWD, path.as_os_str()).ok()?;
    (inode.kind == Kind::BlockDevice).then_some(inode.node)
}

/// As the kernel tells it (Linux 6.9), or as udev has found it.
fn uuid(file: BorrowedFd<'_>, node: Option<DeviceNumber>) -> Option<String> {
    let told = match haul_sys::filesystem::uuid(file) {
        // Held by O_PATH, as directories may be.
        Err(Errno::BADF) => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            openat(file, ".", flags, Mode::empty()).and_then(|opened| haul_sys::filesystem::uuid(opened.as_fd()))
        }
        told => told,
    };
    match told {
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

    const TABLE: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw,errors=remount-ro
31 22 0:30 / /mnt/my\\040disk rw - fuse.sshfs me@host:/a\\134b rw,user_id=0
3 22 0:31 /sub /b rw master:1 propagate_from:2 - btrfs /dev/sdb rw,subvol=/sub
";

    #[test]
    fn the_line_of_a_mount_is_taken_apart() {
        let fuse = find_mount(TABLE, "31").unwrap();
        let mount = (fuse.point.to_str(), fuse.filesystem.as_str(), fuse.source.as_str());
        assert_eq!(mount, (Some("/mnt/my disk"), "fuse.sshfs", "me@host:/a\\b"));
        assert_eq!(fuse.options, "rw,rw,user_id=0");
        let btrfs = find_mount(TABLE, "3").unwrap();
        assert_eq!((btrfs.device, btrfs.filesystem.as_str()), (DeviceNumber { major: 0, minor: 31 }, "btrfs"));
        assert_eq!(find_mount(TABLE, "2"), None);
    }

    #[test]
    fn escapes_are_undone_and_other_backslashes_stay() {
        assert_eq!(["a\\040b", "\\134", "a\\", "a\\9é", "\\12"].map(unescaped), ["a b", "\\", "a\\", "a\\9é", "\\12"]);
    }

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
