//! What identifies a filesystem.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{StatFs, fstatfs};
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

/// The type of a filesystem, by the number that statfs(2) gives for it: those of linux/magic.h, and of the sources of the
/// filesystems that are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilesystemType(u32);

impl FilesystemType {
    /// ext2, ext3 and ext4, which share a number.
    pub const EXT: FilesystemType = FilesystemType(0xef53);
    /// XFS.
    pub const XFS: FilesystemType = FilesystemType(0x5846_5342);
    /// btrfs.
    pub const BTRFS: FilesystemType = FilesystemType(0x9123_683e);
    /// F2FS.
    pub const F2FS: FilesystemType = FilesystemType(0xf2f5_2010);
    /// bcachefs.
    pub const BCACHEFS: FilesystemType = FilesystemType(0xca45_1a4e);
    /// ZFS.
    pub const ZFS: FilesystemType = FilesystemType(0x2fc1_2fc1);
    /// tmpfs.
    pub const TMPFS: FilesystemType = FilesystemType(0x0102_1994);
    /// ramfs.
    pub const RAMFS: FilesystemType = FilesystemType(0x8584_58f6);
    /// hugetlbfs.
    pub const HUGETLBFS: FilesystemType = FilesystemType(0x9584_58f6);
    /// overlay.
    pub const OVERLAY: FilesystemType = FilesystemType(0x794c_7630);
    /// aufs.
    pub const AUFS: FilesystemType = FilesystemType(0x6175_6673);
    /// eCryptfs.
    pub const ECRYPTFS: FilesystemType = FilesystemType(0xf15f);
    /// NFS.
    pub const NFS: FilesystemType = FilesystemType(0x6969);
    /// Ceph.
    pub const CEPH: FilesystemType = FilesystemType(0x00c3_6400);
    /// Lustre.
    pub const LUSTRE: FilesystemType = FilesystemType(0x0bd0_0bd0);
    /// OpenAFS.
    pub const OPENAFS: FilesystemType = FilesystemType(0x5346_414f);
    /// AFS, the kernel's own.
    pub const AFS: FilesystemType = FilesystemType(0x6b41_4653);
    /// Coda.
    pub const CODA: FilesystemType = FilesystemType(0x7375_7245);
    /// FUSE, virtiofs among it.
    pub const FUSE: FilesystemType = FilesystemType(0x6573_5546);
    /// 9P.
    pub const V9FS: FilesystemType = FilesystemType(0x0102_1997);
    /// CIFS.
    pub const CIFS: FilesystemType = FilesystemType(0xff53_4d42);
    /// SMB 2 and 3.
    pub const SMB2: FilesystemType = FilesystemType(0xfe53_4d42);
    /// SMB 1.
    pub const SMB: FilesystemType = FilesystemType(0x517b);
    /// Folders of VirtualBox.
    pub const VBOXSF: FilesystemType = FilesystemType(0x786f_4256);
    /// proc.
    pub const PROC: FilesystemType = FilesystemType(0x9fa0);
    /// sysfs.
    pub const SYSFS: FilesystemType = FilesystemType(0x6265_6572);
    /// debugfs.
    pub const DEBUGFS: FilesystemType = FilesystemType(0x6462_6720);
    /// tracefs.
    pub const TRACEFS: FilesystemType = FilesystemType(0x7472_6163);
    /// cgroup2.
    pub const CGROUP2: FilesystemType = FilesystemType(0x6367_7270);
    /// cgroup.
    pub const CGROUP: FilesystemType = FilesystemType(0x0027_e0eb);
    /// configfs.
    pub const CONFIGFS: FilesystemType = FilesystemType(0x6265_6570);
    /// securityfs.
    pub const SECURITYFS: FilesystemType = FilesystemType(0x7363_6673);
    /// selinuxfs.
    pub const SELINUX: FilesystemType = FilesystemType(0xf97c_ff8c);
    /// smackfs.
    pub const SMACK: FilesystemType = FilesystemType(0x4341_5d53);

    /// That of an open file, also of an `O_PATH` descriptor.
    ///
    /// # Errors
    /// As fstatfs(2).
    pub fn of(file: impl AsFd) -> Result<FilesystemType, Errno> {
        fstatfs(file).map(|found| FilesystemType::from(&found))
    }

    /// Whether its files are on a server, and every question is a message to it. FUSE and 9P are not meant: they may be on this
    /// machine, or answer one question at a time.
    pub fn is_remote(self) -> bool {
        [
            FilesystemType::NFS,
            FilesystemType::CEPH,
            FilesystemType::LUSTRE,
            FilesystemType::OPENAFS,
            FilesystemType::AFS,
            FilesystemType::CODA,
            FilesystemType::CIFS,
            FilesystemType::SMB2,
            FilesystemType::SMB,
        ]
        .contains(&self)
    }

    /// The number.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl From<&StatFs> for FilesystemType {
    fn from(found: &StatFs) -> FilesystemType {
        // Only 32 bits are defined; the type of the field, and its sign, depend on the architecture.
        #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)]
        FilesystemType(found.f_type as u32)
    }
}

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
    FilesystemType::of(file) == Ok(FilesystemType::BTRFS)
}

#[cfg(test)]
mod tests {
    use super::*;

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
