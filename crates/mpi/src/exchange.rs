//! Where the threads of a run and the one thread that talks to other processes meet. Knows nothing of MPI.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use haul_copy::run::{SpareCapacity, Transport};

use crate::talk::Talk;

/// Bytes of text, and of parts of sources, that may wait to be sent.
const MOST_TEXT: usize = 4 << 20;
const MOST_PARTS: usize = 64 << 20;

/// A message for the run, and from whom it is.
type Letter = (usize, Vec<u8>);

/// Everything that passes between the two.
#[derive(Debug)]
pub struct Exchange {
    rank: usize,
    /// By rank: the lowest rank on the same machine.
    machines: Vec<usize>,
    /// Messages that wait to be sent, and to whom.
    out: Mutex<VecDeque<(usize, Talk)>>,
    /// There is one.
    something: Condvar,
    /// Text among them, and parts of sources.
    text: Backlog,
    parts: Backlog,
    /// Messages for the run, and from whom.
    incoming: Mutex<Receiver<Letter>>,
    deliver: Mutex<Option<Sender<Letter>>>,
    /// Processes that wait for work of this one, and since when.
    asked: Mutex<VecDeque<(usize, Instant)>>,
    how_many_ask: AtomicUsize,
    /// Threads of this process that will have something to give away.
    givers: AtomicUsize,
    spare_capacity: Mutex<Option<SpareCapacity>>,
    /// Rank 0 has copied everything.
    is_over: AtomicBool,
    /// This process cannot go on.
    gave_up: AtomicBool,
    /// How the others have ended, once they all have.
    others: Mutex<Option<bool>>,
    ended: Condvar,
}

/// Bytes that wait to be sent.
#[derive(Debug, Default)]
struct Backlog {
    /// How many, and whether nobody is to wait for them to be fewer.
    state: Mutex<(usize, bool)>,
    fewer: Condvar,
}

impl Backlog {
    /// So many more; waits while there are more than `most`.
    fn add(&self, bytes: usize, most: usize) {
        let mut state = lock(&self.state);
        while state.0 > most && !state.1 {
            state = self.fewer.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.0 += bytes;
    }

    /// So many were sent.
    fn remove(&self, bytes: usize) {
        let mut state = lock(&self.state);
        state.0 = state.0.saturating_sub(bytes);
        self.fewer.notify_all();
    }

    /// Nobody is to wait any more.
    fn open(&self) {
        lock(&self.state).1 = true;
        self.fewer.notify_all();
    }

    fn is_open(&self) -> bool {
        lock(&self.state).1
    }
}

impl Exchange {
    /// Of the process `rank`; `machines` has for each the lowest rank on the same machine.
    pub fn new(rank: usize, machines: Vec<usize>) -> Exchange {
        let (deliver, incoming) = channel();
        Exchange {
            rank,
            machines,
            out: Mutex::default(),
            something: Condvar::new(),
            text: Backlog::default(),
            parts: Backlog::default(),
            incoming: Mutex::new(incoming),
            deliver: Mutex::new(Some(deliver)),
            asked: Mutex::default(),
            how_many_ask: AtomicUsize::new(0),
            givers: AtomicUsize::new(0),
            spare_capacity: Mutex::default(),
            is_over: AtomicBool::new(false),
            gave_up: AtomicBool::new(false),
            others: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// Says something to another process.
    pub fn say(&self, to: usize, talk: Talk) {
        lock(&self.out).push_back((to, talk));
        self.something.notify_one();
    }

    /// Passes text on to rank 0; waits as long as too much of it waits to be sent, since that process may be slow to print.
    /// Never called by the thread that sends.
    pub fn say_text(&self, output: bool, text: &[u8]) {
        self.text.add(text.len(), MOST_TEXT);
        self.say(0, Talk::Text(output, text.to_vec()));
    }

    /// The same for the name of what could not be copied: there may be millions.
    pub fn say_failed(&self, name: &[u8]) {
        self.text.add(name.len(), MOST_TEXT);
        self.say(0, Talk::Failed(name.to_vec()));
    }

    /// Answers a request for a part of a source; waits as long as too much of that waits to be sent. Never called by the
    /// thread that sends.
    pub fn say_part(&self, to: usize, number: u64, bytes: Vec<u8>) {
        self.parts.add(bytes.len(), MOST_PARTS);
        self.say(to, Talk::Part(number, bytes));
    }

    /// No part is sent any more, also of those that wait: nobody would receive it.
    pub fn drop_parts(&self) {
        self.parts.open();
    }

    /// The next thing to be said.
    pub fn next_out(&self) -> Option<(usize, Talk)> {
        let next = {
            let mut out = lock(&self.out);
            if self.parts.is_open() {
                out.retain(|(_, talk)| !matches!(talk, Talk::Part(..)));
            }
            out.pop_front()
        };
        match &next {
            Some((_, Talk::Text(_, text) | Talk::Failed(text))) => self.text.remove(text.len()),
            Some((_, Talk::Part(_, bytes))) => self.parts.remove(bytes.len()),
            _ => {}
        }
        next
    }

    /// Waits until there is something to be said, for so long at most.
    pub fn wait(&self, at_most: Duration) {
        let out = lock(&self.out);
        if out.is_empty() {
            drop(self.something.wait_timeout(out, at_most));
        }
    }

    /// A message for the run has come.
    pub fn deliver(&self, from: usize, bytes: Vec<u8>) {
        if let Some(deliver) = &*lock(&self.deliver) {
            // The run may be over.
            deliver.send((from, bytes)).ok();
        }
    }

    /// Nothing more comes for the run.
    pub fn hang_up(&self) {
        lock(&self.deliver).take();
    }

    /// A process waits for work of this one.
    pub fn is_wanted_by(&self, rank: usize) {
        let mut asked = lock(&self.asked);
        asked.push_back((rank, Instant::now()));
        self.how_many_ask.store(asked.len(), Ordering::Release);
    }

    /// Processes that have waited for so long, and that are not waited for any more.
    pub fn tired_of_waiting(&self, after: Duration) -> Vec<usize> {
        if self.how_many_ask.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut asked = lock(&self.asked);
        let mut tired = Vec::new();
        while let Some((rank, since)) = asked.front()
            && since.elapsed() >= after
        {
            tired.push(*rank);
            asked.pop_front();
        }
        self.how_many_ask.store(asked.len(), Ordering::Release);
        tired
    }

    /// Whether this process would take work of others.
    pub fn is_hungry(&self) -> bool {
        lock(&self.spare_capacity).as_ref().is_some_and(|spare_capacity| spare_capacity.tasks() > 0)
    }

    /// Whether this process will soon have something to give away.
    pub fn will_have_work(&self) -> bool {
        self.givers.load(Ordering::Relaxed) > 0
    }

    /// Whether rank 0 has copied everything.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Whether this process cannot go on.
    pub fn has_given_up(&self) -> bool {
        self.gave_up.load(Ordering::Acquire)
    }

    /// All others have ended, well or not.
    pub fn others_have_ended(&self, well: bool) {
        *lock(&self.others) = Some(well);
        self.ended.notify_all();
    }
}

impl Transport for Exchange {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.machines.len()
    }

    fn is_near(&self, rank: usize) -> bool {
        self.machines.get(rank) == self.machines.get(self.rank)
    }

    fn begin(&self, spare_capacity: SpareCapacity) {
        *lock(&self.spare_capacity) = Some(spare_capacity);
    }

    fn is_asked_for_work(&self) -> bool {
        self.how_many_ask.load(Ordering::Relaxed) > 0
    }

    fn will_give(&self, more: bool) {
        match more {
            true => self.givers.fetch_add(1, Ordering::Relaxed),
            false => self.givers.fetch_sub(1, Ordering::Relaxed),
        };
    }

    fn give(&self, work: Vec<u8>) -> Option<Vec<u8>> {
        let mut asked = lock(&self.asked);
        let Some((rank, _)) = asked.pop_front() else { return Some(work) };
        self.how_many_ask.store(asked.len(), Ordering::Release);
        // Before anything else is said to that process.
        self.say(rank, Talk::Work(work));
        None
    }

    fn send(&self, to: usize, message: Vec<u8>) {
        self.say(to, Talk::Run(message));
    }

    fn receive(&self) -> Option<Letter> {
        lock(&self.incoming).recv().ok()
    }

    fn finish(&self) -> bool {
        self.is_over.store(true, Ordering::Release);
        self.something.notify_one();
        let mut others = lock(&self.others);
        loop {
            if let Some(well) = *others {
                return well;
            }
            others = self.ended.wait(others).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_up(&self) {
        self.gave_up.store(true, Ordering::Release);
        self.hang_up();
        self.something.notify_one();
    }
}

/// Whatever has happened to the one that had it.
pub fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is guarded is changed in single steps.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_goes_to_the_longest_waiting_and_comes_back_if_none_waits() {
        let exchange = Exchange::new(0, vec![0, 0, 2]);
        assert_eq!(exchange.give(vec![1]), Some(vec![1]));
        exchange.is_wanted_by(2);
        exchange.is_wanted_by(1);
        assert!(exchange.is_asked_for_work());
        assert_eq!((exchange.give(vec![5]), exchange.give(vec![6])), (None, None));
        assert_eq!(exchange.next_out(), Some((2, Talk::Work(vec![5]))));
        assert_eq!(exchange.next_out(), Some((1, Talk::Work(vec![6]))));
        assert!(!exchange.is_asked_for_work());
    }

    #[test]
    fn a_request_that_waited_long_enough_is_answered_once() {
        let exchange = Exchange::new(0, vec![0, 0, 0]);
        exchange.is_wanted_by(1);
        exchange.is_wanted_by(2);
        assert!(exchange.tired_of_waiting(Duration::from_secs(3600)).is_empty());
        assert_eq!(exchange.tired_of_waiting(Duration::ZERO), [1, 2]);
        assert!(!exchange.is_asked_for_work());
    }

    #[test]
    fn work_is_to_come_as_long_as_one_thread_will_give_some() {
        let exchange = Exchange::new(0, vec![0]);
        assert!(!exchange.will_have_work());
        for more in [true, true, false] {
            exchange.will_give(more);
            assert!(exchange.will_have_work());
        }
        exchange.will_give(false);
        assert!(!exchange.will_have_work());
    }

    #[test]
    fn processes_of_one_machine_are_near_to_each_other() {
        let exchange = Exchange::new(3, vec![0, 0, 2, 2]);
        assert!(exchange.is_near(2) && !exchange.is_near(1));
    }
}
