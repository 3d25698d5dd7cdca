//! Notices that MPI does not come back from a call that is not meant to wait.
//!
//! Open MPI waits for ever for memory that it does not get: it asks again and again whether somebody has given some back,
//! within the call that looks for messages. The job would wait with it.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use std::{io, process, thread};

use crate::name::NAME;

/// CPU time of a call that will not come back, in clock ticks of a hundredth of a second. No time that a process
/// is stopped, or has to wait for a processor, is in it.
const TOO_LONG: u64 = 1000;
/// The same of the end of MPI, in which a process waits for all others.
const TOO_LONG_AN_END: u64 = 6 * TOO_LONG;
const LOOK_EVERY: Duration = Duration::from_secs(1);
const STACK: usize = 64 << 10;

/// Calls that have begun and calls that have ended: odd within one.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// All is done, but MPI has to end.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Makes a call of MPI that does not wait. Only by the thread that talks to the other processes.
pub fn within<T>(call: impl FnOnce() -> T) -> T {
    CALLS.fetch_add(1, Ordering::Relaxed);
    let done = call();
    CALLS.fetch_add(1, Ordering::Relaxed);
    done
}

/// Ends MPI. Once seen: in MPICH over UCX a process that had begun to talk to another one as the job ended waited, busy, for an
/// answer which that one, in the barrier behind it, did not give any more.
pub fn within_end(end: impl FnOnce()) {
    ENDING.store(true, Ordering::Relaxed);
    within(end);
}

/// From now on a call that the main thread does not come back from ends the process, and so the job.
pub fn watch() {
    // A job does without, where there is no thread to be had or no /proc.
    let Ok(stat) = File::open(format!("/proc/self/task/{}/stat", process::id())) else { return };
    thread::Builder::new().stack_size(STACK).spawn(move || look(&stat)).ok();
}

/// Takes no memory: there may be none.
fn look(stat: &File) {
    let mut watch = Watch::default();
    loop {
        thread::sleep(LOOK_EVERY);
        let (calls, Some(ticks)) = (CALLS.load(Ordering::Relaxed), ticks(stat)) else { return };
        let (limit, why) = match ENDING.load(Ordering::Relaxed) {
            false => (TOO_LONG, "MPI does not come back, as when it is out of memory; the job is ended"),
            true => {
                (TOO_LONG_AN_END, "MPI does not come to its end; what was copied is complete, but for what was said")
            }
        };
        if watch.is_stuck(calls, ticks, limit) {
            writeln!(io::stderr(), "{NAME}: {why}").ok();
            process::abort();
        }
    }
}

/// What was seen of the call that has begun last.
#[derive(Default)]
struct Watch {
    calls: u64,
    /// The CPU time of the thread then.
    ticks: u64,
}

impl Watch {
    /// Whether one call has taken more than this since it was first seen.
    fn is_stuck(&mut self, calls: u64, ticks: u64, limit: u64) -> bool {
        if calls.is_multiple_of(2) || calls != self.calls {
            *self = Watch { calls, ticks };
        }
        ticks - self.ticks > limit
    }
}

/// CPU time of a thread in clock ticks.
fn ticks(stat: &File) -> Option<u64> {
    let mut buffer = [0; 1024];
    let read = stat.read_at(&mut buffer, 0).ok()?;
    parse(std::str::from_utf8(&buffer[..read]).ok()?)
}

/// The sum of the fields utime and stime, the 14th and the 15th. The second is a name in parentheses, with anything in it.
fn parse(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::{TOO_LONG, Watch, parse};

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let line = "7 (a) R 1 (b) S 1 2 3 4 5 6 7 8 9 10 120 34 0 0 20 0\n";
        assert_eq!(parse(line), Some(154));
        assert_eq!(parse("7 (a) R 1"), None);
    }

    #[test]
    fn only_one_call_that_goes_on_and_on_is_stuck() {
        let mut watch = Watch::default();
        assert!(!watch.is_stuck(1, 5000, TOO_LONG), "it has just been seen");
        assert!(!watch.is_stuck(1, 5000 + TOO_LONG, TOO_LONG));
        assert!(watch.is_stuck(1, 5001 + TOO_LONG, TOO_LONG));
        assert!(!watch.is_stuck(2, 9000, TOO_LONG), "it has come back");
        assert!(!watch.is_stuck(2, 99_000, TOO_LONG), "nothing is asked of MPI");
        assert!(!watch.is_stuck(5, 199_000, TOO_LONG), "another call");
    }
}
