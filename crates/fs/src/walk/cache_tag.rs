//! Directories that are tagged as caches: <https://bford.info/cachedir/>.

use std::os::fd::{AsFd, BorrowedFd};

use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::{FileType, Mode, OFlags, openat};
use haul_sys::rustix::io::{pread, retry_on_intr};

use super::listing::{Listed, Listing};

/// The name of the tag, which is a regular file, and what it begins with.
const TAG: &str = "CACHEDIR.TAG";
const SIGNATURE: &[u8; 43] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// What is left of a directory without its cache: the tag, so that the copy is known as a cache, too. `None` if the directory
/// is not tagged, or if the tag cannot be read.
pub fn tagged_cache(dir: BorrowedFd<'_>) -> Option<Listing> {
    let is_file = |found: Inode| found.kind == Kind::Regular;
    // It may be anything, and to open a device has effects. What takes its place meanwhile must not keep anybody waiting.
    Inode::at(dir, TAG.as_ref()).ok().filter(|found| is_file(*found))?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let tag = openat(dir, TAG, flags, Mode::empty()).ok()?;
    let mut found = [0; SIGNATURE.len()];
    Inode::of(tag.as_fd()).ok().filter(|opened| is_file(*opened))?;
    // Of a file, the kernel gives less than there is only where a signal comes in between.
    let is_tag = retry_on_intr(|| pread(&tag, &mut found, 0)).ok()? == found.len() && found == *SIGNATURE;
    let listed = || Listed { name: TAG.into(), kind: Some(FileType::RegularFile), entry: None, made: None };
    is_tag.then(|| Listing::of(vec![listed()]))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::mem::MaybeUninit;
    use std::os::unix::fs::symlink;

    use haul_sys::Errno;
    use haul_sys::rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
    use haul_sys::rustix::fs::{CWD, mknodat};

    use super::*;

    /// Whether a directory with this tag is a cache.
    fn is_cache(text: &[u8]) -> bool {
        let dir = haul_testbed::temp_dir();
        fs::write(dir.path().join(TAG), text).unwrap();
        tagged_cache(File::open(dir.path()).unwrap().as_fd()).is_some()
    }

    #[test]
    fn only_the_signature_makes_a_tag() {
        assert!(is_cache(SIGNATURE));
        assert!(is_cache(&[SIGNATURE, &b"\n# This file is a cache directory tag"[..]].concat()));
        assert!(!is_cache(b""));
        assert!(!is_cache(&SIGNATURE[..42]));
        assert!(!is_cache(&SIGNATURE.to_ascii_uppercase()));
        assert!(!is_cache(&[b" ", &SIGNATURE[..]].concat()));
    }

    #[test]
    fn what_is_no_regular_file_is_not_opened() {
        let dir = haul_testbed::temp_dir();
        let tag = dir.path().join(TAG);
        mknodat(CWD, &tag, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let witness = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
        add_watch(&witness, &tag, WatchFlags::OPEN).unwrap();
        assert!(tagged_cache(File::open(dir.path()).unwrap().as_fd()).is_none());
        let mut buffer = [MaybeUninit::uninit(); 256];
        let heard = Reader::new(&witness, &mut buffer).next().map(|event| event.events());
        assert_eq!(heard, Err(Errno::AGAIN));
    }

    #[test]
    fn a_tag_is_a_regular_file() {
        let dir = haul_testbed::temp_dir();
        let is_cache = || tagged_cache(File::open(dir.path()).unwrap().as_fd()).is_some();
        assert!(!is_cache());
        fs::write(dir.path().join("tag"), SIGNATURE).unwrap();
        symlink("tag", dir.path().join(TAG)).unwrap();
        assert!(!is_cache());
        fs::remove_file(dir.path().join(TAG)).unwrap();
        fs::create_dir(dir.path().join(TAG)).unwrap();
        assert!(!is_cache());
    }
}
