//! What a thread can do that has nothing else to do.

use std::sync::Arc;

use haul_cluster::messages::{Chunk, WorkUnit};

use crate::schedule::ordered::Segment;
use crate::work::directory::{Frame, Tally};
use crate::work::entry::Top;

/// What a thread can do that has nothing else to do.
pub(crate) enum Task {
    /// Names of a directory to be copied by whoever takes them.
    Names { frame: Frame, top: Top, segment: Option<Segment> },
    /// Names that another process has given to this one.
    WorkUnit(usize, Box<WorkUnit>),
    /// A part of a file, likewise.
    Chunk(usize, Box<Chunk>),
    /// A part that another process has done, of this directory.
    PartDone(Arc<Tally>),
}
