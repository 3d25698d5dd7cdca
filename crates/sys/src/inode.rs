//! The attributes of an inode as statx(2) gives them: plain data, gathered once, decided upon elsewhere.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{self, AtFlags, Statx, StatxFlags, StatxTimestamp};
use rustix::io::Errno;

/// In nanoseconds.
const SECOND: i128 = 1_000_000_000;
const HUNDREDTH: i128 = SECOND / 100;

/// The identity of a file: device and inode together, never one of them alone.
///
/// Inode numbers repeat between filesystems; a known copier compared them without the device and lost files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    device: DeviceNumber,
    inode: u64,
}

impl FileId {
    /// What two numbers from elsewhere than stat(2) stand for.
    pub fn new(device: DeviceNumber, inode: u64) -> FileId {
        FileId { device, inode }
    }

    /// The filesystem's part, for deciding whether two files are on one filesystem.
    pub fn device(self) -> DeviceNumber {
        self.device
    }

    /// The number within the filesystem.
    pub fn inode(self) -> u64 {
        self.inode
    }

    /// As bytes, for a table in a file of this run.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.device.major.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.device.minor.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.inode.to_ne_bytes());
        bytes
    }

    /// What [`FileId::to_bytes`] gave.
    pub fn from_bytes(bytes: [u8; 16]) -> FileId {
        let [a, b, c, d, e, f, g, h, inode @ ..] = bytes;
        let device = DeviceNumber { major: u32::from_ne_bytes([a, b, c, d]), minor: u32::from_ne_bytes([e, f, g, h]) };
        FileId { device, inode: u64::from_ne_bytes(inode) }
    }
}

/// A device number: of a filesystem in [`FileId`], of a device node in [`Inode::node`]. Not interchangeable with an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceNumber {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// What kind of file an inode is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    SymbolicLink,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// Something that this version does not know.
    Unknown,
}

/// A point in time as filesystems keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970; negative before.
    pub seconds: i64,
    /// Nanoseconds within the second, 0 to 999,999,999.
    pub nanoseconds: u32,
}

/// The attributes of one inode, from one statx call.
///
/// # Errors
/// Every look at a file gives the errno of statx(2).
#[derive(Debug, Clone, Copy)]
pub struct Inode {
    /// Which file it is.
    pub id: FileId,
    /// What kind of file it is.
    pub kind: Kind,
    /// Permission bits with set-user-ID, set-group-ID and sticky: the lowest 12 bits.
    pub permissions: u32,
    /// Number of hard links.
    pub links: u32,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// The device that a device node stands for.
    pub node: DeviceNumber,
    /// Size in bytes. A hint: /proc says 0, files grow and shrink.
    pub size: u64,
    /// Bytes allocated (512 times st_blocks).
    pub allocated: u64,
    /// Preferred size of an I/O request in bytes.
    pub block_size: u32,
    /// Last access.
    pub accessed: Time,
    /// Last change of the contents.
    pub modified: Time,
    /// Last change of the inode.
    pub changed: Time,
    /// When the inode was made, where the filesystem keeps that.
    pub born: Option<Time>,
    /// Alignment for O_DIRECT: memory and offset in bytes; zeros where the kernel does not say (before 6.1, btrfs, tmpfs).
    pub direct: (u32, u32),
}

#[allow(clippy::missing_errors_doc)] // said once, above
impl Inode {
    /// What is certain of a regular file that was made a moment ago on this device and has not been looked at. It has no
    /// identity: [`Inode::of`] gives that where it is needed.
    pub fn just_made(device: DeviceNumber) -> Inode {
        let unknown = Time { seconds: 0, nanoseconds: 0 };
        Inode {
            id: FileId { device, inode: 0 },
            kind: Kind::Regular,
            permissions: 0,
            links: 1,
            user: 0,
            group: 0,
            node: DeviceNumber { major: 0, minor: 0 },
            size: 0,
            allocated: 0,
            block_size: 4096,
            accessed: unknown,
            modified: unknown,
            changed: unknown,
            born: None,
            direct: (0, 0),
        }
    }

    /// The attributes of an open file; also for `O_PATH` descriptors.
    pub fn of(fd: BorrowedFd<'_>) -> Result<Inode, Errno> {
        statx(fd, OsStr::new(""), AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The same, as a server has them at this moment: a client of NFS or CIFS otherwise believes for some time what it knows.
    pub fn now(fd: BorrowedFd<'_>) -> Result<Inode, Errno> {
        statx(fd, OsStr::new(""), AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC)
    }

    /// Whether both were taken of one file. A filesystem gives the inode number of a removed file to the next one at once
    /// (seen on ext4), so the number alone does not tell.
    pub fn is_same_file_as(&self, other: &Inode) -> bool {
        self.id == other.id && self.kind == other.kind && self.born == other.born
    }

    /// Whether the contents were last changed when those of `source` were, as precisely as the filesystem of this one keeps
    /// times: it cuts what it cannot store. How precise it is, its time of change shows, which comes from the kernel's clock and
    /// is cut in the same way.
    pub fn is_modified_as(&self, source: &Inode) -> bool {
        /// The units that filesystems have, in nanoseconds: NTFS, UDF, some servers, exFAT, ext3.
        const UNITS: [i128; 5] = [100, 1000, 1_000_000, HUNDREDTH, SECOND];
        let is_cut_to = |unit: i128| {
            let wanted = source.modified.nanoseconds();
            wanted - wanted.rem_euclid(unit) == self.modified.nanoseconds()
        };
        let changed = self.changed.nanoseconds();
        is_cut_to(1)
            || UNITS.iter().any(|unit| is_cut_to(*unit) && changed.rem_euclid(*unit) == 0)
            || is_cut_to(2 * SECOND) && self.is_on_fat()
    }

    /// Whether its times are those of FAT, of which that of the last change of the contents has an even second, and one has
    /// hundredths of a second: before Linux 5.19 the time of change, since then the time of birth, and the time of change is that
    /// of the contents. Where the hundredths happen to be zero this cannot be seen.
    fn is_on_fat(&self) -> bool {
        let has_hundredths = |time: Time| {
            let time = time.nanoseconds();
            time.rem_euclid(HUNDREDTH) == 0 && time.rem_euclid(SECOND) != 0
        };
        has_hundredths(self.changed) || (self.changed == self.modified && self.born.is_some_and(has_hundredths))
    }

    /// The attributes of a directory entry, of the link itself if it is one.
    pub fn at(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Inode, Errno> {
        statx(dir, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The attributes of what a directory entry leads to, symbolic links followed.
    pub fn at_following(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Inode, Errno> {
        statx(dir, name, AtFlags::empty())
    }

    /// As [`Inode::at`], or with `follow` as [`Inode::at_following`], as the filesystem has them now: one of the network asks
    /// its server and does not trust what this machine remembers.
    pub fn now_at(dir: BorrowedFd<'_>, name: &OsStr, follow: bool) -> Result<Inode, Errno> {
        let link = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        statx(dir, name, link | AtFlags::STATX_FORCE_SYNC)
    }
}

fn statx(dir: BorrowedFd<'_>, name: &OsStr, flags: AtFlags) -> Result<Inode, Errno> {
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::DIOALIGN;
    fs::statx(dir, name, flags, mask).map(Inode::from)
}

impl From<Statx> for Inode {
    fn from(stat: Statx) -> Inode {
        Inode {
            id: FileId {
                device: DeviceNumber { major: stat.stx_dev_major, minor: stat.stx_dev_minor },
                inode: stat.stx_ino,
            },
            kind: Kind::from_mode(u32::from(stat.stx_mode)),
            permissions: u32::from(stat.stx_mode) & 0o7777,
            links: stat.stx_nlink,
            user: stat.stx_uid,
            group: stat.stx_gid,
            node: DeviceNumber { major: stat.stx_rdev_major, minor: stat.stx_rdev_minor },
            size: stat.stx_size,
            allocated: stat.stx_blocks.saturating_mul(512),
            block_size: stat.stx_blksize,
            accessed: stat.stx_atime.into(),
            modified: stat.stx_mtime.into(),
            changed: stat.stx_ctime.into(),
            born: (stat.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| stat.stx_btime.into()),
            direct: (stat.stx_dio_mem_align, stat.stx_dio_offset_align),
        }
    }
}

impl Time {
    /// Since 1970.
    fn nanoseconds(self) -> i128 {
        i128::from(self.seconds) * SECOND + i128::from(self.nanoseconds)
    }
}

impl From<StatxTimestamp> for Time {
    fn from(time: StatxTimestamp) -> Time {
        Time { seconds: time.tv_sec, nanoseconds: time.tv_nsec }
    }
}

impl From<Time> for (i64, u32) {
    /// Seconds and nanoseconds.
    fn from(time: Time) -> (i64, u32) {
        (time.seconds, time.nanoseconds)
    }
}

impl Kind {
    fn from_mode(mode: u32) -> Kind {
        match fs::FileType::from_raw_mode(mode) {
            fs::FileType::RegularFile => Kind::Regular,
            fs::FileType::Directory => Kind::Directory,
            fs::FileType::Symlink => Kind::SymbolicLink,
            fs::FileType::Fifo => Kind::Fifo,
            fs::FileType::Socket => Kind::Socket,
            fs::FileType::CharacterDevice => Kind::CharacterDevice,
            fs::FileType::BlockDevice => Kind::BlockDevice,
            _ => Kind::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parts = (i64, u32);

    /// Whether a copy with these times counts as modified when its source was.
    fn is_modified_as(source: Parts, copy: Parts, changed: Parts, born: Option<Parts>) -> bool {
        let time = |(seconds, nanoseconds)| Time { seconds, nanoseconds };
        let inode = Inode::just_made(DeviceNumber { major: 8, minor: 1 });
        let source = Inode { modified: time(source), ..inode };
        let (modified, changed, born) = (time(copy), time(changed), born.map(time));
        Inode { modified, changed, born, ..inode }.is_modified_as(&source)
    }

    #[test]
    fn a_time_that_is_cut_as_the_filesystem_cuts_all_is_the_same() {
        let precise = (50, 123_456_789);
        for (source, copy, changed, same) in [
            ((7, 5), (7, 5), precise, true),
            ((7, 5), (7, 6), precise, false),
            // What a filesystem could keep, it keeps.
            ((7, 5), (7, 0), precise, false),
            ((7, 5), (7, 0), (50, 0), true),
            ((7, 5), (6, 0), (50, 1_000), false),
            // Whole seconds are no even ones.
            ((7, 5), (6, 0), (50, 0), false),
            ((8, 5), (6, 0), (50, 0), false),
            ((7, 123_456_789), (7, 123_456_700), (50, 100), true),
            ((7, 123_456_789), (7, 123_456_700), precise, false),
            ((7, 123_456_789), (7, 120_000_000), (50, 10_000_000), true),
            // Before 1970, to the past as well.
            ((-7, 5), (-7, 0), (50, 0), true),
            ((-7, 5), (-6, 0), (50, 0), false),
        ] {
            assert_eq!(is_modified_as(source, copy, changed, None), same, "{source:?} {copy:?} {changed:?}");
        }
    }

    #[test]
    fn only_on_fat_are_times_cut_to_even_seconds() {
        for (source, copy, changed, born, same) in [
            // Until Linux 5.18.
            ((7, 5), (6, 0), (50, 10_000_000), None, true),
            ((7, 5), (5, 0), (50, 10_000_000), None, false),
            ((-7, 5), (-8, 0), (50, 10_000_000), None, true),
            // Since then.
            ((7, 5), (6, 0), (6, 0), Some((40, 20_000_000)), true),
            ((8, 5), (6, 0), (6, 0), Some((40, 20_000_000)), false),
            // ext3, HFS+.
            ((7, 5), (6, 0), (6, 0), None, false),
            ((7, 5), (6, 0), (50, 0), Some((40, 0)), false),
            ((7, 5), (6, 0), (6, 0), Some((6, 0)), false),
        ] {
            assert_eq!(is_modified_as(source, copy, changed, born), same, "{source:?} {copy:?} {changed:?} {born:?}");
        }
    }
}
