//! One directory entry, by the descriptor of its directory and its name.

use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use haul_sys::Errno;
use haul_sys::rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RenameFlags, StatxAttributes, StatxFlags};

use haul_sys::inode::{DeviceNumber, Inode};

/// Where an entry is, whether it exists or not.
///
/// # Errors
/// Every operation is one system call, whose errno it gives, or that with which the directory could not be opened.
#[derive(Debug, Clone, Copy)]
pub struct Spot<'a> {
    dir: Result<BorrowedFd<'a>, Errno>,
    /// Its name in the directory. Only operands may end in slashes.
    pub name: &'a OsStr,
    /// Its path as users know it, for messages.
    pub path: &'a Path,
}

#[allow(clippy::missing_errors_doc)] // said once, above
impl<'a> Spot<'a> {
    /// The entry of this name in this directory.
    #[inline]
    pub fn new(dir: BorrowedFd<'a>, name: &'a OsStr, path: &'a Path) -> Spot<'a> {
        Spot { dir: Ok(dir), name, path }
    }

    /// An entry whose directory could not be opened: every operation gives that error.
    #[inline]
    pub fn unreachable(errno: Errno, name: &'a OsStr, path: &'a Path) -> Spot<'a> {
        Spot { dir: Err(errno), name, path }
    }

    /// The directory.
    #[inline]
    pub fn dir(&self) -> Result<BorrowedFd<'a>, Errno> {
        self.dir
    }

    /// The attributes of the entry itself, also if it is a symbolic link.
    pub fn inode(&self) -> Result<Inode, Errno> {
        Inode::at(self.dir?, self.name)
    }

    /// The attributes of what the entry leads to.
    pub fn inode_following(&self) -> Result<Inode, Errno> {
        Inode::at_following(self.dir?, self.name)
    }

    /// One of both, as [`Inode::now_at`] finds it.
    pub fn inode_now(&self, follow: bool) -> Result<Inode, Errno> {
        Inode::now_at(self.dir?, self.name, follow)
    }

    /// Whether something is mounted on the entry (since Linux 5.8; before, it is never known to be).
    pub fn is_mount_point(&self) -> bool {
        let found =
            self.dir.and_then(|dir| fs::statx(dir, self.name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS));
        found.is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
    }

    /// Opens the entry, never a controlling terminal, always close-on-exec. The caller says whether links are followed.
    pub fn open(&self, flags: OFlags, mode: u32) -> Result<OwnedFd, Errno> {
        fs::openat(self.dir?, self.name, flags | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::from_raw_mode(mode))
    }

    /// The same with `O_NOATIME`, or without it where that is for others: the file's owner and root.
    pub fn open_noatime(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        match self.open(flags | OFlags::NOATIME, 0) {
            Err(Errno::PERM) => self.open(flags - OFlags::NOATIME, 0),
            opened => opened,
        }
    }

    /// A handle on the entry itself, also if it is a symbolic link or a device.
    pub fn open_path(&self) -> Result<OwnedFd, Errno> {
        self.open(OFlags::PATH | OFlags::NOFOLLOW, 0)
    }

    /// Removes the entry, which is not a directory.
    pub fn unlink(&self) -> Result<(), Errno> {
        fs::unlinkat(self.dir?, self.name, AtFlags::empty())
    }

    /// Makes a directory.
    pub fn make_dir(&self, mode: u32) -> Result<(), Errno> {
        fs::mkdirat(self.dir?, self.name, Mode::from_raw_mode(mode))
    }

    /// Removes a directory that is empty.
    pub fn remove_dir(&self) -> Result<(), Errno> {
        fs::unlinkat(self.dir?, self.name, AtFlags::REMOVEDIR)
    }

    /// Makes a symbolic link with this text.
    pub fn make_link(&self, text: &OsStr) -> Result<(), Errno> {
        fs::symlinkat(text, self.dir?, self.name)
    }

    /// Makes a FIFO, socket or device node.
    pub fn make_node(&self, kind: FileType, mode: u32, node: DeviceNumber) -> Result<(), Errno> {
        let device = fs::makedev(node.major, node.minor);
        fs::mknodat(self.dir?, self.name, kind, Mode::from_raw_mode(mode), device)
    }

    /// The text of the symbolic link.
    pub fn read_link(&self) -> Result<OsString, Errno> {
        let text = fs::readlinkat(self.dir?, self.name, Vec::new())?;
        Ok(OsString::from_vec(text.into_bytes()))
    }

    /// Gives the entry another name in the same directory, replacing what stands there.
    pub fn rename_to(&self, name: &OsStr) -> Result<(), Errno> {
        let dir = self.dir?;
        fs::renameat(dir, self.name, dir, name)
    }

    /// The same, but fails with EEXIST if something stands there.
    ///
    /// # Errors
    /// EINVAL and ENOSYS where the filesystem or kernel lacks the flag.
    pub fn rename_to_free(&self, name: &OsStr) -> Result<(), Errno> {
        let dir = self.dir?;
        fs::renameat_with(dir, self.name, dir, name, RenameFlags::NOREPLACE)
    }

    /// The entry of another name in the same directory.
    #[inline]
    #[must_use]
    pub fn beside<'b>(&self, name: &'b OsStr, path: &'b Path) -> Spot<'b>
    where
        'a: 'b,
    {
        Spot { dir: self.dir, name, path }
    }
}
