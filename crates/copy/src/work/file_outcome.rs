//! What came of a file that was made.

use std::os::fd::OwnedFd;

use haul_sys::inode::FileId;

use crate::journal::Fingerprint;
use crate::verify::Checked;

/// What came of a file that was made.
#[derive(Debug, Default)]
pub(crate) struct FileOutcome {
    /// Which file it is, where that is known better than a look at its name would tell.
    pub id: Option<FileId>,
    /// What reading it again has found.
    pub checked: Checked,
    /// It has the attributes that it must have.
    pub attributes_kept: bool,
    /// It is whole, not on its device yet, and has to be before it gets its name.
    pub unsynced: Option<(OwnedFd, FileId)>,
    /// What it is a copy of, if it may be noted that it is finished.
    pub source: Option<Fingerprint>,
}
