//! Cuts jobs into pieces, as if the kernel had returned short counts.

use super::dice::Dice;
use crate::engine::caps::Caps;
use crate::engine::contract::{End, Engine, Job, Outcome};
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
}

impl Engine for ShortCounts {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn run(&mut self, job: &Job) -> Outcome {
        let mut moved = Moved::default();
        loop {
            let done = moved.total();
            if done >= job.len {
                return Outcome { moved, end: End::Complete };
            }
            let len = self.dice.length(self.longest).next_multiple_of(self.grain).min(job.len - done);
            let outcome = self.inner.run(&Job { offset: job.offset + done, len, ..job.clone() });
            moved += outcome.moved;
            if outcome.end != End::Complete {
                return Outcome { moved, end: outcome.end };
            }
        }
    }
}
