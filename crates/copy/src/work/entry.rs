//! An entry to be copied, where in the tree it stands, how its destination is when its copy begins, and what comes of it.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use haul_io::transfer::Peers;
use haul_io::verify::Checked;
use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Kind};

use crate::attributes::ReplacedFile;
use crate::decide::Existing;
use crate::error::{Error, What};
use crate::events::{Event, Reason};
use crate::journal::Fingerprint;
use crate::links::DestDir;
use crate::list::Index;
use crate::meta::NewEntries;
use crate::plan::Dereference;
use crate::publish::Sides;
use crate::publish::ready::Replaceable;
use crate::report::{Loss, Reporter};
use crate::walk::{Identity, Spot, renamed};
use crate::work::directory::Frame;

/// Where in the tree an entry stands.
#[derive(Clone, Copy)]
pub(crate) struct Level<'t> {
    /// The directory that will hold the copy, if it could be opened.
    pub dir: Option<&'t Arc<DestDir>>,
    /// The directories of the source on the way here, outermost first.
    pub ancestors: &'t [Frame],
    /// Nothing can stand at the destination.
    pub missing: bool,
    /// The directory says that the entry is a regular file.
    pub is_regular: bool,
    /// Its number in the list of what is to be copied, if there is one.
    pub listed: Option<Index>,
    /// Its copy, a directory, was made ahead, with this mode.
    pub made: Option<u32>,
}

/// What is known across all entries of one operand.
#[derive(Clone)]
pub(crate) struct Top {
    pub source: PathBuf,
    pub dest: PathBuf,
    /// The operand is being copied into itself: the rest of it is left alone.
    pub into_itself: bool,
}

/// An entry to be copied.
pub(crate) struct Subject<'a> {
    pub source: Spot<'a>,
    pub dest: Spot<'a>,
    /// The source, links followed or not as the options say.
    pub inode: Inode,
    /// The source, if it was opened to be looked at.
    pub opened: Option<OwnedFd>,
    /// Which links are followed from here on: `-H` means none but the operands.
    pub dereference: Dereference,
    pub level: &'a Level<'a>,
    /// The directories that it was found in and goes to, unless it was named by the user.
    pub sides: Option<&'a Arc<Sides>>,
    /// How other processes find it, if they may help with it.
    pub remote: Option<&'a dyn Remote>,
}

impl Level<'_> {
    /// What is known of new entries of the directory that will hold the copy.
    pub(crate) fn entries(&self) -> NewEntries {
        self.ancestors.last().map_or(NewEntries::UNKNOWN, |parent| parent.place.entries)
    }
}

impl Subject<'_> {
    /// A symbolic link at the source is followed.
    pub(crate) fn follow(&self) -> bool {
        self.dereference != Dereference::Never
    }

    /// It was named by the user, not found in a directory.
    pub(crate) fn is_operand(&self) -> bool {
        self.level.ancestors.is_empty()
    }
}

/// A file of the source as other processes find it.
pub(crate) trait Remote: Sync {
    /// How they find it together with its copy, which has this name for the moment.
    fn with_copy(&self, name: &OsStr) -> Box<dyn Peers + '_>;
}

/// The destination when the copy begins. What is large in it is boxed: it is passed on for each entry, and is not there
/// where a copy is new.
#[derive(Debug, Default)]
pub(crate) struct DestState {
    /// It has to be made.
    pub new: bool,
    /// What stands there, if it is to be written into.
    pub existing: Option<Box<Existing>>,
    /// Where the old one went.
    pub backup: Option<OsString>,
    /// The old one was removed.
    pub removed: bool,
    /// The old one stands there until the copy takes its place.
    pub replaces: bool,
    /// The old one as it was seen, where nothing else may be replaced by a copy under a temporary name: what came later is in no
    /// backup, or may be newer.
    pub stands: Option<Box<Replaceable>>,
    /// The backup is another name of the old one, which still has its own.
    pub backup_is_link: bool,
    /// What this run has made at its name, where it may have to go again for the backup.
    pub made: OnceLock<FileId>,
    /// It is made under a name that is not its last.
    pub temporary: bool,
    /// The old file that it replaces, and some of its attributes.
    pub replaced: Option<Box<ReplacedFile>>,
    /// Whether what stands there may be the source.
    pub identity: Identity,
    /// What is known of the directory that it stands in.
    pub entries: NewEntries,
    /// What stood there was found to be, if it was compared.
    pub reason: Option<Reason>,
}

impl DestState {
    /// Notes that this run has made this file at the name of the copy.
    pub(crate) fn note_made(&self, id: impl FnOnce() -> Option<FileId>) {
        if self.backup.is_some()
            && let Some(id) = id()
        {
            _ = self.made.set(id);
        }
    }
}

/// Tells that the copy of an entry begins.
pub(crate) fn announce(report: &Reporter<'_>, subject: &Subject<'_>, state: &DestState) {
    let backup = state.backup.as_ref().map(|name| renamed(subject.dest.path, name));
    let (kind, size) = (subject.inode.kind, subject.inode.size);
    report.tell(&Event::Copying {
        source: subject.source.path.into(),
        dest: subject.dest.path.into(),
        backup: backup.map(Cow::Owned),
        kind,
        size: if kind == Kind::Regular { size } else { 0 },
        reason: state.reason,
    });
}

/// Removes an existing destination that is not a directory.
pub(crate) fn remove(report: &mut Reporter<'_>, dest: Spot<'_>) -> bool {
    match dest.unlink() {
        Ok(()) | Err(Errno::NOENT) => {
            report.tell(&Event::Removed(dest.path.into()));
            true
        }
        Err(errno) => report.problem(Error::new(What::CannotRemove, dest.path).errno(errno)),
    }
}

pub(crate) fn may_write(dest: Spot<'_>) -> bool {
    use haul_sys::rustix::fs::{Access, AtFlags, accessat};
    dest.dir().and_then(|dir| accessat(dir, dest.name, Access::WRITE_OK, AtFlags::EACCESS)).is_ok()
}

/// What is known of a file that is being made under another name.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    /// The number in its name, with `--resume`.
    pub number: Option<u64>,
    /// The directory and the name that it goes to, if it is large enough to be noted in parts.
    pub home: Option<Fingerprint>,
    /// What an earlier run has left of it.
    pub adopted: Option<Adopted>,
    /// Bytes of it that are right already.
    pub start: u64,
    /// What its source was before the first byte of it was read.
    pub print: Option<Fingerprint>,
    /// It is not whole, and stays for the next run.
    pub left: bool,
}

/// The beginning of a file that an earlier run has left, open.
#[derive(Debug)]
pub(crate) struct Adopted {
    pub fd: OwnedFd,
    pub inode: Inode,
    /// Bytes that are on the device.
    pub prefix: u64,
    /// What they are a copy of.
    pub source: Fingerprint,
}

/// What came of a file that was made.
#[derive(Debug, Default)]
pub(crate) struct FileOutcome {
    /// Which file it is, where that is known better than a look at its name would tell.
    pub id: Option<FileId>,
    /// What reading it again has found.
    pub checked: Checked,
    /// What it lacks of the attributes that it must have.
    pub loss: Option<Loss>,
    /// It is whole, not on its device yet, and has to be before it gets its name.
    pub unsynced: Option<(OwnedFd, FileId)>,
    /// What it is a copy of, if it may be noted that it is finished.
    pub source: Option<Fingerprint>,
}
