//! What a run tells its front end, and the one question that it asks.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use haul_io::moved::Moved;
use haul_io::profile::{Setting, Stripes};
pub use haul_io::strategy::HoleSearch;
pub use haul_io::transfer::Tried;
use haul_sys::inode::{Inode, Kind};

use crate::error::Error;
use crate::images::ImageReport;

/// Hears everything that happens in a run. Called from the threads that do the work.
pub trait Observer: Send + Sync {
    /// Something happened. Must not block for long.
    fn event(&self, event: &Event<'_>);

    /// Whether events about single entries have to come in the order of a serial copy. If not, it comes at once
    /// from the thread that does it; errors and warnings keep the order in any case.
    fn in_order(&self) -> bool {
        true
    }

    /// Whether it wants to hear of the data of each file ([`Event::DataStarted`], [`Event::DataDone`]). If not, these events
    /// are not made, which spares each file some 290 instructions.
    fn follows_data(&self) -> bool {
        true
    }
}

/// Something that happened. Borrows what it says, unless it is kept for later.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<'a> {
    /// What is to be copied was listed before anything is (`--files-from`, `--list`, `--shard`): so much is to come.
    Listed {
        /// Entries of all kinds.
        entries: u64,
        /// Bytes of the regular files that are to be copied; of one whose names stay one file, once.
        bytes: u64,
    },
    /// A copy of a file begins, or a directory was made (`-v`).
    Copying {
        /// The source.
        source: Cow<'a, Path>,
        /// The destination.
        dest: Cow<'a, Path>,
        /// Where the old destination went.
        backup: Option<Cow<'a, Path>>,
        /// What the source is.
        kind: Kind,
        /// Bytes of a regular file when it was looked at; 0 of what is none.
        size: u64,
        /// What the old destination was found to be beside its source, if they were compared (`--update`).
        reason: Option<Reason>,
    },
    /// A source was moved by giving it another name (`--move -v`).
    Renamed {
        /// The name that it had.
        source: Cow<'a, Path>,
        /// The name that it has.
        dest: Cow<'a, Path>,
        /// Where the old destination went.
        backup: Option<Cow<'a, Path>>,
    },
    /// A source was removed after it was copied (`--move -v`).
    SourceRemoved {
        /// The source.
        source: Cow<'a, Path>,
        /// It was a directory.
        directory: bool,
    },
    /// A destination was removed to make room (`-v`).
    Removed(Cow<'a, Path>),
    /// An entry of the destination was removed since the source does not have it (`-v`).
    Deleted {
        /// Where it was.
        path: Cow<'a, Path>,
        /// It was a directory.
        directory: bool,
    },
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
    /// An existing destination was left alone, but perhaps for its attributes (`--debug`).
    Skipped(Cow<'a, Path>, Kept),
    /// In a dry run: what a copy would do about an entry. What it would refuse is a [`Event::Problem`], as in a copy.
    Planned(Planned<'a>),
    /// A file was made on Lustre with the layout that a profile wants (`--explain`).
    Striped {
        /// The file.
        dest: Cow<'a, Path>,
        /// How it is striped; `None` if as its source.
        stripes: Option<Cow<'a, Stripes>>,
        /// The name under which the profile was read.
        profile: Cow<'a, str>,
    },
    /// Data of this file is about to be moved.
    DataStarted {
        /// The source.
        source: Cow<'a, Path>,
        /// Its size in bytes, which may be wrong.
        size: u64,
    },
    /// So many bytes were moved since the last such event of this file.
    Progress(Moved),
    /// So many bytes of a regular file need not be moved.
    Spared {
        /// How many.
        bytes: u64,
        /// They are all of the file, which is as it is to be. If not, they are what an earlier run has moved of it.
        whole: bool,
    },
    /// So many bytes, which were moved or [spared](Event::Spared) before, are all that the plan asks for now. Only where that is
    /// more than to be written ([`Plan::done_when`](crate::plan::Plan::done_when)).
    Secured(u64),
    /// A thread does this now with what was moved before; others may go on to move bytes.
    Stage(Stage),
    /// The data of a file is in place, or will never be.
    DataDone(DataReport<'a>),
    /// The digest of a file whose copy has its name (`--checksum`).
    Digest {
        /// The copy.
        dest: Cow<'a, Path>,
        /// In hexadecimal digits.
        digest: Cow<'a, str>,
    },
    /// An entry of the destination lacks attributes that it must have, and no [`Event::Problem`] says so, as cp does not.
    LostAttributes(Cow<'a, Path>),
    /// Something went wrong; the run goes on with the next file.
    Problem(Cow<'a, Error>),
    /// Something the user should know that is no failure.
    Warning(Cow<'a, Error>),
}

/// What a run does besides moving bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Waits until what was written is on its device.
    Syncing,
    /// Reads copies again from their device.
    Comparing,
}

/// Why a destination stays as it is, which is no failure of the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The source is not newer.
    NotOlder,
    /// It is like its source, as far as the plan looks.
    Same,
    /// An earlier run has finished it (`--resume`).
    Finished,
    /// Nothing that exists is to be replaced.
    Protected,
    /// The user said no.
    Declined,
    /// The contents of the source are in an archive (`--skip-offline`). Nothing may stand there.
    Offline,
}

/// What a copy would do about one entry, as a dry run has found out.
#[derive(Debug, Clone)]
pub struct Planned<'a> {
    /// What would be done.
    pub action: Action,
    /// The source; empty where there is none, of what would be removed.
    pub source: Cow<'a, Path>,
    /// The destination.
    pub dest: Cow<'a, Path>,
    /// What stands at the destination beside its source, if something does.
    pub reason: Option<Reason>,
    /// Where the old destination would go.
    pub backup: Option<Cow<'a, Path>>,
    /// The name of the same file that the copy has already, and that [`Action::Link`] would link to.
    pub other_name: Option<Cow<'a, Path>>,
    /// Bytes of a regular file that would be copied.
    pub size: u64,
}

impl<'a> Planned<'a> {
    /// Of this source and this destination, where nothing stands.
    pub(crate) fn new(action: Action, source: &'a Path, dest: &'a Path) -> Planned<'a> {
        let (source, dest) = (source.into(), dest.into());
        Planned { action, source, dest, reason: None, backup: None, other_name: None, size: 0 }
    }
}

/// What would be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Action {
    /// A directory would be made.
    MakeDirectory,
    /// A directory that is there would be entered.
    EnterDirectory,
    /// A copy would be made where nothing is.
    Copy,
    /// A copy would take the place of what is there, or of its contents.
    Replace,
    /// The user would be asked whether to replace what is there (`-i`).
    Ask,
    /// A hard link would be made, to another name of the copy or (`-l`) to the source.
    Link,
    /// A symbolic link to the source would be made (`-s`).
    SymbolicLink,
    /// The source would get another name, with all that is in it (`--move`).
    Rename,
    /// The copy of a whole tree would be made in one step (`--clone-tree`).
    CloneTree,
    /// The contents of what is there would stay, and it would get attributes that it lacks.
    SetAttributes,
    /// What is there would stay.
    Skip,
    /// What the source does not have would be removed (`--delete`).
    Delete,
    /// The same of a directory, after all that is in it.
    DeleteDirectory,
}

/// Why something that stands at the destination is replaced, or stays: what it was found to be beside its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Whatever stands there is replaced; nothing was compared.
    Any,
    /// It is older.
    Older,
    /// It has another size.
    SizeDiffers,
    /// It has the same size and another time of modification.
    TimeDiffers,
    /// It has other bytes, or is a symbolic link with another text.
    ContentsDiffer,
    /// It is another type of file, or the node of another device.
    TypeDiffers,
    /// It stays: it is not older.
    NotOlder,
    /// It stays: it has the same size and time of modification.
    SameSizeAndTime,
    /// It stays: it has the same bytes, or is a symbolic link with the same text.
    SameContents,
    /// It stays: it is of the same type, and no more is compared.
    SameType,
    /// It stays: an earlier run has finished it (`--resume`).
    Finished,
    /// It stays: nothing that exists is replaced (`-n`).
    Exists,
    /// It stays: it is the source itself, under a name that may be its own.
    SameFile,
    /// Nothing is copied: the contents of the source are in an archive (`--skip-offline`).
    Offline,
}

impl Event<'_> {
    /// The same with everything that it refers to.
    pub(crate) fn into_owned(self) -> Event<'static> {
        match self {
            Event::Listed { entries, bytes } => Event::Listed { entries, bytes },
            Event::Copying { source, dest, backup, kind, size, reason } => {
                let (source, dest, backup) = (kept(source), kept(dest), backup.map(kept));
                Event::Copying { source, dest, backup, kind, size, reason }
            }
            Event::Renamed { source, dest, backup } => {
                Event::Renamed { source: kept(source), dest: kept(dest), backup: backup.map(kept) }
            }
            Event::SourceRemoved { source, directory } => Event::SourceRemoved { source: kept(source), directory },
            Event::Removed(path) => Event::Removed(kept(path)),
            Event::Deleted { path, directory } => Event::Deleted { path: kept(path), directory },
            Event::UnBackedUp { backup, dest } => Event::UnBackedUp { backup: kept(backup), dest: kept(dest) },
            Event::ParentMade { source, dest } => Event::ParentMade { source: kept(source), dest: kept(dest) },
            Event::Skipped(path, why) => Event::Skipped(kept(path), why),
            Event::Planned(planned) => Event::Planned(Planned {
                source: kept(planned.source),
                dest: kept(planned.dest),
                backup: planned.backup.map(kept),
                other_name: planned.other_name.map(kept),
                ..planned
            }),
            Event::Striped { dest, stripes, profile } => {
                Event::Striped { dest: kept(dest), stripes: stripes.map(kept), profile: kept(profile) }
            }
            Event::DataStarted { source, size } => Event::DataStarted { source: kept(source), size },
            Event::Progress(moved) => Event::Progress(moved),
            Event::Spared { bytes, whole } => Event::Spared { bytes, whole },
            Event::Secured(bytes) => Event::Secured(bytes),
            Event::Stage(what) => Event::Stage(what),
            Event::DataDone(report) => Event::DataDone(DataReport {
                source: kept(report.source),
                dest: kept(report.dest),
                reasons: kept(report.reasons),
                profile: report.profile.map(|(setting, origin)| (setting, kept(origin))),
                tried: kept(report.tried),
                ..report
            }),
            Event::Digest { dest, digest } => Event::Digest { dest: kept(dest), digest: kept(digest) },
            Event::LostAttributes(path) => Event::LostAttributes(kept(path)),
            Event::Problem(error) => Event::Problem(kept(error)),
            Event::Warning(error) => Event::Warning(kept(error)),
        }
    }

    /// Bytes of memory that it takes, about.
    pub(crate) fn memory(&self) -> usize {
        let of = |path: &Path| path.as_os_str().len();
        size_of::<Event<'_>>()
            + match self {
                Event::Copying { source, dest, backup, .. } | Event::Renamed { source, dest, backup } => {
                    of(source) + of(dest) + backup.as_deref().map_or(0, of)
                }
                Event::UnBackedUp { backup: a, dest: b } | Event::ParentMade { source: a, dest: b } => of(a) + of(b),
                Event::Removed(path)
                | Event::Deleted { path, .. }
                | Event::Skipped(path, _)
                | Event::LostAttributes(path) => of(path),
                Event::DataStarted { source, .. } | Event::SourceRemoved { source, .. } => of(source),
                Event::Striped { dest, profile, .. } => of(dest) + profile.len(),
                Event::Planned(Planned { source, dest, backup, other_name, .. }) => {
                    of(source)
                        + of(dest)
                        + [backup, other_name].into_iter().flatten().map(|path| of(path)).sum::<usize>()
                }
                Event::Digest { dest, digest } => of(dest) + digest.len(),
                Event::DataDone(report) => {
                    let image = report.image.as_ref().map_or(0, |image| image.memory());
                    of(&report.source) + of(&report.dest) + size_of_val(&report.tried[..]) + image
                }
                Event::Problem(error) | Event::Warning(error) => of(&error.path) + of(&error.other),
                Event::Listed { .. }
                | Event::Progress(_)
                | Event::Spared { .. }
                | Event::Secured(_)
                | Event::Stage(_) => 0,
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
