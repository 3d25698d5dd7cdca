//! What a process inherits from the one that starts it and a test does not want it to have.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

/// Starts the command with the default action for every signal and with none blocked, whatever this process ignores: under
/// nohup(1), and in the background of a shell without job control, tests inherit signals that are ignored. The kernel kills
/// the process when the thread that started it ends.
pub fn start_fresh(command: &mut Command) -> &mut Command {
    let prepare = || {
        for signal in 1..=libc::SIGRTMAX() {
            // SAFETY: SIG_DFL is no function, so nothing of this process can be called. What cannot be set gives EINVAL:
            // SIGKILL and SIGSTOP always have their default actions, and 32 and 33 are the C library's own.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        // SAFETY: all-zero is a valid signal set, and sigemptyset makes it an empty one.
        let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set lives on this stack, and the null pointer says that the old mask is not wanted.
        let unblocked = unsafe {
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut())
        };
        // SAFETY: plain numbers are passed.
        let bound = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        if unblocked == 0 && bound == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec the closure makes system calls that are async-signal-safe, and neither allocates nor
    // takes a lock.
    unsafe { command.pre_exec(prepare) }
}
