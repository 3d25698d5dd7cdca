//! Engines: ways to move byte ranges between two open files.
//!
//! An engine opens nothing, names nothing and sets no metadata. It either moves bytes and says how many went which
//! way, or refuses, and then the next engine goes on at the exact byte where this one stopped.

pub(crate) mod buffer;
pub(crate) mod calls;
mod caps;
mod clone;
mod contract;
mod copy_range;
mod direct;
mod dontcache;
mod errnos;
mod flight;
pub mod hole;
mod io_uring;
mod linux_aio;
mod mapped;
mod mapped_direct;
mod null;
pub mod parallel;
mod posix_aio;
mod queued;
mod read_write;
mod reference;
mod shape;
mod splice;
pub(crate) mod switch;
mod table;
pub(crate) mod transfer;
mod tuning;
pub mod wrap;

pub use self::caps::{Caps, Needs, PageCache, Role, Shares, Way};
pub use self::contract::{DirectAlign, End, Engine, FailedOn, Failure, Job, Outcome, Side, Submitted, Zeros, complete};
pub use self::direct::BUFFER as DIRECT_BUFFER;
pub use self::table::{EngineName, make, make_on};
pub use self::tuning::Tuning;
pub use crate::moved::{Moved, Refusal};
