//! Facts about device, memory and page cache, as cheap as they come: /sys and /proc are read once for each device, and
//! the memory again only after so many bytes.

mod disk;
mod place;

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use haul_sys::filesystem::FilesystemType;
use haul_sys::page_cache;
use haul_sys::rustix::param::page_size;
use parking_lot::Mutex;

pub use self::disk::{Disk, disk};
pub use self::place::{mount, place, place_of};

use haul_sys::inode::{DeviceNumber, Inode, Kind};

use crate::facts::{self, Filesystem, Surroundings};

/// The free memory is looked up again after this many bytes were moved.
const MEMORY_AGE: u64 = 128 << 20;

/// What was found out, for all movers of a run.
#[derive(Debug, Default)]
pub struct Probe {
    disks: Mutex<HashMap<DeviceNumber, Option<Disk>>>,
    memory: Mutex<Option<(u64, Option<u64>)>>,
    cores: Mutex<Option<usize>>,
    moved: AtomicU64,
    left_in_cache: AtomicU64,
    at_once: AtomicUsize,
}

/// Bytes of memory that can be had without swapping, in the machine and in this process's control group; `None` where the kernel
/// does not tell.
pub fn memory() -> Option<u64> {
    available_memory(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

impl Probe {
    /// Everything about two open files.
    pub fn look(&self, source: (BorrowedFd<'_>, &Inode), dest: (BorrowedFd<'_>, &Inode)) -> Surroundings {
        let ((file, inode), (_, dest_inode)) = (source, dest);
        let cached = if inode.kind == Kind::Regular { cached_bytes(file, inode.size) } else { None };
        let disk_of = |inode: &Inode| match inode.kind {
            Kind::BlockDevice => self.disk(inode.node),
            _ => self.disk(inode.id.device()),
        };
        let (source, dest) = (disk_of(inode), disk_of(dest_inode));
        let rotational = |disk: &Option<Disk>| disk.as_ref().and_then(|disk| disk.rotational);
        Surroundings {
            cached,
            memory: self.memory(),
            left_in_cache: self.left_in_cache.load(Ordering::Relaxed),
            same_device: source.as_ref().zip(dest.as_ref()).map(|(source, dest)| source.path == dest.path),
            rotational: match (rotational(&source), rotational(&dest)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            within_one: inode.id.device() == dest_inode.id.device(),
            cores: self.cores(),
            at_once: self.at_once.load(Ordering::Relaxed).max(1),
        }
    }

    /// Whether a disk with heads that move is below one of two filesystems, as far as is known.
    pub fn has_heads(&self, devices: [DeviceNumber; 2]) -> bool {
        devices.into_iter().any(|device| self.disk(device).is_some_and(|disk| disk.rotational == Some(true)))
    }

    /// A large file begins; whether files are large is for the caller to say, and to end it.
    pub fn begin(&self) {
        self.at_once.fetch_add(1, Ordering::Relaxed);
    }

    /// It ended, so many bytes were moved, and so many of them were left in the page cache.
    pub fn end(&self, moved: u64, left_in_cache: u64) {
        self.at_once.fetch_sub(1, Ordering::Relaxed);
        self.moved.fetch_add(moved, Ordering::Relaxed);
        self.left_in_cache.fetch_add(left_in_cache, Ordering::Relaxed);
    }

    fn memory(&self) -> Option<u64> {
        let moved = self.moved.load(Ordering::Relaxed);
        let known = *self.memory.lock();
        if let Some((_, memory)) = known.filter(|(then, _)| moved.saturating_sub(*then) < MEMORY_AGE) {
            return memory;
        }
        let available = memory();
        *self.memory.lock() = Some((moved, available));
        available
    }

    fn cores(&self) -> usize {
        let mut known = self.cores.lock();
        *known.get_or_insert_with(facts::cores)
    }

    fn disk(&self, device: DeviceNumber) -> Option<Disk> {
        let known = || self.disks.lock();
        if let Some(disk) = known().get(&device) {
            return disk.clone();
        }
        let found = disk(device);
        known().insert(device, found.clone());
        found
    }
}

/// The filesystem of an open file.
pub fn filesystem_of(file: BorrowedFd<'_>) -> Filesystem {
    match FilesystemType::of(file) {
        Ok(FilesystemType::EXT) => Filesystem::Ext4,
        Ok(FilesystemType::XFS) => Filesystem::Xfs,
        Ok(FilesystemType::BTRFS) => Filesystem::Btrfs,
        _ => Filesystem::Other,
    }
}

/// Whether both files are on one server that copies between them when it is asked to: of NFS from 4.2 on (COPY), or of SMB from 2
/// on. One server by two names is taken for two.
pub(crate) fn are_on_one_server(source: BorrowedFd<'_>, dest: BorrowedFd<'_>) -> bool {
    server(source).is_some_and(|one| server(dest) == Some(one))
}

fn server(file: BorrowedFd<'_>) -> Option<Server> {
    let kind = FilesystemType::of(file).ok()?;
    let reaches_one = matches!(kind, FilesystemType::NFS | FilesystemType::SMB2);
    let mount = if reaches_one { mount(file) } else { None }?;
    let source = mount.source.to_str()?;
    match kind {
        FilesystemType::NFS => Server::of_nfs(source, &mount.filesystem_options),
        _ => Server::of_smb(source),
    }
}

/// A server that copies, by what its clients mount.
#[derive(Debug, PartialEq, Eq)]
enum Server {
    Nfs(String),
    Smb(String),
}

impl Server {
    /// Of `HOST:/EXPORT` and the options of the mount. The operation COPY came with version 4.2; without it the kernel copies, too,
    /// but by reading and writing from here.
    fn of_nfs(source: &str, options: &str) -> Option<Server> {
        let minor = options.split(',').find_map(|option| option.strip_prefix("vers=4.")?.parse::<u32>().ok())?;
        let (host, _) = source.split_once(":/")?;
        (minor >= 2).then(|| Server::Nfs(host.to_owned()))
    }

    /// Of `//HOST/SHARE`.
    fn of_smb(source: &str) -> Option<Server> {
        let (host, _) = source.strip_prefix("//")?.split_once('/')?;
        Some(Server::Smb(host.to_owned()))
    }
}

/// Whether the dirty pages of a file go to a block device on demand. Not those of FUSE, which writes through or at the close.
pub(crate) fn writes_back_on_demand(device: DeviceNumber, file: BorrowedFd<'_>) -> bool {
    match device.major {
        0 => FilesystemType::of(file) == Ok(FilesystemType::BTRFS),
        _ => FilesystemType::of(file).is_ok_and(|kind| kind != FilesystemType::FUSE),
    }
}

/// How much of a file is in the page cache; of a very large one by samples, since the answer takes 15 ms for each GiB that
/// is there (Linux 6.18).
pub(crate) fn cached_bytes(source: BorrowedFd<'_>, size: u64) -> Option<u64> {
    const SAMPLES: u64 = 128;
    const SAMPLE: u64 = 1 << 20;
    let pages = |offset, len| page_cache::cached_pages(source, offset, len).ok();
    if size <= SAMPLES * SAMPLE {
        return Some(pages(0, size)?.saturating_mul(page_size() as u64).min(size));
    }
    let distance = size / SAMPLES / SAMPLE * SAMPLE;
    let mut found: u64 = 0;
    for sample in 0..SAMPLES {
        found += pages(sample * distance, SAMPLE)?.saturating_mul(page_size() as u64).min(SAMPLE);
    }
    // In 128 bits, as the product of two sizes does not fit into 64. No more than the size, so it fits again.
    let estimate = u128::from(size) * u128::from(found) / u128::from(SAMPLES * SAMPLE);
    u64::try_from(estimate).ok()
}

/// Whether not a single page of a range of a regular file is in the page cache.
pub fn is_cold(source: &OwnedFd, offset: u64, len: u64) -> bool {
    page_cache::cached_pages(source.as_fd(), offset, len).is_ok_and(|pages| pages == 0)
}

/// What /proc/meminfo calls available, or less where a control group allows less.
fn available_memory(proc: &Path, cgroup: &Path) -> Option<u64> {
    let meminfo = fs::read_to_string(proc.join("meminfo")).ok()?;
    let available = field(&meminfo, "MemAvailable:")?.checked_mul(1024)?;
    let groups = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    Some(groups.lines().filter_map(|line| group_memory(cgroup, line)).fold(available, u64::min))
}

/// What a line of /proc/self/cgroup still allows: the least of the group and those above it.
fn group_memory(cgroup: &Path, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, group) = (parts.next()?, parts.next()?.trim_start_matches('/'));
    let (root, files) = match controllers {
        "" => (cgroup.to_owned(), [("memory.max", "memory.current"), ("memory.high", "memory.current")]),
        list if list.split(',').any(|name| name == "memory") => {
            let files = ("memory.limit_in_bytes", "memory.usage_in_bytes");
            (cgroup.join("memory"), [files, files])
        }
        _ => return None,
    };
    let mut least = None;
    let mut dir = root.join(group);
    while dir.starts_with(&root) {
        for (limit, usage) in files {
            let room = room_in(&dir, limit, usage);
            least = [least, room].into_iter().flatten().min();
        }
        dir.pop();
    }
    least
}

/// The room below one limit. Pages of files count as room, since they can go.
fn room_in(dir: &Path, limit: &str, usage: &str) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(dir.join(name)).ok()?.trim().parse::<u64>().ok();
    let (limit, usage) = (number(limit)?, number(usage)?);
    let stat = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
    let files = ["inactive_file", "active_file"].iter().filter_map(|name| field(&stat, name)).sum::<u64>();
    Some(limit.saturating_sub(usage.saturating_sub(files)))
}

/// The number after the name that begins a line.
fn field(table: &str, name: &str) -> Option<u64> {
    let mut lines = table.lines().map(str::split_whitespace);
    lines.find_map(|mut words| if words.next() == Some(name) { words.next()?.parse().ok() } else { None })
}

/// Whether this file is worth the questions.
pub fn is_worth_it(source: &Inode, dest: &Inode, from: u64) -> bool {
    source.kind == Kind::Regular && matches!(dest.kind, Kind::Regular | Kind::BlockDevice) && source.size >= from
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn copy_is_an_operation_of_nfs_from_4_2_on() {
        let server = |version| {
            let options = format!("rw,vers={version},rsize=1048576,namlen=255,hard,proto=tcp");
            Server::of_nfs("host:/export", &options)
        };
        assert!(["4.2", "4.3"].iter().all(|version| server(version) == Some(Server::Nfs("host".into()))));
        assert!(["3", "4.0", "4.1", "4.x"].iter().all(|version| server(version).is_none()));
    }

    #[test]
    fn a_server_is_known_by_its_name_whatever_it_exports() {
        let nfs = |source| Server::of_nfs(source, "vers=4.2");
        assert_eq!(nfs("fe80::1:/a"), nfs("fe80::1:/b/c:/d"));
        assert_ne!(nfs("one:/a"), nfs("two:/a"));
        assert_eq!(Server::of_smb("//host/one"), Server::of_smb("//host/two/below"));
        assert_ne!(Server::of_smb("//host/one"), nfs("host:/one"));
        assert!(nfs("/export").is_none() && Server::of_smb("share").is_none());
    }

    #[test]
    fn files_of_this_machine_are_on_no_server() {
        let file = fs::File::open("/").unwrap();
        assert!(!are_on_one_server(file.as_fd(), file.as_fd()));
    }

    fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("haul-probe-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_least_limit_above_the_process_counts_and_pages_of_files_are_room() {
        let root = tree(
            "memory",
            &[
                ("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:    4000000 kB\n"),
                ("proc/self/cgroup", "3:cpu:/x\n0::/a/b\n"),
                ("cg/a/memory.max", "max\n"),
                ("cg/a/memory.high", "1000000\n"),
                ("cg/a/memory.current", "700000\n"),
                ("cg/a/memory.stat", "anon 1\ninactive_file 100000\nactive_file 50000\n"),
                ("cg/a/b/memory.max", "800000\n"),
                ("cg/a/b/memory.current", "100000\n"),
            ],
        );
        let found = available_memory(&root.join("proc"), &root.join("cg"));
        fs::write(root.join("proc/self/cgroup"), "0::/\n").unwrap();
        let free = available_memory(&root.join("proc"), &root.join("cg"));
        fs::write(root.join("proc/self/cgroup"), "4:memory:/job\n").unwrap();
        fs::create_dir_all(root.join("cg/memory/job")).unwrap();
        fs::write(root.join("cg/memory/job/memory.limit_in_bytes"), "5000\n").unwrap();
        fs::write(root.join("cg/memory/job/memory.usage_in_bytes"), "2000\n").unwrap();
        let old = available_memory(&root.join("proc"), &root.join("cg"));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, Some(1_000_000 - (700_000 - 150_000)));
        assert_eq!(free, Some(4_000_000 * 1024));
        assert_eq!(old, Some(3000));
    }
}
