//! What a container is asked: the disk in it, and which bytes of its files hold what.

use std::io;

use super::host_ranges::HostRanges;
use super::witness::FileWitness;
use crate::extents::ExtentSet;
use crate::image::ReadAt;

/// A virtual disk. As a [`ReadAt`] it is the disk as its guest sees it; it never gives bytes from outside the
/// container's files.
pub trait Container: ReadAt {
    /// The name of the format: `raw`, `qcow2`, `vmdk`, `vhdx`, `vdi`, `vhd`.
    fn format(&self) -> &'static str;

    /// Bytes of the virtual disk that the container does not hold. They read as zero. In a container with very many
    /// gaps it is not all of them.
    fn unallocated(&self) -> &ExtentSet;

    /// Which bytes of the container's own files hold bytes of `set`, and nothing else: no other byte of the disk, no
    /// snapshot, no table. With zeros there, the container is as valid as before, and these bytes of the disk read as zero.
    ///
    /// `None` where that cannot be said: internal snapshots, bitmaps, streams, counts that do not agree, tables that cannot be
    /// read. What is compressed, or not in the files at all, is left out.
    fn host_ranges(&self, set: &ExtentSet) -> Option<HostRanges>;

    /// Which bytes of the disk are stored, as they are, in these bytes of its files (by the index in [`Opened::parts`](super::Opened::parts)). Where
    /// those are holes, the disk reads as zero. If the pieces are very many it is not all of them.
    fn stored_in(&self, files: &[ExtentSet]) -> ExtentSet;

    /// What the tables looked like when the container was opened.
    fn witnesses(&self) -> &[FileWitness];

    /// Whether its tables are still what they were when it was opened.
    ///
    /// # Errors
    /// If they cannot be read any more.
    fn still_holds(&self) -> io::Result<bool>;
}
