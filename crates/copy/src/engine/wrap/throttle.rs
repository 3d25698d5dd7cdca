//! Keeps an engine to a rate.

use std::time::{Duration, Instant};

use haul_sys::Errno;

use crate::engine::{Caps, Engine, Job, Outcome, Submitted};

/// Time as the throttle sees it; tests bring their own.
pub trait Clock: Send {
    /// Time since some fixed point.
    fn now(&self) -> Duration;
    /// Waits.
    fn sleep(&mut self, time: Duration);
}

/// The machine's monotonic clock.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Lets an engine move so many bytes a second, by a token bucket that holds a tenth of a second's worth.
///
/// Bytes are paid for after they were moved, holes and clones included in the price of nothing: only what was
/// copied counts.
pub struct Throttle {
    inner: Box<dyn Engine>,
    clock: Box<dyn Clock>,
    rate: f64,
    tokens: f64,
    filled: Duration,
}

impl Throttle {
    /// At most `rate` bytes a second, at least one.
    pub fn new(inner: Box<dyn Engine>, rate: u64, clock: Box<dyn Clock>) -> Throttle {
        let rate = rate.max(1) as f64;
        let filled = clock.now();
        Throttle { inner, clock, rate, tokens: rate / 10.0, filled }
    }

    fn fill(&mut self) {
        let now = self.clock.now();
        let gained = now.saturating_sub(self.filled).as_secs_f64() * self.rate;
        self.filled = now;
        self.tokens = (self.tokens + gained).min(self.rate / 10.0);
    }

    /// Waits until what was moved before is paid for.
    fn wait(&mut self) {
        self.fill();
        while self.tokens < 0.0 {
            // At least a microsecond, so that rounding cannot make it wait for ever.
            self.clock.sleep(Duration::from_secs_f64(-self.tokens / self.rate).max(Duration::from_micros(1)));
            self.fill();
        }
    }

    fn pay(&mut self, outcome: &Outcome) {
        self.tokens -= (outcome.moved.offloaded + outcome.moved.written) as f64;
    }
}

impl Engine for Throttle {
    fn caps(&self) -> Caps {
        let caps = self.inner.caps();
        if caps.max_job == u64::MAX {
            return caps;
        }
        // Pieces of about a fifth of a second, so that the flow is even, but not too small to be worth a call.
        Caps { max_job: ((self.rate / 5.0) as u64).max(64 << 10).min(caps.max_job), ..caps }
    }

    fn submit(&mut self, job: Job) -> Submitted {
        self.wait();
        let submitted = self.inner.submit(job);
        if let Submitted::Done(outcome) = &submitted {
            self.pay(outcome);
        }
        submitted
    }

    fn reap(&mut self, min: usize, done: &mut Vec<Outcome>) -> Result<(), Errno> {
        let before = done.len();
        self.inner.reap(min, done)?;
        for outcome in &done[before..] {
            self.tokens -= (outcome.moved.offloaded + outcome.moved.written) as f64;
        }
        Ok(())
    }
}
