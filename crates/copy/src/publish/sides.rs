//! A directory of the source and its copy, both open.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::walk::PathNode;

/// Both directories, open.
pub(crate) struct Sides {
    pub source: OwnedFd,
    pub dest: OwnedFd,
    pub dest_path: Arc<PathNode>,
}

impl Sides {
    /// These two, the second of which users know by this path.
    pub fn new(source: OwnedFd, dest: OwnedFd, dest_path: &Arc<PathNode>) -> Sides {
        Sides { source, dest, dest_path: Arc::clone(dest_path) }
    }

    /// The source and the destination.
    pub fn both(&self) -> [BorrowedFd<'_>; 2] {
        [self.source.as_fd(), self.dest.as_fd()]
    }
}
