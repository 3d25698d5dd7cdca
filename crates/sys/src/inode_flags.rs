//! Inode flags (`chattr`) and project IDs.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{IFlags, Mode, OFlags, ioctl_getflags, ioctl_setflags, open};
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};

use crate::object::{Object, magic_link, outcome};

/// Flags as in `struct fsxattr` and in `struct file_attr`; not the same bits as `FS_*_FL`.
mod xflag {
    pub const IMMUTABLE: u32 = 0x8;
    pub const APPEND: u32 = 0x10;
    pub const SYNC: u32 = 0x20;
    pub const NO_ATIME: u32 = 0x40;
    pub const NO_DUMP: u32 = 0x80;
    pub const PROJECT_INHERIT: u32 = 0x200;
    pub const DAX: u32 = 0x8000;
}

/// The `FS_*_FL` bit for each flag that both sets have.
const SAME: [(u32, IFlags); 7] = [
    (xflag::IMMUTABLE, IFlags::IMMUTABLE),
    (xflag::APPEND, IFlags::APPEND),
    (xflag::SYNC, IFlags::SYNC),
    (xflag::NO_ATIME, IFlags::NOATIME),
    (xflag::NO_DUMP, IFlags::NODUMP),
    (xflag::PROJECT_INHERIT, IFlags::PROJECT_INHERIT),
    (xflag::DAX, IFlags::from_bits_retain(0x0200_0000)),
];

/// `struct fsxattr` of the kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct FsXattr {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    cow_extent_size: u32,
    padding: [u8; 8],
}

/// `struct file_attr` of the kernel, its first version (6.17).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct FileAttr {
    flags: u64,
    extent_size: u32,
    extents: u32,
    project: u32,
    cow_extent_size: u32,
}

const GET: Opcode = opcode::read::<FsXattr>(b'X', 31);
const SET: Opcode = opcode::write::<FsXattr>(b'X', 32);

/// A project ID, and whether a directory hands it on to what is created in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Project {
    /// The ID; 0 means none.
    pub id: u32,
    /// New entries of this directory get the same ID.
    pub inherited: bool,
}

impl Object<'_> {
    /// The inode flags as `FS_*_FL` bits.
    ///
    /// # Errors
    /// ENOTTY or EOPNOTSUPP where the filesystem has none, ENOSYS for a device node or symbolic link before 6.17.
    pub fn inode_flags(self) -> Result<u32, Errno> {
        if let Some(opened) = self.for_ioctl() {
            return ioctl_getflags(&opened).map(|flags| flags.bits());
        }
        let attributes = file_getattr(self)?;
        let set = SAME.iter().filter(|(bit, _)| attributes.flags & u64::from(*bit) != 0);
        Ok(set.fold(0, |flags, (_, flag)| flags | flag.bits()))
    }

    /// Sets the inode flags, `FS_*_FL` bits: all of them, so start from [`Object::inode_flags`].
    ///
    /// # Errors
    /// As for reading; EPERM without the capability that some flags need; EOPNOTSUPP or EINVAL for a flag that does not
    /// fit the filesystem or the file.
    pub fn set_inode_flags(self, flags: u32) -> Result<(), Errno> {
        if let Some(opened) = self.for_ioctl() {
            return ioctl_setflags(&opened, IFlags::from_bits_retain(flags));
        }
        let mut attributes = file_getattr(self)?;
        for (bit, flag) in SAME {
            attributes.flags &= !u64::from(bit);
            if flags & flag.bits() != 0 {
                attributes.flags |= u64::from(bit);
            }
        }
        file_setattr(self, &attributes)
    }

    /// The project ID.
    ///
    /// # Errors
    /// ENOTTY or EOPNOTSUPP where the filesystem has none, ENOSYS for a device node or symbolic link before 6.17.
    pub fn project(self) -> Result<Project, Errno> {
        let (id, flags) = if let Some(opened) = self.for_ioctl() {
            let attributes = get_fsxattr(opened.as_fd())?;
            (attributes.project, u64::from(attributes.flags))
        } else {
            let attributes = file_getattr(self)?;
            (attributes.project, attributes.flags)
        };
        Ok(Project { id, inherited: flags & u64::from(xflag::PROJECT_INHERIT) != 0 })
    }

    /// Sets the project ID.
    ///
    /// # Errors
    /// As for reading; EPERM or EINVAL outside the first user namespace; EOPNOTSUPP on ext4 without the feature.
    pub fn set_project(self, project: Project) -> Result<(), Errno> {
        let inherit = if project.inherited { xflag::PROJECT_INHERIT } else { 0 };
        let Some(opened) = self.for_ioctl() else {
            let mut attributes = file_getattr(self)?;
            attributes.project = project.id;
            attributes.flags = attributes.flags & !u64::from(xflag::PROJECT_INHERIT) | u64::from(inherit);
            return file_setattr(self, &attributes);
        };
        let mut attributes = get_fsxattr(opened.as_fd())?;
        attributes.project = project.id;
        attributes.flags = attributes.flags & !xflag::PROJECT_INHERIT | inherit;
        // SAFETY: the kernel reads a struct fsxattr for this opcode, which has the size that the opcode says.
        unsafe { ioctl(&opened, Setter::<SET, FsXattr>::new(attributes)) }
    }

    /// A descriptor that takes an ioctl. One opened with `O_PATH` does not; a directory is opened again through it,
    /// which no other file is: that may block or wake a device. (`file_getattr` would do for a directory as well, but
    /// not before 6.17, and it has no bits for what only btrfs or ext4 know.)
    fn for_ioctl(&self) -> Option<Opened<'_>> {
        if !self.path_only {
            return Some(Opened::Borrowed(self.fd));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOCTTY | OFlags::CLOEXEC;
        open(&*magic_link(*self), flags, Mode::empty()).ok().map(Opened::Owned)
    }
}

enum Opened<'a> {
    Borrowed(BorrowedFd<'a>),
    Owned(OwnedFd),
}

impl AsFd for Opened<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Opened::Borrowed(fd) => *fd,
            Opened::Owned(fd) => fd.as_fd(),
        }
    }
}

fn get_fsxattr(fd: BorrowedFd<'_>) -> Result<FsXattr, Errno> {
    // SAFETY: the kernel writes a struct fsxattr for this opcode; every bit pattern is one.
    unsafe { ioctl(fd, Getter::<GET, FsXattr>::new()) }
}

// Both calls refuse an O_PATH descriptor with an empty path (EBADF, seen on 6.18), hence the magic link.

fn file_getattr(object: Object<'_>) -> Result<FileAttr, Errno> {
    let link = magic_link(object);
    let mut attributes = FileAttr::default();
    // SAFETY: a string with an end, and a struct whose size is passed along.
    outcome(unsafe {
        libc::syscall(
            number::FILE_GETATTR,
            libc::AT_FDCWD,
            link.as_ptr(),
            &raw mut attributes,
            size_of::<FileAttr>(),
            0,
        )
    })?;
    Ok(attributes)
}

fn file_setattr(object: Object<'_>, attributes: &FileAttr) -> Result<(), Errno> {
    let link = magic_link(object);
    // SAFETY: a string with an end, and a struct whose size is passed along; the kernel only reads them.
    outcome(unsafe {
        libc::syscall(
            number::FILE_SETATTR,
            libc::AT_FDCWD,
            link.as_ptr(),
            &raw const *attributes,
            size_of::<FileAttr>(),
            0,
        )
    })
}

/// System call numbers, the same on all architectures whose numbers were unified; -1 is ENOSYS everywhere.
mod number {
    const KNOWN: bool = !cfg!(any(target_arch = "mips", target_arch = "mips64"));
    pub const FILE_GETATTR: libc::c_long = if KNOWN { 468 } else { -1 };
    pub const FILE_SETATTR: libc::c_long = if KNOWN { 469 } else { -1 };
    pub const FCHMODAT2: libc::c_long = if KNOWN { 452 } else { -1 };
}
pub(crate) use number::FCHMODAT2;
