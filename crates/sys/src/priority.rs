//! How urgent this process is, for processors and for devices.
//!
//! On Linux both belong to a thread and are inherited by the threads that it starts (also by the kernel's helpers of an
//! io_uring), so they are set before there are any.

use rustix::io::Errno;
use rustix::process::{Pid, setpriority_process};

use crate::syscall::{last_errno, outcome};

/// The class and level that I/O schedulers (BFQ, mq-deadline) heed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoPriority {
    /// Follows the nice value: what every thread has that was given nothing else.
    None,
    /// Served before all others; for administrators.
    RealTime(u8),
    /// The usual class, from 0 (first) to 7 (last).
    BestEffort(u8),
    /// Served when nobody else wants anything.
    Idle,
}

const CLASS_SHIFT: u32 = 13;
const WHO_PROCESS: libc::c_int = 1;

impl IoPriority {
    fn bits(self) -> u32 {
        let (class, level) = match self {
            IoPriority::None => (0, 0),
            IoPriority::RealTime(level) => (1, level),
            IoPriority::BestEffort(level) => (2, level),
            IoPriority::Idle => (3, 0),
        };
        (class << CLASS_SHIFT) | u32::from(level & 7)
    }

    fn of_bits(bits: u32) -> IoPriority {
        let level = (bits & 7) as u8;
        match bits >> CLASS_SHIFT & 7 {
            1 => IoPriority::RealTime(level),
            2 => IoPriority::BestEffort(level),
            3 => IoPriority::Idle,
            _ => IoPriority::None,
        }
    }
}

/// Sets the nice value of the calling thread, from -20 (first) to 19 (last).
///
/// # Errors
/// EACCES if it is lower than before and the process may not do that (CAP_SYS_NICE, RLIMIT_NICE).
pub fn set_nice(nice: i32) -> Result<(), Errno> {
    setpriority_process(None::<Pid>, nice)
}

/// Sets the I/O class and level of the calling thread.
///
/// # Errors
/// EPERM for the real-time class without privilege, ENOSYS where the kernel was built without.
pub fn set_io_priority(priority: IoPriority) -> Result<(), Errno> {
    let bits = libc::c_long::from(priority.bits());
    // SAFETY: ioprio_set takes three numbers; 0 is the calling thread.
    outcome(unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, bits) })
}

/// The I/O class and level of a thread; 0 is the calling one.
///
/// # Errors
/// ESRCH if there is no such thread.
pub fn io_priority(thread: i32) -> Result<IoPriority, Errno> {
    // SAFETY: ioprio_get takes two numbers.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, thread) };
    u32::try_from(result).map(IoPriority::of_bits).map_err(|_negative| last_errno())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_sets_it_and_those_that_it_starts_have() {
        // In a thread of its own: the priority of the others stays.
        std::thread::spawn(|| {
            for priority in [IoPriority::BestEffort(7), IoPriority::BestEffort(2), IoPriority::Idle] {
                set_io_priority(priority).unwrap();
                assert_eq!(io_priority(0), Ok(priority));
                let inherited = std::thread::spawn(|| io_priority(0)).join().unwrap();
                assert_eq!(inherited, Ok(priority));
            }
        })
        .join()
        .unwrap();
    }
}
