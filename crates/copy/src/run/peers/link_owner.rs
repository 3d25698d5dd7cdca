//! Files of several names: one process keeps the books for each, and says who makes the copy.
//!
//! The keeper of a source file is found by a hash of its identity, so the tables of all processes together are one large
//! one, and none of them has to hold it all. A keeper knows which process has made a file, and that one knows where.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::rustix::fs::{CWD, Mode, OFlags, openat};

use super::super::Run;
use super::super::entry::{Earlier, Level, Subject, made_at};
use super::wire::{LinkOwner, Location, Message, Way};
use super::{PATIENCE, PeerGroup, lock, patiently};
use crate::error::{Error, What};
use crate::facts::{FileId, Inode, Time};
use crate::links::pages::{KEY, Key, Pages, Record};
use crate::links::{Claim, LinkTable, Made, Source};
use crate::links::{DestDir, duplicate};
use crate::plan::{Destination, Plan};
use crate::walk::Operand;

/// Pages of 4 KiB in memory: 16 MiB, enough for some 250,000 files; the others are in a nameless file.
const PAGES_IN_MEMORY: usize = 4096;

/// The books of one keeper.
pub(super) struct OwnedLinks {
    /// Which process has made it, by source file.
    made: Pages,
    /// What is being made, by whom, and who waits for it. Each thread of the job makes or waits for one file at most.
    pending: HashMap<Key, Pending>,
    /// Where pages go that are not in memory.
    room: Option<OwnedFd>,
    /// The pages are not to be trusted any more, and why.
    broken: Option<Errno>,
}

struct Pending {
    by: usize,
    waiting: VecDeque<(usize, u64)>,
}

impl OwnedLinks {
    pub fn new() -> OwnedLinks {
        OwnedLinks { made: Pages::new(PAGES_IN_MEMORY), pending: HashMap::new(), room: None, broken: None }
    }

    /// A name of this file was met. The answer, and to whom, unless that has to wait.
    pub fn claim(&mut self, key: Key, from: usize, token: u64) -> Option<(usize, Message)> {
        if let Some(pending) = self.pending.get_mut(&key) {
            pending.waiting.push_back((from, token));
            return None;
        }
        let answer = match self.broken.map_or_else(|| self.made.get(&key), Err) {
            Ok(Some(record)) => LinkOwner::Rank(record.dir),
            Ok(None) => {
                self.pending.insert(key, Pending { by: from, waiting: VecDeque::new() });
                LinkOwner::You
            }
            Err(errno) => self.is_broken(errno),
        };
        Some((from, Message::Claimed { token, answer }))
    }

    /// What was claimed was made, or was not: then the next one makes it.
    pub fn settle(&mut self, key: Key, from: usize, made: bool) -> Vec<(usize, Message)> {
        let Some(mut pending) = self.pending.remove(&key).filter(|pending| pending.by == from) else {
            return Vec::new();
        };
        if !made {
            let Some((next, token)) = pending.waiting.pop_front() else { return Vec::new() };
            self.pending.insert(key, Pending { by: next, ..pending });
            return vec![(next, Message::Claimed { token, answer: LinkOwner::You })];
        }
        // There are fewer processes than that.
        let rank = u32::try_from(from).unwrap_or(u32::MAX);
        let record = Record { key, dir: rank, name: "".into(), id: None };
        let stored = match (&self.room, self.broken) {
            (_, Some(errno)) => Err(errno),
            (Some(room), None) => self.made.put(&record, room.as_fd()),
            (None, None) => Err(Errno::NOENT),
        };
        let answer = match stored {
            Ok(()) => LinkOwner::Rank(rank),
            Err(errno) => self.is_broken(errno),
        };
        pending.waiting.into_iter().map(|(to, token)| (to, Message::Claimed { token, answer })).collect()
    }

    fn is_broken(&mut self, errno: Errno) -> LinkOwner {
        self.broken = Some(errno);
        LinkOwner::Broken(errno.raw_os_error())
    }
}

impl PeerGroup<'_> {
    pub(super) fn keeping(&self) -> std::sync::MutexGuard<'_, OwnedLinks> {
        lock(&self.keeping)
    }

    /// Opens a place for tables that do not fit into memory.
    pub(in crate::run) fn find_room(&self, plan: &Plan) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match &plan.destination {
            Destination::Directory(path) => openat(CWD, path, flags, Mode::empty()),
            Destination::Exactly(path) | Destination::Guess(path) => {
                Operand::open(path).spot().dir().and_then(|dir| openat(dir, ".", flags, Mode::empty()))
            }
        };
        // Without one the table says so when it is needed.
        self.keeping().room = opened.ok();
    }

    pub(super) fn settle_here(&self, key: Key, from: usize, made: bool) {
        let answers = self.keeping().settle(key, from, made);
        for answer in answers {
            self.tell(Some(answer));
        }
    }

    fn keeper_of(&self, key: &Key) -> usize {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        // Less than the number of processes.
        (hasher.finish() % self.transport.ranks() as u64) as usize
    }

    /// What all processes know this source file by.
    fn key_of(&self, source: Source) -> Key {
        let mut key = [0; KEY];
        key[0] = b'f';
        key[1..9].copy_from_slice(&self.name_of(source.id.device(), None).to_le_bytes());
        key[9..17].copy_from_slice(&source.id.inode().to_le_bytes());
        if let Some(born) = source.born {
            key[17..25].copy_from_slice(&born.seconds.to_le_bytes());
            key[25..].copy_from_slice(&born.nanoseconds.to_le_bytes());
        }
        key
    }

    fn source_of(&self, key: &Key) -> Option<Source> {
        let number = |at: usize| Some(u64::from_le_bytes(key.get(at..at + 8)?.try_into().ok()?));
        let id = FileId::new(self.device_of(number(1)?)?, number(9)?);
        let seconds = number(17)?.cast_signed();
        let nanoseconds = u32::from_le_bytes(key[25..].try_into().ok()?);
        let born = (key[17..].iter().any(|byte| *byte != 0)).then_some(Time { seconds, nanoseconds });
        Some(Source { id, born })
    }

    /// Asks the keeper who makes this file, and waits for the answer.
    fn claim(&self, key: Key) -> LinkOwner {
        let (token, keeper) = (self.new_token(), self.keeper_of(&key));
        self.expect(token);
        if keeper == self.transport.rank() {
            let answer = self.keeping().claim(key, keeper, token);
            self.tell(answer);
        } else {
            self.transport.send(keeper, Message::Claim { token, key }.encode());
        }
        match self.wait_for(token) {
            Some(Message::Claimed { answer, .. }) => answer,
            _ => LinkOwner::Broken(Errno::CANCELED.raw_os_error()),
        }
    }

    fn settle(&self, key: Key, made: bool) {
        let (keeper, own) = (self.keeper_of(&key), self.transport.rank());
        if keeper == own {
            self.settle_here(key, own, made);
        } else {
            self.transport.send(keeper, Message::Settle { key, made }.encode());
        }
    }

    fn ask_where(&self, rank: usize, key: Key) -> Option<Location> {
        let token = self.new_token();
        self.expect(token);
        self.transport.send(rank, Message::Where { token, key }.encode());
        match self.wait_for(token) {
            Some(Message::Here { place, .. }) => place,
            _ => None,
        }
    }

    /// Tells another process where what was made here is.
    pub(in crate::run) fn say_where(&self, links: &LinkTable, from: usize, token: u64, key: &Key) {
        let made = self.source_of(key).and_then(|source| links.get(source).ok().flatten());
        let place = made.and_then(|made| {
            let way = Way { prefix: made.dir.prefix().to_owned(), names: made.dir.names() };
            Some(Location { way, name: made.name, inode: made.id?.inode() })
        });
        self.transport.send(from, Message::Here { token, place }.encode());
    }
}

/// Opens a directory of the destination by the way to it.
///
/// # Errors
/// What the kernel says; another machine may not see yet what was made there.
pub(super) fn open_way(way: &Way) -> Result<(OwnedFd, Arc<DestDir>), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = if way.prefix.is_empty() { ".".as_ref() } else { way.prefix.as_os_str() };
    let mut fd = openat(CWD, root, flags, Mode::empty())?;
    let mut dir = DestDir::root_shown_as(Arc::new(duplicate(fd.as_fd())?), way.prefix.clone())?;
    for name in &way.names {
        // A link is followed where the process that was here first has followed one; inode numbers tell.
        fd = openat(&fd, name, flags, Mode::empty())?;
        dir = dir.known_below(name, Inode::of(fd.as_fd())?.id);
    }
    Ok((fd, dir))
}

fn find(place: &Location) -> Result<Made, Errno> {
    let (fd, dir) = open_way(&place.way)?;
    let found = Inode::at(fd.as_fd(), &place.name)?;
    if found.id.inode() != place.inode {
        // Where a symbolic link was written through, the file is behind it.
        let behind = Inode::at_following(fd.as_fd(), &place.name)?;
        if behind.id.inode() != place.inode {
            return Err(Errno::STALE);
        }
        return Ok(Made { dir, name: place.name.clone(), id: Some(behind.id) });
    }
    Ok(Made { dir, name: place.name.clone(), id: Some(found.id) })
}

impl Run<'_> {
    /// Asks the other processes for what this one has not met: it is claimed here already.
    pub(in crate::run) fn claim_of_all(&mut self, subject: &Subject<'_>, level: &Level<'_>) -> Earlier {
        let Some(peers) = self.peers else { return Earlier::Claimed };
        let source = Source::from(&subject.inode);
        let key = peers.key_of(source);
        let forget = |run: &mut Self| {
            let forgotten = run.cx.services.links.forget(source);
            run.table(forgotten, subject.source);
        };
        let trouble = match peers.claim(key) {
            LinkOwner::You => return Earlier::Claimed,
            LinkOwner::Rank(rank) => {
                let place = peers.ask_where(rank as usize, key);
                let stop = || self.cx.cancelled();
                let found = place
                    .ok_or(Errno::STALE)
                    .and_then(|place| patiently(PATIENCE, || if stop() { Err(Errno::CANCELED) } else { find(&place) }));
                match found {
                    Ok(made) => {
                        let settled = self.cx.services.links.was_made_elsewhere(source, &made);
                        return match self.table(settled, subject.source) {
                            Some(()) => Earlier::Made(made),
                            None => Earlier::Unknown,
                        };
                    }
                    Err(errno) => errno,
                }
            }
            LinkOwner::Broken(errno) => Errno::from_raw_os_error(errno),
        };
        forget(self);
        if !self.cx.cancelled() {
            let dest = level.dir.map_or_else(|| subject.dest.path.to_owned(), |dir| made_at(dir, subject.dest).path());
            self.worker.report.problem(Error::new(What::LinksUnknown, subject.source.path).and(dest).errno(trouble));
        }
        Earlier::Unknown
    }

    /// What this process has claimed stands at its place, or does not: the others are told.
    pub(in crate::run) fn settle_for_all(&mut self, inode: &Inode, made: bool) {
        let Some(peers) = self.peers else { return };
        if made {
            // Another process links to it by its name.
            self.give_names();
        }
        peers.settle(peers.key_of(inode.into()), made);
    }

    /// The same as the table of this process says it.
    pub(in crate::run) fn claim_with_others(
        &mut self,
        claim: Result<Claim, Errno>,
        subject: &Subject<'_>,
        level: &Level<'_>,
    ) -> Earlier {
        match self.table(claim, subject.source) {
            None => Earlier::Unknown,
            Some(Claim::First) => self.claim_of_all(subject, level),
            Some(Claim::Made(made)) => Earlier::Made(made),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Key = [7; KEY];

    fn keeping() -> OwnedLinks {
        let room = openat(CWD, "/tmp", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        OwnedLinks { room: Some(room), ..OwnedLinks::new() }
    }

    fn answer(answers: &[(usize, Message)]) -> Vec<(usize, LinkOwner)> {
        let of = |message: &Message| match message {
            Message::Claimed { answer, .. } => *answer,
            other => panic!("{other:?}"),
        };
        answers.iter().map(|(to, message)| (*to, of(message))).collect()
    }

    #[test]
    fn the_first_who_claims_a_file_makes_it_and_the_others_hear_who_did() {
        let mut books = keeping();
        let first = books.claim(FILE, 3, 1).unwrap();
        assert_eq!(answer(&[first]), [(3, LinkOwner::You)]);
        assert!(books.claim(FILE, 4, 2).is_none() && books.claim(FILE, 0, 3).is_none());
        assert_eq!(answer(&books.settle(FILE, 3, true)), [(4, LinkOwner::Rank(3)), (0, LinkOwner::Rank(3))]);
        let later = books.claim(FILE, 5, 9).unwrap();
        assert_eq!(answer(&[later]), [(5, LinkOwner::Rank(3))]);
    }

    #[test]
    fn what_one_could_not_make_the_next_one_makes() {
        let mut books = keeping();
        books.claim(FILE, 1, 1).unwrap();
        books.claim(FILE, 2, 2);
        books.claim(FILE, 3, 3);
        assert_eq!(answer(&books.settle(FILE, 1, false)), [(2, LinkOwner::You)]);
        assert_eq!(answer(&books.settle(FILE, 2, true)), [(3, LinkOwner::Rank(2))]);
    }

    #[test]
    fn only_who_makes_a_file_can_say_that_it_is_made() {
        let mut books = keeping();
        books.claim(FILE, 1, 1).unwrap();
        books.claim(FILE, 2, 2);
        assert!(books.settle([8; KEY], 1, true).is_empty());
    }
}
