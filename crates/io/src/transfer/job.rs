//! What is to be moved.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use haul_sys::inode::{Inode, Kind};

use crate::engine::ByteSource;
use crate::strategy::Demands;
use crate::verify::Follower;

use super::checkpoints::Checkpoints;
use super::pseudo_file::{has_offsets, is_pseudo_file};
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

    /// Whether all of it can be moved once more from its beginning. What was read of a stream, or made up while it was read, is
    /// gone, and what follows would go where the last attempt stopped.
    pub fn can_be_repeated(&self) -> bool {
        has_offsets(&self.source, self.source_inode)
            && has_offsets(&self.dest, self.dest_inode)
            && !is_pseudo_file(&self.source, self.source_inode)
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsFd;

    use super::*;

    fn can_be_repeated(source: OwnedFd) -> bool {
        let dir = haul_testbed::temp_dir();
        let dest = OwnedFd::from(File::create(dir.path().join("dest")).unwrap());
        let inodes = [&source, &dest].map(|side| Inode::of(side.as_fd()).unwrap());
        let files = [Arc::new(source), Arc::new(dest)];
        Transfer::new(files, [&inodes[0], &inodes[1]], Demands::NONE).can_be_repeated()
    }

    #[test]
    fn only_what_can_be_read_again_from_its_beginning_can_be_repeated() {
        assert!(can_be_repeated(File::open(env!("CARGO_MANIFEST_DIR").to_owned() + "/Cargo.toml").unwrap().into()));
        assert!(!can_be_repeated(File::open("/proc/version").unwrap().into()));
        assert!(!can_be_repeated(io::pipe().unwrap().0.into()));
    }
}
