//! The way up from a directory, through `..`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use haul_sys::Errno;
use haul_sys::inode::Inode;
use haul_sys::rustix::fs::{Mode, OFlags, fcntl_getfl, openat};

use crate::error::{Error, What};

use super::directory::set_noatime;
use super::path::PathNode;

/// Why a directory could not be opened from one in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAbove {
    /// The kernel said this.
    Errno(Errno),
    /// There is another directory now.
    Moved,
}

impl NotAbove {
    /// What the kernel said, ESTALE if there is another directory now.
    pub fn errno(self) -> Errno {
        match self {
            NotAbove::Errno(errno) => errno,
            NotAbove::Moved => Errno::STALE,
        }
    }

    /// The path in messages about the directory that could not be opened.
    pub fn error(self, path: &PathNode) -> Error {
        match self {
            NotAbove::Errno(errno) => Error::new(What::CannotAccess, path.path()).errno(errno),
            NotAbove::Moved => Error::new(What::DirectoryMoved, path.path()),
        }
    }
}

/// Opens the directory that this one is in with these flags, if it is the one that is meant. Gives its attributes, too.
/// Where this one has `O_NOATIME`, so has the other, if the kernel allows it.
///
/// # Errors
/// See [`NotAbove`].
pub fn open_above(
    inner: BorrowedFd<'_>,
    flags: OFlags,
    is_meant: impl FnOnce(&Inode) -> bool,
) -> Result<(OwnedFd, Inode), NotAbove> {
    let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(inner, "..", flags, Mode::empty()).and_then(|fd| Ok((Inode::of(fd.as_fd())?, fd)));
    let (inode, fd) = opened.map_err(NotAbove::Errno)?;
    if fcntl_getfl(inner).is_ok_and(|flags| flags.contains(OFlags::NOATIME)) {
        set_noatime(&fd);
    }
    if is_meant(&inode) { Ok((fd, inode)) } else { Err(NotAbove::Moved) }
}

/// A directory, the one that it is in, and so on to the root. After an error there is no more.
pub fn upwards(from: BorrowedFd<'_>) -> impl Iterator<Item = Result<Inode, Errno>> {
    let up = |dir: BorrowedFd<'_>| {
        let fd = openat(dir, "..", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok((Inode::of(fd.as_fd())?, fd))
    };
    let mut last: Option<(Inode, Option<OwnedFd>)> = None;
    let mut ended = false;
    std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let next = match &last {
            None => Inode::of(from).map(|inode| (inode, None)),
            Some((_, fd)) => up(fd.as_ref().map_or(from, AsFd::as_fd)).map(|(inode, fd)| (inode, Some(fd))),
        };
        let found = next.map(|(inode, fd)| {
            let below = last.replace((inode, fd)).map(|(below, _)| below.id);
            // The root is its own parent.
            (below != Some(inode.id)).then_some(inode)
        });
        ended = !matches!(found, Ok(Some(_)));
        found.transpose()
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use haul_testbed::temp_dir;

    use super::*;

    #[test]
    fn the_way_up_ends_at_the_root() {
        let dir = temp_dir();
        fs::create_dir(dir.path().join("d")).unwrap();
        let inode = |path: &std::path::Path| Inode::of(File::open(path).unwrap().as_fd()).unwrap().id;
        let from = File::open(dir.path().join("d")).unwrap();
        let up: Vec<_> = upwards(from.as_fd()).map(|inode| inode.unwrap().id).collect();
        assert_eq!(up[..2], [inode(&dir.path().join("d")), inode(dir.path())]);
        assert_eq!(up.iter().filter(|id| **id == inode("/".as_ref())).count(), 1);
        assert_eq!(up.last(), Some(&inode("/".as_ref())));
    }

    #[test]
    fn a_way_up_ends_with_the_first_error() {
        let dir = temp_dir();
        let file = File::create(dir.path().join("no directory")).unwrap();
        let up: Vec<_> = upwards(file.as_fd()).map(|found| found.map(drop)).collect();
        assert_eq!(up, [Ok(()), Err(Errno::NOTDIR)]);
    }

    #[test]
    fn who_came_in_without_times_of_access_goes_out_so() {
        let dir = temp_dir();
        let inner = dir.path().join("d");
        fs::create_dir(&inner).unwrap();
        for flags in [OFlags::empty(), OFlags::NOATIME] {
            let inner = haul_sys::rustix::fs::open(&inner, OFlags::RDONLY | flags, Mode::empty()).unwrap();
            let (above, _) = open_above(inner.as_fd(), OFlags::RDONLY, |_| true).unwrap();
            assert_eq!(fcntl_getfl(&above).unwrap() & OFlags::NOATIME, flags);
        }
    }

    #[test]
    fn only_the_directory_that_is_meant_is_opened() {
        let dir = temp_dir();
        for name in ["a", "b"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let [a, above] = [dir.path().join("a"), dir.path().to_owned()].map(|path| File::open(path).unwrap());
        let [wrong, was] = [&a, &above].map(|dir| Inode::of(dir.as_fd()).unwrap());
        let open = |meant: Inode| open_above(a.as_fd(), OFlags::RDONLY, move |now| now.is_same_file_as(&meant));
        assert_eq!(open(was).unwrap().1.id, was.id);
        assert_eq!(open(wrong).map(drop), Err(NotAbove::Moved));
    }
}
