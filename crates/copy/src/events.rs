//! What a run tells its front end, and the one question that it asks.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use haul_io::moved::{Moved, Refusal};
use haul_sys::inode::Inode;

use crate::error::Error;
use crate::images::ImageReport;
use crate::plan::EngineName;
use crate::plan::profile::Setting;

/// Hears everything that happens in a run. Called from the threads that do the work.
pub trait Observer: Send + Sync {
    /// Something happened. Must not block for long.
    fn event(&self, event: &Event<'_>);

    /// Whether events about single entries have to come in the order of a serial copy. If not, it comes at once
    /// from the thread that does it; errors and warnings keep the order in any case.
    fn in_order(&self) -> bool {
        true
    }
}

/// Something that happened. Borrows what it says, unless it is kept for later.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A copy of a file begins, or a directory was made (`-v`).
    Copying {
        /// The source.
        source: Cow<'a, Path>,
        /// The destination.
        dest: Cow<'a, Path>,
        /// Where the old destination went.
        backup: Option<Cow<'a, Path>>,
    },
    /// A destination was removed to make room (`-v`).
    Removed(Cow<'a, Path>),
    /// A backup was put back, since the copy failed (`-v`).
    UnBackedUp {
        /// The backup's name.
        backup: Cow<'a, Path>,
        /// The name it has again.
        dest: Cow<'a, Path>,
    },
    /// A parent directory was made (`--parents -v`).
    ParentMade {
        /// The source directory.
        source: Cow<'a, Path>,
        /// The new directory.
        dest: Cow<'a, Path>,
    },
    /// An existing destination was left alone (`--debug`).
    Skipped(Cow<'a, Path>),
    /// Data of this file is about to be moved.
    DataStarted {
        /// The source.
        source: Cow<'a, Path>,
        /// Its size in bytes, which may be wrong.
        size: u64,
    },
    /// So many bytes were moved since the last such event of this file.
    Progress(Moved),
    /// The data of a file is in place, or will never be.
    DataDone(DataReport<'a>),
    /// The digest of a file whose copy has its name (`--checksum`).
    Digest {
        /// The copy.
        dest: Cow<'a, Path>,
        /// In hexadecimal digits.
        digest: Cow<'a, str>,
    },
    /// Something went wrong; the run goes on with the next file.
    Problem(Cow<'a, Error>),
    /// Something the user should know that is no failure.
    Warning(Cow<'a, Error>),
}

impl Event<'_> {
    /// The same with everything that it refers to.
    pub(crate) fn into_owned(self) -> Event<'static> {
        match self {
            Event::Copying { source, dest, backup } => {
                Event::Copying { source: kept(source), dest: kept(dest), backup: backup.map(kept) }
            }
            Event::Removed(path) => Event::Removed(kept(path)),
            Event::UnBackedUp { backup, dest } => Event::UnBackedUp { backup: kept(backup), dest: kept(dest) },
            Event::ParentMade { source, dest } => Event::ParentMade { source: kept(source), dest: kept(dest) },
            Event::Skipped(path) => Event::Skipped(kept(path)),
            Event::DataStarted { source, size } => Event::DataStarted { source: kept(source), size },
            Event::Progress(moved) => Event::Progress(moved),
            Event::DataDone(report) => Event::DataDone(DataReport {
                source: kept(report.source),
                dest: kept(report.dest),
                reasons: kept(report.reasons),
                profile: report.profile.map(|(setting, origin)| (setting, kept(origin))),
                tried: kept(report.tried),
                ..report
            }),
            Event::Digest { dest, digest } => Event::Digest { dest: kept(dest), digest: kept(digest) },
            Event::Problem(error) => Event::Problem(kept(error)),
            Event::Warning(error) => Event::Warning(kept(error)),
        }
    }

    /// Bytes of memory that it takes, about.
    pub(crate) fn memory(&self) -> usize {
        let of = |path: &Path| path.as_os_str().len();
        size_of::<Event<'_>>()
            + match self {
                Event::Copying { source, dest, backup } => of(source) + of(dest) + backup.as_deref().map_or(0, of),
                Event::UnBackedUp { backup: a, dest: b } | Event::ParentMade { source: a, dest: b } => of(a) + of(b),
                Event::Removed(path) | Event::Skipped(path) | Event::DataStarted { source: path, .. } => of(path),
                Event::Digest { dest, digest } => of(dest) + digest.len(),
                Event::DataDone(report) => {
                    let image = report.image.as_ref().map_or(0, |image| image.memory());
                    of(&report.source) + of(&report.dest) + size_of_val(&report.tried[..]) + image
                }
                Event::Problem(error) | Event::Warning(error) => of(&error.path) + of(&error.other),
                Event::Progress(_) => 0,
            }
    }
}

fn kept<T: ToOwned + ?Sized>(borrowed: Cow<'_, T>) -> Cow<'static, T> {
    Cow::Owned(borrowed.into_owned())
}

/// How the data of one file went, for `--explain`, `--debug` and the statistics.
#[derive(Debug, Clone)]
pub struct DataReport<'a> {
    /// The source.
    pub source: Cow<'a, Path>,
    /// The destination.
    pub dest: Cow<'a, Path>,
    /// Why this order of engines.
    pub reasons: Cow<'a, [&'static str]>,
    /// What a profile has decided, and the name under which it was read.
    pub profile: Option<(Setting, Cow<'a, str>)>,
    /// Every engine that was tried, in order, after those that are known from other files to refuse.
    pub tried: Cow<'a, [Tried]>,
    /// How holes were looked for.
    pub holes: HoleSearch,
    /// All bytes of the file.
    pub moved: Moved,
    /// Most workers that moved it at the same time.
    pub workers: usize,
    /// Time from the open files to the last byte.
    pub time: Duration,
    /// What is known of the disk image that it is, if it was looked at as one.
    pub image: Option<Arc<ImageReport>>,
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
