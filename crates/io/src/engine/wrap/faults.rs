//! Fails or refuses at a chosen byte.

use std::collections::HashSet;

use haul_sys::Errno;

use crate::engine::caps::Caps;
use crate::engine::contract::{End, Engine, Failure, Job, Outcome, Submitted};
use crate::moved::Refusal;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The engine refuses to go on.
    Refuse(Refusal),
    /// The kernel reports a final error.
    Fail(Failure),
}

impl From<Fault> for End {
    fn from(fault: Fault) -> End {
        match fault {
            Fault::Refuse(refusal) => End::Refused(refusal),
            Fault::Fail(failure) => End::Failed(failure),
        }
    }
}

/// Lets another engine work up to a byte of the file, and ends there.
pub struct Faults {
    inner: Box<dyn Engine>,
    at: u64,
    fault: Fault,
    /// Jobs under way that were cut at the faulty byte.
    cut: HashSet<u64>,
}

impl Faults {
    /// The byte at offset `at` meets the fault, whichever job wants it.
    pub fn new(inner: Box<dyn Engine>, at: u64, fault: Fault) -> Faults {
        Faults { inner, at, fault, cut: HashSet::new() }
    }

    fn spoil(&mut self, mut outcome: Outcome) -> Outcome {
        if self.cut.remove(&outcome.id) && outcome.end == End::Complete {
            outcome.end = self.fault.into();
        }
        outcome
    }
}

impl Engine for Faults {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn submit(&mut self, mut job: Job) -> Submitted {
        let (id, whole) = (job.id, job.len);
        if job.offset <= self.at && self.at - job.offset < job.len {
            job.len = self.at - job.offset;
            self.cut.insert(id);
        }
        match self.inner.submit(job) {
            Submitted::Done(outcome) => Submitted::Done(self.spoil(outcome)),
            Submitted::Queued => Submitted::Queued,
            Submitted::Full(mut job) => {
                self.cut.remove(&id);
                job.len = whole;
                Submitted::Full(job)
            }
        }
    }

    fn reap(&mut self, min: usize, done: &mut Vec<Outcome>) -> Result<(), Errno> {
        let before = done.len();
        self.inner.reap(min, done)?;
        let outcomes: Vec<Outcome> = done.drain(before..).collect();
        done.extend(outcomes.into_iter().map(|outcome| self.spoil(outcome)));
        Ok(())
    }
}
