//! Which disk a filesystem or partition is on, as /sys tells it.

use std::fs;
use std::path::{Path, PathBuf};

use haul_sys::inode::DeviceNumber;

/// A whole disk, whatever partition a filesystem is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Its directory below `/sys`, with what the kernel says of it.
    pub path: PathBuf,
    /// It has moving heads. `None`: it does not say, or says nothing that can be believed.
    pub rotational: Option<bool>,
}

/// The disk below a filesystem, partition or disk. `None` for the numbers of filesystems without one device (btrfs, tmpfs,
/// network).
pub fn disk(device: DeviceNumber) -> Option<Disk> {
    find_disk(Path::new("/sys"), device)
}

/// The disk below a filesystem or partition. `None` for filesystems without one device (btrfs, tmpfs, network).
fn find_disk(sys: &Path, device: DeviceNumber) -> Option<Disk> {
    if device.major == 0 {
        return None;
    }
    let link = sys.join(format!("dev/block/{}:{}", device.major, device.minor));
    let mut path = fs::canonicalize(link).ok()?;
    if path.join("partition").exists() {
        path.pop();
    }
    let name = path.file_name()?.to_string_lossy().into_owned();
    // Virtual disks say what their driver was born with: virtio says rotational on any store; loop and network devices
    // know nothing of what is below.
    let believable =
        !["vd", "xvd", "loop", "nbd", "rbd", "zram", "dm-", "md"].iter().any(|kind| name.starts_with(kind));
    let said = fs::read_to_string(path.join("queue/rotational")).ok();
    let rotational = match said.as_deref().map(str::trim) {
        Some("0") if believable => Some(false),
        Some("1") if believable => Some(true),
        _ => None,
    };
    Some(Disk { path, rotational })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_partition_is_its_disk_and_a_virtual_disk_is_not_believed() {
        let root = std::env::temp_dir().join(format!("haul-probe-disks-{}", std::process::id()));
        for (path, text) in [
            ("devices/sda/queue/rotational", "1\n"),
            ("devices/sda/sda1/partition", "1\n"),
            ("devices/nvme0n1/queue/rotational", "0\n"),
            ("devices/vda/queue/rotational", "1\n"),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::create_dir_all(root.join("dev/block")).unwrap();
        for (number, device) in [("8:0", "sda"), ("8:1", "sda/sda1"), ("259:0", "nvme0n1"), ("254:0", "vda")] {
            symlink(root.join("devices").join(device), root.join("dev/block").join(number)).unwrap();
        }
        let disk = |major, minor| find_disk(&root, DeviceNumber { major, minor });
        let found = [disk(8, 0), disk(8, 1), disk(259, 0), disk(254, 0), disk(0, 42), disk(9, 9)];
        fs::remove_dir_all(&root).unwrap();
        let [whole, part, ssd, virtual_disk, none, unknown] = found;
        assert_eq!(whole.as_ref().and_then(|disk| disk.rotational), Some(true));
        assert_eq!(whole, part);
        assert_eq!(ssd.and_then(|disk| disk.rotational), Some(false));
        assert_eq!(virtual_disk.map(|disk| disk.rotational), Some(None));
        assert_eq!((none, unknown), (None, None));
    }
}
