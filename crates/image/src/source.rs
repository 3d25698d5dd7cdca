//! The image that is copied.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_guest::{ExtentSet, ReadAt};
use haul_io::engine::buffer::is_aligned;
use haul_io::engine::calls::again;
use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::kernel::Kernel;
use haul_sys::page_cache;
use haul_sys::rustix::fs::OFlags;
use haul_sys::rustix::param::page_size;

use haul_fs::error::{Error, What};
use haul_fs::walk::{Operand, Spot};

use super::changes::Look;
use super::in_use::{InUse, in_use};
use super::system::System;

/// An image file or block device, open for reading, and the disk that it holds.
pub struct Source {
    pub(super) path: PathBuf,
    pub(super) file: Arc<OwnedFd>,
    pub(super) inode: Inode,
    /// Bytes of the file or device.
    pub(super) size: u64,
    pub(super) disk: Option<Disk>,
    /// The directory in which it was found.
    pub(super) dir: Option<Arc<OwnedFd>>,
    /// Whether a symbolic link in that directory led to it; not known of what the user named.
    pub(super) is_link: bool,
    /// All files of the container that it belongs to, if those are several. It may be one of them.
    pub(super) others: Arc<[Source]>,
}

/// What a container holds.
pub struct Disk {
    /// The virtual disk.
    pub image: Arc<dyn ReadAt>,
    /// Ranges of it that read as zeros, because the container stores nothing for them: so its tables say.
    pub zeros: ExtentSet,
    /// Ranges of it that were holes of the container's files when it was opened. No tables tell when they are filled.
    pub holes: ExtentSet,
    /// Whether the container's own tables are what they were when it was opened. Asked at the end.
    pub holds: Box<dyn Fn() -> io::Result<bool> + Send + Sync>,
}

impl Source {
    /// Opens an image. Symbolic links are followed.
    ///
    /// # Errors
    /// If it cannot be opened, or is neither a regular file nor a block device.
    pub fn open(kernel: &dyn Kernel, path: &Path) -> Result<Source, Error> {
        let operand = Operand::open(path.as_os_str());
        Source::open_at(kernel, operand.spot())
    }

    /// The same where it is.
    pub(super) fn open_at(kernel: &dyn Kernel, spot: Spot<'_>) -> Result<Source, Error> {
        let path = spot.path;
        let said = |what| move |errno| Error::new(what, path).errno(errno);
        let looks = spot.inode_following().map_err(said(What::CannotStat))?;
        if !matches!(looks.kind, Kind::Regular | Kind::BlockDevice) {
            return Err(Error::new(What::NotAnImage, path));
        }
        // Should a FIFO stand there by now, opening it does not wait.
        let file = spot.open(OFlags::RDONLY | OFlags::NONBLOCK, 0).map_err(said(What::CannotOpen))?;
        let inode = Inode::of(file.as_fd()).map_err(said(What::CannotFstat))?;
        if !matches!(inode.kind, Kind::Regular | Kind::BlockDevice) {
            return Err(Error::new(What::NotAnImage, path));
        }
        let size = kernel.size(file.as_fd()).map_err(said(What::CannotFstat))?;
        // Without it, no files beside are found.
        let dir = spot.dir().ok().and_then(|dir| dir.try_clone_to_owned().ok()).map(Arc::new);
        Ok(Source { dir, ..Source::given(Arc::new(file), inode, path, size) })
    }

    /// A file or device of this size, in bytes, that is open for reading already.
    pub fn given(file: Arc<OwnedFd>, inode: Inode, path: &Path, size: u64) -> Source {
        let (disk, dir, others) = (None, None, Arc::default());
        Source { path: path.to_owned(), file, inode, size, disk, dir, is_link: false, others }
    }

    /// A file that was found in this directory, so that files beside it can be.
    ///
    /// # Errors
    /// EMFILE where there are no descriptors left.
    pub fn found_in(self, dir: BorrowedFd<'_>) -> io::Result<Source> {
        Ok(Source { dir: Some(Arc::new(dir.try_clone_to_owned()?)), ..self })
    }

    /// Whether a symbolic link led to it, which a container's descriptor names.
    pub fn is_link(&self) -> bool {
        self.is_link
    }

    /// Who uses it, or another file of its container.
    pub fn in_use(&self, system: &System) -> Option<InUse> {
        self.files().find_map(|file| in_use(&file.path, file.file(), &file.inode, system))
    }

    /// Whether somebody wrote to this regular file since it was opened.
    pub(super) fn is_written(&self, system: &System) -> Result<bool, Error> {
        let now = Look::at(self.file(), system);
        let now = now.map_err(|errno| Error::new(What::CannotFstat, &self.path).errno(errno))?;
        Ok(now != Look::of(&self.inode, system))
    }

    /// The same file and nothing else.
    pub fn bare(&self) -> Source {
        Source::given(Arc::clone(&self.file), self.inode, &self.path, self.size)
    }

    /// It, and all that belongs to the same container.
    pub(super) fn files(&self) -> impl Iterator<Item = &Source> {
        std::iter::once(self).chain(self.others.iter())
    }

    /// Copies the virtual disk that is in this container instead of its bytes.
    #[must_use]
    pub fn with_disk(self, disk: Disk) -> Source {
        Source { disk: Some(disk), ..self }
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file or device, whose size in bytes [`Source::file_size`] has.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Bytes of the file or device; of what a container holds, [`Source::total`] tells.
    pub fn file_size(&self) -> u64 {
        self.size
    }

    /// Bytes of the image.
    pub fn total(&self) -> u64 {
        self.disk.as_ref().map_or(self.size, |disk| disk.image.size())
    }

    /// The same description again, for a parser of containers that wants a file of its own.
    ///
    /// # Errors
    /// EMFILE where there are no descriptors left.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.file.try_clone()
    }
}

/// What direct I/O goes through: a description of its own, and what offsets, lengths and buffers are multiples of.
#[derive(Debug, Clone)]
pub(super) struct Direct {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) align: usize,
    /// Shorter requests, in bytes, go through the page cache.
    pub(super) at_least: usize,
    /// What the page cache has more than half of is read from there.
    pub(super) only_cold: bool,
}

impl Direct {
    /// Whether a request could be direct.
    pub(super) fn takes(&self, offset: u64, bytes: &[u8]) -> bool {
        bytes.len() >= self.at_least && offset.is_multiple_of(self.align as u64) && is_aligned(bytes, self.align)
    }
}

/// A file or block device as an image: reads through the kernel that tests replace, completes short counts and repeats
/// what a signal interrupted.
#[derive(Debug)]
pub struct RawImage {
    kernel: Arc<dyn Kernel>,
    file: Arc<OwnedFd>,
    direct: Option<Direct>,
    size: u64,
}

impl RawImage {
    /// The file of a source, whatever it holds.
    pub fn of(kernel: &Arc<dyn Kernel>, source: &Source) -> RawImage {
        RawImage::new(kernel, &source.file, source.size)
    }

    /// The first `size` bytes of a file.
    pub(super) fn new(kernel: &Arc<dyn Kernel>, file: &Arc<OwnedFd>, size: u64) -> RawImage {
        RawImage { kernel: Arc::clone(kernel), file: Arc::clone(file), direct: None, size }
    }

    pub(super) fn with_direct(self, direct: Option<Direct>) -> RawImage {
        RawImage { direct, ..self }
    }

    /// Whether most of a range is in the page cache.
    fn is_warm(&self, offset: u64, len: usize) -> bool {
        let half = (len / page_size() / 2) as u64;
        page_cache::cached_pages(self.file.as_fd(), offset, len as u64).is_ok_and(|cached| cached > half)
    }

    /// Reads some of the buffer: past the page cache what is aligned, the rest through it.
    fn read_some(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        if let Some(direct) = &self.direct {
            let whole = buffer.len() - buffer.len() % direct.align;
            if whole > 0 && direct.takes(offset, buffer) && !(direct.only_cold && self.is_warm(offset, buffer.len())) {
                match again(|| self.kernel.pread(direct.fd.as_fd(), &mut buffer[..whole], offset)) {
                    // An end that is not aligned is no surprise, and a filesystem may refuse after all.
                    Ok(0) | Err(Errno::INVAL) => {}
                    result => return result,
                }
            }
        }
        again(|| self.kernel.pread(self.file.as_fd(), buffer, offset))
    }
}

impl ReadAt for RawImage {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset.checked_add(filled as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
            match self.read_some(at, &mut buffer[filled..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => filled += count,
            }
        }
        Ok(())
    }
}
