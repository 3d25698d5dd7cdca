//! What is mounted, and which loop devices are in use.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use haul_sys::mountinfo;

/// What of a mounted filesystem the kernel's table tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// `major:minor`.
    pub device: String,
    /// The directory of the filesystem that is mounted; `/` but for subvolumes and bind mounts.
    pub root: String,
    /// Where.
    pub point: PathBuf,
    /// Type of the filesystem.
    pub filesystem: String,
    /// What is mounted.
    pub source: String,
    /// How, with commas.
    pub options: String,
}

impl Mount {
    fn of_table(mount: mountinfo::Mount) -> Mount {
        let mut options: Vec<&str> = Vec::new();
        for option in mount.options.split(',').chain(mount.filesystem_options.split(',')) {
            if !option.is_empty() && !options.contains(&option) {
                options.push(option);
            }
        }
        Mount {
            device: format!("{}:{}", mount.device.major, mount.device.minor),
            root: mount.root.to_string_lossy().into_owned(),
            point: mount.point,
            filesystem: mount.filesystem,
            source: mount.source.to_string_lossy().into_owned(),
            options: options.join(","),
        }
    }

    /// The one that a path is on: of those with its device number, `major:minor`, the one that is mounted deepest above it.
    pub fn of(path: &Path, device: &str) -> Option<Mount> {
        find(path, device, all().ok()?)
    }
}

/// Everything that is mounted, in the order of the mounting. Mounts may be a thread's own.
pub fn all() -> io::Result<Vec<Mount>> {
    Ok(parse(&fs::read("/proc/thread-self/mountinfo")?))
}

fn parse(table: &[u8]) -> Vec<Mount> {
    mountinfo::mounts(table).map(Mount::of_table).collect()
}

fn find(path: &Path, device: &str, mounts: Vec<Mount>) -> Option<Mount> {
    let above = |mount: &&Mount| path.starts_with(&mount.point);
    let depth = |mount: &&Mount| mount.point.components().count();
    let same = mounts.iter().filter(above).filter(|mount| mount.device == device).max_by_key(depth);
    // The device numbers of btrfs's files are others than those of its mounts. Later mounts hide earlier ones.
    same.or_else(|| mounts.iter().filter(above).max_by_key(depth)).cloned()
}

/// A mount below this path, if there is one.
pub fn below(path: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    all().ok()?.into_iter().map(|mount| mount.point).find(|point| point.starts_with(&real))
}

/// Loop devices in use, each with the file below it.
pub fn loops() -> Vec<(PathBuf, PathBuf)> {
    let Ok(devices) = fs::read_dir("/sys/block") else { return Vec::new() };
    let in_use = |name: std::ffi::OsString| {
        // Absent where the device is free.
        let backing = fs::read_to_string(Path::new("/sys/block").join(&name).join("loop/backing_file")).ok()?;
        Some((Path::new("/dev").join(name), PathBuf::from(backing.trim_end())))
    };
    devices.filter_map(|entry| in_use(entry.ok()?.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 22 0:25 / /tmp rw,nosuid - tmpfs tmpfs rw,size=1g
31 22 7:1 /sub /mnt/a\\040b rw,relatime - xfs /dev/loop1 rw,attr2
32 31 7:2 / /mnt/a\\040b rw,relatime - ext2 /dev/loop2 rw
";

    #[test]
    fn a_path_is_on_the_deepest_mount_above_it() {
        let of = |path: &str, device: &str| find(Path::new(path), device, parse(TABLE.as_bytes())).unwrap();
        assert_eq!(of("/home/x", "254:0").filesystem, "ext4");
        assert_eq!(of("/home/x", "254:0").options, "rw,relatime,discard");
        assert_eq!(of("/tmp/x", "0:25").filesystem, "tmpfs");
        let escaped = of("/mnt/a b/c", "7:1");
        assert_eq!((escaped.source.as_str(), escaped.root.as_str()), ("/dev/loop1", "/sub"));
        // A device number that no mount has: the last one is on top.
        assert_eq!(of("/mnt/a b/c", "0:99").filesystem, "ext2");
    }
}
