//! For unit tests: processes in one, which send each other messages through memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

use crate::messages::Message;
use crate::{Part, PeerGroup, SpareCapacity, Transport};

/// Bytes of a chunk.
pub const CHUNK: u64 = 64 << 10;

/// What was sent to one process and from whom, and whether more can come.
#[derive(Default)]
struct Inbox {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    messages: VecDeque<(usize, Vec<u8>)>,
    ended: bool,
}

/// The ways between so many processes.
pub struct Wires {
    inboxes: Vec<Inbox>,
    /// Which process waits for work; what is given goes there.
    idle: AtomicUsize,
    gave_up: AtomicBool,
}

const NOBODY: usize = usize::MAX;

impl Wires {
    /// Between so many.
    pub fn new(ranks: usize) -> Wires {
        let inboxes = (0..ranks).map(|_| Inbox::default()).collect();
        Wires { inboxes, idle: AtomicUsize::new(NOBODY), gave_up: AtomicBool::new(false) }
    }

    /// The end of this process.
    pub fn end_of(&self, rank: usize) -> End<'_> {
        End { wires: self, rank }
    }

    /// This process waits for work.
    pub fn is_idle(&self, rank: usize) {
        self.idle.store(rank, Ordering::SeqCst);
    }

    /// Whether a process has given up.
    #[cfg(test)]
    pub(crate) fn gave_up(&self) -> bool {
        self.gave_up.load(Ordering::SeqCst)
    }

    /// Nothing more will come.
    pub fn end(&self) {
        for inbox in &self.inboxes {
            inbox.waiting.lock().unwrap().ended = true;
            inbox.changed.notify_all();
        }
    }
}

/// One process's end of the wires.
pub struct End<'a> {
    wires: &'a Wires,
    rank: usize,
}

impl End<'_> {
    /// The message that came first, if one has come.
    pub fn arrived(&self) -> Option<(usize, Message)> {
        let (from, bytes) = self.wires.inboxes[self.rank].waiting.lock().unwrap().messages.pop_front()?;
        Some((from, Message::decode(&bytes).expect("a message")))
    }
}

impl Transport for End<'_> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.wires.inboxes.len()
    }

    fn is_near(&self, _: usize) -> bool {
        true
    }

    fn begin(&self, _: SpareCapacity) {}

    fn is_asked_for_work(&self) -> bool {
        self.wires.idle.load(Ordering::SeqCst) != NOBODY
    }

    fn will_give(&self, _: bool) {}

    fn give(&self, work: Vec<u8>) -> Option<Vec<u8>> {
        match self.wires.idle.swap(NOBODY, Ordering::SeqCst) {
            NOBODY => Some(work),
            rank => {
                self.send(rank, work);
                None
            }
        }
    }

    fn send(&self, to: usize, message: Vec<u8>) {
        let inbox = &self.wires.inboxes[to];
        inbox.waiting.lock().unwrap().messages.push_back((self.rank, message));
        inbox.changed.notify_all();
    }

    fn receive(&self) -> Option<(usize, Vec<u8>)> {
        let inbox = &self.wires.inboxes[self.rank];
        let mut waiting = inbox.waiting.lock().unwrap();
        loop {
            match waiting.messages.pop_front() {
                None if waiting.ended => return None,
                None => waiting = inbox.changed.wait(waiting).unwrap(),
                some => return some,
            }
        }
    }

    fn finish(&self) -> bool {
        true
    }

    fn give_up(&self) {
        self.wires.gave_up.store(true, Ordering::SeqCst);
    }
}

/// This process among the others.
pub fn group<'a, A>(end: &'a End<'a>) -> PeerGroup<'a, A> {
    PeerGroup::new(Part { transport: end, chunk: CHUNK })
}
