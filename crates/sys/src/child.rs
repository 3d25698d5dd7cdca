//! Starting a child process that somebody knows of, and waiting for it together with what it used.

use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::io::Errno;

use crate::process_state::duration;
use crate::syscall::last_errno;

/// How a child ended and what it cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The wait status, as `ExitStatusExt::from_raw` takes it.
    pub status: i32,
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel on the child's behalf. Kernel threads (writeback, loop devices) are not in it.
    pub system: Duration,
    /// Largest resident set in KiB. Never below that of the parent at the time of exec, which Linux counts in.
    pub max_rss_kib: u64,
    /// Page faults that were served from memory.
    pub minor_faults: u64,
    /// Page faults for which something was read.
    pub major_faults: u64,
}

/// Waits for a child and reaps it. Take its pipes out and read them to their ends before: a child that writes into
/// a full pipe never ends.
///
/// # Errors
/// `ECHILD` if it was waited for already.
pub fn wait(child: Child) -> Result<Ended, Errno> {
    let pid = i32::try_from(child.id()).map_err(|_| Errno::SRCH)?;
    drop(child); // closes its pipes; neither waits nor kills
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to live, writable objects of the types that wait4 fills.
        let answer = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if answer == pid {
            break;
        }
        match last_errno() {
            Errno::INTR => {}
            errno => return Err(errno),
        }
    }
    // SAFETY: wait4 succeeded and filled it; it was zeroed before, and all-zero is a valid rusage.
    let usage = unsafe { usage.assume_init() };
    let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
    Ok(Ended {
        status,
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        max_rss_kib: count(usage.ru_maxrss),
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
    })
}

/// Lets the child write a line with its number into `pipe` before it becomes the program: whoever reads there knows of it
/// before the program does anything. Nobody reads there: the child ends by SIGPIPE.
pub fn announce(command: &mut Command, pipe: OwnedFd) -> &mut Command {
    let announce = move || {
        let mut line = [0; 16];
        let mut rest = &mut line[..];
        writeln!(rest, "{}", std::process::id())?;
        let len = 16 - rest.len();
        // SAFETY: the bytes live on this stack, and so many are there. Less than PIPE_BUF are written in one go.
        let written = unsafe { libc::write(pipe.as_raw_fd(), line.as_ptr().cast(), len) };
        if usize::try_from(written) == Ok(len) { Ok(()) } else { Err(last_errno().into()) }
    };
    // SAFETY: between fork and exec the closure formats a number on its stack, without allocating or taking a lock, and
    // makes system calls that are async-signal-safe.
    unsafe { command.pre_exec(announce) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, ExitStatus};

    use super::*;

    #[test]
    fn a_child_is_reaped_with_its_status_and_memory() {
        let child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let ended = wait(child).unwrap();
        assert_eq!(ExitStatus::from_raw(ended.status).code(), Some(7));
        assert!(ended.max_rss_kib > 0);
        assert!(ended.minor_faults > 0);
    }

    #[test]
    fn a_child_is_known_before_it_is_the_program() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = Command::new("sh");
        let child = announce(command.args(["-c", "exit 0"]), writer.into()).spawn().unwrap();
        let id = child.id();
        wait(child).unwrap();
        drop(command);
        assert_eq!(std::io::read_to_string(reader).unwrap(), format!("{id}\n"));
    }

    #[test]
    fn a_child_that_was_waited_for_is_an_error() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(wait(child), Err(Errno::CHILD));
    }
}
