//! This process and the others, for all threads.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use haul_sys::Errno;
use haul_sys::inode::{DeviceNumber, FileId, Time};
use haul_sys::rustix::fs::{CWD, Mode, OFlags, openat};

use crate::links::pages::{KEY, Key};
use crate::links::{LinkTable, Source};
use crate::messages::{LinkOwner, Location, Message, Way};
use crate::peers::link_owner::OwnedLinks;
use crate::peers::transport::{Part, Transport};
use crate::plan::{Destination, Plan};
use crate::schedule::pool::Parking;
use crate::walk::{Listed, Operand};
use crate::work::frame::{Frame, Tally};
use crate::work::subject::Top;
use crate::work::task::Task;

/// This process and the others, for all threads.
pub(crate) struct PeerGroup<'a> {
    pub transport: &'a dyn Transport,
    /// Bytes of a chunk.
    pub chunk: u64,
    pub token: AtomicU64,
    /// What was given away and is not done.
    pub away: Mutex<HashMap<u64, Away>>,
    /// Questions that were asked, and the answers that have come.
    answers: Mutex<HashMap<u64, Option<Message>>>,
    answered: Condvar,
    ended: AtomicBool,
    devices: Mutex<Devices>,
    owned_links: Mutex<OwnedLinks>,
    turn: Mutex<()>,
}

/// What all processes call the filesystems of the source: device numbers differ between machines. A filesystem is called
/// after the path at which a process first came to it.
#[derive(Default)]
struct Devices {
    pub names: HashMap<DeviceNumber, u64>,
    here: HashMap<u64, DeviceNumber>,
}

/// What has to be done with a message besides passing it on.
pub(crate) enum ToDo {
    Nothing,
    /// Work for a thread that waits.
    Work(Task),
    /// The rest of what a thread has given away: nobody must have to wait for a thread to come by.
    AtOnce(Task),
    /// Asks the table of links.
    Where {
        from: usize,
        token: u64,
        key: crate::links::pages::Key,
    },
}

/// Names that another process has.
pub(crate) struct Away {
    /// The part as it was given, without its names.
    pub frame: Frame,
    pub top: Top,
    /// The names, in case that they come back.
    pub names: Vec<Listed>,
    pub tally: Arc<Tally>,
    pub _parking: Parking,
}

impl<'a> PeerGroup<'a> {
    pub fn new(part: Part<'a>) -> PeerGroup<'a> {
        PeerGroup {
            transport: part.transport,
            // Two machines must not write to one page, which has 64 KiB at most.
            chunk: part.chunk.clamp(64 << 10, 1 << 62).next_multiple_of(64 << 10),
            // Tokens are for the eyes of the one who made them.
            token: AtomicU64::new(1),
            away: Mutex::default(),
            answers: Mutex::default(),
            answered: Condvar::new(),
            ended: AtomicBool::new(false),
            devices: Mutex::default(),
            owned_links: Mutex::new(OwnedLinks::new()),
            turn: Mutex::default(),
        }
    }

    /// Lets one thread after the other do something.
    pub fn take_turn(&self) -> MutexGuard<'_, ()> {
        lock(&self.turn)
    }

    /// Whether this process begins with the operands.
    pub fn is_first(&self) -> bool {
        self.transport.rank() == 0
    }

    pub(crate) fn new_token(&self) -> u64 {
        self.token.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes note of a message; says what is left to do.
    pub fn take(&self, from: usize, bytes: &[u8]) -> ToDo {
        let Some(message) = Message::decode(bytes) else {
            // Another version: somebody would wait for ever for what it wanted.
            self.transport.give_up();
            return ToDo::Nothing;
        };
        match message {
            Message::Names(unit) => return ToDo::Work(Task::WorkUnit(from, Box::new(unit))),
            Message::Chunk(chunk) => return ToDo::Work(Task::Chunk(from, Box::new(chunk))),
            Message::NamesDone { token, given_back } => return self.is_back(token, given_back),
            Message::Claim { token, key } => self.tell(self.owned_links().claim(key, from, token)),
            Message::Settle { key, made } => self.settle_here(key, from, made),
            Message::Where { token, key } => return ToDo::Where { from, token, key },
            Message::ChunkDone { token, .. } | Message::Claimed { token, .. } | Message::Here { token, .. } => {
                self.answer(token, message);
            }
        }
        ToDo::Nothing
    }

    /// Nothing comes any more: whoever waits for an answer gets none.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        drop(lock(&self.answers));
        self.answered.notify_all();
    }

    /// Sends a message, to this process too.
    pub fn tell(&self, what: Option<(usize, Message)>) {
        let Some((to, message)) = what else { return };
        if to != self.transport.rank() {
            return self.transport.send(to, message.encode());
        }
        if let Message::Claimed { token, .. } = message {
            self.answer(token, message);
        }
    }

    /// Expects an answer to a question that is about to be asked.
    pub(crate) fn expect(&self, token: u64) {
        lock(&self.answers).insert(token, None);
    }

    pub(crate) fn answer(&self, token: u64, message: Message) {
        let mut answers = lock(&self.answers);
        if let Some(answer) = answers.get_mut(&token) {
            *answer = Some(message);
            self.answered.notify_all();
        }
    }

    /// Whether the answer about a chunk is there already, and is that nothing was moved.
    pub(crate) fn has_moved_nothing(&self, token: u64) -> bool {
        matches!(lock(&self.answers).get(&token), Some(Some(Message::ChunkDone { moved: 0, .. })))
    }

    /// Waits for the answer. `None`: there will be none.
    pub(crate) fn wait_for(&self, token: u64) -> Option<Message> {
        let mut answers = lock(&self.answers);
        loop {
            if answers.get(&token).is_none_or(Option::is_some) || self.ended.load(Ordering::SeqCst) {
                return answers.remove(&token).flatten();
            }
            answers = self.answered.wait(answers).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What all processes call this filesystem. `path` is where this process came to it, if it did so just now.
    pub fn name_of(&self, device: DeviceNumber, path: Option<&Path>) -> u64 {
        let mut devices = lock(&self.devices);
        if let Some(name) = devices.names.get(&device) {
            return *name;
        }
        let mut hasher = DefaultHasher::new();
        match path {
            Some(path) => path.hash(&mut hasher),
            None => device.hash(&mut hasher),
        }
        let name = hasher.finish();
        devices.names.insert(device, name);
        devices.here.insert(name, device);
        name
    }

    /// Others call this filesystem so.
    pub(crate) fn is_called(&self, device: DeviceNumber, name: u64) {
        let mut devices = lock(&self.devices);
        devices.names.entry(device).or_insert(name);
        devices.here.entry(name).or_insert(device);
    }

    fn device_of(&self, name: u64) -> Option<DeviceNumber> {
        lock(&self.devices).here.get(&name).copied()
    }
}

impl PeerGroup<'_> {
    pub(crate) fn owned_links(&self) -> std::sync::MutexGuard<'_, OwnedLinks> {
        lock(&self.owned_links)
    }

    /// Opens a place for tables that do not fit into memory.
    pub(crate) fn find_room(&self, plan: &Plan) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match &plan.destination {
            Destination::Directory(path) => openat(CWD, path, flags, Mode::empty()),
            Destination::Exactly(path) | Destination::Guess(path) => {
                Operand::open(path).spot().dir().and_then(|dir| openat(dir, ".", flags, Mode::empty()))
            }
        };
        // Without one the table says so when it is needed.
        self.owned_links().room = opened.ok();
    }

    fn settle_here(&self, key: Key, from: usize, made: bool) {
        let answers = self.owned_links().settle(key, from, made);
        for answer in answers {
            self.tell(Some(answer));
        }
    }

    fn owner_of(&self, key: &Key) -> usize {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        // Less than the number of processes.
        (hasher.finish() % self.transport.ranks() as u64) as usize
    }

    /// What all processes know this source file by.
    pub(crate) fn key_of(&self, source: Source) -> Key {
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

    pub(crate) fn source_of(&self, key: &Key) -> Option<Source> {
        let number = |at: usize| Some(u64::from_le_bytes(key.get(at..at + 8)?.try_into().ok()?));
        let id = FileId::new(self.device_of(number(1)?)?, number(9)?);
        let seconds = number(17)?.cast_signed();
        let nanoseconds = u32::from_le_bytes(key[25..].try_into().ok()?);
        let born = (key[17..].iter().any(|byte| *byte != 0)).then_some(Time { seconds, nanoseconds });
        Some(Source { id, born })
    }

    /// Asks the link owner who makes this file, and waits for the answer.
    pub(crate) fn claim(&self, key: Key) -> LinkOwner {
        let (token, owner) = (self.new_token(), self.owner_of(&key));
        self.expect(token);
        if owner == self.transport.rank() {
            let answer = self.owned_links().claim(key, owner, token);
            self.tell(answer);
        } else {
            self.transport.send(owner, Message::Claim { token, key }.encode());
        }
        match self.wait_for(token) {
            Some(Message::Claimed { answer, .. }) => answer,
            _ => LinkOwner::Broken(Errno::CANCELED.raw_os_error()),
        }
    }

    pub(crate) fn settle(&self, key: Key, made: bool) {
        let (owner, own) = (self.owner_of(&key), self.transport.rank());
        if owner == own {
            self.settle_here(key, own, made);
        } else {
            self.transport.send(owner, Message::Settle { key, made }.encode());
        }
    }

    pub(crate) fn ask_where(&self, rank: usize, key: Key) -> Option<Location> {
        let token = self.new_token();
        self.expect(token);
        self.transport.send(rank, Message::Where { token, key }.encode());
        match self.wait_for(token) {
            Some(Message::Here { place, .. }) => place,
            _ => None,
        }
    }

    /// Tells another process where what was made here is.
    pub(crate) fn say_where(&self, links: &LinkTable, from: usize, token: u64, key: &Key) {
        let made = self.source_of(key).and_then(|source| links.get(source).ok().flatten());
        let place = made.and_then(|made| {
            let way = Way { prefix: made.dir.prefix().to_owned(), names: made.dir.names() };
            Some(Location { way, name: made.name, inode: made.id?.inode() })
        });
        self.transport.send(from, Message::Here { token, place }.encode());
    }
}

impl PeerGroup<'_> {
    /// What another process had is done, or comes back.
    fn is_back(&self, token: u64, given_back: bool) -> ToDo {
        let Some(away) = lock(&self.away).remove(&token) else { return ToDo::Nothing };
        let Away { mut frame, top, names, tally, .. } = away;
        if given_back {
            // Nor will others be able to begin with the rest of it.
            frame.place().stays.store(true, Ordering::Relaxed);
            frame.set_names(names);
            return ToDo::AtOnce(Task::Names { frame, top, segment: None });
        }
        drop((frame, names));
        ToDo::AtOnce(Task::PartDone(tally))
    }
}

pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is guarded is changed in single steps.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
