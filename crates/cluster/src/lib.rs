//! One copy by several processes, on one machine or on many: what they say to each other.
//!
//! * **Knows** the messages, the way in which they travel ([`Transport`]), which process owns the hard links of a file, what
//!   was given away and has not come back, and what all call a filesystem.
//! * **Must not know** MPI, plans, or how a directory or a file is copied.
//!
//! Every process runs the same code with threads of its own. The first one, rank 0, begins with the operands. A process gives
//! to others names of a directory ([`messages::WorkUnit`]) and ranges of large files ([`messages::Chunk`]), and hears when
//! they are done. Files of several names are made by the process that claims them first ([`PeerGroup::claim`]).
#![forbid(unsafe_code)]

mod group;
mod link_owner;
pub mod messages;
pub mod patience;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;
mod transport;
pub mod wire;

pub use group::{PeerGroup, ToDo};
pub use transport::{Part, SpareCapacity, Transport};
