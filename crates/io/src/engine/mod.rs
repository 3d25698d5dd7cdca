//! Engines: ways to move byte ranges between two open files.
//!
//! An engine opens nothing, names nothing and sets no metadata. It either moves bytes and says how many went which way,
//! or refuses, and then the next engine goes on at the exact byte where this one stopped.
//!
//! Its answer to a job is an [`Outcome`]: bytes by the way they went (cloned, offloaded, written, holes), and why it
//! ended: complete, the source ended, refused (not supported here: no error), or failed (EIO, ENOSPC, EDQUOT, ENOMEM and
//! everything that no other engine could change: final).
//!
//! All engines are rows of one table (`table`): name, help, constructor and [`Caps`], by which the strategy and the
//! tests ask what an engine can do. `wrap` has engines around engines (trace, faults, short counts) and kernels for
//! them; `parallel` lets several workers, each with an engine, move the pieces of one file.
//!
//! io_uring, Linux AIO and POSIX AIO are one engine (`queued`) over three queues of [`haul_sys::queue`], which a
//! [`Kernel`](haul_sys::kernel::Kernel) makes, so that tests script them. `queued` cuts a job into a buffered head, a
//! flight and a buffered tail; `flight` keeps the blocks of the aligned middle in flight; `shape` finds block size and
//! depth, within 16 MiB. O_DIRECT is on a description of its
//! own, opened through /proc/thread-self/fd.

pub mod buffer;
pub mod calls;
mod caps;
mod clone;
mod contract;
mod copy_range;
mod direct;
mod dontcache;
mod errnos;
mod flight;
pub mod hole;
mod mapped;
mod mapped_direct;
mod null;
pub mod parallel;
mod queued;
mod read_write;
mod reference;
mod shape;
mod splice;
pub mod switch;
mod table;
mod transfer;
mod tuning;
pub mod wrap;

pub use self::caps::{Caps, Needs, PageCache, Role, Shares, Way};
pub use self::contract::{ByteSource, DirectAlign, End, Engine, FailedOn, Failure, Job, Outcome, Side, Zeros};
pub use self::direct::BUFFER as DIRECT_BUFFER;
pub use self::table::{EngineName, make, make_on};
pub use self::tuning::Tuning;
pub use crate::moved::{Moved, Refusal};
