//! Owner, mode, times, flags, project ID and extended attributes of an inode that is held by a descriptor.
//!
//! Nothing here names a file by a path that somebody else could change. A descriptor opened with `O_PATH` is refused by
//! `fchmod` and by every `f*xattr` call, also by those of the `*xattrat` family with an empty path (`EBADF`, seen on
//! 6.18). Those (since 6.13) reach a directory all the same, under the name `.` in itself. The way to any other such
//! inode is its entry in `/proc/thread-self/fd`: a magic link that leads to the inode itself, also where that is a
//! symbolic link. (`thread-self` and not `self`, since a thread may have its own descriptors.)

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::fs::{self, AtFlags, Gid, IFlags, Mode, OFlags, Timestamps, Uid, XattrFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::inode_flags::{self, Project};
use crate::syscall::{number, outcome};
use crate::xattr_at::{self, is_no_way};

const FCHMODAT2: libc::c_long = number(452);

/// An inode that we hold.
///
/// # Errors
/// Every method gives the errno of its system call: chown(2), chmod(2), utimensat(2), linkat(2), those of xattr(7).
#[derive(Debug, Clone, Copy)]
pub struct Object<'a> {
    /// The descriptor: open for reading or writing, or opened with `O_PATH | O_NOFOLLOW`.
    pub fd: BorrowedFd<'a>,
    /// It was opened with `O_PATH`, as symbolic links, device nodes, FIFOs, sockets and unreadable directories must be.
    pub path_only: bool,
}

impl AsFd for Object<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd
    }
}

/// The magic link to a descriptor's inode.
fn magic_link(object: Object<'_>) -> CString {
    // The text has no zero byte, so the default is never used.
    CString::new(format!("/proc/thread-self/fd/{}", object.fd.as_raw_fd())).unwrap_or_default()
}

#[allow(clippy::missing_errors_doc)] // said once, above
impl Object<'_> {
    /// Changes owner and group; `None` leaves one as it is. Never follows a symbolic link.
    pub fn change_owner(self, user: Option<u32>, group: Option<u32>) -> Result<(), Errno> {
        let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
        // Linux 2.6.39 takes AT_EMPTY_PATH for every kind of descriptor.
        retry_on_intr(|| fs::chownat(self, c"", user, group, AtFlags::EMPTY_PATH))
    }

    /// Sets the lowest 12 mode bits; EOPNOTSUPP for a symbolic link.
    pub fn set_mode(self, mode: u32) -> Result<(), Errno> {
        let mode = mode & 0o7777;
        if !self.path_only {
            return retry_on_intr(|| fs::fchmod(self, Mode::from_raw_mode(mode)));
        }
        match retry_on_intr(|| fchmodat2(self.fd, mode)) {
            // Before 6.6.
            Err(Errno::NOSYS) => self.set_mode_by_link(mode),
            result => result,
        }
    }

    /// Sets access and modification time.
    pub fn set_times(self, times: &Timestamps) -> Result<(), Errno> {
        if !self.path_only {
            return retry_on_intr(|| fs::futimens(self, times));
        }
        match retry_on_intr(|| fs::utimensat(self, c"", times, AtFlags::EMPTY_PATH)) {
            // Before 5.8.
            Err(Errno::INVAL | Errno::NOENT | Errno::BADF) => self.set_times_by_link(times),
            result => result,
        }
    }

    /// Gives the inode another name, of one component, in this directory. The descriptor decides which inode: no name of
    /// it is looked up, and no symbolic link is followed.
    ///
    /// # Errors
    /// ENOENT also where there is no way to the inode: without /proc before 6.10, for a caller without CAP_DAC_READ_SEARCH.
    pub fn link_at(self, directory: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        // Without the capability this is granted since 6.10, to the credentials that opened the descriptor.
        match retry_on_intr(|| fs::linkat(self, c"", directory, name, AtFlags::EMPTY_PATH)) {
            Err(Errno::NOENT | Errno::INVAL) => self.link_at_by_link(directory, name),
            result => result,
        }
    }

    fn link_at_by_link(self, directory: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        let link = magic_link(self);
        retry_on_intr(|| fs::linkat(fs::CWD, &*link, directory, name, AtFlags::SYMLINK_FOLLOW))
    }

    fn set_mode_by_link(self, mode: u32) -> Result<(), Errno> {
        let link = magic_link(self);
        retry_on_intr(|| fs::chmod(&*link, Mode::from_raw_mode(mode)))
    }

    fn set_times_by_link(self, times: &Timestamps) -> Result<(), Errno> {
        let link = magic_link(self);
        retry_on_intr(|| fs::utimensat(fs::CWD, &*link, times, AtFlags::empty()))
    }

    /// Fills the buffer with the names of all extended attributes that the caller may see, each ended by a zero byte.
    pub fn list_xattrs(self, names: &mut Vec<u8>) -> Result<(), Errno> {
        fill(names, |names| {
            if !self.path_only {
                return fs::flistxattr(self, spare_capacity(names));
            }
            match xattr_at::list(self.fd, names) {
                Err(errno) if is_no_way(errno) => fs::listxattr(&*magic_link(self), spare_capacity(names)),
                result => result,
            }
        })
    }

    /// Fills the buffer with the value of an extended attribute: ENODATA without one, EOPNOTSUPP where there are none at all.
    pub fn get_xattr(self, name: &CStr, value: &mut Vec<u8>) -> Result<(), Errno> {
        fill(value, |value| {
            if !self.path_only {
                return fs::fgetxattr(self, name, spare_capacity(value));
            }
            match xattr_at::get(self.fd, name, value) {
                Err(errno) if is_no_way(errno) => fs::getxattr(&*magic_link(self), name, spare_capacity(value)),
                result => result,
            }
        })
    }

    /// Sets an extended attribute, new or not.
    pub fn set_xattr(self, name: &CStr, value: &[u8]) -> Result<(), Errno> {
        retry_on_intr(|| {
            if !self.path_only {
                return fs::fsetxattr(self, name, value, XattrFlags::empty());
            }
            match xattr_at::set(self.fd, name, value) {
                Err(errno) if is_no_way(errno) => fs::setxattr(&*magic_link(self), name, value, XattrFlags::empty()),
                result => result,
            }
        })
    }

    /// Removes an extended attribute; ENODATA where there is none.
    pub fn remove_xattr(self, name: &CStr) -> Result<(), Errno> {
        retry_on_intr(|| {
            if !self.path_only {
                return fs::fremovexattr(self, name);
            }
            match xattr_at::remove(self.fd, name) {
                Err(errno) if is_no_way(errno) => fs::removexattr(&*magic_link(self), name),
                result => result,
            }
        })
    }

    /// The inode flags as `FS_*_FL` bits.
    ///
    /// # Errors
    /// ENOTTY or EOPNOTSUPP where the filesystem has none, ENOSYS for a device node or symbolic link before 6.17.
    pub fn inode_flags(self) -> Result<u32, Errno> {
        match self.for_ioctl() {
            Some(opened) => fs::ioctl_getflags(&opened).map(|flags| flags.bits()),
            None => inode_flags::get_at(&magic_link(self)),
        }
    }

    /// Sets the inode flags, `FS_*_FL` bits: all of them, so start from [`Object::inode_flags`].
    ///
    /// # Errors
    /// As for reading; EPERM without the capability that some flags need; EOPNOTSUPP or EINVAL for a flag that does not
    /// fit the filesystem or the file.
    pub fn set_inode_flags(self, flags: u32) -> Result<(), Errno> {
        match self.for_ioctl() {
            Some(opened) => fs::ioctl_setflags(&opened, IFlags::from_bits_retain(flags)),
            None => inode_flags::set_at(&magic_link(self), flags),
        }
    }

    /// The project ID. Errors as for [`Object::inode_flags`].
    pub fn project(self) -> Result<Project, Errno> {
        match self.for_ioctl() {
            Some(opened) => Project::of(opened.as_fd()),
            None => Project::at(&magic_link(self)),
        }
    }

    /// Sets the project ID.
    ///
    /// # Errors
    /// As for reading; EPERM or EINVAL outside the first user namespace; EOPNOTSUPP on ext4 without the feature.
    pub fn set_project(self, project: Project) -> Result<(), Errno> {
        match self.for_ioctl() {
            Some(opened) => project.set(opened.as_fd()),
            None => project.set_at(&magic_link(self)),
        }
    }

    /// A descriptor that takes an ioctl. One opened with `O_PATH` does not; a directory is opened again through it,
    /// which no other file is: that may block or wake a device. (`file_getattr` would do for a directory as well, but
    /// not before 6.17, and it has no bits for what only btrfs or ext4 know.)
    fn for_ioctl(&self) -> Option<Opened<'_>> {
        if !self.path_only {
            return Some(Opened::Borrowed(self.fd));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOCTTY | OFlags::CLOEXEC;
        fs::open(&*magic_link(*self), flags, Mode::empty()).ok().map(Opened::Owned)
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

/// Calls until the buffer is large enough. It is never empty, which would ask for the size instead.
fn fill(buffer: &mut Vec<u8>, mut call: impl FnMut(&mut Vec<u8>) -> Result<usize, Errno>) -> Result<(), Errno> {
    // The kernel's own limit for a value and for a list of names is 64 KiB; it answers E2BIG beyond.
    const LARGEST: usize = 1 << 20;
    let mut size = buffer.capacity().max(256);
    loop {
        buffer.clear();
        buffer.reserve(size);
        match call(buffer) {
            Err(Errno::INTR) => {}
            Err(Errno::RANGE) if size < LARGEST => size *= 4,
            result => return result.map(drop),
        }
    }
}

/// `fchmodat2` with `AT_EMPTY_PATH`, since Linux 6.6.
fn fchmodat2(fd: BorrowedFd<'_>, mode: u32) -> Result<(), Errno> {
    // SAFETY: the call reads a descriptor that lives, a string with an end, and two numbers; it writes nothing.
    outcome(unsafe { libc::syscall(FCHMODAT2, fd.as_raw_fd(), c"".as_ptr(), mode, libc::AT_EMPTY_PATH) })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rustix::fs::{CWD, FileType, Statx, StatxFlags, Timespec};

    use super::*;

    /// A FIFO and a symbolic link to it, held with `O_PATH`; the names are gone.
    fn made(name: &str) -> (OwnedFd, OwnedFd) {
        let path =
            |kind| -> PathBuf { std::env::temp_dir().join(format!("haul-{name}-{}-{kind}", std::process::id())) };
        let hold = |path| fs::open(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).unwrap();
        let (fifo, link) = (path("fifo"), path("link"));
        fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        std::os::unix::fs::symlink(&fifo, &link).unwrap();
        let held = (hold(&fifo), hold(&link));
        std::fs::remove_file(fifo).unwrap();
        std::fs::remove_file(link).unwrap();
        held
    }

    fn stat(fd: &OwnedFd) -> Statx {
        fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).unwrap()
    }

    #[test]
    fn old_kernels_set_the_mode_by_the_magic_link() {
        let (fifo, link) = made("mode");
        Object { fd: fifo.as_fd(), path_only: true }.set_mode_by_link(0o4751).unwrap();
        assert_eq!(u32::from(stat(&fifo).stx_mode) & 0o7777, 0o4751);
        // The link itself has no mode, and what it leads to is left alone.
        assert_eq!(Object { fd: link.as_fd(), path_only: true }.set_mode_by_link(0o600), Err(Errno::OPNOTSUPP));
    }

    #[test]
    fn old_kernels_set_the_times_by_the_magic_link() {
        let (fifo, link) = made("times");
        let time = |seconds| Timespec { tv_sec: seconds, tv_nsec: 999_999_999 };
        for (fd, seconds) in [(&fifo, 5), (&link, 7)] {
            let times = Timestamps { last_access: time(seconds), last_modification: time(-seconds) };
            Object { fd: fd.as_fd(), path_only: true }.set_times_by_link(&times).unwrap();
        }
        for (fd, seconds) in [(&fifo, 5), (&link, 7)] {
            let stat = stat(fd);
            assert_eq!((stat.stx_atime.tv_sec, stat.stx_atime.tv_nsec), (seconds, 999_999_999));
            assert_eq!((stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec), (-seconds, 999_999_999));
        }
    }

    #[test]
    fn a_held_inode_gets_another_name_and_no_link_is_followed() {
        let dir = std::env::temp_dir().join(format!("haul-link-at-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("file"), "contents").unwrap();
        std::os::unix::fs::symlink("file", dir.join("link")).unwrap();
        let directory = fs::open(&dir, OFlags::PATH, Mode::empty()).unwrap();
        for name in ["file", "link"] {
            let held = fs::open(dir.join(name), OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).unwrap();
            std::fs::rename(dir.join(name), dir.join("moved")).unwrap();
            let object = Object { fd: held.as_fd(), path_only: true };
            object.link_at(directory.as_fd(), OsStr::new(name)).unwrap();
            object.link_at_by_link(directory.as_fd(), OsStr::new("by-link")).unwrap();
            for made in [name, "by-link"] {
                let made = fs::statx(&directory, made, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS).unwrap();
                assert_eq!((made.stx_ino, made.stx_nlink), (stat(&held).stx_ino, 3), "{name}");
            }
            assert_eq!(object.link_at(directory.as_fd(), OsStr::new("moved")), Err(Errno::EXIST));
            std::fs::remove_file(dir.join("moved")).unwrap();
            std::fs::remove_file(dir.join("by-link")).unwrap();
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn large_lists_and_values_make_the_buffer_grow() {
        let mut wanted = 0;
        let mut buffer = Vec::new();
        let result = fill(&mut buffer, |buffer| {
            wanted += 1;
            if buffer.capacity() < 60_000 {
                return Err(Errno::RANGE);
            }
            buffer.resize(60_000, 1);
            Ok(60_000)
        });
        assert_eq!((result, buffer.len()), (Ok(()), 60_000));
        assert!(wanted > 1);
        assert_eq!(fill(&mut buffer, |_| Err(Errno::RANGE)), Err(Errno::RANGE));
        assert_eq!(fill(&mut buffer, |_| Err(Errno::NODATA)), Err(Errno::NODATA));
    }
}
