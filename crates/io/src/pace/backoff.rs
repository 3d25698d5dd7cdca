//! Making way for others: additive patience would take too long to learn and too long to stop, so the limit is halved
//! under pressure and raised by a tenth without, as a network connection finds its share of a line.

use std::time::Duration;

use super::limit::{Limit, Work};
use super::pressure::Pressure;

/// Share of time in which others wait, from which on we go slower.
const TOO_MUCH: f64 = 0.10;
/// Share below which we go faster. Between the two nothing changes.
const LITTLE: f64 = 0.05;
/// A limit so many times what is done anyway is none.
const NO_LIMIT: u64 = 4;

/// It never becomes slower than this, in a second, so that the copy comes to an end.
pub(crate) const FLOOR: Work = Work { bytes: 1 << 20, operations: 10 };

/// Finds out how much of the machine others leave to us. Pure: it gets all measurements, and only answers.
#[derive(Debug, Clone, Default)]
pub struct Backoff {
    limit: Option<Work>,
}

impl Backoff {
    /// The limit that it has come to.
    pub fn limit(&self) -> Limit {
        match self.limit {
            None => Limit::NONE,
            Some(limit) => Limit { bytes: Some(limit.bytes), operations: Some(limit.operations) },
        }
    }

    /// Takes in how others fared while so much was done in so much time, and returns the new limit.
    pub fn step(&mut self, pressure: Pressure, done: Work, time: Duration) -> Limit {
        let rate = |amount: u64| (amount as f64 / time.as_secs_f64().max(1e-3)) as u64;
        let reached = Work { bytes: rate(done.bytes), operations: rate(done.operations) };
        if pressure.worst() > TOO_MUCH {
            // What was done counts, not what was allowed: half of a limit that nobody reaches is no step back.
            let now = self.limit.unwrap_or(reached);
            self.limit = Some(Work {
                bytes: (now.bytes.min(reached.bytes) / 2).max(FLOOR.bytes),
                operations: (now.operations.min(reached.operations) / 2).max(FLOOR.operations),
            });
        } else if pressure.worst() < LITTLE
            && let Some(limit) = self.limit
        {
            let far = |limit: u64, reached: u64| limit / NO_LIMIT > reached;
            let raised = |limit: u64| limit.saturating_add((limit / 10).max(1));
            let useless = far(limit.bytes, reached.bytes.max(FLOOR.bytes))
                && far(limit.operations, reached.operations.max(FLOOR.operations));
            self.limit = (!useless).then(|| Work { bytes: raised(limit.bytes), operations: raised(limit.operations) });
        }
        self.limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NONE: Pressure = Pressure { io: 0.0, cpu: 0.0 };
    const HIGH: Pressure = Pressure { io: 0.5, cpu: 0.0 };

    fn work(bytes: u64, operations: u64) -> Work {
        Work { bytes, operations }
    }

    fn limit(bytes: u64, operations: u64) -> Limit {
        Limit { bytes: Some(bytes), operations: Some(operations) }
    }

    #[test]
    fn without_pressure_there_is_no_limit() {
        let mut backoff = Backoff::default();
        for _ in 0..10 {
            assert_eq!(backoff.step(NONE, work(1 << 30, 10_000), SECOND), Limit::NONE);
        }
    }

    #[test]
    fn under_pressure_the_limit_is_half_of_what_was_done() {
        let mut backoff = Backoff::default();
        let done = work(100 << 20, 1000);
        assert_eq!(backoff.step(HIGH, done, SECOND / 2), limit(100 << 20, 1000), "done in half a second");
        assert_eq!(backoff.step(HIGH, done, SECOND), limit(50 << 20, 500));
        let cpu = Pressure { io: 0.0, cpu: 0.11 };
        assert_eq!(backoff.step(cpu, work(40 << 20, 500), SECOND), limit(20 << 20, 250));
    }

    #[test]
    fn a_limit_that_is_not_reached_is_halved_from_what_is() {
        let mut backoff = Backoff { limit: Some(work(1 << 30, 100_000)) };
        assert_eq!(backoff.step(HIGH, work(8 << 20, 200), SECOND), limit(4 << 20, 100));
    }

    #[test]
    fn it_never_falls_below_the_floor() {
        let mut backoff = Backoff::default();
        for _ in 0..50 {
            backoff.step(HIGH, work(0, 0), SECOND);
        }
        assert_eq!(backoff.limit(), limit(FLOOR.bytes, FLOOR.operations));
    }

    #[test]
    fn without_pressure_the_limit_rises_by_a_tenth() {
        let mut backoff = Backoff { limit: Some(work(10 << 20, 100)) };
        assert_eq!(backoff.step(NONE, work(10 << 20, 80), SECOND), limit(11 << 20, 110));
    }

    #[test]
    fn between_much_and_little_nothing_changes() {
        let mut backoff = Backoff { limit: Some(work(10 << 20, 100)) };
        let some = Pressure { io: 0.07, cpu: 0.07 };
        assert_eq!(backoff.step(some, work(10 << 20, 100), SECOND), limit(10 << 20, 100));
    }

    #[test]
    fn a_limit_far_above_what_is_done_goes() {
        let mut backoff = Backoff { limit: Some(work(1 << 30, 10_000)) };
        let done = work(20 << 20, 100);
        assert_eq!(backoff.step(NONE, done, SECOND), Limit::NONE);
    }

    #[test]
    fn after_the_pressure_it_recovers_to_no_limit() {
        let mut backoff = Backoff::default();
        for _ in 0..20 {
            backoff.step(HIGH, work(1 << 30, 4000), SECOND);
        }
        let mut steps = 0;
        while !backoff.limit().is_none() {
            // It does what it may, and at most 1 GiB and 4000 operations a second.
            let allowed = backoff.limit();
            let done = work(allowed.bytes.unwrap().min(1 << 30), allowed.operations.unwrap().min(4000));
            backoff.step(NONE, done, SECOND);
            steps += 1;
            assert!(steps < 200, "{allowed:?}");
        }
    }
}
