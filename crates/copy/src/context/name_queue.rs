//! What waits for its name until it is on its device.

use std::ffi::OsString;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::links::Made;
use crate::publish::ready::{ParentDirectory, Ready};
use crate::work::directory::FullDirectory;

/// Files in the queue: enough that a sync of some ten milliseconds does not count beside making them.
pub(crate) const MOST_FILES: usize = 1024;

/// Bytes in the queue: a second or two of a quick device.
const MOST_BYTES: u64 = 1 << 30;

pub(crate) enum Item {
    File(Arc<Ready>),
    /// Another name for a file that may wait itself.
    Link {
        made: Made,
        parent: ParentDirectory,
        last: OsString,
        follow: bool,
        /// What stands there by then goes.
        replaces: bool,
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
        let mut waiting = self.waiting.lock();
        waiting.items.push(item);
        waiting.bytes += bytes;
        waiting.items.len() >= most || waiting.bytes >= MOST_BYTES
    }

    /// Everything that waits, once nobody else gives names. Others go on to add to the queue until the turn is dropped.
    pub(crate) fn take(&self) -> (Vec<Item>, Turn<'_>) {
        let mut waiting = self.waiting.lock();
        while waiting.taken {
            self.free.wait(&mut waiting);
        }
        waiting.taken = true;
        waiting.bytes = 0;
        (std::mem::take(&mut waiting.items), Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.waiting.lock().taken = false;
        self.0.free.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::context::test_support::Bench;
    use crate::plan::Plan;

    /// A link that waits.
    fn item(bench: &Bench, last: &str) -> Item {
        let dir = bench.root();
        let parent = ParentDirectory::Own(bench.to("b").dir().unwrap().try_clone_to_owned().unwrap(), last.into());
        Item::Link {
            made: Made { dir, name: "b".into(), id: None },
            parent,
            last: last.into(),
            follow: false,
            replaces: false,
        }
    }

    fn names(items: &[Item]) -> Vec<&str> {
        items.iter().filter_map(name).collect()
    }

    fn name(item: &Item) -> Option<&str> {
        match item {
            Item::Link { last, .. } => last.to_str(),
            Item::File(_) | Item::Directory(_) => None,
        }
    }

    #[test]
    fn a_queue_is_full_by_its_items_or_its_bytes() {
        let (bench, queue) = (Bench::new(Plan::default()), NameQueue::default());
        assert!(!queue.push(item(&bench, "a"), 0, 3));
        assert!(!queue.push(item(&bench, "b"), MOST_BYTES - 1, 3));
        assert!(queue.push(item(&bench, "c"), 0, 3), "three items");
        assert!(queue.push(item(&bench, "d"), 1, 100), "enough bytes");
    }

    #[test]
    fn what_waits_is_taken_once_and_in_order() {
        let (bench, queue) = (Bench::new(Plan::default()), NameQueue::default());
        queue.push(item(&bench, "a"), MOST_BYTES, 100);
        queue.push(item(&bench, "b"), 0, 100);
        let (items, turn) = queue.take();
        assert_eq!(names(&items), ["a", "b"]);
        assert!(!queue.push(item(&bench, "c"), MOST_BYTES - 1, 100), "bytes are counted anew, while names are given");
        drop(turn);
        assert_eq!(names(&queue.take().0), ["c"]);
    }

    #[test]
    fn one_thread_at_a_time_gives_names() {
        let (queue, giving) = (NameQueue::default(), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let (_, turn) = queue.take();
                        assert_eq!(giving.fetch_add(1, Ordering::SeqCst), 0);
                        thread::yield_now();
                        giving.fetch_sub(1, Ordering::SeqCst);
                        drop(turn);
                    }
                });
            }
        });
    }
}
