//! What all threads of a run know of entries that are removed since the source does not have them.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use haul_sys::inode::DeviceNumber;
use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(crate) struct Deletions {
    done: AtomicU64,
    left: AtomicU64,
    copy_failed: AtomicBool,
    stopped: AtomicBool,
    /// Filesystems of the copy where a look has shown whether a name in other letters is another name.
    case: Mutex<HashMap<DeviceNumber, bool>>,
    unsure: AtomicBool,
    pool_in_use: AtomicBool,
    /// Whether mounts show some directory of the copy twice, once somebody has looked.
    shown_twice: OnceLock<bool>,
}

/// Several threads that remove the entries of one directory; there is one such pool at a time.
pub(crate) struct ThreadPool<'d> {
    pub threads: usize,
    in_use: &'d AtomicBool,
}

impl Drop for ThreadPool<'_> {
    fn drop(&mut self) {
        self.in_use.store(false, Ordering::Relaxed);
    }
}

impl Deletions {
    /// Whether a name in other letters is another name on a filesystem, if a look has shown it.
    pub fn case_counts(&self, device: DeviceNumber) -> Option<bool> {
        self.case.lock().get(&device).copied()
    }

    /// A look has shown it. That names are alike somewhere is never forgotten.
    pub fn note_case(&self, device: DeviceNumber, counts: bool) {
        self.case.lock().entry(device).and_modify(|known| *known &= counts).or_insert(counts);
    }

    /// Whether mounts show some directory of the copy twice. The first one looks.
    pub fn shown_twice(&self, look: impl FnOnce() -> bool) -> bool {
        *self.shown_twice.get_or_init(look)
    }

    /// So many threads, unless one is enough or another directory has the pool.
    pub fn thread_pool(&self, threads: usize) -> Option<ThreadPool<'_>> {
        let in_use = &self.pool_in_use;
        (threads > 1 && !in_use.swap(true, Ordering::Relaxed)).then(|| ThreadPool { threads, in_use })
    }

    /// Whether it is the first time that something stays since it may be the copy of something elsewhere in the source.
    pub fn is_first_doubt(&self) -> bool {
        !self.unsure.swap(true, Ordering::Relaxed)
    }

    /// Whether one more may be removed, of `most` in the whole run. One that may not is counted.
    pub fn take(&self, most: Option<u64>) -> bool {
        let more = |done: u64| most.is_none_or(|most| done < most).then_some(done + 1);
        let taken = self.done.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if !taken {
            self.leave(1);
        }
        taken
    }

    /// So many that might have been removed were not.
    pub fn give_back(&self, count: u64) {
        self.done.fetch_sub(count, Ordering::Relaxed);
    }

    /// Takes so many at once, or none of them if there may not be so many more; then all of them stay.
    pub fn reserve(&self, count: u64, most: Option<u64>) -> bool {
        let more = |done: u64| {
            let all = done.saturating_add(count);
            most.is_none_or(|most| all <= most).then_some(all)
        };
        let reserved = self.done.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if !reserved {
            self.left.fetch_add(count, Ordering::Relaxed);
        }
        reserved
    }

    /// So many stay since no more may be removed.
    pub fn leave(&self, count: u64) {
        self.left.fetch_add(count, Ordering::Relaxed);
    }

    /// How many stay for this reason.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// What all threads note by that something was not copied as wished.
    pub fn copy_failed(&self) -> &AtomicBool {
        &self.copy_failed
    }

    /// Whether nothing more is to be removed since something was not copied: what is gone from the source may be what could not be
    /// copied, under another name.
    pub fn is_over(&self) -> bool {
        let failed = self.copy_failed.load(Ordering::Relaxed);
        if failed {
            self.stopped.store(true, Ordering::Relaxed);
        }
        failed
    }

    /// Whether somebody would have looked for more to remove, and did not.
    pub fn was_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_removed_than_may_be_and_the_others_are_counted() {
        let deletions = Deletions::default();
        assert!(deletions.take(Some(1)) && !deletions.take(Some(1)));
        deletions.give_back(1);
        assert!(deletions.take(Some(1)) && !deletions.take(Some(0)) && deletions.take(None));
        assert_eq!(deletions.left(), 2);
    }

    #[test]
    fn one_thread_pool_is_in_use_at_a_time_and_none_where_one_thread_is_enough() {
        let deletions = Deletions::default();
        assert!(deletions.thread_pool(1).is_none());
        let pool = deletions.thread_pool(3);
        assert_eq!(pool.as_ref().map(|pool| pool.threads), Some(3));
        assert!(deletions.thread_pool(3).is_none());
        drop(pool);
        assert!(deletions.thread_pool(2).is_some());
    }

    #[test]
    fn several_are_reserved_at_once_or_not_at_all() {
        let deletions = Deletions::default();
        assert!(!deletions.reserve(4, Some(3)) && deletions.reserve(3, Some(3)) && !deletions.take(Some(3)));
        assert_eq!(deletions.left(), 5);
        deletions.give_back(2);
        assert!(deletions.reserve(2, Some(3)) && deletions.reserve(9, None));
    }
}
