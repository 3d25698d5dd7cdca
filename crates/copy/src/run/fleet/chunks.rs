//! Parts of a large file that other processes copy.
//!
//! The process that has met the file keeps it open and works from its beginning; who waits for work gets a chunk from the
//! end. So everybody works until the two meet, however unequal they are. What another process could not do is done here
//! after all, by the code that tells what is wrong; the last bytes of the file are written when all else is there.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use haul_sys::Errno;
use haul_sys::kernel::{Kernel, Linux};
use haul_sys::rustix::fs::{Mode, OFlags, fcntl_setfl, openat};
use haul_sys::rustix::io::retry_on_intr;

use super::super::Run;
use super::super::data::DataJob;
use super::super::entry::{Level, Subject, Top};
use super::super::operands::joined;
use super::parcels::{open_holder, pair_of};
use super::wire::{self, Message, Pair};
use super::{LITTLE_PATIENCE, Party, lock, patiently};
use crate::facts::{Inode, Kind};
use crate::plan::{Dereference, Durable};
use crate::walk::{Operand, last_component};

/// A chunk that another process has given to this one.
pub(in crate::run) type ChunkWork = wire::Chunk;

/// How other processes find a file of the source, and the directory that its copy goes to.
pub(in crate::run) struct RemoteSource {
    pair: Pair,
    /// The name of the file in its directory; none if it is the operand.
    name: Option<OsString>,
}

/// How other processes open both files.
pub(in crate::run) struct RemoteHandle<'a> {
    party: &'a Party<'a>,
    pair: Pair,
    source_name: Option<OsString>,
    /// The name that it has while it is copied.
    dest_name: OsString,
}

/// What is left of a file, between this process and the others.
pub(in crate::run) struct Given<'a> {
    remote: &'a RemoteHandle<'a>,
    source: &'a Inode,
    dest: &'a Inode,
    rest: Mutex<Rest>,
}

struct Rest {
    /// This process works from here,
    front: u64,
    /// and what is behind here has been given away.
    back: u64,
    away: VecDeque<(u64, u64, u64)>,
}

impl<'a> Given<'a> {
    /// The bytes from `from` to `end` are to be shared. `None`: too few.
    pub fn of(job: &'a DataJob<'_>, from: u64, end: u64) -> Option<Given<'a>> {
        let remote = job.remote.as_deref()?;
        let plain = job.source_inode.kind == Kind::Regular && job.dest_inode.kind == Kind::Regular;
        // What is read behind the copy, or noted of it, is so from its beginning on.
        let alone = job.follower.is_some() || job.marks.is_some();
        if !plain || alone || end.saturating_sub(from) < 2 * remote.party.chunk {
            return None;
        }
        let rest = Mutex::new(Rest { front: from, back: end, away: VecDeque::new() });
        Some(Given { remote, source: job.source_inode, dest: job.dest_inode, rest })
    }

    /// This process goes on at this byte.
    pub fn go_on_at(&self, at: u64) {
        lock(&self.rest).front = at;
    }

    /// Up to where this process has taken it.
    pub fn front(&self) -> u64 {
        lock(&self.rest).front
    }

    /// The next bytes for this process: offset and length.
    pub fn next(&self) -> Option<(u64, u64)> {
        let chunk = self.remote.party.chunk;
        let mut rest = lock(&self.rest);
        let from = rest.front;
        let to = (from / chunk + 1).saturating_mul(chunk).min(rest.back);
        rest.front = to.max(from);
        (from < to).then(|| (from, to - from))
    }

    /// Gives chunks from the end to those who wait for work.
    pub fn offer(&self) {
        let party = self.remote.party;
        while party.fleet.is_asked_for_work() {
            if self.comes_back() {
                return;
            }
            let Some((offset, len)) = self.last_chunk() else { return };
            let token = party.new_token();
            party.expect(token);
            let chunk = wire::Chunk {
                token,
                pair: self.remote.pair.clone(),
                source_name: self.remote.source_name.clone(),
                dest_name: self.remote.dest_name.clone(),
                inodes: [self.source.id.inode(), self.dest.id.inode()],
                size: self.source.size,
                modified: (self.source.modified.seconds, self.source.modified.nanoseconds),
                offset,
                len,
            };
            if party.fleet.give(Message::Chunk(chunk).encode()).is_some() {
                // Somebody else has served who waited. Another worker may have met the new end already and gone, so it is not
                // put back: it is done after all with what comes back.
                party.answer(token, Message::ChunkDone { token, moved: 0 });
                lock(&self.rest).away.push_back((token, offset, len));
                return;
            }
            lock(&self.rest).away.push_back((token, offset, len));
        }
    }

    /// Whether somebody could do nothing with a chunk of it: others may neither (a copy that only its maker can open), and what
    /// comes back is done by one worker.
    fn comes_back(&self) -> bool {
        let rest = lock(&self.rest);
        rest.away.iter().any(|(token, _, _)| self.remote.party.has_moved_nothing(*token))
    }

    /// Takes the last chunk that nobody has begun with, if one stays for this process.
    fn last_chunk(&self) -> Option<(u64, u64)> {
        let chunk = self.remote.party.chunk;
        let mut rest = lock(&self.rest);
        let from = rest.back.saturating_sub(1) / chunk * chunk;
        if from < rest.front.saturating_add(chunk) {
            return None;
        }
        let len = rest.back - from;
        rest.back = from;
        Some((from, len))
    }

    /// Waits until nothing of the file is in other hands. What has to be done here after all, and how many bytes others have
    /// copied.
    pub fn collect(&self) -> (Vec<(u64, u64)>, u64) {
        let mut left = Vec::new();
        let mut elsewhere = 0;
        loop {
            let Some((token, offset, len)) = lock(&self.rest).away.pop_front() else { break };
            let moved = match self.remote.party.wait_for(token) {
                Some(Message::ChunkDone { moved, .. }) => moved.min(len),
                _ => 0,
            };
            elsewhere += moved;
            if moved < len {
                left.push((offset + moved, len - moved));
            }
        }
        left.sort_unstable();
        (left, elsewhere)
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
    ) -> Option<RemoteSource> {
        let party = self.party?;
        let (Some(dir), Kind::Regular) = (level.dir, subject.inode.kind) else { return None };
        let alone = self.crew.is_none() || self.plan.dereference == Dereference::Always;
        if subject.inode.size / 2 < party.chunk || alone {
            return None;
        }
        let operand: (&Path, &Path) = (subject.source.path, subject.dest.path);
        let frame = level.ancestors.last();
        let pair = pair_of(dir, frame.map(|frame| (frame, top)), operand, party);
        Some(RemoteSource { pair, name: frame.map(|_| subject.source.name.to_owned()) })
    }

    /// The same, of the copy under the name that it has for the moment.
    pub(in crate::run) fn remote_handle(&self, subject: &Subject<'_>) -> Option<Arc<RemoteHandle<'a>>> {
        let RemoteSource { pair, name } = subject.remote?;
        let dest_name = last_component(subject.dest.name).to_owned();
        let (pair, source_name) = (pair.clone(), name.clone());
        Some(Arc::new(RemoteHandle { party: self.party?, pair, source_name, dest_name }))
    }

    /// Copies a part of a file for another process.
    pub(in crate::run) fn do_chunk(&mut self, from: usize, chunk: &ChunkWork) {
        let Some(party) = self.party else { return };
        let opened =
            patiently(LITTLE_PATIENCE, || if self.cancelled() { Err(Errno::CANCELED) } else { self.open_chunk(chunk) });
        // Whatever is wrong here, who gave it meets it again and tells.
        let moved = opened.map_or(0, |open| self.copy_chunk(from, chunk, open));
        self.report.stats.chunks += u64::from(moved > 0);
        party.tell(Some((from, Message::ChunkDone { token: chunk.token, moved })));
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
                let follow = self.plan.dereference != Dereference::Never;
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
        let job = DataJob {
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
            marks: None,
            remote: None,
        };
        self.will_write_to(dest_inode.id.device(), &dest_path, dest.as_fd());
        let moved =
            self.mover.move_part(&job, self.plan, self.session, &mut self.report.stats, (chunk.offset, chunk.len));
        drop(job);
        // The owner is told when it can be seen from there, and before it sets the times of the file: data that arrives at a
        // server later would change them.
        let near = self.party.is_some_and(|party| party.fleet.is_near(from));
        let flushed = if near && self.plan.durable == Durable::None {
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::super::{Fleet, Hunger, Part};
    use super::wire::Way;
    use super::*;
    use crate::facts::DeviceNumber;

    const CHUNK: u64 = 64 << 10;

    /// Somebody always asks, and is served by another one while the chunk is on its way.
    struct TooLate {
        now: Mutex<Sender<()>>,
        done: Mutex<Receiver<()>>,
    }

    impl Fleet for TooLate {
        fn rank(&self) -> usize {
            0
        }
        fn ranks(&self) -> usize {
            2
        }
        fn is_near(&self, _rank: usize) -> bool {
            true
        }
        fn begin(&self, _hunger: Hunger) {}
        fn is_asked_for_work(&self) -> bool {
            true
        }
        fn give(&self, work: Vec<u8>) -> Option<Vec<u8>> {
            lock(&self.now).send(()).unwrap();
            lock(&self.done).recv().unwrap();
            Some(work)
        }
        fn send(&self, _to: usize, _message: Vec<u8>) {}
        fn receive(&self) -> Option<(usize, Vec<u8>)> {
            None
        }
        fn finish(&self) -> bool {
            true
        }
        fn give_up(&self) {}
    }

    #[test]
    fn a_chunk_that_nobody_takes_any_more_is_not_lost_when_the_others_have_met_the_new_end() {
        let (now, came) = channel();
        let (back, done) = channel();
        let fleet = TooLate { now: Mutex::new(now), done: Mutex::new(done) };
        let party = Party::new(Part { fleet: &fleet, chunk: CHUNK });
        let way = Way { prefix: OsString::new(), names: Vec::new() };
        let shown = [OsString::new(), OsString::new()];
        let (operand, operand_dest) = (OsString::from("a"), OsString::from("b"));
        let (inodes, born) = ([0; 2], [None; 2]);
        let pair = Pair { operand, operand_dest, dest: way, inodes, born, device: 0, listed: None, shown };
        let remote = RemoteHandle { party: &party, pair, source_name: None, dest_name: "b".into() };
        let inode = Inode::just_made(DeviceNumber { major: 8, minor: 1 });
        let end = 5 * CHUNK + 4096;
        let rest = Mutex::new(Rest { front: 0, back: end, away: VecDeque::new() });
        let given = Given { remote: &remote, source: &inode, dest: &inode, rest };
        let mut ranges = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| given.offer());
            came.recv().unwrap();
            // Another worker takes all that there is, and goes.
            ranges.extend(std::iter::from_fn(|| given.next()));
            back.send(()).unwrap();
        });
        let (left, elsewhere) = given.collect();
        ranges.extend(left);
        ranges.extend(std::iter::from_fn(|| given.next()));
        ranges.sort_unstable();
        let mut at = 0;
        for (offset, len) in ranges {
            assert_eq!(offset, at, "nothing is left out, and nothing done twice");
            at += len;
        }
        assert_eq!((at, elsewhere), (end, 0));
    }
}
