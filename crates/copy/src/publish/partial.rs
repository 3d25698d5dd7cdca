//! The destinations that are being written, so that half copies can be removed from another thread.
//!
//! What is locked for the end of the process when memory runs out asks for no memory while it is locked. Its locks are those of
//! the standard library: parking_lot's ask for memory where a thread waits.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Kind};
use haul_sys::rustix::fs::CWD;

use super::ready::{ParentDirectory, Ready, Sides};
use crate::error::{Error, What};
use crate::walk::Spot;

/// How long files that are just being made are waited for before they are removed.
const PATIENCE: Duration = Duration::from_secs(1);

/// Destinations that are not whole yet: at most one of each clone, and every thread has a clone of its own. So no thread waits
/// for another here, once for each file.
pub struct Partials {
    all: Arc<Mutex<VecDeque<Arc<Slot>>>>,
    own: Arc<Slot>,
    /// Whole ones that have no name of theirs yet.
    ready: Arc<Mutex<VecDeque<Arc<Ready>>>>,
    /// They are being removed: nobody makes another one.
    closed: Arc<AtomicBool>,
    /// The one that is just being removed.
    removing: Arc<Mutex<Option<PathBuf>>>,
}

#[derive(Default)]
struct Slot {
    partial: Mutex<Partial>,
    /// What was intended was made, or will not be. Only notified when somebody may wait for it.
    settled: Condvar,
}

/// A place for one of them. Its buffers stay, so that a small file of a tree costs no allocation.
#[derive(Default)]
struct Partial {
    /// The directory that holds it, open, and the file itself; `None` if there is none at the moment.
    open: Option<(ParentDirectory, File)>,
    name: OsString,
    path: OsString,
    created: bool,
}

enum File {
    /// It is about to be made by an open that takes no file that is there, or was just made.
    Intended,
    /// It is being written.
    Open(Arc<OwnedFd>),
    /// It is whole and has no name of its own yet. Not open, so that the close that counts is a real one.
    Nameless(FileId),
}

impl Default for Partials {
    fn default() -> Partials {
        let own: Arc<Slot> = Arc::default();
        let all = Arc::new(Mutex::new(VecDeque::from([Arc::clone(&own)])));
        Partials { all, own, ready: Arc::default(), closed: Arc::default(), removing: Arc::default() }
    }
}

impl Clone for Partials {
    fn clone(&self) -> Partials {
        let own: Arc<Slot> = Arc::default();
        push(&self.all, Arc::clone(&own));
        Partials {
            all: Arc::clone(&self.all),
            own,
            ready: Arc::clone(&self.ready),
            closed: Arc::clone(&self.closed),
            removing: Arc::clone(&self.removing),
        }
    }
}

impl Drop for Partials {
    /// Threads come and go, so a clone takes its place with it; but not what is not whole, as where a thread panics.
    fn drop(&mut self) {
        let is_free = lock(&self.own.partial).open.is_none();
        if is_free {
            lock(&self.all).retain(|place| !Arc::ptr_eq(place, &self.own));
        }
    }
}

impl Partials {
    /// Notes that this file is about to be made, by an open that fails if there is one, until [`Partials::begin`] or
    /// [`Partials::done`]. False if it must not be made any more: the process is about to end.
    pub(crate) fn intend(&self, dest: Spot<'_>, sides: Option<&Arc<Sides>>) -> bool {
        self.note(dest, sides, File::Intended, true);
        // Asked afterwards: whoever removes them either sees this one or was seen here.
        if self.closed.load(Ordering::SeqCst) {
            self.done();
            return false;
        }
        true
    }

    /// Notes that this file is being written, so that another thread can remove it, until [`Partials::done`].
    pub(crate) fn begin(&self, dest: Spot<'_>, sides: Option<&Arc<Sides>>, file: &Arc<OwnedFd>, created: bool) {
        self.note(dest, sides, File::Open(Arc::clone(file)), created);
    }

    /// Notes that the file is whole, but under another name than its own, until [`Partials::done`].
    pub(crate) fn is_nameless(&self, dest: Spot<'_>, sides: Option<&Arc<Sides>>, id: FileId) {
        self.note(dest, sides, File::Nameless(id), true);
    }

    fn note(&self, dest: Spot<'_>, sides: Option<&Arc<Sides>>, file: File, created: bool) {
        let Ok(dir) = ParentDirectory::of(dest, sides) else { return };
        let mut own = self.own.with_room_for(dest);
        own.name.clear();
        own.name.push(dest.name);
        own.path.clear();
        own.path.push(dest.path);
        own.created = created;
        own.open = Some((dir, file));
        drop(own);
        self.tell();
    }

    /// Wakes whoever waits for what this thread has intended.
    fn tell(&self) {
        if self.closed.load(Ordering::SeqCst) {
            self.own.settled.notify_all();
        }
    }

    /// It is whole, or was removed.
    pub(crate) fn done(&self) {
        lock(&self.own.partial).open = None;
        self.tell();
    }

    /// Notes a whole file that waits for its name, until [`Partials::release`].
    pub(crate) fn keep(&self, ready: &Arc<Ready>) {
        push(&self.ready, Arc::clone(ready));
    }

    /// It has its name, or was removed.
    pub(crate) fn release(&self, ready: &Arc<Ready>) {
        let mut all = lock(&self.ready);
        // They come about in the order in which they were noted.
        if let Some(at) = all.iter().position(|one| Arc::ptr_eq(one, ready)) {
            all.remove(at);
        }
    }

    /// Removes the new files that are not whole, or have no name yet, and reports at once which overwritten ones are damaged, and
    /// which new ones could not be removed. No thread makes another one from now on.
    ///
    /// For the moment before a process exits while its copying thread is stuck in the kernel. Removing a file can take as long,
    /// where a server is just copying into it: [`Partials::unremoved`].
    pub fn remove_all(&self, mut report: impl FnMut(Error)) {
        self.remove_all_within(PATIENCE, &mut report);
    }

    fn remove_all_within(&self, patience: Duration, report: &mut dyn FnMut(Error)) {
        self.closed.store(true, Ordering::SeqCst);
        let until = Instant::now() + patience;
        let all = lock(&self.all).clone();
        // What keeps others waiting comes after them.
        all.iter().filter_map(|slot| slot.damaged()).for_each(&mut *report);
        let ready = std::mem::take(&mut *lock(&self.ready));
        for ready in ready {
            let spot = ready.spot(Path::new(""));
            if spot.inode().is_ok_and(|there| there.id == ready.id) {
                // What cannot be removed has a name that nobody takes for a copy.
                spot.unlink().ok();
            }
        }
        let (made, intended): (Vec<_>, Vec<_>) = all.iter().partition(|slot| !slot.is_intended());
        for slot in made.into_iter().chain(intended) {
            slot.remove(until, &self.removing).into_iter().for_each(&mut *report);
        }
    }

    /// The same, with what is reported.
    #[cfg(test)]
    pub(crate) fn removed(&self) -> Vec<Error> {
        let mut reported = Vec::new();
        self.remove_all(|error| reported.push(error));
        reported
    }

    /// The new files that may stay: [`Partials::remove_all`] has not come to them, or to the end of removing one.
    pub fn unremoved(&self) -> Vec<Error> {
        let all = lock(&self.all).clone();
        let of = |slot: &Arc<Slot>| {
            let partial = slot.partial.try_lock().ok()?;
            (partial.created && partial.open.is_some()).then(|| PathBuf::from(&partial.path))
        };
        let removing = lock(&self.removing).clone();
        let paths = removing.into_iter().chain(all.iter().filter_map(of));
        paths.map(|path| Error::new(What::PartialMayRemain, path)).collect()
    }
}

impl Slot {
    /// The place, locked, with memory for the name and path of this file: as for [`push`].
    fn with_room_for(&self, dest: Spot<'_>) -> MutexGuard<'_, Partial> {
        let [mut name, mut path] = [OsString::new(), OsString::new()];
        let needed = [dest.name.len(), dest.path.as_os_str().len()];
        loop {
            let mut partial = lock(&self.partial);
            let there = [partial.name.capacity(), partial.path.capacity()];
            if needed[0] <= there[0] && needed[1] <= there[1] {
                return partial;
            }
            if needed[0] <= name.capacity() && needed[1] <= path.capacity() {
                // What it has may be asked for until it is replaced.
                name.push(&partial.name);
                path.push(&partial.path);
                (partial.name, partial.path) = (name, path);
                return partial;
            }
            drop(partial);
            [name, path] = [0, 1].map(|which| OsString::with_capacity((2 * needed[which]).max(there[which])));
        }
    }

    fn is_intended(&self) -> bool {
        matches!(lock(&self.partial).open, Some((_, File::Intended)))
    }

    /// What is to be said of an old file that is being overwritten. It is only looked at.
    fn damaged(&self) -> Option<Error> {
        let mut partial = lock(&self.partial);
        let is_old = !partial.created && matches!(partial.open, Some((_, File::Open(_) | File::Nameless(_))));
        if is_old { partial.remove(&Mutex::default()) } else { None }
    }

    /// Removes what is there, if it is ours. What is just being made is waited for: only its maker knows whether it is.
    fn remove(&self, until: Instant, removing: &Mutex<Option<PathBuf>>) -> Option<Error> {
        let mut partial = lock(&self.partial);
        while matches!(partial.open, Some((_, File::Intended))) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            partial = self.settled.wait_timeout(partial, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        partial.remove(removing)
    }
}

impl Partial {
    /// Removes a new file, or says that an old one is damaged. Meanwhile the path of a new one is in `removing`.
    fn remove(&mut self, removing: &Mutex<Option<PathBuf>>) -> Option<Error> {
        let (dir, file) = self.open.take()?;
        let path = PathBuf::from(&self.path);
        if self.created {
            *lock(removing) = Some(path.clone());
        }
        let problem = self.removed(dir.as_fd(), &file, path);
        *lock(removing) = None;
        problem
    }

    fn removed(&self, dir: BorrowedFd<'_>, file: &File, path: PathBuf) -> Option<Error> {
        let spot = Spot::new(dir, &self.name, &path);
        let there = spot.inode().ok()?;
        let ours = match file {
            File::Intended => there.kind == Kind::Regular && there.size == 0 && is_written_here(&there),
            File::Open(file) => Inode::of(file.as_fd()).is_ok_and(|written| there.is_same_file_as(&written)),
            File::Nameless(id) => there.id == *id,
        };
        if !ours {
            return None;
        }
        if !self.created {
            return Some(Error::new(What::Damaged, path));
        }
        match (spot.unlink(), file) {
            // Its maker was quicker.
            (Ok(()) | Err(Errno::NOENT), _) => None,
            // What has no name of its own yet nobody takes for a copy.
            (Err(_), File::Nameless(_)) => None,
            (Err(errno), _) => Some(Error::new(What::CannotRemovePartial, path).errno(errno)),
        }
    }
}

/// Whether this process has the file open for writing. So an empty one that it was about to make is its own.
fn is_written_here(file: &Inode) -> bool {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return false };
    open.flatten().any(|entry| {
        let writes = entry.metadata().is_ok_and(|link| link.mode() & 0o200 != 0);
        writes && Inode::at_following(CWD, entry.path().as_os_str()).is_ok_and(|found| found.is_same_file_as(file))
    })
}

/// Appends something. A process that has no memory ends by [`Partials::remove_all`]: so none is asked for under a lock.
fn push<T>(to: &Mutex<VecDeque<T>>, item: T) {
    let mut larger = VecDeque::new();
    loop {
        let mut all = lock(to);
        let needed = all.len() + 1;
        if all.capacity() < needed && larger.capacity() >= needed {
            larger.append(&mut all);
            std::mem::swap(&mut larger, &mut all);
        }
        if all.capacity() >= needed {
            return all.push_back(item);
        }
        drop(all);
        larger = VecDeque::with_capacity(2 * needed);
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

    fn removed_within(partials: &Partials, patience: Duration) -> Vec<Error> {
        let mut reported = Vec::new();
        partials.remove_all_within(patience, &mut |error| reported.push(error));
        reported
    }

    /// Longer than anything here takes, unless it hangs.
    const DEADLINE: Duration = Duration::from_secs(60);

    /// An empty directory, open, and the entry `new` in it.
    fn place() -> (haul_testbed::TempDir, File) {
        let dir = temp_dir();
        let parent = File::open(dir.path()).unwrap();
        (dir, parent)
    }

    fn spot(parent: &File) -> Spot<'_> {
        Spot::new(parent.as_fd(), "new".as_ref(), "new".as_ref())
    }

    /// Waits until the files are being removed.
    fn wait_until_closed(partials: &Partials) {
        while !partials.closed.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_file_that_is_just_being_made_is_waited_for_and_removed() {
        let (dir, parent) = place();
        let partials = Partials::default();
        assert!(partials.intend(spot(&parent), None));
        std::thread::scope(|scope| {
            let other = partials.clone();
            let remover = scope.spawn(move || removed_within(&other, DEADLINE));
            wait_until_closed(&partials);
            let file = File::create_new(dir.path().join("new")).unwrap();
            partials.begin(spot(&parent), None, &Arc::new(file.into()), true);
            assert_eq!(remover.join().unwrap(), []);
        });
        assert!(!dir.path().join("new").exists());
    }

    #[test]
    fn the_file_of_somebody_else_stays() {
        let (dir, parent) = place();
        let partials = Partials::default();
        assert!(partials.intend(spot(&parent), None));
        fs::write(dir.path().join("new"), "").unwrap();
        assert_eq!(removed_within(&partials, Duration::ZERO), []);
        assert!(dir.path().join("new").exists());
    }

    #[test]
    fn a_file_whose_maker_was_stopped_is_known_by_its_descriptor() {
        let (dir, parent) = place();
        let partials = Partials::default();
        assert!(partials.intend(spot(&parent), None));
        let _held = File::create_new(dir.path().join("new")).unwrap();
        assert_eq!(removed_within(&partials, Duration::ZERO), []);
        assert!(!dir.path().join("new").exists());
    }

    #[test]
    fn what_need_not_be_waited_for_is_done_before_what_must() {
        let (dir, parent) = place();
        let partials = Partials::default();
        let [old, half] = [partials.clone(), partials.clone()];
        assert!(partials.intend(spot(&parent), None));
        for (clone, name, created) in [(&old, "old", false), (&half, "half", true)] {
            let file = File::create_new(dir.path().join(name)).unwrap();
            let spot = Spot::new(parent.as_fd(), name.as_ref(), name.as_ref());
            clone.begin(spot, None, &Arc::new(file.into()), created);
        }
        let (reported, reports) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let other = partials.clone();
            let send = move |error| reported.send(error).unwrap();
            let remover = scope.spawn(move || other.remove_all_within(DEADLINE, &mut { send }));
            // Nothing is known yet of what is just being made.
            assert_eq!(reports.recv(), Ok(Error::new(What::Damaged, "old")));
            while dir.path().join("half").exists() {
                std::thread::yield_now();
            }
            partials.done();
            remover.join().unwrap();
        });
        assert!(reports.recv().is_err());
    }

    #[test]
    fn what_is_not_removed_yet_can_be_named() {
        let (dir, parent) = place();
        let partials = Partials::default();
        let [old, half] = [partials.clone(), partials.clone()];
        for (clone, name, created) in [(&old, "old", false), (&half, "half", true)] {
            let file = File::create_new(dir.path().join(name)).unwrap();
            let spot = Spot::new(parent.as_fd(), name.as_ref(), name.as_ref());
            clone.begin(spot, None, &Arc::new(file.into()), created);
        }
        *lock(&partials.removing) = Some("removing".into());
        let named = ["removing", "half"].map(|path| Error::new(What::PartialMayRemain, path));
        assert_eq!(partials.unremoved(), named);
        partials.removed();
        assert_eq!(partials.unremoved(), []);
    }

    #[test]
    fn nothing_is_made_any_more_once_files_are_removed() {
        let (_dir, parent) = place();
        let partials = Partials::default();
        partials.removed();
        assert!(!partials.intend(spot(&parent), None));
    }

    #[test]
    fn a_new_file_that_cannot_be_removed_is_not_called_overwritten() {
        let (dir, parent) = place();
        let partials = Partials::default();
        let file = File::create_new(dir.path().join("new")).unwrap();
        partials.begin(spot(&parent), None, &Arc::new(file.into()), false);
        assert_eq!(partials.removed(), [Error::new(What::Damaged, "new")]);
        // Its maker has removed it meanwhile.
        let partials = Partials::default();
        let gone = File::open(dir.path().join("new")).unwrap();
        partials.begin(spot(&parent), None, &Arc::new(gone.into()), true);
        fs::remove_file(dir.path().join("new")).unwrap();
        assert_eq!(partials.removed(), []);
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
        assert_eq!(partials.removed(), []);
        assert!(!dir.path().join("half").exists());
    }
}
