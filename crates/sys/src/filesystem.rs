//! What identifies a filesystem.

use std::os::fd::BorrowedFd;

use rustix::fs::fstatfs;
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl, opcode};

/// `struct fsuuid2` of the kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct FsUuid {
    len: u8,
    uuid: [u8; 16],
}

/// `struct btrfs_ioctl_fs_info_args` of the kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct BtrfsInfo {
    most: u64,
    devices: u64,
    uuid: [u8; 16],
    rest: [u8; 992],
}

/// FS_IOC_GETFSUUID, since Linux 6.9.
const GET_UUID: Opcode = opcode::read::<FsUuid>(0x15, 0);
/// BTRFS_IOC_FS_INFO.
const BTRFS_INFO: Opcode = opcode::read::<BtrfsInfo>(0x94, 31);
const BTRFS_MAGIC: u32 = 0x9123_683e;

/// The UUID of the filesystem of an open file (not `O_PATH`): 16 bytes on most, fewer on some. btrfs does not tell it in the way
/// of the others (Linux 6.18), but in its own.
///
/// # Errors
/// ENOTTY before Linux 6.9 and where a filesystem has none.
pub fn uuid(file: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    // SAFETY: the opcode is that of FS_IOC_GETFSUUID, which writes one fsuuid2 and keeps no pointer.
    match unsafe { ioctl(file, Getter::<GET_UUID, FsUuid>::new()) } {
        Ok(answer) => answer.uuid.get(..usize::from(answer.len)).map(<[u8]>::to_vec).ok_or(Errno::OVERFLOW),
        Err(errno) if errno == Errno::BADF || !is_btrfs(file) => Err(errno),
        Err(_) => {
            // SAFETY: the file is on btrfs, whose BTRFS_IOC_FS_INFO writes one btrfs_ioctl_fs_info_args and keeps no pointer.
            let answer = unsafe { ioctl(file, Getter::<BTRFS_INFO, BtrfsInfo>::new()) }?;
            Ok(answer.uuid.to_vec())
        }
    }
}

pub(crate) fn is_btrfs(file: BorrowedFd<'_>) -> bool {
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)] // its type depends on the architecture
    fstatfs(file).is_ok_and(|stat| stat.f_type as u32 == BTRFS_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_structures_are_as_long_as_the_kernels() {
        assert_eq!((size_of::<FsUuid>(), size_of::<BtrfsInfo>()), (17, 1024));
    }

    #[test]
    fn a_filesystem_without_a_uuid_says_so() {
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        assert!(uuid(file.as_fd()).is_err());
    }
}
