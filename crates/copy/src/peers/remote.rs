//! Parts of a large file that other processes copy, and how they find it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use haul_cluster::messages::{self, Message, Pair};
use haul_io::transfer::{Chunk, Peers};
use haul_sys::inode::Kind;

use crate::peers::PeerGroup;
use crate::peers::paths::pair_of;
use crate::walk::last_component;
use crate::work::entry::{Level, Remote, Subject, Top};

/// How other processes find a file of the source, and the directory that its copy goes to.
pub(crate) struct RemoteSource<'a> {
    pub peers: &'a PeerGroup<'a>,
    pub pair: Pair,
    /// The name of the file in its directory; none if it is the operand.
    pub name: Option<OsString>,
}

/// How other processes open both files.
struct RemoteHandle<'a> {
    pub peers: &'a PeerGroup<'a>,
    pub pair: Pair,
    pub source_name: Option<OsString>,
    /// The name that it has while it is copied.
    pub dest_name: OsString,
}

impl Remote for RemoteSource<'_> {
    fn with_copy(&self, name: &OsStr) -> Box<dyn Peers + '_> {
        let (pair, source_name) = (self.pair.clone(), self.name.clone());
        Box::new(RemoteHandle { peers: self.peers, pair, source_name, dest_name: last_component(name).to_owned() })
    }
}

impl Peers for RemoteHandle<'_> {
    fn chunk(&self) -> u64 {
        self.peers.chunk
    }

    fn is_asked_for_work(&self) -> bool {
        self.peers.transport.is_asked_for_work()
    }

    fn give(&self, chunk: &Chunk<'_>) -> (u64, bool) {
        let (peers, Chunk { source, dest, offset, len }) = (self.peers, *chunk);
        let token = peers.new_token();
        peers.expect(token);
        let chunk = messages::Chunk {
            token,
            pair: self.pair.clone(),
            source_name: self.source_name.clone(),
            dest_name: self.dest_name.clone(),
            inodes: [source.id.inode(), dest.id.inode()],
            size: source.size,
            modified: (source.modified.seconds, source.modified.nanoseconds),
            offset,
            len,
        };
        let taken = peers.transport.give(Message::Chunk(chunk).encode()).is_none();
        if !taken {
            // Somebody else has served who waited.
            peers.answer(token, Message::ChunkDone { token, moved: 0 });
        }
        (token, taken)
    }

    fn has_moved_nothing(&self, token: u64) -> bool {
        self.peers.has_moved_nothing(token)
    }

    fn wait_for(&self, token: u64) -> u64 {
        match self.peers.wait_for(token) {
            Some(Message::ChunkDone { moved, .. }) => moved,
            _ => 0,
        }
    }
}

impl<'a> RemoteSource<'a> {
    /// How they find a file, if it is large enough to be shared.
    pub(crate) fn of(
        peers: &'a PeerGroup<'a>,
        subject: &Subject<'_>,
        level: &Level<'_>,
        top: &Top,
    ) -> Option<RemoteSource<'a>> {
        let (Some(dir), Kind::Regular) = (level.dir, subject.inode.kind) else { return None };
        if subject.inode.size / 2 < peers.chunk {
            return None;
        }
        let operand: (&Path, &Path) = (subject.source.path, subject.dest.path);
        let frame = level.ancestors.last();
        let pair = pair_of(dir, frame.map(|frame| (frame, top)), operand, peers);
        Some(RemoteSource { peers, pair, name: frame.map(|_| subject.source.name.to_owned()) })
    }
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
