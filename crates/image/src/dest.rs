//! The destination of a smart copy: opened without harm, emptied late, and removed if it is ours and not whole.
//!
//! It is emptied after the map is there and everything that can refuse has been asked. It is one byte short until it is
//! whole, so that a copy that was killed does not look complete. On a block device skipped ranges are punched, or zeros
//! are written; it is synced before it is closed, since the close tells nothing. A device that has bytes in common with
//! the image (its disk or partition, a loop device of it) is refused.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use haul_io::engine::calls::again;
use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Kind};
use haul_sys::kernel::Kernel;
use haul_sys::rustix::fs::OFlags;

use haul_fs::error::{Error, What, errno_of};
use haul_fs::walk::{Identities, Identity, Operand, Party, Spot};

use super::found::Given;
use super::in_use::{InUse, device_in_use, disk_of_somebody};
use super::layers::{Search, share_bytes};
use super::options::{Mode, Options};
use super::source::Source;
use super::system::System;

/// The destination that is being written, for a front end that must end the process while the copy is stuck.
#[derive(Clone, Default)]
pub struct Unfinished(Arc<Mutex<Option<Entry>>>);

struct Entry {
    dir: OwnedFd,
    name: OsString,
    path: PathBuf,
    file: FileId,
    created: bool,
    /// Old contents are gone, or being overwritten.
    touched: bool,
}

impl Unfinished {
    /// Removes the destination if the copy made it. Returns its path if it is now neither the old nor the new one: it was
    /// there before, or cannot be removed.
    pub fn remove(&self) -> Option<PathBuf> {
        let entry = self.lock().take()?;
        let spot = Spot::new(entry.dir.as_fd(), &entry.name, &entry.path);
        // An existing one may be reached through a symbolic link, so only a name that we made tells anything.
        let removed = entry.created && spot.inode().is_ok_and(|inode| inode.id == entry.file) && spot.unlink().is_ok();
        (entry.touched && !removed).then_some(entry.path)
    }

    fn touch(&self) {
        if let Some(entry) = &mut *self.lock() {
            entry.touched = true;
        }
    }

    fn done(&self) {
        self.lock().take();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Entry>> {
        // Also locked when memory runs out, so not parking_lot's, which asks for memory where a thread waits. A panic while it
        // was held cannot have left it inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Dest {
    pub(super) path: PathBuf,
    pub(super) file: Arc<OwnedFd>,
    pub(super) inode: Inode,
    unfinished: Unfinished,
}

impl Dest {
    /// Opens or creates the destination, to be read again if there is to be an MD5. What stands there is not changed; for
    /// test data it must be nothing.
    pub(super) fn open(
        (kernel, system): (&dyn Kernel, &System),
        path: &Path,
        source: &Source,
        options: Options,
        unfinished: &Unfinished,
    ) -> Result<Dest, Error> {
        let operand = Operand::open(path.as_os_str());
        let spot = operand.spot();
        let access = if options.md5 { OFlags::RDWR } else { OFlags::WRONLY };
        let mode = source.inode.permissions & 0o777;
        let (file, created) = match spot.open(access | OFlags::CREATE | OFlags::EXCL, mode) {
            Ok(file) => (file, true),
            Err(Errno::EXIST) => (open_existing(spot, access, options.mode)?, false),
            Err(errno) => return Err(Error::new(What::CannotCreateRegular, path).errno(errno)),
        };
        let said = |what| move |errno| Error::new(what, path).errno(errno);
        let inode = Inode::of(file.as_fd()).map_err(said(What::CannotFstat))?;
        let dir = spot.dir().and_then(|dir| dir.try_clone_to_owned().map_err(errno_of));
        let dir = dir.map_err(said(What::CannotCreateRegular))?;
        let entry =
            Entry { dir, name: spot.name.to_owned(), path: path.to_owned(), file: inode.id, created, touched: false };
        *unfinished.lock() = Some(entry);
        let dest = Dest { path: path.to_owned(), file: Arc::new(file), inode, unfinished: unfinished.clone() };
        // A new file has no past.
        let checked = if created { Ok(()) } else { dest.check(kernel, system, source) };
        match checked.and_then(|()| if created { Ok(()) } else { dest.tell_apart(spot, source) }) {
            Ok(()) => Ok(dest),
            Err(error) => {
                unfinished.done();
                Err(error)
            }
        }
    }

    /// One that is open already, and cleaned up by whoever opened it and asked [`may_overwrite`].
    pub(super) fn given(given: &Given<'_>, path: &Path, source: &Source, kernel: &dyn Kernel) -> Result<Dest, Error> {
        let dest = Dest {
            path: path.to_owned(),
            file: Arc::clone(&given.dest),
            inode: *given.dest_inode,
            unfinished: Unfinished::default(),
        };
        if dest.is_device() { dest.check_size(kernel, source).map(|()| dest) } else { Ok(dest) }
    }

    /// Whether it may be overwritten with this image.
    fn check(&self, kernel: &dyn Kernel, system: &System, source: &Source) -> Result<(), Error> {
        let said = |what| Error::new(what, &self.path);
        if !matches!(self.inode.kind, Kind::Regular | Kind::BlockDevice) {
            return Err(said(What::NotAnImagePlace));
        }
        // A device is ours alone since it was opened.
        overwrites(self.file.as_fd(), &self.inode, &self.path, (&source.inode, &source.path), system)?;
        for file in source.others.iter() {
            if self.inode.id == file.inode.id {
                return Err(Error::new(What::SameFile, &file.path).and(&self.path));
            }
            if self.is_device() && share_bytes(&self.inode, &file.inode, system) {
                return Err(said(What::SharedBytes).and(&file.path));
            }
        }
        if self.is_device() { self.check_size(kernel, source) } else { Ok(()) }
    }

    /// Refuses what may be a file of the source with other numbers, on a stacked filesystem or below one.
    fn tell_apart(&self, spot: Spot<'_>, source: &Source) -> Result<(), Error> {
        let identities = Identities::default();
        let dest = Party { spot, inode: &self.inode, follow: true };
        for file in source.files() {
            let operand = Operand::open(file.path.as_os_str());
            let there = Party { spot: operand.spot(), inode: &file.inode, follow: true };
            if identities.judge(there, dest, &|| false) != Identity::Two {
                return Err(Error::new(What::MaybeSameFile, &file.path).and(&self.path));
            }
        }
        Ok(())
    }

    fn check_size(&self, kernel: &dyn Kernel, source: &Source) -> Result<(), Error> {
        let said = |what| Error::new(what, &self.path);
        let size = kernel.size(self.file.as_fd()).map_err(|errno| said(What::CannotFstat).errno(errno))?;
        if size < source.total() {
            let sizes = format!("{size} bytes, {} are needed", source.total());
            return Err(said(What::DestinationTooSmall).and(&source.path).detail(sizes));
        }
        Ok(())
    }

    pub(super) fn is_device(&self) -> bool {
        self.inode.kind == Kind::BlockDevice
    }

    /// Gets rid of old contents. From here on it is damaged until it is whole.
    ///
    /// A file is one byte short until the end, so that a copy that was killed does not look whole by its size.
    pub(super) fn prepare(&self, kernel: &dyn Kernel, size: u64) -> Result<(), Error> {
        self.unfinished.touch();
        if self.is_device() {
            return Ok(());
        }
        let set = |size| again(|| kernel.set_size(self.file.as_fd(), size));
        // ext4 sends a file that was cut to nothing to the device when it is closed, so this is not for one that is empty.
        if self.inode.size > 0 {
            set(0).map_err(|errno| Error::new(What::Truncating, &self.path).errno(errno))?;
        }
        set(size.saturating_sub(1)).map_err(|errno| Error::new(What::Extending, &self.path).errno(errno))
    }

    /// Gives it its size and closes it: it is whole.
    ///
    /// A device writes back when it is closed for the last time, and nobody hears what fails then, so it is synced before.
    pub(super) fn finish(self, kernel: &dyn Kernel, size: u64) -> Result<(), Error> {
        if self.is_device() {
            again(|| kernel.sync(self.file.as_fd()))
                .map_err(|errno| Error::new(What::Syncing, &self.path).errno(errno))?;
        } else {
            again(|| kernel.set_size(self.file.as_fd(), size))
                .map_err(|errno| Error::new(What::Extending, &self.path).errno(errno))?;
        }
        // All others who held it have ended; if not, dropping theirs closes it.
        if let Some(file) = Arc::into_inner(self.file) {
            haul_sys::close(file).map_err(|errno| Error::new(What::Closing, &self.path).errno(errno))?;
        }
        self.unfinished.done();
        Ok(())
    }
}

/// Whether what stands there, open for writing, may be overwritten with an image without harm to that or to anybody who
/// has it as a disk.
///
/// # Errors
/// Why not: it is the source, has bytes in common with that, or is in use.
pub fn may_overwrite(
    (file, inode, path): (BorrowedFd<'_>, &Inode, &Path),
    source: (&Inode, &Path),
    system: &System,
) -> Result<(), Error> {
    overwrites(file, inode, path, source, system)?;
    let user = if inode.kind == Kind::BlockDevice { device_in_use(file, inode.node, system) } else { None };
    user.map_or(Ok(()), |user| Err(in_use_error(path, &user)))
}

fn overwrites(
    file: BorrowedFd<'_>,
    inode: &Inode,
    path: &Path,
    (source, source_path): (&Inode, &Path),
    system: &System,
) -> Result<(), Error> {
    let devices = inode.kind == Kind::BlockDevice && source.kind == Kind::BlockDevice;
    if inode.id == source.id || (devices && inode.node == source.node) {
        return Err(Error::new(What::SameFile, source_path).and(path));
    }
    if share_bytes(inode, source, system) {
        return Err(Error::new(What::SharedBytes, path).and(source_path));
    }
    let user = disk_of_somebody(file, inode, system, Search::Devices);
    user.map_or(Ok(()), |user| Err(in_use_error(path, &user)))
}

fn in_use_error(path: &Path, user: &InUse) -> Error {
    Error::new(What::DestinationInUse, path).detail(user.to_string())
}

/// Opens what stands there. A device must not be mounted or part of another one; it stays ours until it is closed.
fn open_existing(spot: Spot<'_>, access: OFlags, mode: Mode) -> Result<OwnedFd, Error> {
    let said = |what| Error::new(what, spot.path);
    if mode == Mode::WriteOnly {
        return Err(said(What::NotForTestData));
    }
    let kind = match spot.inode_following() {
        Ok(inode) => inode.kind,
        Err(Errno::NOENT) => return Err(said(What::DanglingLink)),
        Err(errno) => return Err(said(What::CannotStat).errno(errno)),
    };
    let flags = match kind {
        Kind::Regular => access | OFlags::NONBLOCK,
        Kind::BlockDevice => access | OFlags::NONBLOCK | OFlags::EXCL,
        _ => return Err(said(What::NotAnImagePlace)),
    };
    spot.open(flags, 0).map_err(|errno| match (kind, errno) {
        (Kind::BlockDevice, Errno::BUSY) => {
            said(What::DestinationInUse).detail("it is mounted, or part of another device")
        }
        _ => said(What::CannotCreateRegular).errno(errno),
    })
}
