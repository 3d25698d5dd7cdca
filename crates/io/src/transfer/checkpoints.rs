//! How far a large file is on its device, noted behind the copy, so that the next run can go on there (`--resume`).

use std::os::fd::{AsFd, OwnedFd};

use haul_sys::Errno;
use haul_sys::inode::Inode;
use haul_sys::rustix::fs::fdatasync;
use haul_sys::rustix::io::retry_on_intr;
use parking_lot::{Condvar, Mutex};

use super::last_bytes::LAST_BYTES;

/// Bytes from one checkpoint to the next.
pub const STEP: u64 = 64 << 20;
/// The copy waits when it is so far ahead of the last checkpoint: so much at most is copied twice.
pub const AHEAD: u64 = 2 * STEP;

/// Where checkpoints are written down for the next run.
pub trait Log: Sync {
    /// Writes down that so many bytes, from the beginning, are on the device, and brings that to its device. If it fails, the
    /// next run copies more.
    fn checkpoint(&self, prefix: u64);
}

/// The checkpoints of one file. Shared by the copy and the thread that goes behind it.
pub struct Checkpoints<'a> {
    log: &'a dyn Log,
    /// The file, open once more: who waits for the data of an open file takes its errors, and others of this run wait for that of
    /// the one that is written through.
    own: OwnedFd,
    place: Mutex<Place>,
    moved_on: Condvar,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    /// Everything before this byte is there.
    copied: u64,
    /// And everything before this one is on the device.
    synced: u64,
    /// The same as far as the file has a size: a hole at its end is none yet.
    noted: u64,
    /// The copy has ended.
    over: Option<Over>,
    failed: Option<Errno>,
}

/// How a copy has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// There is nothing more to note.
    Done,
    /// The copy was stopped, and all that was written is as good as before.
    Stopped,
}

impl<'a> Checkpoints<'a> {
    /// Of a file, open as `own` before anything is written to it by others, of which `start` bytes are there and noted.
    pub fn new(log: &'a dyn Log, own: OwnedFd, start: u64) -> Checkpoints<'a> {
        let place = Mutex::new(Place::from(start));
        Checkpoints { log, own, place, moved_on: Condvar::new() }
    }

    /// The copy begins once more, where the last checkpoint is.
    pub fn begin_again(&self) {
        let mut place = self.place.lock();
        *place = Place::from(place.noted);
    }

    /// The copy has come so far, and everything before is there.
    pub fn copied(&self, to: u64) {
        let mut place = self.place.lock();
        if to > place.copied {
            place.copied = to;
            self.moved_on.notify_all();
        }
    }

    /// Waits until a copy that goes on here is not too far ahead.
    pub(crate) fn let_follow(&self, at: u64) {
        let mut place = self.place.lock();
        while place.over.is_none()
            && place.failed.is_none()
            && place.copied.min(at).saturating_sub(place.synced) > AHEAD
        {
            self.moved_on.wait(&mut place);
        }
    }

    /// Up to where the next run can rely on it.
    pub fn noted(&self) -> u64 {
        self.place.lock().noted
    }

    /// The copy has ended. Only the first word about that counts.
    pub fn end(&self, over: Over) {
        self.place.lock().over.get_or_insert(over);
        self.moved_on.notify_all();
    }

    /// Goes behind the copy until that ends.
    ///
    /// # Errors
    /// That of a sync. The kernel reports it once for an open file, so the file is lost.
    pub fn keep_up(&self) -> Result<(), Errno> {
        let _alarm = Alarm(self);
        while let Some(to) = self.next() {
            let synced = retry_on_intr(|| fdatasync(&self.own)).and_then(|()| Inode::of(self.own.as_fd()));
            let size = synced.as_ref().map_or(0, |inode| inode.size);
            if let Err(errno) = synced {
                self.place.lock().failed = Some(errno);
                self.moved_on.notify_all();
                return Err(errno);
            }
            let prefix = to.min(size - size % LAST_BYTES);
            if prefix > self.noted() {
                self.log.checkpoint(prefix);
                self.place.lock().noted = prefix;
            }
            self.place.lock().synced = to;
            self.moved_on.notify_all();
        }
        Ok(())
    }

    /// Waits until there is something to note.
    fn next(&self) -> Option<u64> {
        let mut place = self.place.lock();
        loop {
            // Direct I/O wants to begin there.
            let to = place.copied - place.copied % LAST_BYTES;
            match place.over {
                _ if place.failed.is_some() => return None,
                Some(Over::Done) => return None,
                Some(Over::Stopped) => return (to > place.synced).then_some(to),
                None if to >= place.synced + STEP => return Some(to),
                None => self.moved_on.wait(&mut place),
            }
        }
    }
}

impl From<u64> for Place {
    fn from(start: u64) -> Place {
        Place { copied: start, synced: start, noted: start, over: None, failed: None }
    }
}

/// Should the thread that goes behind the copy panic, nobody waits for it.
struct Alarm<'m>(&'m Checkpoints<'m>);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.0.end(Over::Done);
    }
}
