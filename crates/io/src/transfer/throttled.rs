//! An engine that waits for its turn: what each of several workers at one file does its jobs with.

use std::sync::Arc;

use haul_sys::Errno;

use crate::engine::wrap::{Hooked, Tally};
use crate::engine::{self, Caps, End, Engine, FailedOn, Failure, Job, Moved, Outcome, Tuning};
use crate::pace::{Pace, Work};

use crate::control::Cancel;
use crate::engine::EngineName;

/// How a job ends that never got its turn, since the run was cancelled.
pub const CANCELLED: Failure = Failure { on: FailedOn::Copy, errno: Errno::CANCELED };

/// Moves a job in pieces of the pace's size, each in its turn.
pub struct Throttled {
    inner: Box<dyn Engine>,
    tally: Tally,
    pace: Pace,
    cancel: Cancel,
}

impl Throttled {
    pub fn new(name: EngineName, tuning: &Tuning, pace: &Pace, cancel: &Cancel) -> Throttled {
        let tally = Tally::default();
        let inner = engine::make_on(Arc::new(Hooked(tally.clone())), name, tuning);
        Throttled { inner, tally, pace: pace.clone(), cancel: cancel.clone() }
    }

    fn piece(&mut self, job: &Job) -> Outcome {
        let expected = Work { bytes: job.len, operations: 1 };
        let Some(turn) = self.pace.turn(expected, &|| self.cancel.is_cancelled()) else {
            return Outcome { moved: Moved::default(), end: End::Failed(CANCELLED) };
        };
        let outcome = self.inner.run(job);
        // Engines whose requests are not system calls of their own count for one at least.
        let operations = self.tally.take().max(1);
        self.pace.settle(turn, Work { bytes: outcome.moved.offloaded + outcome.moved.written, operations });
        outcome
    }
}

impl Engine for Throttled {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn run(&mut self, job: &Job) -> Outcome {
        let mut moved = Moved::default();
        loop {
            let done = moved.total();
            let len = (job.len - done).min(self.pace.piece().max(1));
            let outcome = self.piece(&Job { offset: job.offset + done, len, ..job.clone() });
            moved += outcome.moved;
            if outcome.end != End::Complete || moved.total() >= job.len {
                return Outcome { moved, end: outcome.end };
            }
        }
    }
}
