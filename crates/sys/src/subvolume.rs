//! Subvolumes of btrfs, by the requests of linux/btrfs.h.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, Setter, Updater, ioctl, opcode};

use crate::filesystem::is_btrfs;
use crate::inode::Inode;

/// The inode of the directory that a subvolume is (BTRFS_FIRST_FREE_OBJECTID).
const ROOT: u64 = 256;
/// The longest name of an entry (BTRFS_NAME_LEN).
const NAME: usize = 255;

/// `struct btrfs_ioctl_vol_args_v2` of the kernel.
#[repr(C)]
#[derive(Clone, Copy)]
struct VolumeArguments {
    source: i64,
    transaction: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; 4040],
}

/// `struct btrfs_ioctl_get_subvol_rootref_args` of the kernel.
#[repr(C)]
#[derive(Clone, Copy)]
struct RootReferences {
    from: u64,
    references: [[u64; 2]; 255],
    found: u8,
    align: [u8; 7],
}

/// `struct btrfs_ioctl_fs_info_args` of the kernel, as far as its first version has it.
#[repr(C)]
#[derive(Clone, Copy)]
struct FilesystemInfo {
    highest_device: u64,
    devices: u64,
    id: [u8; 16],
    rest: [u8; 992],
}

/// BTRFS_IOC_FS_INFO.
const FILESYSTEM: Opcode = opcode::read::<FilesystemInfo>(0x94, 31);
/// BTRFS_IOC_SNAP_CREATE_V2.
const SNAPSHOT: Opcode = opcode::write::<VolumeArguments>(0x94, 23);
/// BTRFS_IOC_GET_SUBVOL_ROOTREF, since Linux 4.18.
const REFERENCES: Opcode = opcode::read_write::<RootReferences>(0x94, 61);

/// Whether an open directory is a subvolume.
///
/// # Errors
/// As statx(2).
pub fn is_subvolume(dir: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(Inode::of(dir)?.id.inode() == ROOT && is_btrfs(dir))
}

/// Whether another subvolume is in an open one, at any depth of its directories.
///
/// # Errors
/// ENOTTY before Linux 4.18.
pub fn has_subvolumes(subvolume: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut answer = RootReferences { from: 0, references: [[0; 2]; 255], found: 0, align: [0; 7] };
    // SAFETY: the file is on btrfs, as the caller says by giving a subvolume; where it is not, no filesystem has this request of
    // this size. It reads and writes one such structure, which is borrowed for it, and keeps no pointer.
    match unsafe { ioctl(subvolume, Updater::<REFERENCES, RootReferences>::new(&mut answer)) } {
        Ok(()) => Ok(answer.found > 0),
        // There are more than it can tell.
        Err(Errno::OVERFLOW) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// Whether an open subvolume and an open directory are on one filesystem.
///
/// # Errors
/// As ioctl(2).
pub fn are_on_one_filesystem(subvolume: BorrowedFd<'_>, dir: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(is_btrfs(dir) && filesystem_id(subvolume)? == filesystem_id(dir)?)
}

/// The identifier of the btrfs that a file is on.
fn filesystem_id(file: BorrowedFd<'_>) -> Result<[u8; 16], Errno> {
    // SAFETY: the file is on btrfs, as the callers know. The request writes one such structure and keeps no pointer.
    let info: FilesystemInfo = unsafe { ioctl(file, Getter::<FILESYSTEM, FilesystemInfo>::new()) }?;
    Ok(info.id)
}

/// Makes a writable snapshot of an open subvolume, under this name of an open directory. What was written to the subvolume before
/// is in it, and it is on the device when this returns.
///
/// # Errors
/// EEXIST, EXDEV (another filesystem), EPERM (not the owner of the subvolume), ENAMETOOLONG and others.
pub fn snapshot(subvolume: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    let name = name.as_bytes();
    if name.len() > NAME {
        return Err(Errno::NAMETOOLONG);
    }
    let source = i64::from(subvolume.as_raw_fd());
    let mut arguments = VolumeArguments { source, transaction: 0, flags: 0, unused: [0; 4], name: [0; 4040] };
    arguments.name[..name.len()].copy_from_slice(name);
    // SAFETY: the request reads exactly this structure and writes no memory of ours. The descriptor in it is open as long as
    // `subvolume` is borrowed.
    unsafe { ioctl(dir, Setter::<SNAPSHOT, VolumeArguments>::new(arguments)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn the_structures_are_as_long_as_the_kernels() {
        assert_eq!((size_of::<VolumeArguments>(), size_of::<RootReferences>()), (4096, 4096));
        assert_eq!(size_of::<FilesystemInfo>(), 1024);
    }

    #[test]
    fn a_directory_elsewhere_is_no_subvolume() {
        assert_eq!(is_subvolume(File::open("/proc").unwrap().as_fd()), Ok(false));
    }

    #[test]
    fn a_name_that_is_too_long_is_refused() {
        let dir = File::open("/proc").unwrap();
        let name = "n".repeat(256);
        assert_eq!(snapshot(dir.as_fd(), dir.as_fd(), name.as_ref()), Err(Errno::NAMETOOLONG));
    }
}
