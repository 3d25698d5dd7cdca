//! A directory of one tree that a walk has entered.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::inode::Inode;
use haul_sys::rustix::fs::OFlags;

use super::cache_tag::tagged_cache;
use super::descent::Level;
use super::listing::{Listed, Listing};
use super::path::PathNode;
use super::spot::Spot;
use super::upwards::{NotAbove, open_above};

/// A directory of one tree that a walk has entered, with what the owner of the walk knows of it.
#[derive(Debug)]
pub struct Entered<T> {
    fd: Option<OwnedFd>,
    inode: Inode,
    listing: Listing,
    path: Arc<PathNode>,
    /// What the owner of the walk knows of it.
    pub note: T,
}

impl<T> Entered<T> {
    /// Opens the directory at this spot, in the directory that has the path `above`, or as an operand. Only an operand may be
    /// a symbolic link to `follow`.
    ///
    /// # Errors
    /// What the kernel says; ENOTDIR or ELOOP if it is no directory.
    pub fn open(spot: Spot<'_>, follow: bool, above: Option<&Arc<PathNode>>, note: T) -> Result<Entered<T>, Errno> {
        let no_follow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let fd = spot.open(OFlags::RDONLY | OFlags::DIRECTORY | no_follow, 0)?;
        let inode = Inode::of(fd.as_fd())?;
        let path = above.map_or_else(|| PathNode::root(spot.path), |above| above.below(spot.name));
        Ok(Entered { fd: Some(fd), inode, listing: Listing::default(), path, note })
    }

    /// Its attributes when it was entered.
    #[inline]
    pub fn inode(&self) -> &Inode {
        &self.inode
    }

    /// Its path, for messages.
    #[inline]
    pub fn path(&self) -> &Arc<PathNode> {
        &self.path
    }

    /// It, if it is held open: what a walk is in always is, unless it could not be opened again.
    #[inline]
    pub fn dir(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// The entry of this name in it, with its path for messages.
    pub fn spot<'a>(&'a self, name: &'a OsStr, path: &'a Path) -> Spot<'a> {
        match self.dir() {
            Some(dir) => Spot::new(dir, name, path),
            None => Spot::unreachable(Errno::STALE, name, path),
        }
    }

    /// Leaves out all but the tag, if it is a cache.
    pub fn leave_cache_out(&mut self) {
        if let Some(tag) = self.dir().and_then(tagged_cache) {
            self.listing = tag;
        }
    }

    /// The next name in it; `None` at the end, and if it is not held open.
    ///
    /// # Errors
    /// As [`Listing::read`].
    pub fn next_name(&mut self) -> Result<Option<Listed>, Errno> {
        match &self.fd {
            Some(fd) => self.listing.next(fd.as_fd()),
            None => Ok(None),
        }
    }
}

impl<T> Level for Entered<T> {
    type Handles = OwnedFd;
    type Error = NotAbove;

    fn handles(&mut self) -> &mut Option<OwnedFd> {
        &mut self.fd
    }

    fn listing(&mut self) -> &mut Listing {
        &mut self.listing
    }

    fn is_through_link(&self) -> bool {
        // The operand may be, and has no level above it.
        false
    }

    fn open_from(&self, inner: &OwnedFd) -> Result<OwnedFd, NotAbove> {
        open_above(inner.as_fd(), OFlags::RDONLY, |now| now.is_same_file_as(&self.inode)).map(|(fd, _)| fd)
    }
}
