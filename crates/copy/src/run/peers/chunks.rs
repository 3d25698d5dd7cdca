//! Parts of a large file that other processes copy: how they find it, and how a part is copied for another process.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::kernel::{Kernel, Linux};
use haul_sys::rustix::fs::{Mode, OFlags, fcntl_setfl, openat};
use haul_sys::rustix::io::retry_on_intr;

use super::super::Run;
use super::super::entry::{Level, Subject, Top};
use super::wire::{self, Message, Pair};
use super::work_units::{open_holder, pair_of};
use super::{LITTLE_PATIENCE, PeerGroup, patiently};
use crate::facts::{Inode, Kind};
use crate::plan::{Dereference, Durable};
use crate::transfer::{Chunk, Peers, Transfer};
use crate::walk::{Operand, joined, last_component};

/// A chunk that another process has given to this one.
pub(in crate::run) type ChunkWork = wire::Chunk;

/// How other processes find a file of the source, and the directory that its copy goes to.
pub(in crate::run) struct RemoteSource<'a> {
    peers: &'a PeerGroup<'a>,
    pair: Pair,
    /// The name of the file in its directory; none if it is the operand.
    name: Option<OsString>,
}

/// How other processes open both files.
pub(in crate::run) struct RemoteHandle<'a> {
    peers: &'a PeerGroup<'a>,
    pair: Pair,
    source_name: Option<OsString>,
    /// The name that it has while it is copied.
    dest_name: OsString,
}

impl<'a> RemoteSource<'a> {
    /// How they find it together with its copy, which has this name for the moment.
    pub(in crate::run) fn with_copy(&self, name: &OsStr) -> RemoteHandle<'a> {
        let (pair, source_name) = (self.pair.clone(), self.name.clone());
        RemoteHandle { peers: self.peers, pair, source_name, dest_name: last_component(name).to_owned() }
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
        let chunk = wire::Chunk {
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

/// A file of which a part is to be copied.
struct OpenFile {
    source: OwnedFd,
    dest: OwnedFd,
    source_inode: Inode,
    dest_inode: Inode,
}

impl<'a> Run<'a> {
    /// Says how other processes find a file that is large enough to be shared.
    pub(in crate::run) fn remote_source(
        &self,
        subject: &Subject<'_>,
        level: &Level<'_>,
        top: &Top,
    ) -> Option<RemoteSource<'a>> {
        let peers = self.peers?;
        let (Some(dir), Kind::Regular) = (level.dir, subject.inode.kind) else { return None };
        let alone = self.pool.is_none() || self.cx.plan.dereference == Dereference::Always;
        if subject.inode.size / 2 < peers.chunk || alone {
            return None;
        }
        let operand: (&Path, &Path) = (subject.source.path, subject.dest.path);
        let frame = level.ancestors.last();
        let pair = pair_of(dir, frame.map(|frame| (frame, top)), operand, peers);
        Some(RemoteSource { peers, pair, name: frame.map(|_| subject.source.name.to_owned()) })
    }

    /// Copies a part of a file for another process.
    pub(in crate::run) fn do_chunk(&mut self, from: usize, chunk: &ChunkWork) {
        let Some(peers) = self.peers else { return };
        let opened =
            patiently(
                LITTLE_PATIENCE,
                || if self.cx.cancelled() { Err(Errno::CANCELED) } else { self.open_chunk(chunk) },
            );
        // Whatever is wrong here, who gave it meets it again and tells.
        let moved = opened.map_or(0, |open| self.copy_chunk(from, chunk, open));
        self.worker.report.stats.chunks += u64::from(moved > 0);
        peers.tell(Some((from, Message::ChunkDone { token: chunk.token, moved })));
    }

    fn open_chunk(&self, chunk: &ChunkWork) -> Result<OpenFile, Errno> {
        let read = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let write = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let (source, dest) = match &chunk.source_name {
            Some(name) => {
                let open = self.open_pair(&chunk.pair)?;
                let source = openat(&open.source, name, read, Mode::empty())?;
                (source, openat(&open.dest, &chunk.dest_name, write, Mode::empty())?)
            }
            None => {
                let follow = self.cx.plan.dereference != Dereference::Never;
                let read = if follow { read - OFlags::NOFOLLOW } else { read };
                let source = Operand::open(&chunk.pair.operand).spot().open(read, 0)?;
                (source, openat(open_holder(&chunk.pair)?, &chunk.dest_name, write, Mode::empty())?)
            }
        };
        // Only opening must not wait, should there be a FIFO now.
        fcntl_setfl(&source, OFlags::empty())?;
        fcntl_setfl(&dest, OFlags::empty())?;
        let (source_inode, dest_inode) = (Inode::of(source.as_fd())?, Inode::of(dest.as_fd())?);
        let modified = (source_inode.modified.seconds, source_inode.modified.nanoseconds);
        let meant = [source_inode.id.inode(), dest_inode.id.inode()] == chunk.inodes
            && source_inode.kind == Kind::Regular
            && dest_inode.kind == Kind::Regular
            && (source_inode.size, modified) == (chunk.size, chunk.modified);
        if meant { Ok(OpenFile { source, dest, source_inode, dest_inode }) } else { Err(Errno::STALE) }
    }

    /// How many bytes of the chunk, from its beginning, are certainly in the copy for all to see.
    fn copy_chunk(&mut self, from: usize, chunk: &ChunkWork, open: OpenFile) -> u64 {
        let OpenFile { source, dest, source_inode, dest_inode } = open;
        let shown = |dir: &OsString, operand: &OsString, name: Option<&OsString>| match name {
            Some(name) => joined(dir, name),
            None => PathBuf::from(operand),
        };
        let (pair, name) = (&chunk.pair, chunk.source_name.as_ref());
        let source_path = shown(&pair.shown[0], &pair.operand, name);
        let dest_path = shown(&pair.shown[1], &pair.operand_dest, name.map(|_| &chunk.dest_name));
        let (source, dest) = (Arc::new(source), Arc::new(dest));
        let job = Transfer {
            source: Arc::clone(&source),
            dest: Arc::clone(&dest),
            source_inode: &source_inode,
            dest_inode: &dest_inode,
            source_path: &source_path,
            dest_path: &dest_path,
            source_dir: None,
            image: None,
            follower: None,
            start: 0,
            checkpoints: None,
            peers: None,
        };
        self.will_write_to(dest_inode.id.device(), &dest_path, dest.as_fd());
        let moved = self.worker.mover.move_part(
            &job,
            self.cx.plan,
            self.cx.session.control(),
            &mut self.worker.report.stats,
            (chunk.offset, chunk.len),
        );
        drop(job);
        // The owner is told when it can be seen from there, and before it sets the times of the file: data that arrives at a
        // server later would change them.
        let near = self.peers.is_some_and(|peers| peers.transport.is_near(from));
        let flushed = if near && self.cx.plan.durable == Durable::None {
            Ok(())
        } else {
            retry_on_intr(|| Linux.sync(dest.as_fd()))
        };
        let closed = match Arc::try_unwrap(dest) {
            Ok(dest) => haul_sys::close(dest),
            Err(_still_shared) => Err(Errno::BUSY),
        };
        if flushed.and(closed).is_ok() { moved } else { 0 }
    }
}
