//! What was read of one of several files.

use crate::image::Witness;

/// A [`Witness`] of one of several files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileWitness {
    /// The index of the file in [`Opened::parts`](super::Opened::parts).
    pub file: usize,
    /// What was read there.
    pub witness: Witness,
}
