//! Whether somebody uses an image as a disk at this moment, so that what its maps say may be old already.
//!
//! Every question may stay without an answer, for lack of permission or of support; then it counts for nothing, and the
//! map's own witnesses have the last word.

use std::fmt;
use std::fs;
use std::iter;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use haul_sys::Errno;
use haul_sys::in_use::{is_locked, is_open_for_writing};
use haul_sys::rustix::fs::{CWD, Mode, OFlags, openat};

use haul_sys::inode::{DeviceNumber, Inode, Kind};
use haul_sys::mountinfo::mounts;

use super::layers::{Search, disk_of_partition, loop_device_of, number_of_device, open_device};
use super::overlays::{Overlay, overlay};
use super::processes;
use super::suspended::{Memory, suspended};
use super::system::{System, dir_of, entries, names_of};

/// The first of the bytes of an image that QEMU locks while it has the image open, and how many there are: from 100 for
/// what it does itself, from 200 for what it lets nobody else do (`block/file-posix.c`).
const QEMU_LOCKS: (u64, u64) = (100, 104);

/// Who uses an image.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InUse {
    /// Locks of the bytes that QEMU locks.
    Qemu,
    /// Any other lock of bytes.
    Locked,
    /// A line of /proc/locks: flock(2), or a lease.
    Lock(String),
    /// Open for writing by somebody.
    Written,
    /// The backing file of this loop device.
    Loop(String),
    /// A device that is mounted here.
    Mounted(PathBuf),
    /// A device that another device is made of.
    Held(String),
    /// A device that is mounted or held, perhaps in another namespace.
    Claimed,
    /// A partition of this disk, which somebody uses as a whole.
    Disk(String),
    /// VMware's lock of the virtual machine or the disk.
    Vmware(PathBuf),
    /// Nobody at the moment, but the disk in this file goes on from it.
    Base(PathBuf),
    /// Nobody at the moment, but this file cannot be read, and a disk in it may go on from the image.
    Hidden(PathBuf),
    /// Nobody at the moment, but the memory of a virtual machine was saved in this file, and goes on from there.
    Suspended(PathBuf),
    /// Nobody at the moment, but this cannot be read, and may hold the memory of a virtual machine with the image.
    HiddenMemory(PathBuf),
}

impl InUse {
    /// Whether something outside the image may need what its own maps call free: another disk, or the memory of a machine that
    /// is suspended. Then it does not help that nothing changes meanwhile.
    #[must_use]
    pub fn is_continued(&self) -> bool {
        matches!(self, InUse::Base(_) | InUse::Hidden(_) | InUse::Suspended(_) | InUse::HiddenMemory(_))
    }
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InUse::Qemu => write!(f, "QEMU has it open"),
            InUse::Locked => write!(f, "another process holds a lock on it"),
            InUse::Lock(kind) => write!(f, "another process holds a lock on it ({kind})"),
            InUse::Written => write!(f, "another process has it open for writing"),
            InUse::Loop(name) => write!(f, "it is the disk of loop device {name}"),
            InUse::Mounted(mount_point) => write!(f, "it is mounted on {}", mount_point.display()),
            InUse::Held(name) => write!(f, "it is part of device {name}"),
            InUse::Claimed => write!(f, "it is mounted, or part of another device"),
            InUse::Disk(name) => write!(f, "it is a partition of {name}, which somebody uses as a whole"),
            InUse::Vmware(path) => write!(f, "VMware has locked it: {}", path.display()),
            InUse::Base(path) => write!(f, "it is the backing file of another disk: {}", path.display()),
            InUse::Hidden(path) => {
                write!(f, "it may be the backing file of a disk in what cannot be read: {}", path.display())
            }
            InUse::Suspended(path) => write!(f, "a virtual machine was suspended with it: {}", path.display()),
            InUse::HiddenMemory(path) => {
                write!(f, "a virtual machine may be suspended with it in what cannot be read: {}", path.display())
            }
        }
    }
}

/// Who uses the image, as far as that can be seen. `file` must be open for reading only.
pub fn in_use(path: &Path, file: BorrowedFd<'_>, inode: &Inode, system: &System) -> Option<InUse> {
    let user = match inode.kind {
        Kind::BlockDevice => disk_of_somebody(file, inode, system, Search::Names)
            .or_else(|| locked(file))
            .or_else(|| device_in_use(file, inode.node, system)),
        _ => disk_of_somebody(file, inode, system, Search::Names)
            .or_else(|| locked(file))
            .or_else(|| is_written(file, inode, system).then_some(InUse::Written))
            .or_else(|| listed_lock(file, inode, system).map(InUse::Lock))
            .or_else(|| names_of(path).find_map(|name| vmware_lock(dir_of(&name))).map(plain).map(InUse::Vmware)),
    };
    let of_memory = |memory| match memory {
        Memory::At(path) => InUse::Suspended(plain(path)),
        Memory::Hidden(path) => InUse::HiddenMemory(plain(path)),
    };
    user.or_else(|| suspended(path, inode, system).map(of_memory)).or_else(|| {
        overlay(path, file, inode, system).map(|found| match found {
            Overlay::At(path) => InUse::Base(plain(path)),
            Overlay::Hidden(path) => InUse::Hidden(plain(path)),
        })
    })
}

/// Without the dot that a path in the current directory begins with by us.
fn plain(path: PathBuf) -> PathBuf {
    path.strip_prefix(".").map(Path::to_owned).unwrap_or(path)
}

/// Whether anybody has a file open for writing. The kernel knows that of every process, but not on every filesystem, and
/// not for everybody; what processes say of themselves is the second best.
fn is_written(file: BorrowedFd<'_>, inode: &Inode, system: &System) -> bool {
    is_open_for_writing(file).unwrap_or_else(|_| processes::write_to_file(inode, system))
}

fn locked(file: BorrowedFd<'_>) -> Option<InUse> {
    matches!(is_locked(file, 0, 0), Ok(true)).then_some(InUse::Locked)
}

/// Whether QEMU or a loop device has it, or the disk that it is a partition of, in which case overwriting would pull the disk from
/// under a running system.
pub(super) fn disk_of_somebody(file: BorrowedFd<'_>, inode: &Inode, system: &System, search: Search) -> Option<InUse> {
    of_qemu_or_loop(file, inode, system, search).or_else(|| {
        let is_device = inode.kind == Kind::BlockDevice;
        let disk = if is_device { disk_of_partition(inode.node, system) } else { None }?;
        let (opened, inode) = open_device(&disk, system)?;
        of_qemu_or_loop(opened.as_fd(), &inode, system, search).map(|_| InUse::Disk(name_of(&disk)))
    })
}

fn of_qemu_or_loop(file: BorrowedFd<'_>, inode: &Inode, system: &System, search: Search) -> Option<InUse> {
    if matches!(is_locked(file, QEMU_LOCKS.0, QEMU_LOCKS.1), Ok(true)) {
        return Some(InUse::Qemu);
    }
    loop_device_of(inode, system, search).map(InUse::Loop)
}

/// A claim that is gone after some moments is none.
const MOMENT: Duration = Duration::from_millis(10);
const MOMENTS: usize = 10;

/// Whether a device, or a partition of it, or the disk that it is a partition of, is mounted, part of another one, or written by a
/// process.
pub(super) fn device_in_use(file: BorrowedFd<'_>, node: DeviceNumber, system: &System) -> Option<InUse> {
    let parts = with_partitions(node, system);
    if let Some(mount_point) = parts.iter().find_map(|(number, _)| mounted_on(*number, system)) {
        return Some(InUse::Mounted(mount_point));
    }
    if let Some(holder) = parts.iter().find_map(|(_, dir)| first_entry(&dir.join("holders"))) {
        return Some(InUse::Held(holder));
    }
    // Who has a device for itself is refused another such claim on it, on the whole disk and on its partitions.
    let link = system.proc.join(format!("thread-self/fd/{}", file.as_raw_fd()));
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let is_claimed = || matches!(openat(CWD, &link, flags, Mode::empty()), Err(Errno::BUSY));
    // Who looks for a free loop device claims those that are taken for a moment, too.
    let lasts = |()| {
        thread::sleep(MOMENT);
        is_claimed()
    };
    if is_claimed() && iter::repeat_n((), MOMENTS).all(lasts) {
        return Some(InUse::Claimed);
    }
    if processes::write_to_device(&parts, system) {
        return Some(InUse::Written);
    }
    disk_of_partition(node, system).and_then(|disk| {
        let whole = [(number_of_device(&disk)?, disk.clone())];
        let is_used = mounted_on(whole[0].0, system).is_some()
            || first_entry(&disk.join("holders")).is_some()
            || processes::write_to_device(&whole, system);
        is_used.then(|| InUse::Disk(name_of(&disk)))
    })
}

/// A device and its partitions, with their directories in /sys.
fn with_partitions(node: DeviceNumber, system: &System) -> Vec<(DeviceNumber, PathBuf)> {
    let dir = system.sys.join(format!("dev/block/{}:{}", node.major, node.minor));
    let parts = entries(&dir).filter(|path| path.join("partition").exists());
    let parts = parts.filter_map(|path| Some((number_of_device(&path)?, path)));
    iter::once((node, dir)).chain(parts).collect()
}

/// Where a device is mounted. btrfs has made-up device numbers in the table, so the name of the device counts too.
fn mounted_on(node: DeviceNumber, system: &System) -> Option<PathBuf> {
    let table = fs::read(system.proc.join("thread-self/mountinfo")).ok()?;
    let is_source = |source: &Path| {
        let inode = source.is_absolute().then(|| Inode::at_following(CWD, source.as_os_str()).ok()).flatten();
        inode.is_some_and(|inode| inode.kind == Kind::BlockDevice && inode.node == node)
    };
    let found = mounts(&table).find(|mount| mount.device == node || is_source(Path::new(&mount.source)));
    found.map(|mount| mount.point)
}

fn first_entry(dir: &Path) -> Option<String> {
    entries(dir).next().map(|path| name_of(&path))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A lock on the file that /proc/locks lists, of whatever kind: `FLOCK ADVISORY WRITE`, `LEASE ACTIVE WRITE`. A lease for
/// reading is none: it says that nobody writes, and who asks that as we do has it for a moment.
fn listed_lock(file: BorrowedFd<'_>, inode: &Inode, system: &System) -> Option<String> {
    let table = fs::read_to_string(system.proc.join("locks")).ok()?;
    let device = filesystem_of(file, system).unwrap_or(inode.id.device());
    let name = format!("{:02x}:{:02x}:{}", device.major, device.minor, inode.id.inode());
    table.lines().find_map(|line| {
        // `1: FLOCK  ADVISORY  WRITE 707 fe:00:12 0 EOF`; who waits for a lock has an arrow behind the number.
        let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "->").collect();
        let kind = words.get(1..4).unwrap_or_default();
        (words.get(5) == Some(&name.as_str()) && !matches!(kind, ["LEASE", _, "READ"])).then(|| kind.join(" "))
    })
}

/// The device number that the filesystem of an open file has inside the kernel; on btrfs it is not that of stat.
fn filesystem_of(file: BorrowedFd<'_>, system: &System) -> Option<DeviceNumber> {
    let info = fs::read_to_string(system.proc.join(format!("thread-self/fdinfo/{}", file.as_raw_fd()))).ok()?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse::<u64>().ok()?;
    let table = fs::read(system.proc.join("thread-self/mountinfo")).ok()?;
    mounts(&table).find(|mount| mount.id == id).map(|mount| mount.device)
}

/// VMware Workstation and Fusion make directories `*.lck` beside a disk or a machine that is in use, ESXi files `.lck-*`
/// on NFS.
fn vmware_lock(dir: &Path) -> Option<PathBuf> {
    entries(dir).find(|path| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        (name.ends_with(b".lck") && path.is_dir()) || name.starts_with(b".lck-")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("haul-in-use-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn open(path: &Path) -> (fs::File, Inode) {
        let file = fs::File::open(path).unwrap();
        let inode = Inode::of(file.as_fd()).unwrap();
        (file, inode)
    }

    #[test]
    fn what_nobody_uses_is_not_in_use() {
        let dir = place("free");
        fs::write(dir.join("disk"), "image").unwrap();
        let (file, inode) = open(&dir.join("disk"));
        // A child that another test is just starting may hold the writer's descriptor for a moment.
        let found = std::iter::repeat_with(|| in_use(&dir.join("disk"), file.as_fd(), &inode, &System::default()));
        let found = found.take(10_000).find(Option::is_none);
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(found, Some(None));
    }

    #[test]
    fn a_writer_and_a_lock_directory_are_seen() {
        let dir = place("writer");
        let writer = fs::File::create(dir.join("disk.vmdk")).unwrap();
        let (file, inode) = open(&dir.join("disk.vmdk"));
        let look = || in_use(&dir.join("disk.vmdk"), file.as_fd(), &inode, &System::default());
        assert_eq!(look(), Some(InUse::Written));
        drop(writer);
        fs::create_dir(dir.join("machine.vmx.lck")).unwrap();
        let found = std::iter::repeat_with(look).take(10_000).find(|found| *found != Some(InUse::Written));
        let expected = InUse::Vmware(dir.join("machine.vmx.lck"));
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(found, Some(Some(expected)));
    }

    #[test]
    fn a_lock_of_a_whole_file_is_seen() {
        let dir = place("flock");
        fs::write(dir.join("disk"), "image").unwrap();
        let (file, inode) = open(&dir.join("disk"));
        let other = fs::File::open(dir.join("disk")).unwrap();
        other.lock_shared().unwrap();
        let found = listed_lock(file.as_fd(), &inode, &System::default());
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(found.as_deref(), Some("FLOCK ADVISORY READ"));
    }

    #[test]
    fn a_lease_is_a_lock_only_if_it_is_for_writing() {
        let dir = place("lease");
        fs::write(dir.join("disk"), "image").unwrap();
        let (file, inode) = open(&dir.join("disk"));
        let device = filesystem_of(file.as_fd(), &System::default()).unwrap();
        let system = System { proc: dir.join("proc"), ..System::default() };
        let (major, minor, number) = (device.major, device.minor, inode.id.inode());
        let listed = |kind: &str| {
            let thread = system.proc.join("thread-self");
            fs::create_dir_all(thread.join("fdinfo")).unwrap();
            fs::write(thread.join(format!("fdinfo/{}", file.as_raw_fd())), "mnt_id:\t30\n").unwrap();
            fs::write(thread.join("mountinfo"), format!("30 1 {major}:{minor} / / rw - x x rw\n")).unwrap();
            let line = format!("1: {kind} 707 {major:02x}:{minor:02x}:{number} 0 EOF\n");
            fs::write(system.proc.join("locks"), line).unwrap();
            listed_lock(file.as_fd(), &inode, &system)
        };
        let found = ["LEASE  ACTIVE    READ ", "LEASE  ACTIVE    WRITE", "FLOCK  ADVISORY  READ "].map(listed);
        fs::remove_dir_all(&dir).unwrap();
        let found = found.each_ref().map(Option::as_deref);
        assert_eq!(found, [None, Some("LEASE ACTIVE WRITE"), Some("FLOCK ADVISORY READ")]);
    }

    #[test]
    fn a_device_is_found_by_its_mounts_and_those_of_its_partitions() {
        let dir = place("mounts");
        let system = System { proc: dir.join("proc"), sys: dir.join("sys"), ..System::default() };
        let disk = system.sys.join("dev/block/8:0");
        fs::create_dir_all(disk.join("sda1/holders")).unwrap();
        fs::create_dir_all(system.proc.join("thread-self")).unwrap();
        fs::write(disk.join("sda1/partition"), "1\n").unwrap();
        fs::write(disk.join("sda1/dev"), "8:1\n").unwrap();
        let mounts = "30 1 0:9 / /proc rw - proc proc rw\n31 1 8:1 / /boot rw,relatime shared:1 - ext4 /dev/x rw\n";
        fs::write(system.proc.join("thread-self/mountinfo"), mounts).unwrap();
        let node = |minor| DeviceNumber { major: 8, minor };
        let numbers: Vec<u32> = with_partitions(node(0), &system).iter().map(|(number, _)| number.minor).collect();
        let found = (mounted_on(node(1), &system), mounted_on(node(0), &system));
        fs::write(disk.join("sda1/holders/dm-0"), "").unwrap();
        let holder = first_entry(&disk.join("sda1/holders"));
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(numbers, [0, 1]);
        assert_eq!(found, (Some(PathBuf::from("/boot")), None));
        assert_eq!(holder.as_deref(), Some("dm-0"));
    }

    #[test]
    fn a_partition_is_in_use_if_its_whole_disk_is() {
        let dir = place("whole");
        let system = System { proc: dir.join("proc"), sys: dir.join("sys"), ..System::default() };
        let disk = system.sys.join("devices/sda");
        for part in ["sda1", "sda2"] {
            fs::create_dir_all(disk.join(part).join("holders")).unwrap();
            fs::write(disk.join(part).join("partition"), "").unwrap();
        }
        fs::create_dir_all(disk.join("holders")).unwrap();
        fs::create_dir_all(system.sys.join("dev/block")).unwrap();
        for (device, number, at) in [("sda", "8:0", ""), ("sda1", "8:1", "sda1"), ("sda2", "8:2", "sda2")] {
            fs::write(disk.join(at).join("dev"), format!("{number}\n")).unwrap();
            let link = system.sys.join("dev/block").join(number);
            std::os::unix::fs::symlink(disk.join(at), link).unwrap_or_else(|error| panic!("{device}: {error}"));
        }
        fs::create_dir_all(system.proc.join("thread-self")).unwrap();
        fs::write(system.proc.join("thread-self/mountinfo"), "").unwrap();
        let any = fs::File::open(&dir).unwrap();
        let look = |minor| device_in_use(any.as_fd(), DeviceNumber { major: 8, minor }, &system);
        let free = [0, 1, 2].map(look);
        fs::write(disk.join("sda2/holders/dm-0"), "").unwrap();
        let neighbour = [0, 1, 2].map(look);
        fs::remove_file(disk.join("sda2/holders/dm-0")).unwrap();
        fs::write(disk.join("holders/dm-0"), "").unwrap();
        let whole = [0, 1, 2].map(look);
        fs::remove_dir_all(&dir).unwrap();
        let held = || Some(InUse::Held("dm-0".to_owned()));
        let of_disk = || Some(InUse::Disk("sda".to_owned()));
        assert_eq!(free, [None, None, None]);
        assert_eq!(neighbour, [held(), None, held()]);
        assert_eq!(whole, [held(), of_disk(), of_disk()]);
    }
}
