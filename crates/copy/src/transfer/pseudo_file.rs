//! Files that do not lie anywhere: their contents are made up while they are read.

use std::os::fd::OwnedFd;

use haul_sys::rustix::fs::{self, SeekFrom};

use haul_sys::inode::{Inode, Kind};

/// Whether bytes of it are addressed by offset.
pub(crate) fn has_offsets(fd: &OwnedFd, inode: &Inode) -> bool {
    match inode.kind {
        // Of the made-up ones some have none (/proc/kmsg, trace_pipe). Those are on no device.
        Kind::Regular if has_storage(inode) || inode.id.device().major != 0 => true,
        Kind::Regular | Kind::BlockDevice => fs::seek(fd, SeekFrom::Current(0)).is_ok(),
        _ => false,
    }
}

/// Whether a file is certainly no made-up one: it has blocks, or a time at which it was made, which those do not tell.
pub(crate) fn has_storage(inode: &Inode) -> bool {
    inode.allocated > 0 || inode.born.is_some()
}

/// Filesystems that make up their files while they are read, whose sizes are 0 or one page whatever is in them.
const PSEUDO_FILESYSTEMS: [u64; 9] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x6367_7270, // cgroup2
    0x0027_e0eb, // cgroup
    0x6265_6570, // configfs
    0x7363_6673, // securityfs
    0xf97c_ff8c, // selinuxfs
];

/// Whether its contents are made up while they are read, so that its size means nothing.
pub(crate) fn is_pseudo_file(fd: &OwnedFd, inode: &Inode) -> bool {
    // No statfs for each ordinary file.
    if has_storage(inode) {
        return false;
    }
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)]
    fs::fstatfs(fd).is_ok_and(|stat| PSEUDO_FILESYSTEMS.contains(&(stat.f_type as u64)))
}
