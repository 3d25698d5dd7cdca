//! Signals that a thread waits for without a descriptor: handlers count them and wake it by futex(2).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::Timespec;
use rustix::thread::futex;

/// How many signals have arrived, of those that are counted. Clones are one counter.
#[derive(Debug, Clone, Default)]
pub struct Arrivals(Arc<AtomicU32>);

impl Arrivals {
    /// Counts this signal whenever it arrives, from now on to the end of the process, after whatever was registered for it
    /// with signal-hook before: who is woken sees what that has done.
    pub fn count(&self, signal: i32) -> io::Result<()> {
        let arrivals = Arc::clone(&self.0);
        let handler = move || {
            arrivals.fetch_add(1, Ordering::SeqCst);
            // It changes errno only where it fails, which it does not with such an address.
            futex::wake(&arrivals, futex::Flags::PRIVATE, i32::MAX.unsigned_abs()).unwrap_or_default();
        };
        // SAFETY: the handler adds to an atomic number and makes one system call. It neither allocates nor takes a lock, and
        // does not panic.
        unsafe { signal_hook::low_level::register(signal, handler) }.map(drop)
    }

    /// Waits until more than `seen` have arrived, for so long at most; whether they have.
    pub fn wait(&self, seen: u32, timeout: Option<Duration>) -> bool {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        if self.0.load(Ordering::SeqCst) == seen {
            // It ends at once if one has arrived since, by the signal itself, or by the timeout: the number says which.
            futex::wait(&self.0, futex::Flags::PRIVATE, seen, timeout.as_ref()).unwrap_or_default();
        }
        self.0.load(Ordering::SeqCst) != seen
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[test]
    fn a_thread_that_waits_is_woken_by_a_signal_to_the_process() {
        let arrivals = Arrivals::default();
        arrivals.count(Signal::WINCH.as_raw()).unwrap();
        assert!(!arrivals.wait(0, Some(Duration::ZERO)));
        let waiting = arrivals.clone();
        let waiter = thread::spawn(move || waiting.wait(0, None));
        kill_process(getpid(), Signal::WINCH).unwrap();
        assert!(waiter.join().unwrap());
        assert!(arrivals.wait(0, None), "one that came before the wait counts, too");
        assert!(!arrivals.wait(1, Some(Duration::ZERO)));
    }
}
