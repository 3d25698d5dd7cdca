//! Inode flags (`chattr`) and project IDs.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::IFlags;
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};

use crate::syscall::{number, outcome};

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

const FILE_GETATTR: libc::c_long = number(468);
const FILE_SETATTR: libc::c_long = number(469);

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

impl Project {
    /// That of an inode whose descriptor takes ioctls.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> Result<Project, Errno> {
        let attributes = get_fsxattr(fd)?;
        Ok(Project::from_flags(attributes.project, u64::from(attributes.flags)))
    }

    /// That of an inode by a path.
    pub(crate) fn at(path: &CStr) -> Result<Project, Errno> {
        let attributes = file_getattr(path)?;
        Ok(Project::from_flags(attributes.project, attributes.flags))
    }

    fn from_flags(id: u32, flags: u64) -> Project {
        Project { id, inherited: flags & u64::from(xflag::PROJECT_INHERIT) != 0 }
    }

    /// Gives it to an inode whose descriptor takes ioctls.
    pub(crate) fn set(self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        let mut attributes = get_fsxattr(fd)?;
        attributes.project = self.id;
        attributes.flags = attributes.flags & !xflag::PROJECT_INHERIT | self.inherit();
        // SAFETY: the kernel reads a struct fsxattr for this opcode, which has the size that the opcode says.
        unsafe { ioctl(fd, Setter::<SET, FsXattr>::new(attributes)) }
    }

    /// Gives it to an inode by a path.
    pub(crate) fn set_at(self, path: &CStr) -> Result<(), Errno> {
        let mut attributes = file_getattr(path)?;
        attributes.project = self.id;
        attributes.flags = attributes.flags & !u64::from(xflag::PROJECT_INHERIT) | u64::from(self.inherit());
        file_setattr(path, &attributes)
    }

    fn inherit(self) -> u32 {
        if self.inherited { xflag::PROJECT_INHERIT } else { 0 }
    }
}

/// The inode flags by a path, as `FS_*_FL` bits.
pub(crate) fn get_at(path: &CStr) -> Result<u32, Errno> {
    let attributes = file_getattr(path)?;
    let set = SAME.iter().filter(|(bit, _)| attributes.flags & u64::from(*bit) != 0);
    Ok(set.fold(0, |flags, (_, flag)| flags | flag.bits()))
}

/// Sets the inode flags by a path, `FS_*_FL` bits.
pub(crate) fn set_at(path: &CStr, flags: u32) -> Result<(), Errno> {
    let mut attributes = file_getattr(path)?;
    for (bit, flag) in SAME {
        attributes.flags &= !u64::from(bit);
        if flags & flag.bits() != 0 {
            attributes.flags |= u64::from(bit);
        }
    }
    file_setattr(path, &attributes)
}

fn get_fsxattr(fd: BorrowedFd<'_>) -> Result<FsXattr, Errno> {
    // SAFETY: the kernel writes a struct fsxattr for this opcode; every bit pattern is one.
    unsafe { ioctl(fd, Getter::<GET, FsXattr>::new()) }
}

// Both calls refuse an O_PATH descriptor with an empty path (EBADF, seen on 6.18), hence a path.

fn file_getattr(path: &CStr) -> Result<FileAttr, Errno> {
    let mut attributes = FileAttr::default();
    // SAFETY: a string with an end, and a struct whose size is passed along.
    outcome(unsafe {
        libc::syscall(FILE_GETATTR, libc::AT_FDCWD, path.as_ptr(), &raw mut attributes, size_of::<FileAttr>(), 0)
    })?;
    Ok(attributes)
}

fn file_setattr(path: &CStr, attributes: &FileAttr) -> Result<(), Errno> {
    // SAFETY: a string with an end, and a struct whose size is passed along; the kernel only reads them.
    outcome(unsafe {
        libc::syscall(FILE_SETATTR, libc::AT_FDCWD, path.as_ptr(), &raw const *attributes, size_of::<FileAttr>(), 0)
    })
}
