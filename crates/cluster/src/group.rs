//! This process and the others, for all threads.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use haul_fs::links::pages::{KEY, Key};
use haul_fs::links::{LinkTable, Source};
use haul_sys::Errno;
use haul_sys::inode::{DeviceNumber, FileId, Time};

use crate::link_owner::OwnedLinks;
use crate::messages::{Chunk, LinkOwner, Location, Message, Way, Whereabouts, WorkUnit};
use crate::transport::{Part, Transport};

/// This process and the others, for all threads. `A` is what this process keeps of what it has given away.
pub struct PeerGroup<'a, A> {
    /// The way to the others.
    pub transport: &'a dyn Transport,
    /// Bytes of a chunk.
    pub chunk: u64,
    token: AtomicU64,
    /// What was given away and is not done.
    away: Mutex<HashMap<u64, A>>,
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
    names: HashMap<DeviceNumber, u64>,
    here: HashMap<u64, DeviceNumber>,
}

/// What has to be done with a message besides passing it on.
pub enum ToDo<A> {
    /// Nothing.
    Nothing,
    /// Names that this process (its number) has given to this one, for a thread that waits.
    Names(usize, Box<WorkUnit>),
    /// A part of a file, likewise.
    Chunk(usize, Box<Chunk>),
    /// What was given away is done, or has come back since the other process could not begin with it. Nobody must have to
    /// wait for a thread to come by.
    Back {
        /// What this process has kept of it.
        away: A,
        /// It has to be done here.
        given_back: bool,
    },
    /// Asks the table of links where the copy of a source file is.
    Where {
        /// The process that asks.
        from: usize,
        /// What it knows its question by.
        token: u64,
        /// The source file.
        key: Key,
    },
}

impl<'a, A> PeerGroup<'a, A> {
    /// Nothing has been said yet.
    pub fn new(part: Part<'a>) -> PeerGroup<'a, A> {
        PeerGroup {
            transport: part.transport,
            // Two machines must not write to one page, which has 64 KiB at most.
            chunk: part.chunk.clamp(64 << 10, 1 << 62).next_multiple_of(64 << 10),
            // Tokens are for the eyes of the one who made them.
            token: AtomicU64::new(1),
            away: Mutex::new(HashMap::new()),
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

    /// A number for something that another process will refer to.
    pub fn new_token(&self) -> u64 {
        self.token.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes note of a message; says what is left to do.
    pub fn take(&self, from: usize, bytes: &[u8]) -> ToDo<A> {
        let Some(message) = Message::decode(bytes) else {
            // Another version: somebody would wait for ever for what it wanted.
            self.transport.give_up();
            return ToDo::Nothing;
        };
        self.hear(from, message)
    }

    fn hear(&self, from: usize, message: Message) -> ToDo<A> {
        match message {
            Message::Names(unit) => return ToDo::Names(from, Box::new(unit)),
            Message::Chunk(chunk) => return ToDo::Chunk(from, Box::new(chunk)),
            Message::NamesDone { token, given_back } => {
                return self.take_back(token).map_or(ToDo::Nothing, |away| ToDo::Back { away, given_back });
            }
            Message::Claim { token, key } => {
                let answer = self.owned_links().claim(key, from, token);
                self.tell(answer);
            }
            Message::Settle { key, made } => {
                let answers = self.owned_links().settle(key, from, made);
                answers.into_iter().for_each(|answer| self.tell(Some(answer)));
            }
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
        // A process says to itself only what it is asked as the owner of links, of which nothing is left to do.
        self.hear(to, message);
    }

    /// Expects an answer to a question that is about to be asked.
    pub fn expect(&self, token: u64) {
        lock(&self.answers).insert(token, None);
    }

    /// The question was not asked after all.
    pub fn expect_no_more(&self, token: u64) {
        lock(&self.answers).remove(&token);
    }

    /// Answers a question of this process itself, or passes on what another one has answered.
    pub fn answer(&self, token: u64, message: Message) {
        let mut answers = lock(&self.answers);
        if let Some(answer) = answers.get_mut(&token) {
            *answer = Some(message);
            self.answered.notify_all();
        }
    }

    /// Whether the answer about a chunk is there already, and is that nothing was moved.
    pub fn has_moved_nothing(&self, token: u64) -> bool {
        matches!(lock(&self.answers).get(&token), Some(Some(Message::ChunkDone { moved: 0, .. })))
    }

    /// Waits for the answer. `None`: there will be none.
    pub fn wait_for(&self, token: u64) -> Option<Message> {
        let mut answers = lock(&self.answers);
        loop {
            if answers.get(&token).is_none_or(Option::is_some) || self.ended.load(Ordering::SeqCst) {
                return answers.remove(&token).flatten();
            }
            answers = self.answered.wait(answers).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What all processes call this filesystem. `path` is where this process came to it, if it did so just now. On one machine its
    /// number is its name: what is mounted at two places has two paths. Elsewhere it may have another number.
    pub fn name_of(&self, device: DeviceNumber, path: Option<&Path>) -> u64 {
        let mut devices = lock(&self.devices);
        if let Some(name) = devices.names.get(&device) {
            return *name;
        }
        let mut hasher = DefaultHasher::new();
        let all_near = || (0..self.transport.ranks()).all(|rank| self.transport.is_near(rank));
        match path.filter(|_| !all_near()) {
            Some(path) => path.hash(&mut hasher),
            None => device.hash(&mut hasher),
        }
        let name = hasher.finish();
        devices.names.insert(device, name);
        devices.here.insert(name, device);
        name
    }

    /// Others call this filesystem so.
    pub fn is_called(&self, device: DeviceNumber, name: u64) {
        let mut devices = lock(&self.devices);
        devices.names.entry(device).or_insert(name);
        devices.here.entry(name).or_insert(device);
    }

    fn device_of(&self, name: u64) -> Option<DeviceNumber> {
        lock(&self.devices).here.get(&name).copied()
    }

    fn owned_links(&self) -> MutexGuard<'_, OwnedLinks> {
        lock(&self.owned_links)
    }

    /// Where tables go that do not fit into memory. Without a directory they say so when it is needed.
    pub fn set_room(&self, dir: Option<OwnedFd>) {
        self.owned_links().room = dir;
    }

    fn owner_of(&self, key: &Key) -> usize {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        // Less than the number of processes.
        (hasher.finish() % self.transport.ranks() as u64) as usize
    }

    /// What all processes know this source file by.
    pub fn key_of(&self, source: Source) -> Key {
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

    /// Asks the link owner who makes this file, and waits for the answer.
    pub fn claim(&self, key: Key) -> LinkOwner {
        let token = self.new_token();
        self.expect(token);
        self.tell(Some((self.owner_of(&key), Message::Claim { token, key })));
        match self.wait_for(token) {
            Some(Message::Claimed { answer, .. }) => answer,
            _ => LinkOwner::Broken(Errno::CANCELED.raw_os_error()),
        }
    }

    /// Tells the link owner that what was claimed was made, or could not be.
    pub fn settle(&self, key: Key, made: bool) {
        self.tell(Some((self.owner_of(&key), Message::Settle { key, made })));
    }

    /// Asks a process where its copy of a source file is, which this one does not know, and waits for the answer.
    pub fn ask_where(&self, rank: usize, key: Key) -> Whereabouts {
        if rank == self.transport.rank() {
            // It was forgotten here, and nobody else knows it.
            return Whereabouts::TakesNoMoreNames;
        }
        let token = self.new_token();
        self.expect(token);
        self.transport.send(rank, Message::Where { token, key }.encode());
        match self.wait_for(token) {
            Some(Message::Here { place, .. }) => place,
            _ => Whereabouts::Unknown,
        }
    }

    /// Tells another process where what was made here is.
    pub fn say_where(&self, links: &LinkTable, from: usize, token: u64, key: &Key) {
        let place = match self.source_of(key).map(|source| links.get(source)) {
            None | Some(Err(_)) => Whereabouts::Unknown,
            // Whoever asks knows that it was made here: it was forgotten since, for it has as many names as it can have.
            Some(Ok(made)) => {
                made.and_then(|made| Some((made.id?, made))).map_or(Whereabouts::TakesNoMoreNames, |(id, made)| {
                    let way = Way { prefix: made.dir.prefix().to_owned(), names: made.dir.names() };
                    Whereabouts::At(Location { way, name: made.name, inode: id.inode() })
                })
            }
        };
        self.transport.send(from, Message::Here { token, place }.encode());
    }

    /// Keeps what is about to be given away.
    pub fn keep(&self, token: u64, away: A) {
        lock(&self.away).insert(token, away);
    }

    /// What was kept, if it has not come back: nobody has taken it.
    pub fn take_back(&self, token: u64) -> Option<A> {
        lock(&self.away).remove(&token)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is guarded is changed in single steps.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
