//! The inodes that the kernel knows, each held by a descriptor, so that its number is its own.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime};

use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::{self as sys, AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::pending::Pending;
use super::view::View;

pub(super) type Answer<T> = Result<T, Errno>;

/// What the kernel calls the root, whatever its number is.
pub(super) const ROOT: u64 = 1;

/// One inode of the backing directory.
struct Held {
    /// Opened with `O_PATH`.
    fd: OwnedFd,
    /// How often the kernel heard of it.
    lookups: u64,
    pending: Pending,
    view: Option<View>,
}

impl Held {
    fn new(fd: OwnedFd) -> Held {
        Held { fd, lookups: 1, pending: Pending::default(), view: None }
    }
}

/// All of them.
pub(super) struct Inodes {
    held: HashMap<u64, Held>,
    device: u64,
    believed: Duration,
}

/// The magic link to what a descriptor is of.
pub(super) fn link(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

impl Inodes {
    pub(super) fn new(backing: &std::path::Path, believed: Duration) -> Answer<Inodes> {
        let root = sys::open(backing, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let device = sys::fstat(&root)?.st_dev;
        Ok(Inodes { held: HashMap::from([(ROOT, Held::new(root))]), device, believed })
    }

    fn get(&self, ino: u64) -> Answer<&Held> {
        self.held.get(&ino).ok_or(Errno::STALE)
    }

    fn get_mut(&mut self, ino: u64) -> Answer<&mut Held> {
        self.held.get_mut(&ino).ok_or(Errno::STALE)
    }

    /// The descriptor of an inode, opened with `O_PATH`.
    pub(super) fn fd(&self, ino: u64) -> Answer<BorrowedFd<'_>> {
        Ok(self.get(ino)?.fd.as_fd())
    }

    /// Opens it for its bytes.
    pub(super) fn open(&self, ino: u64, flags: OFlags) -> Answer<File> {
        Ok(File::from(sys::open(link(self.fd(ino)?), flags | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Finds a name in a directory and tells the kernel of it.
    pub(super) fn find(&mut self, parent: u64, name: &OsStr) -> Answer<FileAttr> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = sys::openat(self.fd(parent)?, name, flags, Mode::empty())?;
        let stat = sys::fstat(&fd)?;
        if stat.st_dev != self.device || stat.st_ino == ROOT {
            return Err(Errno::XDEV);
        }
        match self.held.get_mut(&stat.st_ino) {
            // It is held, so a file of this number is this file.
            Some(held) => held.lookups += 1,
            None => drop(self.held.insert(stat.st_ino, Held::new(fd))),
        }
        self.attributes(stat.st_ino, stat.st_ino)
    }

    /// The kernel has forgotten it so often.
    pub(super) fn forget(&mut self, ino: u64, lookups: u64) {
        let Some(held) = self.held.get_mut(&ino) else { return };
        held.lookups = held.lookups.saturating_sub(lookups);
        if held.lookups == 0 && held.pending.is_empty() && ino != ROOT {
            self.held.remove(&ino);
        }
    }

    /// Attributes as this mount sees them, under a number.
    pub(super) fn attributes(&self, ino: u64, number: u64) -> Answer<FileAttr> {
        let held = self.get(ino)?;
        let stat = sys::statat(&held.fd, "", AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
        let mut attributes = attributes_of(&stat, number);
        attributes.size = attributes.size.max(held.pending.end());
        Ok(attributes)
    }

    /// The number that users are to see.
    pub(super) fn number(&self, ino: u64) -> Answer<u64> {
        Ok(sys::fstat(&self.get(ino)?.fd)?.st_ino)
    }

    /// What this mount believes of a directory; looks at it, if that is too long ago.
    pub(super) fn view(&mut self, ino: u64) -> Answer<&mut View> {
        let believed = self.believed;
        let held = self.get_mut(ino)?;
        if held.view.as_ref().and_then(View::left).is_none() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = sys::open(link(held.fd.as_fd()), flags, Mode::empty())?;
            held.view = Some(View::look(&directory, believed)?);
        }
        held.view.as_mut().ok_or(Errno::STALE)
    }

    /// What this mount has made or removed changes what it believes, if it believes anything.
    pub(super) fn seen(&mut self, ino: u64) -> Option<&mut View> {
        self.held.get_mut(&ino)?.view.as_mut()
    }

    /// It is not believed any more.
    pub(super) fn doubt(&mut self, ino: u64) {
        if let Some(held) = self.held.get_mut(&ino) {
            held.view = None;
        }
    }

    pub(super) fn pending(&mut self, ino: u64) -> Answer<&mut Pending> {
        Ok(&mut self.get_mut(ino)?.pending)
    }

    /// Writes what is pending for a file.
    pub(super) fn write_back(&mut self, ino: u64) -> Answer<()> {
        if self.get(ino)?.pending.is_empty() {
            return Ok(());
        }
        let file = self.open(ino, OFlags::WRONLY)?;
        let written = self.pending(ino)?.write(&file);
        written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    /// The same for all.
    pub(super) fn write_all_back(&mut self) -> Answer<()> {
        let all: Vec<u64> = self.held.keys().copied().collect();
        all.into_iter().map(|ino| self.write_back(ino)).fold(Ok(()), Result::and)
    }
}

fn attributes_of(stat: &Stat, number: u64) -> FileAttr {
    let (major, minor) = (sys::major(stat.st_rdev), sys::minor(stat.st_rdev));
    FileAttr {
        ino: INodeNo(number),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: SystemTime::UNIX_EPOCH,
        kind: kind(sys::FileType::from_raw_mode(stat.st_mode)),
        // The mask leaves 12 bits.
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        // As the protocol packs it into 32 bits.
        rdev: (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12),
        blksize: u32::try_from(stat.st_blksize).unwrap_or(4096),
        flags: 0,
    }
}

/// A type of file, in the words of the protocol.
pub(super) fn kind(kind: sys::FileType) -> FileType {
    match kind {
        sys::FileType::Directory => FileType::Directory,
        sys::FileType::Symlink => FileType::Symlink,
        sys::FileType::Fifo => FileType::NamedPipe,
        sys::FileType::Socket => FileType::Socket,
        sys::FileType::CharacterDevice => FileType::CharDevice,
        sys::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn time(seconds: i64, nanoseconds: impl TryInto<u32>) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let start = if seconds < 0 { SystemTime::UNIX_EPOCH - whole } else { SystemTime::UNIX_EPOCH + whole };
    start + Duration::from_nanos(nanoseconds.try_into().unwrap_or(0).into())
}
