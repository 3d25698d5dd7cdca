//! What is to be moved.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use haul_sys::inode::{Inode, Kind};

use super::checkpoints::Checkpoints;
use super::shared_range::{Peers, SharedRange};
use crate::error::Error;
use crate::images::ImageReport;
use crate::verify::Follower;

/// Two open files, and what is to be done while bytes move from one to the other.
#[derive(Clone)]
pub(crate) struct Transfer<'a> {
    pub source: Arc<OwnedFd>,
    pub dest: Arc<OwnedFd>,
    pub source_inode: &'a Inode,
    pub dest_inode: &'a Inode,
    pub source_path: &'a Path,
    pub dest_path: &'a Path,
    /// The directory of the source, if that is known.
    pub source_dir: Option<BorrowedFd<'a>>,
    /// What is known of it as a disk image that is copied like any other file.
    pub image: Option<&'a ImageReport>,
    /// Reads behind the copy.
    pub follower: Option<&'a Follower>,
    /// Bytes at the beginning that are there already.
    pub start: u64,
    /// Notes how far the copy is on its device.
    pub checkpoints: Option<&'a Checkpoints<'a>>,
    /// Other processes, if they may help.
    pub peers: Option<&'a dyn Peers>,
}

impl Transfer<'_> {
    /// The bytes from `from` to `end`, to be shared with other processes. `None`: there are none, or too few bytes.
    pub(super) fn shared_range(&self, from: u64, end: u64) -> Option<SharedRange<'_>> {
        let peers = self.peers?;
        let plain = self.source_inode.kind == Kind::Regular && self.dest_inode.kind == Kind::Regular;
        // What is read behind the copy, or noted of it, is so from its beginning on.
        let alone = self.follower.is_some() || self.checkpoints.is_some();
        if !plain || alone || end.saturating_sub(from) < 2 * peers.chunk() {
            return None;
        }
        Some(SharedRange::new(peers, [self.source_inode, self.dest_inode], from, end))
    }
}

/// The data is not whole.
pub(crate) struct Broken {
    /// Why; `None` if the run was cancelled.
    pub error: Option<Error>,
}
