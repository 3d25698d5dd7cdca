//! Fails or refuses at a chosen byte.

use crate::engine::caps::Caps;
use crate::engine::contract::{End, Engine, Failure, Job, Outcome};
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
}

impl Faults {
    /// The byte at offset `at` meets the fault, whichever job wants it.
    pub fn new(inner: Box<dyn Engine>, at: u64, fault: Fault) -> Faults {
        Faults { inner, at, fault }
    }
}

impl Engine for Faults {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn run(&mut self, job: &Job) -> Outcome {
        let sound = self.at.checked_sub(job.offset).filter(|sound| *sound < job.len);
        let Some(len) = sound else { return self.inner.run(job) };
        let outcome = self.inner.run(&Job { len, ..job.clone() });
        let end = if outcome.end == End::Complete { self.fault.into() } else { outcome.end };
        Outcome { end, ..outcome }
    }
}
