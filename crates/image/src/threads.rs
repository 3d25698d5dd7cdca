//! The threads of a copy, and the reports while they work.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use haul_sys::Errno;

use super::stats::Counters;
use super::steps::Stop;
use super::task::{Event, Observer};

/// Time between two reports.
const SECOND: Duration = Duration::from_secs(1);

/// A stack is small: nothing here is recursive.
const STACK: usize = 256 << 10;

/// A thread of a copy, if it could be had.
pub(super) type Handle<'scope, T> = io::Result<ScopedJoinHandle<'scope, Result<T, Stop>>>;

/// Starts one. It is over when `alive` and all its clones are gone.
pub(super) fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    alive: Sender<()>,
    work: impl FnOnce() -> Result<T, Stop> + Send + 'scope,
) -> Handle<'scope, T> {
    thread::Builder::new().stack_size(STACK).spawn_scoped(scope, move || {
        // Dropped at the end, however it comes.
        let _alive = alive;
        work()
    })
}

pub(super) fn join<T>(handle: Handle<'_, T>) -> Result<T, Stop> {
    let handle = handle.map_err(|error| Stop::Threads(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)))?;
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Does something that may take long in a thread of its own, so that reports go on.
pub(super) fn beside<T: Send>(
    counters: &Counters,
    observer: &dyn Observer,
    work: impl FnOnce() -> T + Send,
) -> Result<T, Stop> {
    let (alive, over) = channel::<()>();
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, move || {
            let _alive = alive;
            Ok(work())
        });
        watch(&over, counters, observer);
        join(thread)
    })
}

/// Reports at every full second until all threads have ended.
pub(super) fn watch(over: &Receiver<()>, counters: &Counters, observer: &dyn Observer) {
    let mut next = counters.started + SECOND;
    loop {
        while next <= Instant::now() {
            next += SECOND;
        }
        match over.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => observer.event(&Event::Second(&counters.stats())),
            _ => return,
        }
    }
}
