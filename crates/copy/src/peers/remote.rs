//! Parts of a large file that other processes copy, and how they find it.

use std::ffi::{OsStr, OsString};

use haul_cluster::messages::{self, Message, Pair};
use haul_io::transfer::{Chunk, Peers};
use haul_sys::inode::Kind;

use crate::peers::PeerGroup;
use crate::peers::paths::{pair_of_operand, pair_of_place};
use crate::walk::last_component;
use crate::work::entry::{Remote, Subject, Top};

/// How other processes find a file of the source, and the directory that its copy goes to.
pub(crate) struct RemoteSource<'a> {
    pub peers: &'a PeerGroup<'a>,
    pub pair: Pair,
    /// The name of the file in its directory; none if it is the operand.
    pub name: Option<OsString>,
}

/// How other processes open both files.
struct RemoteHandle<'a> {
    source: &'a RemoteSource<'a>,
    /// The name that the copy has for the moment.
    dest_name: OsString,
}

impl Remote for RemoteSource<'_> {
    fn with_copy(&self, name: &OsStr) -> Box<dyn Peers + '_> {
        Box::new(RemoteHandle { source: self, dest_name: last_component(name).to_owned() })
    }
}

impl Peers for RemoteHandle<'_> {
    fn chunk(&self) -> u64 {
        self.source.peers.chunk
    }

    fn is_asked_for_work(&self) -> bool {
        self.source.peers.transport.is_asked_for_work()
    }

    fn will_give(&self, more: bool) {
        self.source.peers.transport.will_give(more);
    }

    fn give(&self, chunk: &Chunk<'_>) -> Option<u64> {
        let (file, Chunk { source, dest, offset, len }) = (self.source, *chunk);
        let peers = file.peers;
        let token = peers.new_token();
        peers.expect(token);
        let chunk = messages::Chunk {
            token,
            pair: file.pair.clone(),
            source_name: file.name.clone(),
            dest_name: self.dest_name.clone(),
            inodes: [source.id.inode(), dest.id.inode()],
            size: source.size,
            modified: (source.modified.seconds, source.modified.nanoseconds),
            offset,
            len,
        };
        if peers.transport.give(Message::Chunk(chunk).encode()).is_none() {
            return Some(token);
        }
        peers.expect_no_more(token);
        None
    }

    fn has_moved_nothing(&self, token: u64) -> bool {
        self.source.peers.has_moved_nothing(token)
    }

    fn wait_for(&self, token: u64) -> u64 {
        match self.source.peers.wait_for(token) {
            Some(Message::ChunkDone { moved, .. }) => moved,
            _ => 0,
        }
    }
}

impl<'a> RemoteSource<'a> {
    /// How they find a file, if it is large enough to be shared.
    pub(crate) fn of(peers: &'a PeerGroup<'a>, subject: &Subject<'_>, top: &Top) -> Option<RemoteSource<'a>> {
        let (Some(dir), Kind::Regular) = (subject.level.dir, subject.inode.kind) else { return None };
        if subject.inode.size / 2 < peers.chunk {
            return None;
        }
        let (pair, name) = match subject.level.ancestors.last() {
            Some(above) => (pair_of_place(&above.place, top, peers), Some(subject.source.name.to_owned())),
            None => (pair_of_operand(subject.source.path, subject.dest.path, dir), None),
        };
        Some(RemoteSource { peers, pair, name })
    }
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
