//! Where filesystems are mounted, by /proc/thread-self/mountinfo (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use haul_sys::inode::DeviceNumber;
use haul_sys::mountinfo::mounts;

/// The table of the calling thread.
///
/// # Errors
/// As open(2) and read(2).
pub fn read() -> io::Result<Vec<u8>> {
    fs::read("/proc/thread-self/mountinfo")
}

/// The path of an open directory, if it has one.
pub fn path_of(dir: BorrowedFd<'_>) -> Option<OsString> {
    let path = fs::read_link(format!("/proc/thread-self/fd/{}", dir.as_raw_fd())).ok()?;
    path.is_absolute().then(|| path.into())
}

/// Whether a file below a destination may be met by a second name that a mount gives it: one below the destination, one below the
/// source of what the destination is on, or one that shows one of the two directories below the other. Where a path is not known,
/// it may.
pub fn may_meet(table: &[u8], [source, dest]: [Option<OsString>; 2]) -> bool {
    let (Some(source), Some(dest)) = (source, dest) else { return true };
    let (source, dest) = (Path::new(&source), Path::new(&dest));
    let place = |path: &Path| shown_at(table, path);
    let (Some((of_source, from)), Some((device, to))) = (place(source), place(dest)) else { return true };
    let show_each_other = of_source == device && from != to && (from.starts_with(&to) || to.starts_with(&from));
    show_each_other
        || mounts(table).any(|mount| {
            let below = |top: &Path| mount.point != top && mount.point.starts_with(top);
            below(dest) || (below(source) && mount.device == device)
        })
}

/// Whether something is mounted below a directory. Where its path is not known, there may be.
pub fn has_mounts_below(table: &[u8], dir: Option<OsString>) -> bool {
    let Some(dir) = dir else { return true };
    let dir = Path::new(&dir);
    mounts(table).any(|mount| mount.point != dir && mount.point.starts_with(dir))
}

/// Whether mounts show the same directory at two places that are both this one or below it, as bind mounts may. What a mount hides
/// counts as shown.
pub fn show_twice(table: &[u8], dir: &Path) -> bool {
    let below = mounts(table).filter(|mount| mount.point != dir && mount.point.starts_with(dir));
    let below = below.map(|mount| (mount.device, mount.root));
    let shown: Vec<(DeviceNumber, PathBuf)> = shown_at(table, dir).into_iter().chain(below).collect();
    let same = |(device, root): &(DeviceNumber, PathBuf), (other, its): &(DeviceNumber, PathBuf)| {
        device == other && (root.starts_with(its) || its.starts_with(root))
    };
    shown.iter().enumerate().any(|(before, one)| shown[..before].iter().any(|other| same(one, other)))
}

/// Which directory of which filesystem a path is.
fn shown_at(table: &[u8], path: &Path) -> Option<(DeviceNumber, PathBuf)> {
    // A later mount hides an earlier one of the same place.
    let above = mounts(table).filter(|mount| path.starts_with(&mount.point));
    let mount = above.max_by_key(|mount| mount.point.as_os_str().len())?;
    let rest = path.strip_prefix(&mount.point).ok()?;
    Some((mount.device, mount.root.join(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 21 8:2 / /mnt/disk rw - xfs /dev/sdb2 rw
31 30 8:3 / /mnt/disk/a/mounted rw - ext4 /dev/sdc1 rw
32 21 8:2 /x /home/me/a\\040b/bound rw - xfs /dev/sdb2 rw
33 21 0:20 / /home/me/proc rw - proc proc rw
";

    fn meets(source: &str, dest: &str) -> bool {
        may_meet(TABLE.as_bytes(), [source, dest].map(|path| Some(path.into())))
    }

    #[test]
    fn a_mount_below_the_destination_may_give_a_file_a_second_name() {
        assert!(meets("/usr", "/mnt/disk/a"));
        assert!(meets("/usr", "/"));
        assert!(!meets("/usr", "/mnt/disk/a/mounted"), "it is reached by one name");
        assert!(!meets("/usr", "/mnt/disk/b") && !meets("/usr", "/mnt/disk/a/mount"));
    }

    #[test]
    fn a_mount_below_the_source_may_show_the_destination() {
        assert!(meets("/home/me", "/mnt/disk/b"), "bound from there");
        assert!(meets("/home/me/a b", "/mnt/disk/b") && !meets("/home/me/a", "/mnt/disk/b"));
        assert!(!meets("/home/me", "/var"), "of other filesystems");
    }

    #[test]
    fn a_mount_may_show_one_of_the_two_below_the_other() {
        assert!(meets("/home/me/a b/bound", "/mnt/disk"), "it is /mnt/disk/x");
        assert!(meets("/mnt/disk/x/y", "/home/me/a b/bound"));
        assert!(!meets("/home/me/a b/bound", "/mnt/disk/y") && !meets("/usr/share", "/usr/lib"));
    }

    #[test]
    fn what_is_mounted_below_a_directory_is_found() {
        let below = |dir: &str| has_mounts_below(TABLE.as_bytes(), Some(dir.into()));
        assert!(below("/") && below("/mnt/disk") && below("/home/me/a b"));
        assert!(!below("/mnt/disk/a/mounted") && !below("/mnt/disk/b") && !below("/home/me/a"));
        assert!(has_mounts_below(TABLE.as_bytes(), None));
    }

    #[test]
    fn a_directory_that_mounts_show_twice_below_one_is_found() {
        let twice = |more: &str, dir: &str| show_twice(format!("{TABLE}{more}").as_bytes(), Path::new(dir));
        assert!(twice("", "/"), "/mnt/disk/x is also /home/me/a b/bound");
        assert!(!twice("", "/mnt/disk") && !twice("", "/home/me") && !twice("", "/home/me/a b/bound"));
        let (bound, apart) = ("40 30 8:2 /a/b /mnt/disk/c rw - x x rw\n", "41 30 8:2 /z/y /mnt/disk/c/d rw - x x rw\n");
        assert!(twice(bound, "/mnt/disk") && !twice(bound, "/mnt/disk/c") && !twice(bound, "/mnt/disk/a"));
        assert!(!twice(&format!("{bound}{apart}"), "/mnt/disk/c"));
        let inside = "42 40 8:2 /a/b/c/d /mnt/disk/c/e rw - x x rw\n";
        assert!(twice(&format!("{bound}{inside}"), "/mnt/disk/c"));
        let sibling = "42 40 8:2 /a/bc /mnt/disk/c/e rw - x x rw\n";
        assert!(!twice(&format!("{bound}{sibling}"), "/mnt/disk/c"), "another name with the same beginning");
    }

    #[test]
    fn what_has_no_path_may_be_anywhere() {
        assert!(may_meet(TABLE.as_bytes(), [None, Some("/var".into())]));
        assert!(may_meet(b"", [Some("/usr".into()), Some("/var".into())]));
    }
}
