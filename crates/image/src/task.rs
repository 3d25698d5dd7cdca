//! What is asked of a smart copy, and what is reported meanwhile.

use std::path::Path;
use std::sync::Arc;

use haul_guest::report::Map;
use haul_io::pace::Pace;
use haul_sys::kernel::Kernel;

use super::changes::Doubt;
use super::dest::Unfinished;
use super::found::{Found, Given, Mapper};
use super::in_use::InUse;
use super::options::Options;
use super::source::Source;
use super::stats::Stats;
use super::system::System;

/// What is to be copied, and how.
pub struct Task<'a> {
    /// The image.
    pub source: &'a Source,
    /// Where it goes: a new file, an existing one, or a block device.
    pub dest: &'a Path,
    /// What the user wants.
    pub options: Options,
    /// Finds the free bytes.
    pub mapper: &'a Mapper<'a>,
    /// The kernel, which tests replace.
    pub kernel: Arc<dyn Kernel>,
    /// Where the kernel tells who uses an image.
    pub system: System,
    /// Whether the copy is to stop. Asked by several threads, often.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// The destination while it is not whole.
    pub unfinished: Unfinished,
    /// The destination, if it is open already.
    pub given: Option<Given<'a>>,
    /// What may be left out, if that is known already. It is not asked then who uses the image until the end.
    pub found: Option<&'a Found>,
    /// How fast it may go.
    pub pace: Option<&'a Pace>,
    /// Hears everything.
    pub observer: &'a dyn Observer,
}

/// Hears what happens. Called from the thread that called [`copy`](super::copy).
pub trait Observer: Sync {
    /// Something happened. Must not block for long.
    fn event(&self, event: &Event<'_>);
}

/// Something that happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The copy begins: the destination is not open yet, and no map is read.
    Begun(&'a Stats),
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
