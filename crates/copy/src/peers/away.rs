//! What this process keeps of the names that it has given to another one, and the tasks that come from others.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_cluster::ToDo;

use crate::schedule::pool::Parking;
use crate::walk::{Listed, Listing};
use crate::work::frame::{Frame, Tally};
use crate::work::subject::Top;
use crate::work::task::Task;

/// The processes of one copy, which give one another names of directories.
pub(crate) type PeerGroup<'a> = haul_cluster::PeerGroup<'a, Away>;

/// Names that another process has.
pub(crate) struct Away {
    /// The part as it was given, without its names.
    pub frame: Frame,
    pub top: Top,
    /// The names, in case that they come back.
    pub names: Vec<Listed>,
    pub tally: Arc<Tally>,
    pub _parking: Parking,
}

/// What a thread has to do for a message, if anything.
pub(crate) fn task_of(todo: ToDo<Away>) -> Option<Task> {
    match todo {
        ToDo::Nothing | ToDo::Where { .. } => None,
        ToDo::Names(from, unit) => Some(Task::WorkUnit(from, unit)),
        ToDo::Chunk(from, chunk) => Some(Task::Chunk(from, chunk)),
        ToDo::Back { away, given_back } => {
            let Away { mut frame, top, names, tally, .. } = away;
            if !given_back {
                drop((frame, names));
                return Some(Task::PartDone(tally));
            }
            // Nor will others be able to begin with the rest of it.
            frame.place.stays.store(true, Ordering::Relaxed);
            frame.listing = Listing::of(names);
            Some(Task::Names { frame, top, segment: None })
        }
    }
}
