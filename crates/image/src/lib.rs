//! Copies a disk image without reading what its guests do not use, and without writing zeros.
//!
//! * **Knows** containers, who uses an image, which of its bytes are proven free, and how to copy the others.
//! * **Must not know** plans, trees, options or messages of a command.
//!
//! ```text
//!   pieces: data | free | hole -> reader -> read queue -> scanner (zeros, MD5) -> write queue -> writer
//!                                   ^                                                              |
//!                                   '------------------------ pool of buffers <--------------------'
//! ```
//!
//! It stands beside the engines and is none: its source may be a virtual disk in a container, which has no descriptor,
//! it hashes, and what it skips has its place in the order of the image.
//!
//! * **Queues** (`pipeline`): three threads, and the caller's, which reports to an observer every second how far they
//!   are. Both queues and the pool are bounded. What is skipped goes through the queues too, as a range without a
//!   buffer, so everything happens in the order of the image, as MD5 wants it. Queues serve where the bytes are hashed
//!   in order, where one side is measured, where somebody wants to see who waits, and for direct I/O on demand.
//! * **Parallel workers** (`workers`) serve everywhere else, since they are faster: up to four threads that read, scan
//!   and write parts of their own. What is done to the bytes is the same code (`steps`). What is large goes to the
//!   device (`io_mode`).
//! * **A map of free bytes** (`found`) is good only as long as what it was read from stays the same: that is read again
//!   at the end. If it has changed, or somebody wrote to the image at all (`changes`), or uses it by then (`in_use`),
//!   the free ranges are copied after all. An image that somebody uses at the beginning (QEMU's locks, any other lock,
//!   open for writing, a loop device, a mount, VMware's lock directories), or that a saved machine or another disk goes on
//!   from, is not mapped, unless the caller says that it is a frozen snapshot.
//! * **The pieces** are the source's own extents without what haul-guest proves free, both trimmed inwards to 4 KiB.
//! * **The destination is emptied last** (`dest`), and a container that is kept is copied file by file (`keep`).
//! * **`copied + write_skipped = total`** at the end ([`Stats`]); `read_skipped` is a part of `write_skipped` if zeros
//!   are skipped.
//!
//! `image` is one copy from first to last; `punch` frees space in place. `in_use` asks `layers`, `processes`,
//! `suspended` and `overlays`, which read what `system` names and the `neighbours` of an image; `memory` knows the files of
//! suspended machines. In a run of haul-copy all this is only the data step of a file.
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc)]

mod changes;
mod container;
mod dest;
mod found;
mod image;
mod in_use;
mod io_mode;
mod keep;
mod layers;
mod memory;
mod neighbours;
mod options;
mod overlays;
mod pieces;
mod pipeline;
mod processes;
mod punch;
mod sink;
mod source;
mod stats;
mod steps;
mod suspended;
mod system;
mod task;
mod threads;
mod workers;

pub use changes::{Doubt, Look};
pub use container::{Beside, Contained, Contents, Format, contents, is_one_of_several, whole_of};
pub use dest::{Unfinished, may_overwrite};
pub use found::{Found, Given, Mapper};
pub use image::{Failure, Report, copy};
pub use in_use::{InUse, in_use};
pub use keep::{KeepTask, Kept};
pub use options::{BUFFER, LARGEST_BUFFER, Mode, Options, Smart};
pub use punch::{Punched, punch};
pub use source::{Disk, RawImage, Source};
pub use stats::{Stats, Times};
pub use system::{System, saved_machines};
pub use task::{Event, Observer, Task};
