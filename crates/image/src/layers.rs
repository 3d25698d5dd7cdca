//! What block devices are made of: disks, partitions, volumes, loop devices.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_sys::loops;
use haul_sys::rustix::fs::{CWD, Mode, OFlags, openat};

use haul_sys::inode::{DeviceNumber, FileId, Inode, Kind};

use super::system::{System, device_number, entries};

/// The most devices that are looked at to find what one is made of.
const MOST_LAYERS: usize = 64;

/// How hard to look for a loop device.
///
/// A name tells nothing where the file was deleted, or where the device was made in another mount namespace. The device
/// itself knows, but has to be opened, and whoever detaches it in that moment has to wait for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// By the names of the backing files; only devices whose file cannot be found by its name are asked.
    Names,
    /// Every device is asked.
    Devices,
}

/// What a loop device is made of.
#[derive(Debug, Clone, Copy)]
struct Backing {
    id: FileId,
    /// The number of the device that it is, if it is one.
    node: Option<DeviceNumber>,
}

impl From<Inode> for Backing {
    fn from(inode: Inode) -> Backing {
        Backing { id: inode.id, node: (inode.kind == Kind::BlockDevice).then_some(inode.node) }
    }
}

impl Backing {
    /// Whether this is that file or, under whatever name, that device.
    fn is(self, inode: &Inode) -> bool {
        self.id == inode.id || (inode.kind == Kind::BlockDevice && self.node == Some(inode.node))
    }
}

pub(super) fn loop_device_of(inode: &Inode, system: &System, search: Search) -> Option<String> {
    let is_loop = |dir: &PathBuf| dir.file_name().is_some_and(|name| name.as_bytes().starts_with(b"loop"));
    entries(&system.sys.join("block")).filter(is_loop).find_map(|dir| {
        let name = named_backing(&dir)?;
        let asked = || said_backing(&dir, system).is_some_and(|backing| backing.is(inode));
        let found = match name {
            Some(named) => named.is(inode) || (search == Search::Devices && asked()),
            None => asked(),
        };
        found.then(|| dir.file_name().unwrap_or_default().to_string_lossy().into_owned())
    })
}

/// Whether writing to one of these changes the other, as far as that can be seen: a disk and its partition, a loop device
/// and its backing file, a volume and a disk that it lies on.
pub(super) fn share_bytes(one: &Inode, other: &Inode, system: &System) -> bool {
    lies_on(one, other, system) || lies_on(other, one, system)
}

/// Whether the device `above` is `below` or a part of it, or is made of that.
fn lies_on(above: &Inode, below: &Inode, system: &System) -> bool {
    let dir_of = |node: DeviceNumber| {
        let DeviceNumber { major, minor } = node;
        fs::canonicalize(system.sys.join(format!("dev/block/{major}:{minor}"))).ok()
    };
    let dir_of_device = |inode: &Inode| if inode.kind == Kind::BlockDevice { dir_of(inode.node) } else { None };
    let below_dir = dir_of_device(below);
    let mut layers: Vec<PathBuf> = dir_of_device(above).into_iter().collect();
    let mut at = 0;
    while let Some(dir) = layers.get(at).filter(|_| at < MOST_LAYERS).cloned() {
        at += 1;
        // The directory of a partition is in that of its disk.
        if below_dir.as_ref().is_some_and(|below| dir.starts_with(below)) {
            return true;
        }
        if dir.join("partition").exists() {
            layers.extend(dir.parent().map(Path::to_owned));
        }
        layers.extend(entries(&dir.join("slaves")).filter_map(|slave| fs::canonicalize(slave).ok()));
        if let Some(named) = named_backing(&dir) {
            let said = said_backing(&dir, system);
            if [named, said].into_iter().flatten().any(|backing| backing.is(below)) {
                return true;
            }
            layers.extend(said.or(named).and_then(|backing| backing.node).and_then(dir_of));
        }
    }
    false
}

/// What a device, by its place in /sys, has by its name as a loop device: nothing if it is none or not in use, and
/// nothing in it if there is no such file here.
fn named_backing(device: &Path) -> Option<Option<Backing>> {
    let path = fs::read(device.join("loop/backing_file")).ok()?;
    let path = OsStr::from_bytes(path.strip_suffix(b"\n").unwrap_or(&path));
    Some(Inode::at_following(CWD, path).ok().map(Backing::from))
}

/// The place in /sys of the disk that a partition is on; `None` if the device is no partition.
pub(super) fn disk_of_partition(node: DeviceNumber, system: &System) -> Option<PathBuf> {
    let DeviceNumber { major, minor } = node;
    let dir = fs::canonicalize(system.sys.join(format!("dev/block/{major}:{minor}"))).ok()?;
    // The directory of a partition is in that of its disk.
    if dir.join("partition").exists() { dir.parent().map(Path::to_owned) } else { None }
}

/// The number of a device, by its place in /sys.
pub(super) fn number_of_device(device: &Path) -> Option<DeviceNumber> {
    device_number(fs::read_to_string(device.join("dev")).ok()?.trim())
}

/// Opens a device, by its place in /sys, for questions and with its attributes; `None` if that may not be.
pub(super) fn open_device(device: &Path, system: &System) -> Option<(OwnedFd, Inode)> {
    let number = number_of_device(device)?;
    // A slash in the name of a device is written so there.
    let name = device.file_name()?.to_str()?.replace('!', "/");
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat(CWD, system.dev.join(name), flags, Mode::empty()).ok()?;
    let inode = Inode::of(opened.as_fd()).ok()?;
    (inode.kind == Kind::BlockDevice && inode.node == number).then_some((opened, inode))
}

/// What a loop device itself says, if it may be asked.
fn said_backing(device: &Path, system: &System) -> Option<Backing> {
    let (opened, _) = open_device(device, system)?;
    let said = loops::backing(opened.as_fd()).ok()?;
    let number = |(major, minor)| DeviceNumber { major, minor };
    let node = Some(number(said.node)).filter(|node| node.major != 0);
    Some(Backing { id: FileId::new(number(said.device), said.inode), node })
}
