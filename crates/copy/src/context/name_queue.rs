//! What waits for its name until it is on its device.

use std::ffi::OsString;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::links::Made;
use crate::publish::ready::{ParentDirectory, Ready};
use crate::work::directory::FullDirectory;

/// Files in the queue: enough that a sync of some ten milliseconds does not count beside making them.
pub(crate) const MOST_FILES: usize = 1024;

/// Bytes in the queue: a second or two of a quick device.
const MOST_BYTES: u64 = 1 << 30;

/// What waits.
pub(crate) enum Item {
    File(Arc<Ready>),
    /// Another name for a file that may wait itself.
    Link {
        made: Made,
        parent: ParentDirectory,
        last: OsString,
        follow: bool,
    },
    /// A directory that is full, and gets its attributes.
    Directory(FullDirectory),
}

/// What waits for its name, and who gives them: one thread at a time, since what comes later depends on what came before.
#[derive(Default)]
pub(crate) struct NameQueue {
    pub waiting: Mutex<Waiting>,
    /// Nobody gives names any more.
    pub free: Condvar,
}

#[derive(Default)]
pub(crate) struct Waiting {
    pub items: Vec<Item>,
    bytes: u64,
    /// A thread gives names.
    taken: bool,
}

/// The right to give names. No lock: who has it waits for devices.
pub(crate) struct Turn<'a>(&'a NameQueue);

impl NameQueue {
    /// True if there is so much now that it should be emptied.
    pub(crate) fn push(&self, item: Item, bytes: u64, most: usize) -> bool {
        let mut waiting = lock(&self.waiting);
        waiting.items.push(item);
        waiting.bytes += bytes;
        waiting.items.len() >= most || waiting.bytes >= MOST_BYTES
    }

    /// Everything that waits, once nobody else gives names. Others go on to add to the queue until the turn is dropped.
    pub(crate) fn take(&self) -> (Vec<Item>, Turn<'_>) {
        let mut waiting = lock(&self.waiting);
        while waiting.taken {
            waiting = self.free.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.taken = true;
        waiting.bytes = 0;
        (std::mem::take(&mut waiting.items), Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.0.waiting).taken = false;
        self.0.free.notify_one();
    }
}

pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while it was held cannot have left it inconsistent.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
