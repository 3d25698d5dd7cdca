//! What moving the data of one file has come to.

use std::sync::Arc;
use std::time::Duration;

use haul_sys::Errno;

use crate::engine::{End, EngineName, Failure};
use crate::moved::{Moved, Refusal};
use crate::strategy::Steps;

/// One engine's part in a file.
#[derive(Debug, Clone, Copy)]
pub struct Tried {
    /// Which one.
    pub engine: EngineName,
    /// What it moved.
    pub moved: Moved,
    /// Why it stopped before the end, if it did.
    pub refused: Option<Refusal>,
}

/// How the data of one file went, whether all of it was moved or not.
#[derive(Debug)]
pub struct Report {
    /// What was chosen, and why.
    pub steps: Arc<Steps>,
    /// The name under which the profile was read that has decided something.
    pub profile_origin: Option<String>,
    /// Engines that were not tried since they are known from other files to refuse, where somebody wants to hear of them.
    pub known: Vec<Tried>,
    /// Every engine that was tried, in order.
    pub tried: Vec<Tried>,
    /// The bytes that this process has moved.
    pub own: Moved,
    /// All bytes of the file.
    pub moved: Moved,
    /// Most workers that moved it at the same time.
    pub workers: usize,
    /// Time from the open files to the last byte.
    pub time: Duration,
    /// Why it is not whole, if it is not.
    pub stopped: Option<Stop>,
}

impl Report {
    /// Nothing was moved.
    pub(super) fn nothing(steps: Arc<Steps>, time: Duration, stopped: Option<Stop>) -> Report {
        let moved = Moved::default();
        let (known, tried) = (Vec::new(), Vec::new());
        Report { steps, profile_origin: None, known, tried, own: moved, moved, workers: 1, time, stopped }
    }
}

/// How a part of a file went that another process has given away.
#[derive(Debug)]
pub struct PartReport {
    /// Bytes of the part that are certainly there, from its beginning.
    pub reached: u64,
    /// Every engine that was tried, in order.
    pub tried: Vec<Tried>,
    /// The bytes that were moved.
    pub moved: Moved,
    /// Time from the open files to the last byte.
    pub time: Duration,
}

/// Why moving stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Somebody has cancelled it.
    Cancelled,
    /// It failed.
    Failed(Cause),
}

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Bytes could not be moved.
    Moving(Failure),
    /// The destination could not be emptied for another attempt.
    Truncating(Errno),
    /// The destination could not get its size.
    Extending(Errno),
    /// The description that the destination was written through could not be closed.
    Closing(Errno),
    /// Extents are to be shared, and cannot be.
    NotCloned(Errno),
    /// No engine that was chosen would do it; this is how the last one ended.
    Refused(End),
}
