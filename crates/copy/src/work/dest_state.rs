//! The destination of an entry when its copy begins.

use std::ffi::OsString;

use haul_sys::Errno;

use crate::attributes::ReplacedFile;
use crate::decide::Existing;
use crate::error::{Error, What};
use crate::events::Event;
use crate::meta::NewEntries;
use crate::report::Reporter;
use crate::walk::{Identity, Spot};

/// What is done about an entry.
#[expect(clippy::large_enum_variant, reason = "one of it lives at a time, on the stack")]
pub(crate) enum Action {
    /// Nothing is left to do.
    Nothing,
    /// It failed, which was reported.
    Failed,
    /// The entry is copied.
    Copy(DestState),
}

/// The destination when the copy begins.
#[derive(Debug, Default)]
pub(crate) struct DestState {
    /// It has to be made.
    pub new: bool,
    /// What stands there, if it is to be written into.
    pub existing: Option<Existing>,
    /// Where the old one went.
    pub backup: Option<OsString>,
    /// The old one was removed.
    pub removed: bool,
    /// The old one stands there until the copy takes its place.
    pub replaces: bool,
    /// The backup is another name of the old one, which still has its own.
    pub backup_is_link: bool,
    /// It is made under a name that is not its last.
    pub temporary: bool,
    /// The old file that it replaces, and some of its attributes.
    pub replaced: Option<ReplacedFile>,
    /// Whether what stands there may be the source.
    pub identity: Identity,
    /// What is known of the directory that it stands in.
    pub entries: NewEntries,
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
