//! Other processes that copy the same tree together with this one, on this machine or on others.
//!
//! Every process runs the same code with threads of its own. The first one, rank 0, begins with the operands. What is given
//! away to another process is what threads give each other: half of the names that are left in the outermost directory
//! that this run made (`parcels`), and parts of large files (`chunks`). Who gave something away is told when it is done, so
//! that each directory gets its attributes from the process that made it, after everything in it; and rank 0 knows when
//! all is done. Files of several names are made by the process that claims them first (`keeper`).
//!
//! Nothing here knows how messages travel: that is the [`Transport`] of a front end.

mod chunks;
mod link_owner;
pub(super) mod wire;
mod work_units;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use haul_sys::Errno;

use super::pool::SpareCapacity;
use super::share::Task;
use crate::facts::DeviceNumber;
pub(super) use chunks::{ChunkWork, RemoteSource};
use link_owner::OwnedLinks;
use wire::Message;
pub(super) use work_units::{Away, ReplyHandle};

/// The processes that copy together, and the way to them.
///
/// Messages arrive whole, once, and between two processes in the order in which they were sent. A process that is lost ends
/// all others: nobody waits for it.
pub trait Transport: Send + Sync {
    /// The number of this process: 0 begins with the operands.
    fn rank(&self) -> usize;

    /// How many processes there are.
    fn ranks(&self) -> usize;

    /// Whether a process is on the same machine: what that has written can be read here at once.
    fn is_near(&self, rank: usize) -> bool;

    /// The run begins. As long as `spare_capacity` says so, this process would take work of others.
    fn begin(&self, spare_capacity: SpareCapacity);

    /// Whether a process waits for work of this one. Asked between any two entries, so it must be cheap.
    fn is_asked_for_work(&self) -> bool;

    /// Sends work to a process that waits for it. Gives it back if none does any more.
    fn give(&self, work: Vec<u8>) -> Option<Vec<u8>>;

    /// Sends a message to another process. Does not wait for it.
    fn send(&self, to: usize, message: Vec<u8>);

    /// Waits for the next message, and says from whom it is. `None`: there will be no more, since the run is over.
    fn receive(&self) -> Option<(usize, Vec<u8>)>;

    /// For rank 0: everything is copied. Waits until all others have done what is left to do and have ended; false if
    /// something went wrong in one of them. After that nothing is received any more.
    fn finish(&self) -> bool;

    /// This process cannot go on: it has no thread to listen with, or one of its threads has panicked. Nothing more is
    /// received, so that its run ends; the job has to end with it.
    fn give_up(&self);
}

/// How this process takes part.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The way to the others.
    pub transport: &'a dyn Transport,
    /// Bytes of a chunk of a large file, a multiple of 64 KiB; a file of two of them and more is shared.
    pub chunk: u64,
}

/// How long another machine may take to show us what was made on a third one, before that counts as lost: network
/// filesystems keep what they know of names for up to a minute (acdirmax of NFS is 60 s).
const PATIENCE: Duration = Duration::from_secs(90);
/// How long it is worth while to wait before a chunk is given back.
const LITTLE_PATIENCE: Duration = Duration::from_secs(5);

/// This process and the others, for all threads.
pub(super) struct PeerGroup<'a> {
    pub transport: &'a dyn Transport,
    /// Bytes of a chunk.
    pub chunk: u64,
    token: AtomicU64,
    /// What was given away and is not done.
    away: Mutex<HashMap<u64, Away>>,
    /// Questions that were asked, and the answers that have come.
    answers: Mutex<HashMap<u64, Option<Message>>>,
    answered: Condvar,
    ended: AtomicBool,
    devices: Mutex<Devices>,
    keeping: Mutex<OwnedLinks>,
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
pub(super) enum ToDo {
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
            keeping: Mutex::new(OwnedLinks::new()),
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

    fn new_token(&self) -> u64 {
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
            Message::Names(parcel) => return ToDo::Work(Task::WorkUnit(from, Box::new(parcel))),
            Message::Chunk(chunk) => return ToDo::Work(Task::Chunk(from, Box::new(chunk))),
            Message::NamesDone { token, given_back } => return self.is_back(token, given_back),
            Message::Claim { token, key } => self.tell(self.keeping().claim(key, from, token)),
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
    fn expect(&self, token: u64) {
        lock(&self.answers).insert(token, None);
    }

    fn answer(&self, token: u64, message: Message) {
        let mut answers = lock(&self.answers);
        if let Some(answer) = answers.get_mut(&token) {
            *answer = Some(message);
            self.answered.notify_all();
        }
    }

    /// Whether the answer about a chunk is there already, and is that nothing was moved.
    fn has_moved_nothing(&self, token: u64) -> bool {
        matches!(lock(&self.answers).get(&token), Some(Some(Message::ChunkDone { moved: 0, .. })))
    }

    /// Waits for the answer. `None`: there will be none.
    fn wait_for(&self, token: u64) -> Option<Message> {
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
    fn is_called(&self, device: DeviceNumber, name: u64) {
        let mut devices = lock(&self.devices);
        devices.names.entry(device).or_insert(name);
        devices.here.entry(name).or_insert(device);
    }

    fn device_of(&self, name: u64) -> Option<DeviceNumber> {
        lock(&self.devices).here.get(&name).copied()
    }
}

/// Does something that another machine may have to see first what was made elsewhere: while it says that there is nothing,
/// it is tried again; something else than there should be only for a while: its number will hardly change.
fn patiently<T>(patience: Duration, mut attempt: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match attempt() {
            Err(errno @ (Errno::NOENT | Errno::STALE))
                if started.elapsed() < if errno == Errno::STALE { patience.min(LITTLE_PATIENCE) } else { patience } =>
            {
                // No machine tells another one that it would see something now.
                thread::sleep(pause);
                pause = (2 * pause).min(Duration::from_millis(250));
            }
            done => return done,
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is guarded is changed in single steps.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
