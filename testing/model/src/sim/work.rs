//! What a thread has before it, and what it can give away.

use crate::clock::Nanos;
use crate::tree::{Dir, Name};

/// A directory, or a part of one, that a thread is in.
#[derive(Debug)]
pub(super) struct Frame {
    pub dir: Dir,
    /// Whose completion is counted.
    pub part: u32,
    /// Names that were read and are not begun.
    pub known: std::ops::Range<u64>,
    /// Names that were not read yet.
    pub unread: std::ops::Range<u64>,
    /// When the directory was made, and on which node.
    pub made: (Nanos, u32),
}

impl Frame {
    /// Whether there are names to give away; the rule of the library's `Listing::can_be_split`.
    pub fn can_be_split(&self, busy: bool) -> bool {
        match self.known.end - self.known.start {
            0 => false,
            1 => busy && matches!(self.dir.name(self.known.start), Name::Directory(_)),
            _ => true,
        }
    }

    /// Takes the second half of the names away.
    pub fn split(&mut self) -> std::ops::Range<u64> {
        let middle = self.known.start + (self.known.end - self.known.start) / 2;
        let second = middle..self.known.end;
        self.known.end = middle;
        second
    }
}

/// What something costs a thread.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// It cannot begin before.
    pub not_before: Nanos,
    /// Seconds of a processor.
    pub processor: f64,
    /// Operations on the metadata server of `directory`.
    pub operations: f64,
    pub directory: u64,
    /// Seconds that the thread waits whatever the servers do: ways there and back.
    pub waits: f64,
    /// Read and written.
    pub bytes: u64,
}

/// What comes when the work is done.
#[derive(Debug)]
pub(super) enum Then {
    /// There was none.
    Nothing,
    /// The names that were read are known.
    Listed,
    /// The thread is in a new directory.
    Made(Dir),
    /// These names were copied.
    Files { from: u64, to: u64, bytes: u64 },
    /// What another rank gave away is open.
    Opened,
    /// The directory of this part has its attributes.
    Finished(u32),
    /// The file is open on both sides.
    LargeOpened { name: u64 },
    /// A chunk that the owner kept is copied.
    OwnChunk(u32, u64),
    /// A chunk that was given away is copied.
    TakenChunk(u32, u64),
    /// The file is whole.
    LargeClosed(u32),
}

/// Work that somebody else does.
#[derive(Debug)]
pub(super) enum Task {
    /// Names of a directory.
    Names { part: u32, dir: Dir, names: std::ops::Range<u64>, made: (Nanos, u32) },
    /// A chunk of a large file.
    Chunk { large: u32, index: u64 },
}
