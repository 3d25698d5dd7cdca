//! What a run tells its front end, and the one question that it asks.

use std::path::Path;
use std::time::Duration;

use crate::error::Error;
use crate::facts::Inode;
use crate::images::ImageReport;
use crate::moved::{Moved, Refusal};
use crate::plan::EngineName;
use crate::plan::profile::Setting;

/// Hears everything that happens in a run. Called from the threads that do the work.
pub trait Observer: Send + Sync {
    /// Something happened. Must not block for long.
    fn event(&self, event: &Event<'_>);

    /// Whether what is told about single entries has to come in the order of a serial copy. If not, it comes at once
    /// from the thread that does it; errors and warnings keep the order in any case.
    fn in_order(&self) -> bool {
        true
    }
}

/// Something that happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A copy of a file begins, or a directory was made (`-v`).
    Copying {
        /// The source.
        source: &'a Path,
        /// The destination.
        dest: &'a Path,
        /// Where the old destination went.
        backup: Option<&'a Path>,
    },
    /// A destination was removed to make room (`-v`).
    Removed(&'a Path),
    /// A backup was put back, since the copy failed (`-v`).
    UnBackedUp {
        /// The backup's name.
        backup: &'a Path,
        /// The name it has again.
        dest: &'a Path,
    },
    /// A parent directory was made (`--parents -v`).
    ParentMade {
        /// The source directory.
        source: &'a Path,
        /// The new directory.
        dest: &'a Path,
    },
    /// An existing destination was left alone (`--debug`).
    Skipped(&'a Path),
    /// Data of this file is about to be moved.
    DataStarted {
        /// The source.
        source: &'a Path,
        /// Its size in bytes, which may be wrong.
        size: u64,
    },
    /// So many bytes were moved since the last such event of this file.
    Progress(Moved),
    /// The data of a file is in place, or will never be.
    DataDone(&'a DataReport<'a>),
    /// The digest of a file whose copy has its name (`--checksum`).
    Digest {
        /// The copy.
        dest: &'a Path,
        /// In hexadecimal digits.
        digest: &'a str,
    },
    /// Something went wrong; the run goes on with the next file.
    Problem(&'a Error),
    /// Something the user should know that is no failure.
    Warning(&'a Error),
}

/// How the data of one file went, for `--explain`, `--debug` and the statistics.
#[derive(Debug)]
pub struct DataReport<'a> {
    /// The source.
    pub source: &'a Path,
    /// The destination.
    pub dest: &'a Path,
    /// Why this order of engines.
    pub reasons: &'a [&'static str],
    /// What a profile has decided, and the name under which it was read.
    pub profile: Option<(Setting, &'a str)>,
    /// Every engine that was tried, in order, after those that are known from other files to refuse.
    pub tried: &'a [Tried],
    /// How holes were looked for.
    pub holes: HoleSearch,
    /// All bytes of the file.
    pub moved: Moved,
    /// Most workers that moved it at the same time.
    pub workers: usize,
    /// Time from the open files to the last byte.
    pub time: Duration,
    /// What is known of the disk image that it is, if it was looked at as one.
    pub image: Option<&'a ImageReport>,
}

/// One engine's part in a file.
#[derive(Debug, Clone, Copy)]
pub struct Tried {
    /// Which one.
    pub engine: EngineName,
    /// What it moved.
    pub moved: Moved,
    /// Why it stopped before the end, if it did.
    pub refused: Option<Refusal>,
}

/// How holes of the source were looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoleSearch {
    /// Not at all.
    None,
    /// With SEEK_DATA and SEEK_HOLE.
    Seek,
    /// By looking for zeros.
    Zeros,
    /// Both.
    SeekAndZeros,
}

/// Answers the question whether to overwrite a file.
pub trait Confirm: Send + Sync {
    /// Whether the destination may be replaced.
    fn overwrite(&self, question: &Question<'_>) -> bool;
}

/// A destination that stands in the way (`-i`).
#[derive(Debug)]
pub struct Question<'a> {
    /// The destination.
    pub dest: &'a Path,
    /// Its attributes.
    pub inode: &'a Inode,
    /// This process may write to it.
    pub writable: bool,
    /// It would be removed, not written to.
    pub replaces: bool,
}
