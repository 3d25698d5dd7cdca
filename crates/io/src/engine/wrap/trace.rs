//! Writes down what an engine was asked and what it answered.

use std::sync::{Arc, Mutex, PoisonError};

use haul_sys::Errno;

use crate::engine::caps::Caps;
use crate::engine::contract::{Engine, Job, Outcome, Submitted, Zeros};

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A job was taken.
    Job {
        /// The job's.
        id: u64,
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

    fn submit(&mut self, job: Job) -> Submitted {
        let taken = Event::Job { id: job.id, offset: job.offset, len: job.len, zeros: job.zeros };
        let submitted = self.inner.submit(job);
        match &submitted {
            Submitted::Done(outcome) => {
                self.note(taken);
                self.note(Event::Outcome(outcome.clone()));
            }
            Submitted::Queued => self.note(taken),
            Submitted::Full(_) => {}
        }
        submitted
    }

    fn reap(&mut self, min: usize, done: &mut Vec<Outcome>) -> Result<(), Errno> {
        let before = done.len();
        self.inner.reap(min, done)?;
        for outcome in &done[before..] {
            self.note(Event::Outcome(outcome.clone()));
        }
        Ok(())
    }
}
