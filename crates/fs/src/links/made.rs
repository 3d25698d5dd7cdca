//! What was made, as another name of it needs it.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use haul_sys::inode::FileId;

use super::dest_dir::DestDir;

/// A file or directory that was made, or is about to be.
#[derive(Debug, Clone)]
pub struct Made {
    /// The directory that holds it.
    pub dir: Arc<DestDir>,
    /// Its name there.
    pub name: OsString,
    /// Which file it is, once it is complete.
    pub id: Option<FileId>,
}

impl Made {
    /// Whether this is that directory entry.
    #[inline]
    pub fn is_entry(&self, dir: FileId, name: &OsStr) -> bool {
        self.dir.id == dir && self.name == name
    }

    /// Its path as users know it.
    pub fn path(&self) -> PathBuf {
        self.dir.shown(&self.name)
    }
}
