//! What the process inherited and what it has used: signal dispositions, standard output, CPU time and memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Standard output was closed when the program was started.
static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);
/// SIGPIPE was ignored when the program was started.
static SIGPIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Runs before `main`, since the Rust runtime opens /dev/null in the place of a closed standard output and ignores
/// SIGPIPE, after which nobody can tell any more.
#[cfg_attr(miri, allow(dead_code))]
extern "C" fn look_before_main() {
    // SAFETY: fcntl with F_GETFD takes any number and only reads.
    let closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
    STDOUT_WAS_CLOSED.store(closed, Ordering::Relaxed);
    SIGPIPE_WAS_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
}

// Miri calls it as well, but knows no sigaction(2).
// SAFETY: the section holds pointers to functions that the loader calls before main; this one needs nothing of the
// runtime.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_BEFORE_MAIN: extern "C" fn() = look_before_main;

/// Whether standard output was closed when the program was started.
pub fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}

/// Gives SIGPIPE the disposition back that it had before the Rust runtime ignored it: a program whose reader is gone
/// ends, unless its parent wanted otherwise.
pub fn restore_sigpipe() {
    if !SIGPIPE_WAS_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: the default disposition runs no code of ours.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
}

/// Ignores SIGHUP, as after nohup(1).
pub fn ignore_sighup() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
}

/// Ignores SIGXFSZ, so that a write beyond the file-size limit fails with EFBIG and does not end the process.
pub fn ignore_sigxfsz() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Ignores SIGUSR2, which otherwise ends the process.
pub fn ignore_sigusr2() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGUSR2, libc::SIG_IGN) };
}

/// Whether a signal is ignored, as SIGHUP is below nohup(1) and SIGINT in the background of a script.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zeros is a valid sigaction, and the call only writes it.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer for a new action is null, so nothing is changed; the other one is to a live object.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// What the process has used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time outside the kernel.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Most memory ever resident, in bytes.
    pub peak_memory: u64,
}

impl Usage {
    /// That of this process, all threads together.
    pub fn of_process() -> Usage {
        // SAFETY: all zeros is a valid rusage.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live object; getrusage for the own process cannot fail, and would leave zeros.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
        Usage {
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            peak_memory: usage.ru_maxrss.unsigned_abs() * 1024,
        }
    }
}

/// A CPU time, of which the kernel never gives a negative one.
pub(crate) fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
}
