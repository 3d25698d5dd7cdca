//! What is reported while an image is copied.

use std::path::Path;

use haul_guest::report::Map;

use super::changes::Doubt;
use super::in_use::InUse;
use super::stats::Stats;

/// Hears what happens. Called from the thread that called [`copy`](super::copy).
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
