//! Other processes that copy the same tree together with this one, on this machine or on others.
//!
//! Every process runs the same code with threads of its own. The first one, rank 0, begins with the operands. What is given
//! away to another process is what threads give each other: half of the names that are left in the outermost directory
//! that this run made (`work_units`), and parts of large files (`remote`). Who gave something away hears when it is done, so
//! that each directory gets its attributes from the process that made it, after everything in it; and rank 0 knows when
//! all is done. Files of several names are made by the process that claims them first (`link_owner`).
//!
//! What they say to each other, and how it travels, is in haul-cluster.

pub(crate) mod paths;
pub(crate) mod remote;

use std::sync::atomic::Ordering;

use haul_cluster::ToDo;

use crate::schedule::pool::Parking;
use crate::work::directory::Frame;
use crate::work::entry::Top;
use crate::work::task::Task;

/// The processes of one copy, which give one another names of directories.
pub(crate) type PeerGroup<'a> = haul_cluster::PeerGroup<'a, Away>;

/// Names that another process has.
pub(crate) struct Away {
    /// The part as it was given, in case that it comes back.
    pub frame: Frame,
    pub top: Top,
    pub _parking: Parking,
}

/// What a thread has to do for a message, if anything.
pub(crate) fn task_of(todo: ToDo<Away>) -> Option<Task> {
    match todo {
        ToDo::Nothing | ToDo::Where { .. } => None,
        ToDo::Names(from, unit) => Some(Task::WorkUnit(from, unit)),
        ToDo::Chunk(from, chunk) => Some(Task::Chunk(from, chunk)),
        ToDo::Back { away, given_back } => {
            let Away { frame, top, .. } = away;
            if !given_back {
                return Some(Task::PartDone(frame.tally));
            }
            // Nor will others be able to begin with the rest of it.
            frame.place.stays.store(true, Ordering::Relaxed);
            Some(Task::Names { frame, top, segment: None })
        }
    }
}
