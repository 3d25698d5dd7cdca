//! The byte mover: moves the data of one open file to another.
//!
//! It gets two open files as a [`Transfer`], finds out what the choice of steps depends on ([`crate::strategy`]), runs these
//! steps by engines, and says how that went. It knows the size and kind of both files, and neither names nor directories, nor
//! what else becomes of a file: who gives a `Transfer` does. `mover` is one thread's part of it, `moving` one file while its
//! bytes move, `small` the short cut for files of some KiB, `pieces` what several workers of one file move, `shared_range` what
//! other processes move of it; `checkpoints`, `drop_behind` and `readahead` go before or behind the copy, and `throttled` waits
//! for its turn.

mod checkpoints;
mod drop_behind;
mod engines;
mod job;
mod last_bytes;
mod mover;
mod moving;
mod pieces;
mod pseudo_file;
mod readahead;
mod shared_range;
mod sides;
mod small;
mod throttled;

pub(crate) use checkpoints::{Checkpoints, Log, Over, STEP};
pub(crate) use job::{Broken, Transfer};
pub use mover::facts_of;
pub(crate) use mover::{Mover, Shared};
pub(crate) use pseudo_file::{has_storage, is_pseudo_file};
pub(crate) use shared_range::{Chunk, Peers, Remote};
