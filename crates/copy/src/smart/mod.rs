//! Copies a disk image without reading what its guests do not use, and without writing zeros.
//!
//! ```text
//!   pieces: data | free | hole -> reader -> read queue -> scanner (zeros, MD5) -> write queue -> writer
//!                                   ^                                                              |
//!                                   '------------------------ pool of buffers <--------------------'
//! ```
//!
//! Three threads, and the caller's, which tells an observer every second how far they are. Both queues and the pool are
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
mod keep;
mod lanes;
mod layers;
mod pieces;
mod pipeline;
mod pool;
mod processes;
mod punch;
mod sink;
mod source;
mod stats;
mod steps;
mod suspended;
mod system;
mod way;

use haul_guest::ReadAt;
use haul_guest::report::Map;
use std::path::Path;

use crate::plan::CacheUse;

pub use beside::Beside;
pub use changes::{Doubt, Look};
pub use container::{Contained, Contents, Format, contents, is_one_of_several, whole_of};
pub use dest::{Unfinished, may_overwrite};
pub use found::{Found, Given};
pub use image::{Failure, Report, Task, copy};
pub use in_use::{InUse, in_use};
pub use keep::{KeepTask, Kept};
pub use punch::{Punched, punch};
pub use source::{Disk, OwnedImage, RawImage, Source};
pub use stats::{Stats, Times};
pub use system::System;

/// Bytes of a buffer unless the user says otherwise.
pub const BUFFER: usize = 128 << 10;

/// The largest buffer: with three of them the memory stays below 64 MiB.
pub const LARGEST_BUFFER: usize = 16 << 20;

/// Zeros are skipped, and free space is, in whole blocks of this many bytes at multiples of it.
pub const GRANULE: u64 = 4096;

/// What the caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// What is free or zero is not written, and reads as zeros. Otherwise zeros are written.
    pub sparse: bool,
    /// Whether free space is looked for.
    pub smart: Smart,
    /// The MD5 of what the destination holds.
    pub md5: bool,
    /// Bytes of a buffer: 1 to [`LARGEST_BUFFER`]; with direct I/O rounded up to what that needs.
    pub buffer_size: usize,
    /// Past the page cache on both sides, where the filesystems can, whatever is copied.
    pub direct: bool,
    /// Otherwise: whether the copy stays in the page cache. Where it does not, long runs go to the device directly.
    pub cache: CacheUse,
    /// Blocks of zeros are looked for in what is read.
    pub zero_scan: bool,
    /// Both sides, or one of them to measure it.
    pub mode: Mode,
    /// An image that somebody writes to meanwhile is an error, [`What::SourceWritten`](crate::error::What::SourceWritten).
    pub fail_if_written: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            sparse: true,
            smart: Smart::Auto,
            md5: false,
            buffer_size: BUFFER,
            direct: false,
            cache: CacheUse::Auto,
            zero_scan: true,
            mode: Mode::Copy,
            fail_if_written: false,
        }
    }
}

/// Whether free space is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Smart {
    /// Every byte is read, holes too.
    Off,
    /// If nobody uses the image.
    Auto,
    /// In any case: the caller promises that the image is a snapshot that nobody writes to.
    Snapshot,
}

/// Both sides, or one of them to measure it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A copy.
    Copy,
    /// Reads and scans as a copy does. The destination is neither opened nor made.
    ReadOnly,
    /// Reads nothing but the maps, and writes test data, without zeros, wherever a copy would read. The destination must
    /// be new, and is no copy.
    WriteOnly,
}

/// Finds the free bytes of an image. Never fails: what is not proven free is used.
pub type Mapper<'a> = dyn Fn(&dyn ReadAt) -> Map + Sync + 'a;

/// Hears what happens. Called from the thread that called [`copy`].
pub trait Observer: Sync {
    /// Something happened. Must not block for long.
    fn event(&self, event: &Event<'_>);
}

/// Something that happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The image is in use, so it is copied whole.
    InUse(&'a InUse),
    /// The map is there.
    Mapped(&'a Map),
    /// Something of a container that is kept is free, and yet all its files are copied whole, for this reason.
    KeptWhole(&'a str),
    /// The copy is large: it goes to the device and not into the page cache.
    ToDevice,
    /// Direct I/O was asked for, and is not possible with this file.
    NotDirect(&'a Path),
    /// Both sides are open; data begins to move.
    Started(&'a Stats),
    /// Another second has passed.
    Second(&'a Stats),
    /// The map is not relied on any more: what it called free, so many bytes, is copied now.
    Doubted(&'a Doubt, u64),
    /// Somebody wrote to the source while it was copied.
    SourceWritten,
}
