//! Other processes that copy the same tree together with this one, on this machine or on others.
//!
//! Every process runs the same code with threads of its own. The first one, rank 0, begins with the operands. What is given
//! away to another process is what threads give each other: half of the names that are left in the outermost directory
//! that this run made (`work_units`), and parts of large files (`remote`). Who gave something away hears when it is done, so
//! that each directory gets its attributes from the process that made it, after everything in it; and rank 0 knows when
//! all is done. Files of several names are made by the process that claims them first (`link_owner`).
//!
//! What they say to each other, and how it travels, is in haul-cluster.

pub(crate) mod away;
pub(crate) mod paths;
pub(crate) mod remote;

pub(crate) use away::{Away, PeerGroup, task_of};
