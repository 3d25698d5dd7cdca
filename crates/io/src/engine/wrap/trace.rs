//! Writes down what an engine was asked and what it answered.

use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::caps::Caps;
use crate::engine::contract::{Engine, Job, Outcome, Zeros};

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A job was taken.
    Job {
        /// First byte.
        offset: u64,
        /// Bytes wanted.
        len: u64,
        /// What to do with zeros.
        zeros: Zeros,
    },
    /// It ended.
    Outcome(Outcome),
}

/// Records the jobs and outcomes of another engine.
pub struct Trace {
    inner: Box<dyn Engine>,
    log: Arc<Mutex<Vec<Event>>>,
}

impl Trace {
    /// Appends to the log, which the caller keeps a handle of.
    pub fn new(inner: Box<dyn Engine>, log: Arc<Mutex<Vec<Event>>>) -> Trace {
        Trace { inner, log }
    }

    fn note(&self, event: Event) {
        // A log whose other user panicked is still a log.
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

impl Engine for Trace {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn run(&mut self, job: &Job) -> Outcome {
        self.note(Event::Job { offset: job.offset, len: job.len, zeros: job.zeros });
        let outcome = self.inner.run(job);
        self.note(Event::Outcome(outcome.clone()));
        outcome
    }
}
