//! How fast a run may go: limits shared by all its threads, which can be changed while it runs.
//!
//! Before each job of an engine and before each file that is made, a thread asks for its [`Turn`] and waits until there
//! is one; afterwards it says what the work came to. What is counted:
//!
//! - **bytes**: data that was moved, by whatever engine. Shared extents and holes move none.
//! - **operations**: requests for data that were handed to the kernel (one system call is one), and files, directories
//!   and links that were made. A job that shares extents is one.

mod backoff;
mod bucket;
mod limit;
mod pressure;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use backoff::Backoff;
pub use limit::{Limit, Work};
pub use pressure::{Pressure, Sample, parse_run_delay, parse_stalled};

use bucket::Bucket;
use parking_lot::{Condvar, Mutex, MutexGuard};

/// The smallest piece that data is cut to: smaller ones would be no whole blocks of the common filesystems.
const SMALLEST_PIECE: u64 = 4 << 10;
/// Pieces that are larger than this are a multiple of it.
const EVEN_PIECE: u64 = 64 << 10;
/// Pieces while the run makes way for others, so that it can fall silent soon.
const POLITE_PIECE: u64 = 4 << 20;
/// Bytes of a request for data, as far as anybody knows before it is made.
const USUAL_REQUEST: u64 = 128 << 10;
/// A wait looks up at least this often, should nobody wake it: cancelling sets a flag and no more.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// Time as the limits see it; tests bring their own.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Time since some fixed point.
    fn now(&self) -> Duration;

    /// Lets this time pass at once, if it is not real time. `false`: it has to be waited for.
    fn skip(&self, _time: Duration) -> bool {
        false
    }
}

/// The machine's monotonic clock.
#[derive(Debug)]
struct SystemClock(Instant);

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The pace of a run. Clones are the same pace.
#[derive(Debug, Clone)]
pub struct Pace(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Box<dyn Clock>,
    /// Somebody is limiting or measuring: otherwise nobody takes the lock.
    active: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// What the user allows.
    asked: Limit,
    /// What consideration for others allows; `None` while that is not asked for.
    yielded: Option<Limit>,
    bytes: Bucket,
    operations: Bucket,
    /// Until then nobody gets a turn.
    silent_until: Option<Duration>,
    in_flight: usize,
    done: Work,
    waited: Duration,
}

/// Leave to do a piece of work. Must be given back to [`Pace::settle`].
#[derive(Debug)]
#[must_use = "the pace must hear what the work came to"]
pub struct Turn {
    /// What was paid for it beforehand; `None` if nobody counted.
    paid: Option<Work>,
}

impl Default for Pace {
    fn default() -> Self {
        Pace::new(Limit::NONE)
    }
}

impl Pace {
    /// With this limit.
    pub fn new(limit: Limit) -> Pace {
        Pace::with_clock(limit, Box::new(SystemClock(Instant::now())))
    }

    /// With a clock of one's own.
    pub fn with_clock(limit: Limit, clock: Box<dyn Clock>) -> Pace {
        let state = State {
            asked: Limit::NONE,
            yielded: None,
            bytes: Bucket::new(SMALLEST_PIECE),
            operations: Bucket::new(1),
            silent_until: None,
            in_flight: 0,
            done: Work::default(),
            waited: Duration::ZERO,
        };
        let shared =
            Shared { clock, active: AtomicBool::new(false), state: Mutex::new(state), changed: Condvar::new() };
        let pace = Pace(Arc::new(shared));
        pace.set_limit(limit);
        pace
    }

    /// What the user allows from now on. Whoever waits is judged by it at once.
    pub fn set_limit(&self, limit: Limit) {
        self.change(|state| state.asked = limit);
    }

    /// What consideration for others allows from now on; `None` ends the consideration.
    pub fn set_yielded(&self, limit: Option<Limit>) {
        self.change(|state| {
            state.yielded = limit;
            if limit.is_none() {
                state.silent_until = None;
            }
        });
    }

    /// The limits in force: the user's, and those out of consideration.
    pub fn limit(&self) -> Limit {
        self.0.state.lock().limit()
    }

    /// Whether the run makes way for others.
    pub fn is_yielding(&self) -> bool {
        self.0.state.lock().yielded.is_some()
    }

    /// Time that threads have waited for their turns, all together.
    pub fn waited(&self) -> Duration {
        self.0.state.lock().waited
    }

    /// What was done since somebody began to limit or to measure.
    pub fn done(&self) -> Work {
        self.0.state.lock().done
    }

    /// Gives no turns for so long, or until [`Pace::end_silence`], so that it can be heard whether others want something.
    pub fn be_silent(&self, time: Duration) {
        let until = self.0.clock.now().saturating_add(time);
        self.change(|state| state.silent_until = Some(until));
    }

    /// Gives turns again.
    pub fn end_silence(&self) {
        self.change(|state| state.silent_until = None);
    }

    /// Waits until no job is under way, at most so long. Whether that was reached.
    pub fn wait_for_silence(&self, most: Duration) -> bool {
        let end = self.0.clock.now().saturating_add(most);
        let mut state = self.0.state.lock();
        while state.in_flight > 0 {
            let left = end.saturating_sub(self.0.clock.now());
            if left.is_zero() {
                return false;
            }
            self.pause(&mut state, left);
        }
        true
    }

    /// Lets everybody who waits look again whether the run was cancelled. Without it they do so within a quarter of a second.
    pub fn wake(&self) {
        // Taken and let go: whoever has just looked at the flag is waiting by now, and hears this.
        drop(self.0.state.lock());
        self.0.changed.notify_all();
    }

    /// How large a job may be so that the flow stays even and the run can be stopped soon: about 100 ms of the limit, in
    /// whole blocks of 4 or 64 KiB. `u64::MAX` without limit.
    pub fn piece(&self) -> u64 {
        if !self.is_active() {
            return u64::MAX;
        }
        let state = self.0.state.lock();
        let limit = state.limit();
        let polite = state.yielded.map(|_| POLITE_PIECE);
        let by_bytes = limit.bytes.map(|rate| rate / 10);
        let by_operations = limit.operations.map(|rate| (rate / 10).saturating_mul(USUAL_REQUEST));
        polite.into_iter().chain(by_bytes).chain(by_operations).min().map_or(u64::MAX, even)
    }

    /// Whether anybody has to wait for a turn, or its work is counted.
    pub fn is_active(&self) -> bool {
        self.0.active.load(Ordering::Acquire)
    }

    /// Waits for the turn to do about so much work. `None`: the run was cancelled.
    pub fn turn(&self, expected: Work, cancelled: &dyn Fn() -> bool) -> Option<Turn> {
        if !self.is_active() {
            return Some(Turn { paid: None });
        }
        let begun = self.0.clock.now();
        let mut state = self.0.state.lock();
        loop {
            if cancelled() {
                return None;
            }
            let now = self.0.clock.now();
            match state.delay(now) {
                None => break state.waited += now.saturating_sub(begun),
                Some(delay) => self.pause(&mut state, delay.min(LONGEST_WAIT)),
            }
        }
        state.bytes.take(expected.bytes);
        state.operations.take(expected.operations);
        state.in_flight += 1;
        Some(Turn { paid: Some(expected) })
    }

    /// The work of a turn is over, and came to this.
    pub fn settle(&self, turn: Turn, done: Work) {
        let Some(paid) = turn.paid else { return };
        let mut state = self.0.state.lock();
        settle(&mut state.bytes, paid.bytes, done.bytes);
        settle(&mut state.operations, paid.operations, done.operations);
        state.done.bytes += done.bytes;
        state.done.operations += done.operations;
        state.in_flight -= 1;
        let silent = state.in_flight == 0;
        drop(state);
        if silent || done != paid {
            self.0.changed.notify_all();
        }
    }

    /// Waits for the turn to make a file, directory or link. `false`: the run was cancelled meanwhile.
    pub fn turn_to_make(&self, cancelled: &dyn Fn() -> bool) -> bool {
        let one = Work { bytes: 0, operations: 1 };
        let turn = self.turn(one, cancelled);
        let came = turn.is_some();
        if let Some(turn) = turn {
            self.settle(turn, one);
        }
        came
    }

    /// Lets time pass, or less of it if something changes.
    fn pause(&self, state: &mut MutexGuard<'_, State>, time: Duration) {
        if !self.0.clock.skip(time) {
            self.0.changed.wait_for(state, time);
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let now = self.0.clock.now();
        let mut state = self.0.state.lock();
        change(&mut state);
        let limit = state.limit();
        state.bytes.set_rate(limit.bytes, now);
        state.operations.set_rate(limit.operations, now);
        let active = !limit.is_none() || state.yielded.is_some() || state.silent_until.is_some();
        self.0.active.store(active, Ordering::Release);
        drop(state);
        self.0.changed.notify_all();
    }
}

impl State {
    fn limit(&self) -> Limit {
        self.asked.and(self.yielded.unwrap_or(Limit::NONE))
    }

    fn delay(&mut self, now: Duration) -> Option<Duration> {
        let silence = self.silent_until.map(|until| until.saturating_sub(now)).filter(|left| !left.is_zero());
        let delays = [silence, self.bytes.delay(now), self.operations.delay(now)];
        delays.into_iter().flatten().max()
    }
}

fn settle(bucket: &mut Bucket, paid: u64, done: u64) {
    bucket.give_back(paid.saturating_sub(done));
    bucket.take(done.saturating_sub(paid));
}

fn even(piece: u64) -> u64 {
    let unit = if piece >= EVEN_PIECE { EVEN_PIECE } else { SMALLEST_PIECE };
    (piece - piece % unit).max(SMALLEST_PIECE)
}

#[cfg(test)]
mod tests;
