//! What of a container's files may be left out of a copy.

use std::io;
use std::sync::Arc;

use super::tables;
use super::witness::FileWitness;
use crate::extents::ExtentSet;
use crate::image::ReadAt;

/// Bytes of the files of a container that may be left out of a copy of it.
pub struct HostRanges {
    /// For each of [`Opened::parts`](super::Opened::parts) the bytes of the file.
    pub files: Vec<ExtentSet>,
    /// The bytes of the virtual disk that these are: a subset of what was asked for.
    pub held: ExtentSet,
    /// What this was concluded from, beyond [`VirtualDisk::witnesses`](super::VirtualDisk::witnesses).
    pub witnesses: Vec<FileWitness>,
    pub(super) sources: Vec<Arc<dyn ReadAt>>,
}

impl HostRanges {
    /// Whether what this was concluded from is unchanged. [`VirtualDisk::still_holds`](super::VirtualDisk::still_holds) must be asked besides.
    ///
    /// # Errors
    /// If it cannot be read any more.
    pub fn still_holds(&self) -> io::Result<bool> {
        tables::all_hold(&self.witnesses, &self.sources)
    }
}
