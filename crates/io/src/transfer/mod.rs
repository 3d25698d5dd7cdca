//! The byte mover: moves the data of one open file to another.
//!
//! It gets two open files as a [`Transfer`], finds out what the choice of steps depends on ([`crate::strategy`]), runs
//! these steps by engines, and says how that went. It knows the size and kind of both files, and neither names nor
//! directories, nor what else becomes of a file: who gives a `Transfer` does. `mover` is one thread's part of it,
//! `moving` one file while its bytes move, `small` the short cut for files of some KiB, `pieces` what several workers
//! of one file move, `shared_range` what other processes move of it; `checkpoints`, `drop_behind` and `readahead` go
//! before or behind the copy, `unwritten` keeps short what waits for a slow device, and `throttled` waits for its turn.
//!
//! # Large files
//!
//! From 4 MiB on a file is worth some questions ([`crate::probe`]): how much of it is in the page cache, how much
//! memory there is for this process, what disk it goes to. The strategy gets the answers as facts.
//!
//! * **Several workers** move the pieces of one file, each with an engine of its own. The outcome is the contiguous
//!   prefix that is certainly there; after a refusal the next engine goes on at that byte. The number of workers is
//!   found by throughput ([`crate::tuner`]); on disks with heads it is one.
//! * **What was cached stays cached** (`drop_behind`). Pages of the source that the copy brought in are dropped behind
//!   it, pages that were there before are not.
//! * **A source that turns out shorter** leaves nothing behind of the space that was allocated for it.
//! * **A dense copy that was killed, or lost its power, does not look whole by its size** (`last_bytes`). The last byte
//!   is not allocated with the rest, and the last 64 KiB are moved when everything else is there. A size that is right
//!   is not set again: ext4 would commit it before the data. Sparse files make no such promise, nor do the engines with
//!   a queue of their own, which `auto` does not choose.

mod checkpoints;
mod comparison;
mod drop_behind;
mod engines;
mod job;
mod last_bytes;
mod mover;
mod moving;
mod pieces;
mod pseudo_file;
mod readahead;
mod report;
mod shared_range;
mod sides;
mod small;
#[cfg(test)]
mod test_support;
mod throttled;
mod unwritten;

pub use checkpoints::{Checkpoints, Log, Over, STEP};
pub use comparison::{Buffers, Comparison};
pub use job::Transfer;
pub use mover::facts_of;
pub use mover::{Mover, Shared};
pub use pseudo_file::{has_storage, is_pseudo_file};
pub use readahead::read_ahead;
pub use report::{Cause, PartReport, Report, Stop, Tried};
pub use shared_range::{Chunk, Peers};
pub use unwritten::Scattered;
