//! Signals that a thread waits for without a descriptor: handlers count them and wake it by futex(2).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::Timespec;
use rustix::thread::futex;

/// The signal that came last, of those that are noted.
static NOTED: AtomicI32 = AtomicI32::new(0);

/// Notes this signal, from now on to the end of the process, whatever is registered for it with signal-hook later. That calls
/// the handler which it finds, but loses a signal that comes while it registers the first action, where it finds none.
///
/// # Errors
/// As sigaction(2).
pub fn note(signal: i32) -> io::Result<()> {
    extern "C" fn handler(signal: libc::c_int) {
        NOTED.store(signal, Ordering::SeqCst);
    }
    let handler: extern "C" fn(libc::c_int) = handler;
    // SAFETY: the handler does nothing but to store an atomic number.
    match unsafe { libc::signal(signal, handler as libc::sighandler_t) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The one that has come last since this was asked, if any.
pub fn noted() -> Option<i32> {
    Some(NOTED.swap(0, Ordering::SeqCst)).filter(|signal| *signal != 0)
}

/// How many signals have arrived, of those that are counted. Clones are one counter.
#[derive(Debug, Clone, Default)]
pub struct Arrivals(Arc<AtomicU32>);

impl Arrivals {
    /// Counts this signal whenever it arrives, from now on to the end of the process, after whatever was registered for it
    /// with signal-hook before: who is woken sees what that has done.
    ///
    /// # Errors
    /// As sigaction(2).
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

/// Limits the time that a process has left from a signal on, without a thread. Clones count the same signals.
#[derive(Debug, Clone)]
pub struct Countdown {
    arrived: Arc<AtomicU32>,
    /// What is left after the first signal, and after the second one.
    left: [Duration; 2],
    /// It ends by the signal; otherwise with the status that a shell shows for it.
    by_signal: bool,
}

impl Countdown {
    /// The process has `left[0]` from the first signal on, and `left[1]` from the second one on. A third ends it at once. It ends
    /// `by_signal`, or else by _exit(2) with 128 and the number of the signal.
    #[must_use]
    pub fn new(left: [Duration; 2], by_signal: bool) -> Countdown {
        Countdown { arrived: Arc::default(), left, by_signal }
    }

    /// Counts this signal from now on to the end of the process. What was registered for it with signal-hook before is done first.
    ///
    /// # Errors
    /// As sigaction(2).
    pub fn count(&self, signal: i32) -> io::Result<()> {
        let own = self.clone();
        let handler = move |info: &libc::siginfo_t| {
            let before = own.arrived.fetch_add(1, Ordering::SeqCst);
            match own.left.get(before as usize) {
                Some(left) if info.si_code != libc::SI_TIMER => send_after(*left, signal),
                _ => end(signal, own.by_signal),
            }
        };
        // SAFETY: the handler adds to an atomic number, makes system calls, and may end the process by functions that are
        // async-signal-safe. It neither allocates nor takes a lock, and does not panic.
        unsafe { signal_hook_registry::register_sigaction(signal, handler) }.map(drop)
    }
}

/// Has a timer send the signal to this process. SIGALRM would do, but it may be blocked or ignored, or stand for the time that the
/// caller of the program has set. Async-signal-safe, unlike timer_create(3) of older C libraries.
fn send_after(time: Duration, signal: i32) {
    // SAFETY: all zeros is a valid sigevent.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_SIGNAL;
    event.sigev_signo = signal;
    let mut timer: libc::c_int = 0;
    // SAFETY: all zeros is a valid itimerspec.
    let mut times: libc::itimerspec = unsafe { std::mem::zeroed() };
    times.it_value.tv_sec = time.as_secs().try_into().unwrap_or(i32::MAX.into());
    times.it_value.tv_nsec = time.subsec_nanos().into();
    // SAFETY: the first call reads a sigevent and writes a number; the second one reads an itimerspec, and needs no place for the old
    // one. Where there is no timer, further signals end the process.
    unsafe {
        if libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, &raw const event, &raw mut timer) == 0 {
            libc::syscall(libc::SYS_timer_settime, timer, 0, &raw const times, std::ptr::null_mut::<libc::c_void>());
        }
    }
}

/// Ends the process: async-signal-safe.
fn end(signal: i32, by_signal: bool) {
    if by_signal {
        // If it fails, there is the other way.
        signal_hook::low_level::emulate_default_handler(signal).ok();
    }
    signal_hook::low_level::exit(128 + signal);
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[test]
    fn a_signal_is_noted_before_and_after_signal_hook_registers_it() {
        let signal = Signal::URG;
        note(signal.as_raw()).unwrap();
        kill_process(getpid(), signal).unwrap();
        while noted() != Some(signal.as_raw()) {
            thread::yield_now();
        }
        assert_eq!(noted(), None);
        let arrivals = Arrivals::default();
        arrivals.count(signal.as_raw()).unwrap();
        kill_process(getpid(), signal).unwrap();
        assert!(arrivals.wait(0, None));
        assert_eq!(noted(), Some(signal.as_raw()));
    }

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
