//! Copies a disk image without reading what its guests do not use, and without writing zeros.
//!
//! ```text
//!   pieces: data | free | hole -> reader -> read queue -> scanner (zeros, MD5) -> write queue -> writer
//!                                   ^                                                              |
//!                                   '------------------------ pool of buffers <--------------------'
//! ```
//!
//! Three threads, and the caller's, which reports to an observer every second how far they are. Both queues and the pool are
//! bounded. What is skipped goes through the queues too, as a range without a buffer, so everything happens in the
//! order of the image, as MD5 wants it. Where the order does not matter, and nobody asked for direct I/O on both sides, threads
//! that read, scan and write parts of their own take the place of the queues: that is faster. They write to the device
//! directly what is large.
//!
//! A map of free bytes is good only as long as what it was read from stays the same: that is read again at the end. If
//! it has changed, or somebody wrote to the image at all, or uses it by then, the free ranges are copied after all. An
//! image that somebody uses at the beginning is not mapped, unless the caller says that it is a frozen snapshot.

mod beside;
mod changes;
mod container;
mod dest;
mod found;
mod image;
mod in_use;
mod io_mode;
mod keep;
mod layers;
mod observer;
mod options;
mod pieces;
mod pipeline;
mod pool;
mod processes;
mod punch;
mod sink;
mod source;
mod stats;
mod steps;
mod stop;
mod suspended;
mod system;
mod task;
mod threads;
mod work;
mod workers;

pub use beside::Beside;
pub use changes::{Doubt, Look};
pub use container::{Contained, Contents, Format, contents, is_one_of_several, whole_of};
pub use dest::{Unfinished, may_overwrite};
pub use found::{Found, Given, Mapper};
pub use image::{Failure, Report, copy};
pub use in_use::{InUse, in_use};
pub use keep::{KeepTask, Kept};
pub use observer::{Event, Observer};
pub use options::{BUFFER, GRANULE, LARGEST_BUFFER, Mode, Options, Smart};
pub use punch::{Punched, punch};
pub use source::{Disk, OwnedImage, RawImage, Source};
pub use stats::{Stats, Times};
pub use system::System;
pub use task::Task;
