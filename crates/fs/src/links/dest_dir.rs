//! A directory of the destination that can be opened again without a path, and what was made in it.

use std::ffi::{OsStr, OsString};
use std::iter::successors;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use haul_sys::Errno;
use haul_sys::rustix::fs::{Mode, OFlags, openat};
use haul_sys::rustix::io::fcntl_dupfd_cloexec;

use haul_sys::inode::{DeviceNumber, FileId, Inode};

/// A directory of the destination. Knows the way down to it, so that it can be opened again without a path.
#[derive(Debug)]
pub struct DestDir {
    /// Which directory it is.
    pub id: FileId,
    /// A directory that the user named is held open for the whole run.
    root: Option<Arc<OwnedFd>>,
    /// One that we made or entered is known by its name in another.
    parent: Option<Arc<DestDir>>,
    name: OsString,
    /// Which directory it is a copy of.
    source: Option<FileId>,
    /// What users see before the names of its entries; of a directory that the user named.
    prefix: OsString,
    /// Its number in the table of links; 0 if it has none yet.
    number: AtomicU32,
}

impl Drop for DestDir {
    /// Lets go of the way up step by step: dropped as it is, a chain of a hundred thousand levels would overflow the stack.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(dir) = next {
            next = Arc::into_inner(dir).and_then(|mut dir| dir.parent.take());
        }
    }
}

impl DestDir {
    /// The directory that holds the copies of operands, with what users see before the names of its entries: its path as
    /// they wrote it, with a slash at the end unless it is empty.
    ///
    /// # Errors
    /// As statx(2).
    pub fn root_shown_as(dir: Arc<OwnedFd>, prefix: OsString) -> Result<Arc<DestDir>, Errno> {
        let id = Inode::of(dir.as_fd())?.id;
        let (name, number) = (OsString::new(), AtomicU32::new(0));
        Ok(Arc::new(DestDir { id, root: Some(dir), parent: None, name, source: None, prefix, number }))
    }

    /// A directory in this one.
    pub fn below(self: &Arc<Self>, name: &OsStr, id: FileId, source: FileId) -> Arc<DestDir> {
        self.with_name(name, id, Some(source))
    }

    /// A directory in this one that the table of links knows: to be opened and shown, not to be filled.
    pub fn known_below(self: &Arc<Self>, name: &OsStr, id: FileId) -> Arc<DestDir> {
        self.with_name(name, id, None)
    }

    fn with_name(self: &Arc<Self>, name: &OsStr, id: FileId, source: Option<FileId>) -> Arc<DestDir> {
        let (parent, number) = (Some(Arc::clone(self)), AtomicU32::new(0));
        Arc::new(DestDir { id, root: None, parent, name: name.to_owned(), source, prefix: OsString::new(), number })
    }

    /// Whether this, or a directory that it is in, is a copy of that one.
    pub fn is_within_copy_of(&self, source: FileId) -> bool {
        self.upwards().any(|dir| dir.source == Some(source))
    }

    /// The directory that it was made or entered in.
    #[inline]
    pub fn above(&self) -> Option<&Arc<DestDir>> {
        self.parent.as_ref()
    }

    /// Its name there.
    #[inline]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The directory that the user named, on the way to this one.
    ///
    /// # Errors
    /// ESTALE if there is none.
    pub fn top(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.named().root.as_ref().map(|root| root.as_fd()).ok_or(Errno::STALE)
    }

    /// The path of one of its entries as users know it.
    pub fn shown(&self, name: &OsStr) -> PathBuf {
        let mut shown = self.prefix().to_owned();
        for above in self.names() {
            shown.push(above);
            shown.push("/");
        }
        shown.push(name);
        PathBuf::from(shown)
    }

    /// What users see before the names of entries of the directory that they named, on the way to this one; opened as a
    /// path, unless it is empty, it is that directory.
    pub fn prefix(&self) -> &OsStr {
        &self.named().prefix
    }

    /// The filesystem of that directory.
    ///
    /// # Errors
    /// As for [`DestDir::top`], and as statx(2).
    pub fn top_device(&self) -> Result<DeviceNumber, Errno> {
        Ok(Inode::of(self.top()?)?.id.device())
    }

    /// The names on the way down from there.
    pub fn names(&self) -> Vec<OsString> {
        let below = self.upwards().filter(|dir| dir.parent.is_some());
        let mut names: Vec<OsString> = below.map(|dir| dir.name.clone()).collect();
        names.reverse();
        names
    }

    /// The directory that the user named, on the way to this one.
    fn named(&self) -> &DestDir {
        self.upwards().last().unwrap_or(self)
    }

    /// It, the directory that it is in, and so on.
    fn upwards(&self) -> impl Iterator<Item = &DestDir> {
        successors(Some(self), |dir| dir.parent.as_deref())
    }

    /// On the way to this one, the directory that stands in the one that the user named.
    pub fn below_named(&self) -> Option<FileId> {
        self.upwards().filter(|dir| dir.parent.is_some()).last().map(|dir| dir.id)
    }

    /// Its number in the table of links, if it has one.
    pub fn number(&self) -> Option<u32> {
        Some(self.number.load(Ordering::Relaxed)).filter(|number| *number != 0)
    }

    /// Gives it its number. Only the table does that, and each directory belongs to one table.
    pub(crate) fn set_number(&self, number: u32) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// Opens it again, component by component from the root, since the whole path may be longer than PATH_MAX.
    ///
    /// # Errors
    /// ESTALE if another directory stands there now; else what the kernel says.
    pub fn open(&self) -> Result<OwnedFd, Errno> {
        let root = self.top()?;
        let mut opened: Option<OwnedFd> = None;
        for name in self.names() {
            let above = opened.as_ref().map_or(root, AsFd::as_fd);
            // A link is followed only if it was followed when the directory was entered (--keep-directory-symlink);
            // the comparison below tells.
            opened = Some(openat(above, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?);
        }
        let current = opened.map_or_else(|| duplicate(root), Ok)?;
        if Inode::of(current.as_fd())?.id == self.id { Ok(current) } else { Err(Errno::STALE) }
    }
}

/// A file or directory that was made, or is about to be.
#[derive(Debug, Clone)]
pub struct Made {
    /// The directory that holds it.
    pub dir: Arc<DestDir>,
    /// Its name there.
    pub name: OsString,
    /// Which file it is, once it is complete.
    pub id: Option<FileId>,
}

impl Made {
    /// Whether this is that directory entry.
    #[inline]
    pub fn is_entry(&self, dir: FileId, name: &OsStr) -> bool {
        self.dir.id == dir && self.name == name
    }

    /// Its path as users know it.
    pub fn path(&self) -> PathBuf {
        self.dir.shown(&self.name)
    }
}

/// Another descriptor of the same open file.
///
/// # Errors
/// As fcntl(2): EMFILE where there are no descriptors left.
pub fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    fcntl_dupfd_cloexec(fd, 0)
}
