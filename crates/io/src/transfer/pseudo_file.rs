//! Files that do not lie anywhere: their contents are made up while they are read.

use std::os::fd::OwnedFd;

use haul_sys::filesystem::FilesystemType;
use haul_sys::rustix::fs::{self, SeekFrom};

use haul_sys::inode::{Inode, Kind};

/// Whether bytes of it are addressed by offset.
pub fn has_offsets(fd: &OwnedFd, inode: &Inode) -> bool {
    match inode.kind {
        // Of the made-up ones some have none (/proc/kmsg, trace_pipe). Those are on no device.
        Kind::Regular if has_storage(inode) || inode.id.device().major != 0 => true,
        Kind::Regular | Kind::BlockDevice => fs::seek(fd, SeekFrom::Current(0)).is_ok(),
        _ => false,
    }
}

/// Whether a file is certainly no made-up one: it has blocks, or a time at which it was made, which those do not tell.
pub fn has_storage(inode: &Inode) -> bool {
    inode.allocated > 0 || inode.born.is_some()
}

/// Filesystems that make up their files while they are read, whose sizes are 0 or one page whatever is in them.
const PSEUDO_FILESYSTEMS: [FilesystemType; 9] = [
    FilesystemType::PROC,
    FilesystemType::SYSFS,
    FilesystemType::DEBUGFS,
    FilesystemType::TRACEFS,
    FilesystemType::CGROUP2,
    FilesystemType::CGROUP,
    FilesystemType::CONFIGFS,
    FilesystemType::SECURITYFS,
    FilesystemType::SELINUX,
];

/// Whether its contents are made up while they are read, so that its size means nothing.
pub fn is_pseudo_file(fd: &OwnedFd, inode: &Inode) -> bool {
    // No statfs for each ordinary file.
    if has_storage(inode) {
        return false;
    }
    FilesystemType::of(fd).is_ok_and(|kind| PSEUDO_FILESYSTEMS.contains(&kind))
}
