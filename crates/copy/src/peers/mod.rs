//! Other processes that copy the same tree together with this one, on this machine or on others.
//!
//! Every process runs the same code with threads of its own. The first one, rank 0, begins with the operands. What is given
//! away to another process is what threads give each other: half of the names that are left in the outermost directory
//! that this run made (`work_units`), and parts of large files (`remote`). Who gave something away hears when it is done, so
//! that each directory gets its attributes from the process that made it, after everything in it; and rank 0 knows when
//! all is done. Files of several names are made by the process that claims them first (`link_owner`).
//!
//! Nothing here knows how messages travel: that is the [`Transport`] of a front end.

pub(crate) mod group;
mod link_owner;
pub(crate) mod paths;
pub(crate) mod patience;
pub(crate) mod remote;
#[cfg(test)]
pub(crate) mod test_support;
mod transport;

pub(crate) use group::{Away, PeerGroup, ToDo};
pub use transport::{Part, Transport};
