//! The destinations that are being written, so that half copies can be removed from another thread.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::durable::Ready;
use super::tree::Sides;
use crate::facts::{FileId, Inode};
use crate::walk::Spot;

/// Destinations that are not whole yet: at most one of each clone, and every thread has a clone of its own. So no thread waits
/// for another here, once for each file.
pub struct Partials {
    all: Arc<Mutex<Vec<Arc<Mutex<Partial>>>>>,
    own: Arc<Mutex<Partial>>,
    /// Whole ones that have no name of theirs yet.
    ready: Arc<Mutex<VecDeque<Arc<Ready>>>>,
}

/// A place for one of them. Its buffers stay, so that a small file costs no allocation.
#[derive(Default)]
struct Partial {
    /// The directory that holds it, open, and the file itself; `None` if there is none at the moment.
    open: Option<(Dir, File)>,
    name: OsString,
    path: OsString,
    created: bool,
}

enum File {
    /// It is being written.
    Open(Arc<OwnedFd>),
    /// It is whole and has no name of its own yet. Not open, so that the close that counts is a real one.
    Nameless(FileId),
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

impl Default for Partials {
    fn default() -> Partials {
        let own: Arc<Mutex<Partial>> = Arc::default();
        Partials { all: Arc::new(Mutex::new(vec![Arc::clone(&own)])), own, ready: Arc::default() }
    }
}

impl Clone for Partials {
    fn clone(&self) -> Partials {
        let own: Arc<Mutex<Partial>> = Arc::default();
        lock(&self.all).push(Arc::clone(&own));
        Partials { all: Arc::clone(&self.all), own, ready: Arc::clone(&self.ready) }
    }
}

impl Drop for Partials {
    /// Threads come and go, so a clone takes its place with it; but not what is not whole, as where a thread panics.
    fn drop(&mut self) {
        let is_free = lock(&self.own).open.is_none();
        if is_free {
            lock(&self.all).retain(|place| !Arc::ptr_eq(place, &self.own));
        }
    }
}

impl Partials {
    /// Notes that this file is being written, so that another thread can remove it, until [`Partials::done`].
    pub(super) fn begin(&self, dest: Spot<'_>, sides: Option<&Arc<Sides>>, file: &Arc<OwnedFd>, created: bool) {
        self.note(dest, sides, File::Open(Arc::clone(file)), created);
    }

    /// Notes that the file is whole, but under another name than its own, until [`Partials::done`].
    pub(super) fn is_nameless(&self, dest: Spot<'_>, sides: Option<&Arc<Sides>>, id: FileId) {
        self.note(dest, sides, File::Nameless(id), true);
    }

    fn note(&self, dest: Spot<'_>, sides: Option<&Arc<Sides>>, file: File, created: bool) {
        let dir = match sides {
            Some(sides) => Dir::Shared(Arc::clone(sides)),
            None => match dest.dir().and_then(|dir| haul_sys::rustix::io::fcntl_dupfd_cloexec(dir, 0)) {
                Ok(dir) => Dir::Own(dir),
                Err(_) => return,
            },
        };
        let mut own = lock(&self.own);
        own.name.clear();
        own.name.push(dest.name);
        own.path.clear();
        own.path.push(dest.path);
        own.created = created;
        own.open = Some((dir, file));
    }

    /// It is whole, or was removed.
    pub(super) fn done(&self) {
        lock(&self.own).open = None;
    }

    /// Notes a whole file that waits for its name, until [`Partials::release`].
    pub(super) fn keep(&self, ready: &Arc<Ready>) {
        lock(&self.ready).push_back(Arc::clone(ready));
    }

    /// It has its name, or was removed.
    pub(super) fn release(&self, ready: &Arc<Ready>) {
        let mut all = lock(&self.ready);
        // They come about in the order in which they were noted.
        if let Some(at) = all.iter().position(|one| Arc::ptr_eq(one, ready)) {
            all.remove(at);
        }
    }

    /// Removes the new files that are not whole, or have no name yet, and returns the overwritten ones that are damaged.
    ///
    /// For the moment before a process exits while its copying thread is stuck in the kernel. A file that cannot be
    /// removed counts as damaged.
    pub fn remove_all(&self) -> Vec<PathBuf> {
        let mut damaged = Vec::new();
        for partial in lock(&self.all).iter() {
            let mut partial = lock(partial);
            let Some((dir, file)) = partial.open.take() else { continue };
            let path = PathBuf::from(&partial.path);
            let spot = Spot::new(dir.as_fd(), &partial.name, &path);
            let there = spot.inode();
            let (ours, nameless) = match &file {
                File::Open(file) => {
                    let written = Inode::of(file.as_fd());
                    (there.is_ok_and(|there| written.is_ok_and(|written| there.is_same_file_as(&written))), false)
                }
                File::Nameless(id) => (there.is_ok_and(|there| there.id == *id), true),
            };
            let removed = partial.created && ours && spot.unlink().is_ok();
            // What has no name of its own yet nobody takes for a copy.
            if ours && !removed && !nameless {
                damaged.push(path);
            }
        }
        for ready in lock(&self.ready).drain(..) {
            let spot = ready.spot(Path::new(""));
            if spot.inode().is_ok_and(|there| there.id == ready.id) {
                // What cannot be removed has a name that nobody takes for a copy.
                spot.unlink().ok();
            }
        }
        damaged
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while it was held cannot have left it inconsistent.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use haul_testbed::temp_dir;

    use super::*;

    #[test]
    fn a_clone_that_is_dropped_leaves_no_place_behind() {
        let partials = Partials::default();
        for _ in 0..100 {
            drop(partials.clone());
        }
        let (one, another) = (partials.clone(), partials.clone());
        drop(one);
        assert_eq!(lock(&partials.all).len(), 2);
        drop(another);
    }

    #[test]
    fn what_a_dropped_clone_left_half_done_is_removed() {
        let dir = temp_dir();
        let partials = Partials::default();
        let file = File::create_new(dir.path().join("half")).unwrap();
        let parent = File::open(dir.path()).unwrap();
        let spot = Spot::new(parent.as_fd(), "half".as_ref(), "half".as_ref());
        let clone = partials.clone();
        clone.begin(spot, None, &Arc::new(file.into()), true);
        drop(clone);
        assert_eq!(partials.remove_all(), [] as [PathBuf; 0]);
        assert!(!dir.path().join("half").exists());
    }
}
