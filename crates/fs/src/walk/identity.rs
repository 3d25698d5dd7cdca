//! Whether two entries are two files, where inode numbers do not tell; and whether an entry is met again, by whatever path.
//!
//! A stacked filesystem shows files that are stored on another one under device and inode numbers of its own (overlay, a
//! FUSE filesystem that passes requests through, a directory that this machine exports and mounts). Who empties one of
//! the two empties the other. There is no call that tells, but two files of one moment that differ in size or in a byte
//! are not one file.
//!
//! Where one of two files is on such a filesystem, nothing is truncated or removed before the two are proven to differ.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use haul_sys::Errno;
use haul_sys::filesystem::FilesystemType;
use haul_sys::inode::{DeviceNumber, FileId, Inode, Kind};
use haul_sys::rustix::fs::{self, Access, AtFlags, CWD, OFlags, StatxAttributes, StatxFlags, fcntl_setfl};
use haul_sys::rustix::io::{pread, retry_on_intr};
use parking_lot::RwLock;

use super::operand::{last_component, without_trailing_slashes};
use super::path::renamed;
use super::spot::Spot;

/// How much of both files is compared at a time.
const PIECE: usize = 128 << 10;

/// What is known of a source and of what stands at its destination.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// They are two files.
    #[default]
    Two,
    /// They may be one file with two identities; in any case their contents are alike.
    Doubtful,
    /// The same, and no other file can be put in the place of the destination: something is mounted there, or the caller
    /// may not write to the directory.
    DoubtfulAndFixed,
}

/// Whether files can be seen under other numbers elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// What is stored on it, and nobody else shows that.
    Own,
    /// Files of others; two names with different numbers on it are two files.
    Others,
    /// Files of others, and it may make up the numbers: hard links can look like two files.
    OthersUnnumbered,
}

/// The filesystems with files of others, as statfs(2) numbers them.
const STACKED: [(FilesystemType, Shows); 15] = [
    (FilesystemType::OVERLAY, Shows::Others),
    (FilesystemType::AUFS, Shows::Others),
    (FilesystemType::ECRYPTFS, Shows::Others),
    (FilesystemType::NFS, Shows::Others),
    (FilesystemType::CEPH, Shows::Others),
    (FilesystemType::LUSTRE, Shows::Others),
    (FilesystemType::OPENAFS, Shows::Others),
    (FilesystemType::AFS, Shows::Others),
    (FilesystemType::CODA, Shows::Others),
    (FilesystemType::FUSE, Shows::OthersUnnumbered),
    (FilesystemType::V9FS, Shows::OthersUnnumbered),
    (FilesystemType::CIFS, Shows::OthersUnnumbered),
    (FilesystemType::SMB2, Shows::OthersUnnumbered),
    (FilesystemType::SMB, Shows::OthersUnnumbered),
    (FilesystemType::VBOXSF, Shows::OthersUnnumbered),
];

/// An entry as it was found.
#[derive(Debug, Clone, Copy)]
pub struct Party<'a> {
    /// Where it is.
    pub spot: Spot<'a>,
    /// What it is; with `follow` what it leads to.
    pub inode: &'a Inode,
    /// A symbolic link is followed.
    pub follow: bool,
}

/// Tells files apart, and remembers what kind of filesystem a device has.
#[derive(Debug, Default)]
pub struct Identities {
    /// A run meets few filesystems.
    known: RwLock<Vec<(DeviceNumber, Shows)>>,
}

impl Identities {
    /// Looks at source and destination, whose numbers differ. Costs nothing on filesystems with a device of their own, and one
    /// question for each filesystem without one; on a stacked one both are looked at again, and read as far as they are alike.
    ///
    /// `stop` ends the reading; the answer is [`Identity::Doubtful`] then.
    pub fn judge(&self, source: Party<'_>, dest: Party<'_>, stop: &dyn Fn() -> bool) -> Identity {
        if source.inode.kind != dest.inode.kind || !self.can_be_one(source, dest) {
            return Identity::Two;
        }
        match proves_two(source, dest, stop) {
            Ok(true) => Identity::Two,
            // What cannot be read is not known.
            Ok(false) | Err(_) if is_replaceable(dest) => Identity::Doubtful,
            Ok(false) | Err(_) => Identity::DoubtfulAndFixed,
        }
    }

    /// Whether two entries may be one with two identities, as far as their filesystems tell.
    pub fn can_be_one(&self, source: Party<'_>, dest: Party<'_>) -> bool {
        let devices = [source, dest].map(|party| party.inode.id.device());
        // Filesystems that show what others store have no device.
        if devices.iter().all(|device| device.major != 0) {
            return false;
        }
        let shows = [self.shows(source), self.shows(dest)];
        if shows == [Shows::Own; 2] {
            return false;
        }
        let one_mount = || devices[0] == devices[1] || mount_id(source).is_some_and(|id| mount_id(dest) == Some(id));
        shows.contains(&Shows::OthersUnnumbered) || !one_mount()
    }

    fn shows(&self, party: Party<'_>) -> Shows {
        let device = party.inode.id.device();
        if device.major != 0 {
            return Shows::Own;
        }
        let known = self.known.read();
        if let Some((_, shows)) = known.iter().find(|(known, _)| *known == device) {
            return *shows;
        }
        drop(known);
        let held = open(party, OFlags::PATH);
        // One that cannot be opened is not known, and may be anything.
        let Ok(shows) = held.and_then(|fd| kind_of(fd.as_fd())) else { return Shows::OthersUnnumbered };
        self.known.write().push((device, shows));
        shows
    }
}

fn kind_of(file: BorrowedFd<'_>) -> Result<Shows, Errno> {
    let kind = FilesystemType::of(file)?;
    Ok(STACKED.iter().find(|(stacked, _)| *stacked == kind).map_or(Shows::Own, |(_, shows)| *shows))
}

/// Whether a difference between the two was seen while the source stayed as it was.
fn proves_two(source: Party<'_>, dest: Party<'_>, stop: &dyn Fn() -> bool) -> Result<bool, Errno> {
    // What this machine remembers of a file of the network may be of different moments.
    let now = |party: Party<'_>| party.spot.inode_now(party.follow);
    let (before, there) = (now(source)?, now(dest)?);
    if before.size != there.size {
        let after = now(source)?;
        return Ok((after.size, after.changed) == (before.size, before.changed));
    }
    if source.inode.kind != Kind::Regular {
        return Ok(false);
    }
    let files = [open_to_read(source)?, open_to_read(dest)?];
    differ(files[0].as_fd(), files[1].as_fd(), stop)
}

/// Whether a byte differs. `false` also if the source was written to meanwhile, or the reading was stopped.
fn differ(source: BorrowedFd<'_>, dest: BorrowedFd<'_>, stop: &dyn Fn() -> bool) -> Result<bool, Errno> {
    let mut pieces = [const { Vec::new() }; 2].map(|mut piece: Vec<u8>| {
        piece.resize(PIECE, 0);
        piece
    });
    let mut offset = 0;
    while !stop() {
        let [a, b] = &mut pieces;
        let read = read_at(source, a, offset)?;
        let there = read_at(dest, b, offset)?;
        if a[..read] != b[..there] {
            let again = read_at(source, b, offset)?;
            return Ok(a[..read] == b[..again]);
        }
        if read == 0 {
            return Ok(false);
        }
        offset += read as u64;
    }
    Ok(false)
}

/// Reads until the buffer is full or the file ends.
fn read_at(file: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match retry_on_intr(|| pread(file, &mut buffer[filled..], offset + filled as u64))? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Opens a regular file, or fails if there is another one now.
fn open_to_read(party: Party<'_>) -> Result<OwnedFd, Errno> {
    let fd = open(party, OFlags::RDONLY | OFlags::NONBLOCK)?;
    if !Inode::of(fd.as_fd())?.is_same_file_as(party.inode) {
        return Err(Errno::STALE);
    }
    fcntl_setfl(&fd, OFlags::empty())?;
    Ok(fd)
}

fn open(party: Party<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    let no_follow = if party.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    party.spot.open(flags | no_follow, 0)
}

/// The mount that an entry is on, since Linux 5.8.
fn mount_id(party: Party<'_>) -> Option<u64> {
    let fd = open(party, OFlags::PATH).ok()?;
    let stat = fs::statx(&fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    (stat.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(stat.stx_mnt_id)
}

/// Whether another file can be put in its place.
fn is_replaceable(dest: Party<'_>) -> bool {
    let mounted = open(dest, OFlags::PATH)
        .and_then(|fd| fs::statx(&fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS))
        .is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
    let writable = || {
        dest.spot
            .dir()
            .and_then(|dir| fs::accessat(dir, c".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS))
            .is_ok()
    };
    // Behind a link it is in a directory that is not known here.
    !mounted && (dest.follow || writable())
}

/// A directory entry together with the file that it led to: the same name for the same file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KnownEntry {
    file: FileId,
    dir: FileId,
    name: OsString,
}

impl KnownEntry {
    /// The entry that leads to this file; `None` if its directory cannot be looked at.
    pub fn of(spot: Spot<'_>, file: FileId) -> Option<KnownEntry> {
        let dir = directory_id(spot)?;
        Some(KnownEntry { file, dir, name: last_component(spot.name).to_owned() })
    }

    /// The same where a symbolic link to its directory, as the last component before the name, is another directory.
    pub fn named(spot: Spot<'_>, file: FileId) -> Option<KnownEntry> {
        Some(KnownEntry { file, dir: named_directory(spot)?, name: last_component(spot.name).to_owned() })
    }
}

/// What the path of an entry has before its last component: where that is a symbolic link, the link.
fn named_directory(spot: Spot<'_>) -> Option<FileId> {
    let dir = match renamed(spot.path, OsStr::new("")) {
        dir if dir.as_os_str().is_empty() => PathBuf::from("."),
        dir => dir,
    };
    Inode::at(CWD, without_trailing_slashes(dir.as_os_str())).ok().map(|inode| inode.id)
}

/// Whether the path of a source names the directory that its destination stands in, as [`KnownEntry::named`] knows it; with
/// `exactly` the destination's is the one that its path names, too.
pub fn name_one_directory(source: Spot<'_>, dest: Spot<'_>, exactly: bool) -> bool {
    let of_dest = if exactly { named_directory(dest) } else { directory_id(dest) };
    named_directory(source).is_some_and(|dir| Some(dir) == of_dest)
}

/// Whether two spots are the same name in the same directory.
pub fn one_entry(a: Spot<'_>, b: Spot<'_>) -> bool {
    last_component(a.name) == last_component(b.name) && directory_id(a).is_some_and(|dir| Some(dir) == directory_id(b))
}

/// Which directory an entry stands in, if that is known.
pub fn directory_id(spot: Spot<'_>) -> Option<FileId> {
    Inode::of(spot.dir().ok()?).ok().map(|inode| inode.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    use haul_testbed::temp_dir;

    use super::super::operand::Operand;

    fn files(a: &[u8], b: &[u8]) -> (File, File, haul_testbed::TempDir) {
        let dir = temp_dir();
        let open = |name: &str, bytes: &[u8]| {
            std::fs::write(dir.path().join(name), bytes).unwrap();
            File::open(dir.path().join(name)).unwrap()
        };
        (open("a", a), open("b", b), dir)
    }

    #[test]
    fn a_link_to_a_directory_is_another_name_of_the_same_entry() {
        let dir = temp_dir();
        let (inside, link) = (dir.path().join("inside"), dir.path().join("link"));
        std::fs::create_dir(&inside).unwrap();
        std::os::unix::fs::symlink(&inside, &link).unwrap();
        let dotted = dir.path().join("./inside");
        let [here, there, again] = [inside, link, dotted].map(|dir| Operand::open(dir.join("x").as_os_str()));
        let (here, there, again) = (here.spot(), there.spot(), again.spot());
        assert!(one_entry(here, there) && !name_one_directory(here, there, true));
        assert!(name_one_directory(here, there, false) && !name_one_directory(there, here, false));
        assert!(one_entry(here, again) && name_one_directory(here, again, true));
    }

    #[test]
    fn one_byte_that_differs_makes_two_files() {
        let same = vec![7; 2 * PIECE + 3];
        let mut other = same.clone();
        other[2 * PIECE + 2] = 8;
        for (there, differs) in [(&same[..], false), (&other[..], true), (&same[..PIECE], true)] {
            let (a, b, _dir) = files(&same, there);
            assert_eq!(differ(a.as_fd(), b.as_fd(), &|| false), Ok(differs));
        }
    }

    #[test]
    fn a_comparison_that_was_stopped_proves_nothing() {
        let (a, b, _dir) = files(b"one", b"two");
        assert_eq!(differ(a.as_fd(), b.as_fd(), &|| true), Ok(false));
    }
}
