//! A limit to how long a thread waits in one system call.

use std::mem::{MaybeUninit, zeroed};
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

/// Ignored unless somebody asks for it, so that it does no harm where it comes too late.
const SIGNAL: libc::c_int = libc::SIGURG;

/// How long after the first signal it is sent again: one may come before the call that it is to interrupt.
const AGAIN: Duration = Duration::from_secs(1);

/// Interrupts the system call in which this thread waits (EINTR) when a time is over, and each second from then on, until it is
/// dropped. Only waiting that signals interrupt, see signal(7).
///
/// The process has a handler for SIGURG from the first one on, which does nothing: where the signal arrives from elsewhere, system
/// calls that it interrupts fail with EINTR.
#[derive(Debug)]
pub struct Alarm {
    /// A pointer, so an alarm stays with its thread.
    timer: libc::timer_t,
    end: Instant,
}

impl Alarm {
    /// For the calling thread. `None` where the process has a handler of its own for SIGURG, or no more timers.
    #[must_use]
    pub fn after(time: Duration) -> Option<Alarm> {
        let end = Instant::now().checked_add(time)?;
        if !handle() {
            return None;
        }
        // SAFETY: all bytes zero are a value of this structure.
        let mut event: libc::sigevent = unsafe { zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = SIGNAL;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer = MaybeUninit::uninit();
        // SAFETY: both pointers are valid for the call.
        if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, timer.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: the call has succeeded, and so written it.
        let alarm = Alarm { timer: unsafe { timer.assume_init() }, end };
        // Zero would stop it.
        let time = time.max(Duration::from_nanos(1));
        let times = libc::itimerspec { it_interval: timespec(AGAIN)?, it_value: timespec(time)? };
        // SAFETY: the timer is ours, and the pointer valid for the call.
        (unsafe { libc::timer_settime(alarm.timer, 0, &raw const times, null_mut()) } == 0).then_some(alarm)
    }

    /// Whether the time is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer is ours, and nobody uses it any more.
        unsafe { libc::timer_delete(self.timer) };
    }
}

fn timespec(time: Duration) -> Option<libc::timespec> {
    Some(libc::timespec { tv_sec: time.as_secs().try_into().ok()?, tv_nsec: time.subsec_nanos().into() })
}

/// Sees to it that the signal interrupts; false where somebody else uses it.
fn handle() -> bool {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    let handler = handler as libc::sighandler_t;
    // SAFETY: all bytes zero are a value of this structure: the default action, no flags, no signals blocked.
    let mut action: libc::sigaction = unsafe { zeroed() };
    // SAFETY: without a new action the call only writes the old one.
    let asked = unsafe { libc::sigaction(SIGNAL, null(), &raw mut action) };
    match action.sa_sigaction {
        _ if asked != 0 => return false,
        libc::SIG_DFL | libc::SIG_IGN => {}
        known => return known == handler,
    }
    action.sa_sigaction = handler;
    // Without SA_RESTART, which would go on waiting.
    action.sa_flags = 0;
    // SAFETY: the handler does nothing.
    unsafe { libc::sigaction(SIGNAL, &raw const action, null_mut()) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::Errno;

    #[test]
    fn a_call_that_waits_for_ever_is_interrupted() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let alarm = Alarm::after(Duration::from_millis(20)).unwrap();
        assert_eq!(poll(&mut [PollFd::new(&reader, PollFlags::IN)], None), Err(Errno::INTR));
        assert!(alarm.is_over());
    }

    #[test]
    fn it_comes_again_for_a_call_that_began_too_late() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let alarm = Alarm::after(Duration::ZERO).unwrap();
        for _ in 0..2 {
            assert_eq!(poll(&mut [PollFd::new(&reader, PollFlags::IN)], None), Err(Errno::INTR));
        }
        drop(alarm);
    }
}
