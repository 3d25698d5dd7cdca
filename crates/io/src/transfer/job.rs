//! What is to be moved.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use haul_sys::inode::{Inode, Kind};

use crate::engine::ByteSource;
use crate::strategy::Demands;
use crate::verify::Follower;

use super::checkpoints::Checkpoints;
use super::shared_range::{Peers, SharedRange};

/// Two open files, and what is to be done while bytes move from one to the other.
#[derive(Clone)]
pub struct Transfer<'a> {
    /// The source.
    pub source: Arc<OwnedFd>,
    /// The destination.
    pub dest: Arc<OwnedFd>,
    /// The source as it was when it was opened.
    pub source_inode: &'a Inode,
    /// The destination as it was then.
    pub dest_inode: &'a Inode,
    /// What the rest of the copy needs.
    pub demands: Demands,
    /// Reads behind the copy.
    pub follower: Option<&'a Follower>,
    /// Bytes at the beginning that are there already.
    pub start: u64,
    /// The destination has old contents: what [`super::Mover::overwrites`] is written over them, anything else empties it first.
    pub overwrites: bool,
    /// Notes how far the copy is on its device.
    pub checkpoints: Option<&'a Checkpoints<'a>>,
    /// Other processes, if they may help.
    pub peers: Option<&'a dyn Peers>,
    /// Where the bytes come from, if another process may have read them.
    pub elsewhere: Option<Arc<dyn ByteSource>>,
}

impl<'a> Transfer<'a> {
    /// All bytes, from a source to a destination, and nothing besides.
    pub fn new(
        [source, dest]: [Arc<OwnedFd>; 2],
        [source_inode, dest_inode]: [&'a Inode; 2],
        demands: Demands,
    ) -> Transfer<'a> {
        Transfer {
            source,
            dest,
            source_inode,
            dest_inode,
            demands,
            follower: None,
            start: 0,
            overwrites: false,
            checkpoints: None,
            peers: None,
            elsewhere: None,
        }
    }

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
