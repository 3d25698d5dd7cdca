//! What a thread can do that has nothing else to do.

use std::sync::Arc;

use haul_cluster::messages::{Chunk, WorkUnit};

use crate::publish::Sides;
use crate::schedule::ordered::Segment;
use crate::work::directory::{Frame, Tally};
use crate::work::entry::Top;

pub(crate) enum Task {
    /// Names of a directory to be copied by whoever takes them.
    Names { frame: Frame, top: Top, segment: Option<Segment> },
    /// What of an existing destination, of which these are the two sides, may be met in any order.
    LookAhead(Arc<Sides>),
    /// Names that another process has given to this one.
    WorkUnit(usize, Box<WorkUnit>),
    /// A part of a file, likewise.
    Chunk(usize, Box<Chunk>),
    /// A part that another process has done, of this directory.
    PartDone(Option<Arc<Tally>>),
}
