//! Beginning to bring a tree to its device while it is still being copied (`--durable=flush`).
//!
//! One kernel thread writes back all small files of a filesystem, at some 10 µs each (ext4, Linux 6.18): 1.0 s for 100,000 files
//! that two threads had copied in 1.4 s. If it begins at the end, a quarter of two processors and most of many are idle meanwhile.
//! So a thread of its own has the filesystem synced each time that enough was left in the page cache. To ask file by file
//! (sync_file_range) takes 46 µs of a processor for each, since then each is a request of its own to the device.
//!
//! Only where the user waits for the device anyway: a sync takes as long as the data of all programs does, cannot be
//! interrupted, and no process ends before its threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use haul_sys::Errno;
use parking_lot::Mutex;

use haul_sys::inode::DeviceNumber;

/// Bytes that are left in the page cache between the beginning of one sync and that of the next. With 40, 80 and 150 MiB 100,000
/// small files took the same time, within 5 %; with 250 MiB 15 % more.
const STRETCH: u64 = 128 << 20;

/// Syncs of filesystems while files are copied: at most one at a time, each in a thread of its own.
#[derive(Default)]
pub(crate) struct BackgroundSync {
    /// Bytes that were left in the page cache since the last one began.
    left: AtomicU64,
    rounds: Mutex<Rounds>,
}

#[derive(Default)]
struct Rounds {
    running: Option<(DeviceNumber, JoinHandle<Result<(), Errno>>)>,
    /// The kernel tells each error once, so it must not be lost until the end.
    failed: Vec<(DeviceNumber, Errno)>,
}

impl BackgroundSync {
    /// So many bytes of a file were left in the page cache. True if it is time to begin, or to count anew.
    pub fn left(&self, bytes: u64) -> bool {
        self.left.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) >= STRETCH
    }

    /// Counts from nothing on again, where syncing early is of no use.
    pub fn count_anew(&self) {
        self.left.store(0, Ordering::Relaxed);
    }

    /// Has the filesystem on this device synced, unless one is being synced. Where no thread can be had there is only less
    /// done early.
    pub fn begin(&self, device: DeviceNumber, sync: impl FnOnce() -> Result<(), Errno> + Send + 'static) {
        // Else somebody else is just beginning.
        let Some(mut rounds) = self.rounds.try_lock() else { return };
        if rounds.running.as_ref().is_some_and(|(_, thread)| !thread.is_finished()) {
            return;
        }
        rounds.take_result();
        self.count_anew();
        let thread = thread::Builder::new().name("haul-sync".into()).spawn(sync);
        rounds.running = thread.ok().map(|thread| (device, thread));
    }

    /// Waits for the last one, and says which filesystems could not be synced.
    pub fn end(&self) -> Vec<(DeviceNumber, Errno)> {
        let mut rounds = std::mem::take(&mut *self.rounds.lock());
        rounds.take_result();
        rounds.failed
    }
}

impl Rounds {
    fn take_result(&mut self) {
        let Some((device, thread)) = self.running.take() else { return };
        // It does nothing that can panic; if it did, nobody would know what was written.
        if let Err(errno) = thread.join().unwrap_or(Err(Errno::IO)) {
            self.failed.push((device, errno));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const DEVICE: DeviceNumber = DeviceNumber { major: 8, minor: 1 };

    #[test]
    fn it_is_time_when_enough_was_left_since_the_last_one_began() {
        let early = BackgroundSync::default();
        assert!(!early.left(STRETCH - 1));
        assert!(early.left(1));
        early.begin(DEVICE, || Ok(()));
        assert!(!early.left(STRETCH - 1));
        assert!(early.left(STRETCH));
        assert_eq!(early.end(), []);
    }

    #[test]
    fn there_is_one_at_a_time() {
        let early = BackgroundSync::default();
        let (let_go, held) = mpsc::channel::<()>();
        early.begin(DEVICE, move || held.recv().map_err(|_| Errno::INTR));
        early.begin(DEVICE, || panic!("another one is running"));
        let_go.send(()).unwrap();
        assert_eq!(early.end(), []);
        let (done, called) = mpsc::channel();
        early.begin(DEVICE, move || done.send(()).map_err(|_| Errno::INTR));
        called.recv().unwrap();
        assert_eq!(early.end(), []);
    }

    #[test]
    fn an_error_is_kept_until_the_end_whatever_comes_after_it() {
        let early = BackgroundSync::default();
        early.begin(DEVICE, || Err(Errno::IO));
        for _ in 0..3 {
            while early.rounds.lock().running.as_ref().is_some_and(|(_, thread)| !thread.is_finished()) {
                thread::yield_now();
            }
            early.begin(DEVICE, || Ok(()));
        }
        assert_eq!(early.end(), [(DEVICE, Errno::IO)]);
        assert_eq!(early.end(), []);
    }
}
