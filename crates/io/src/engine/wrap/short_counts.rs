//! Cuts jobs into pieces, as if the kernel had returned short counts.

use haul_sys::Errno;

use super::dice::Dice;
use crate::engine::caps::Caps;
use crate::engine::contract::{End, Engine, FailedOn, Failure, Job, Outcome, Submitted};
use crate::moved::Moved;

/// Gives another engine every job in short pieces of seeded lengths.
pub struct ShortCounts {
    inner: Box<dyn Engine>,
    dice: Dice,
    longest: u64,
    grain: u64,
}

impl ShortCounts {
    /// Pieces of 1 to `longest` bytes; for an engine that needs alignment, of whole multiples of 4096.
    pub fn new(inner: Box<dyn Engine>, seed: u64, longest: u64) -> ShortCounts {
        let grain = if inner.caps().needs_alignment { 4096 } else { 1 };
        ShortCounts { inner, dice: Dice(seed), longest, grain }
    }

    /// One piece, waited for.
    fn piece(&mut self, mut job: Job) -> Outcome {
        let id = job.id;
        loop {
            let mut done = Vec::new();
            match self.inner.submit(job) {
                Submitted::Done(outcome) => return outcome,
                Submitted::Queued => match self.inner.reap(1, &mut done) {
                    Ok(()) if !done.is_empty() => return done.swap_remove(0),
                    Ok(()) => return broken(id, Errno::IO),
                    Err(errno) => return broken(id, errno),
                },
                Submitted::Full(back) => match self.inner.reap(1, &mut done) {
                    Ok(()) => job = back,
                    Err(errno) => return broken(id, errno),
                },
            }
        }
    }
}

fn broken(id: u64, errno: Errno) -> Outcome {
    Outcome { id, moved: Moved::default(), end: End::Failed(Failure { on: FailedOn::Copy, errno }) }
}

impl Engine for ShortCounts {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn submit(&mut self, job: Job) -> Submitted {
        let mut moved = Moved::default();
        loop {
            let done = moved.total();
            if done >= job.len {
                return Submitted::Done(Outcome { id: job.id, moved, end: End::Complete });
            }
            let len = self.dice.length(self.longest).next_multiple_of(self.grain).min(job.len - done);
            let outcome = self.piece(Job { offset: job.offset + done, len, ..job.clone() });
            moved += outcome.moved;
            if outcome.end != End::Complete {
                return Submitted::Done(Outcome { id: job.id, moved, end: outcome.end });
            }
        }
    }
}
