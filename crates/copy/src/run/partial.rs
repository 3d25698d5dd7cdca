//! The destination that is being written, so that a half copy can be removed from another thread.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::tree::Sides;
use crate::facts::FileId;
use crate::walk::Spot;

/// Destinations that are not whole yet.
#[derive(Clone, Default)]
pub struct Partials(Arc<Mutex<Vec<Partial>>>);

struct Partial {
    dir: Dir,
    name: OsString,
    path: PathBuf,
    file: FileId,
    created: bool,
}

/// The directory that holds it, open.
enum Dir {
    Shared(Arc<Sides>),
    Own(OwnedFd),
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Dir::Shared(sides) => sides.dest(),
            Dir::Own(dir) => dir.as_fd(),
        }
    }
}

impl Partials {
    /// Notes that this file is being written, so that another thread can remove it. Returns what [`Partials::done`] wants;
    /// there is nothing to remove of a device or a FIFO.
    pub(super) fn begin(
        &self,
        dest: Spot<'_>,
        sides: Option<&Arc<Sides>>,
        file: FileId,
        created: bool,
    ) -> Option<FileId> {
        let dir = match sides {
            Some(sides) => Dir::Shared(Arc::clone(sides)),
            None => Dir::Own(dest.dir().ok()?.try_clone_to_owned().ok()?),
        };
        let partial = Partial { dir, name: dest.name.to_owned(), path: dest.path.to_owned(), file, created };
        self.lock().push(partial);
        Some(file)
    }

    /// It is whole, or was removed.
    pub(super) fn done(&self, file: Option<FileId>) {
        if let Some(file) = file {
            self.lock().retain(|partial| partial.file != file);
        }
    }

    /// Removes the new files that are not whole and returns the overwritten ones that are damaged.
    ///
    /// For the moment before a process exits while its copying thread is stuck in the kernel. A file that cannot be
    /// removed counts as damaged.
    pub fn remove_all(&self) -> Vec<PathBuf> {
        let mut damaged = Vec::new();
        for partial in self.lock().drain(..) {
            let spot = Spot::new(partial.dir.as_fd(), &partial.name, &partial.path);
            let ours = spot.inode().is_ok_and(|inode| inode.id == partial.file);
            let removed = partial.created && ours && spot.unlink().is_ok();
            if ours && !removed {
                damaged.push(partial.path);
            }
        }
        damaged
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Partial>> {
        // A panic while the list was held cannot have left it inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
