//! Filesystems on which a name is a name in exactly its bytes, and others.

use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use haul_sys::Errno;
use haul_sys::filesystem::FilesystemType;
use haul_sys::inode::Kind;
use haul_sys::rustix::fs::ioctl_getflags;

use crate::walk::Spot;

/// Filesystems on which two names are two entries, unless a flag of a directory says otherwise: ext2 to ext4, btrfs, tmpfs, F2FS,
/// bcachefs.
const EXACT_NAMES: [FilesystemType; 5] =
    [FilesystemType::EXT, FilesystemType::BTRFS, FilesystemType::TMPFS, FilesystemType::F2FS, FilesystemType::BCACHEFS];

/// FS_CASEFOLD_FL of a directory.
pub const CASEFOLD: u32 = 0x4000_0000;

/// Filesystems on which names are exact unless a look shows otherwise: XFS, NFS, overlay.
const MOSTLY_EXACT_NAMES: [FilesystemType; 3] = [FilesystemType::XFS, FilesystemType::NFS, FilesystemType::OVERLAY];

/// Whether two names are two entries, and are given back as they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// They are.
    Exact,
    /// Unless a look at a name ([`case_counts`]) shows otherwise.
    MostlyExact,
    /// Nothing is certain.
    Unknown,
}

/// What is known of names in a directory, which is open to be read.
pub fn names_in(dir: BorrowedFd<'_>) -> Names {
    match ioctl_getflags(dir) {
        Ok(flags) if flags.bits() & CASEFOLD != 0 => Names::Unknown,
        _ => names_on(dir).unwrap_or(Names::Unknown),
    }
}

/// The same by the filesystem alone. A flag of a directory can make names alike there.
///
/// # Errors
/// As of fstatfs(2), where it may say more the next time.
pub fn names_on(dir: BorrowedFd<'_>) -> Result<Names, Errno> {
    match FilesystemType::of(dir) {
        Ok(found) if EXACT_NAMES.contains(&found) => Ok(Names::Exact),
        Ok(found) if MOSTLY_EXACT_NAMES.contains(&found) => Ok(Names::MostlyExact),
        Ok(_) | Err(Errno::NOSYS | Errno::OPNOTSUPP) => Ok(Names::Unknown),
        Err(errno) => Err(errno),
    }
}

/// Whether a name in other letters is another name; not known (false) if it has no letters. `None` if it is the same.
pub fn case_counts(spot: Spot<'_>, name: &OsStr) -> Option<bool> {
    let swap = |byte: u8| if byte.is_ascii_lowercase() { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() };
    let other = OsString::from_vec(name.as_bytes().iter().copied().map(swap).collect());
    if other == name {
        return Some(false);
    }
    match (spot.inode(), spot.beside(&other, spot.path).inode()) {
        (Ok(this), Ok(that)) if this.id != that.id => Some(true),
        (Ok(_), Err(Errno::NOENT)) => Some(true),
        // Two hard links may have such names.
        (Ok(this), Ok(_)) if this.kind != Kind::Directory && this.links > 1 => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn nothing_is_certain_of_names_on_filesystems_that_are_not_known() {
        assert_eq!(names_in(File::open("/proc").unwrap().as_fd()), Names::Unknown);
        assert_eq!(names_in(File::open("/dev/shm").unwrap().as_fd()), Names::Exact, "a tmpfs");
    }
}
