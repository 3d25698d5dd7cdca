//! Who gives what to whom: within a rank for nothing, between ranks by messages.

use super::walk::{Then, Work};
use super::{Event, World, walk::Frame};
use crate::clock::{Nanos, nanos};
use crate::tree::Dir;

/// Work that somebody else does.
#[derive(Debug)]
pub(super) enum Task {
    /// Names of a directory.
    Names { part: u32, dir: Dir, names: std::ops::Range<u64>, made: (Nanos, u32) },
    /// A chunk of a large file.
    Chunk { large: u32, index: u64 },
}

/// A rank that wants work.
#[derive(Debug)]
pub(super) struct Wanter {
    pub from: u32,
    pub stamp: u64,
}

/// Memory of the real program, as far as it depends on the tree: a directory that a thread is in, with its
/// descriptors' places and its counts; a part that is not done; what a name takes beside its bytes.
const FRAME_BYTES: u64 = 512;
const PART_BYTES: u64 = 256;
const NAME_BYTES: u64 = 40;

/// In which order a rank asks the others: first the one above it in a binary tree over all ranks, then all in an order of
/// chance, round and round. It stays with one that gave something.
#[derive(Debug)]
pub(super) struct Order {
    rank: u64,
    ranks: u64,
    start: u64,
    stride: u64,
    /// Place in the order; 0 is the one above.
    at: u64,
    /// How many have refused, one after the other.
    refused: u64,
    pause: f64,
}

impl Order {
    pub fn new(chance: &mut fastrand::Rng, rank: u64, ranks: u64, pause: f64) -> Order {
        let greatest_divisor = |mut a: u64, mut b: u64| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let stride = loop {
            let stride = chance.u64(1..=ranks);
            if greatest_divisor(stride, ranks) == 1 {
                break stride;
            }
        };
        Order { rank, ranks, start: chance.u64(0..ranks), stride, at: 0, refused: 0, pause }
    }

    /// Whom to ask. There must be others.
    pub fn next(&mut self) -> u32 {
        let above = self.rank.saturating_sub(1) / 2;
        loop {
            let other = match self.at {
                0 => above,
                at => {
                    let walked = u128::from(self.start) + u128::from(self.stride) * u128::from(at - 1);
                    (walked % u128::from(self.ranks)) as u64
                }
            };
            if other != self.rank && (self.at == 0 || other != above) {
                return other as u32;
            }
            self.at = (self.at + 1) % (self.ranks + 1);
        }
    }

    /// Who was asked gave something.
    pub fn given(&mut self, pause: f64) {
        (self.refused, self.pause) = (0, pause);
    }

    /// Who was asked has nothing. If so have all: how long to wait.
    pub fn refused(&mut self, longest: f64) -> Option<f64> {
        self.at = (self.at + 1) % (self.ranks + 1);
        self.refused += 1;
        if self.refused < self.ranks - 1 {
            return None;
        }
        self.refused = 0;
        let pause = self.pause;
        self.pause = (2.0 * pause).min(longest).max(pause);
        Some(pause)
    }
}

impl World<'_> {
    /// The thread has nothing to do. The rank has to be fed then.
    pub(super) fn idle(&mut self, thread: u32) {
        let rank = self.threads[thread as usize].rank;
        self.ranks[rank as usize].idle.push(thread);
    }

    /// Gives what there is to share to those who wait: first to the rank's own threads, then to other ranks. Asks for work if
    /// threads still wait.
    pub(super) fn feed(&mut self, rank: u32) {
        let at = rank as usize;
        while !self.ranks[at].idle.is_empty() {
            let Some(task) = self.ranks[at].inbox.pop_front().or_else(|| self.take(rank, rank)) else { break };
            let thread = self.ranks[at].idle.pop().expect("one is idle");
            self.take_on(thread, task);
        }
        while let Some(wanter) = self.ranks[at].wanters.front() {
            let from = wanter.from;
            let Some(task) = self.take(rank, from) else { break };
            self.ranks[at].wanters.pop_front();
            self.send_parcel(rank, from, task);
        }
        let slot = &self.ranks[at];
        if !slot.idle.is_empty() && !slot.asking && !slot.resting && !slot.ended && self.config.ranks > 1 {
            self.ask(rank);
        }
    }

    /// What `rank` has to share: half of the names in its outermost directory that can be split, or the last chunk of a
    /// large file.
    fn take(&mut self, rank: u32, taker: u32) -> Option<Task> {
        let mut best: Option<(u32, u32, usize)> = None;
        for thread in self.ranks[rank as usize].threads.clone() {
            let stack = &self.threads[thread as usize].stack;
            let innermost = stack.len().wrapping_sub(1);
            let Some(at) = stack.iter().enumerate().position(|(at, frame)| frame.can_be_split(at < innermost)) else {
                continue;
            };
            let found = (stack[at].dir.depth, thread, at);
            best = Some(best.map_or(found, |best| best.min(found)));
        }
        let Some((_, thread, at)) = best else { return self.take_chunk(rank) };
        let frame = &mut self.threads[thread as usize].stack[at];
        let (names, dir, made, above) = (frame.split(), frame.dir, frame.made, frame.part);
        let part = self.new_part(taker, Some(above), None);
        Some(Task::Names { part, dir, names, made })
    }

    fn take_on(&mut self, thread: u32, task: Task) {
        match task {
            Task::Chunk { large, index } => self.copy_taken_chunk(thread, large, index),
            Task::Names { part, dir, names, made } => {
                let rank = self.threads[thread as usize].rank;
                let giver = self.parts.get(part).above.map(|above| self.parts.get(above).rank);
                // Within a rank the descriptors are shared. Another rank opens both sides by their paths.
                let mut work = Work::default();
                if giver != Some(rank) {
                    work = self.operations(dir.id, 2.0 * f64::from(dir.depth + 1));
                    if self.node_of(rank) != made.1 {
                        work.not_before = made.0 + nanos(self.config.visibility);
                    }
                }
                self.threads[thread as usize].stack.push(Frame { dir, part, known: names, unread: 0..0, made });
                self.note_memory(rank);
                self.begin(thread, work, Then::Opened);
            }
        }
    }

    /// Asks another rank.
    fn ask(&mut self, rank: u32) {
        let slot = &mut self.ranks[rank as usize];
        slot.asking = true;
        let other = slot.order.next();
        self.send_want(rank, other);
    }

    /// A rank wants work of this one.
    pub(super) fn wanted(&mut self, rank: u32, from: u32) {
        if self.ranks[rank as usize].ended {
            return;
        }
        self.stamps += 1;
        let stamp = self.stamps;
        self.ranks[rank as usize].wanters.push_back(Wanter { from, stamp });
        self.feed(rank);
        let slot = &mut self.ranks[rank as usize];
        slot.longest_queue = slot.longest_queue.max(slot.wanters.len());
        if slot.wanters.back().is_some_and(|wanter| wanter.stamp == stamp) {
            let has_work = slot.idle.len() < slot.threads.len();
            let hold = if has_work || self.config.idle_hold == 0.0 { self.config.hold } else { self.config.idle_hold };
            self.clock.at(self.now + nanos(hold), Event::Impatient { rank, stamp });
        }
    }

    /// The request has waited long enough, if it still waits.
    pub(super) fn impatient(&mut self, rank: u32, stamp: u64) {
        let wanters = &mut self.ranks[rank as usize].wanters;
        let Some(at) = wanters.iter().position(|wanter| wanter.stamp == stamp) else { return };
        let from = wanters.remove(at).expect("it was found").from;
        self.send_no(rank, from);
    }

    pub(super) fn refused(&mut self, rank: u32) {
        let slot = &mut self.ranks[rank as usize];
        slot.asking = false;
        if let Some(pause) = slot.order.refused(self.config.longest_pause) {
            slot.resting = true;
            self.clock.at(self.now + nanos(pause), Event::Rested(rank));
        }
        self.feed(rank);
    }

    pub(super) fn received(&mut self, rank: u32, task: Task) {
        let slot = &mut self.ranks[rank as usize];
        slot.asking = false;
        slot.order.given(self.config.pause);
        slot.inbox.push_back(task);
        self.feed(rank);
    }

    /// Remembers the most memory that the rank has needed for the tree.
    pub(super) fn note_memory(&mut self, rank: u32) {
        let slot = &self.ranks[rank as usize];
        let (mut frames, mut names) = (0, 0);
        for thread in slot.threads.clone() {
            let stack = &self.threads[thread as usize].stack;
            frames += stack.len() as u64;
            names += stack.iter().map(|frame| frame.known.end - frame.known.start).sum::<u64>();
        }
        let memory = frames * FRAME_BYTES + names * (NAME_BYTES + self.config.name_bytes) + slot.parts * PART_BYTES;
        let slot = &mut self.ranks[rank as usize];
        slot.most_memory = slot.most_memory.max(memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_others_are_asked_in_a_round_and_who_gave_something_first() {
        let mut chance = fastrand::Rng::with_seed(3);
        for ranks in [2, 3, 12, 100] {
            for rank in 0..ranks {
                let mut order = Order::new(&mut chance, rank, ranks, 0.001);
                let mut asked = Vec::new();
                loop {
                    asked.push(u64::from(order.next()));
                    if order.refused(0.1).is_some() {
                        break;
                    }
                }
                if rank > 0 {
                    assert_eq!(asked[0], (rank - 1) / 2);
                }
                asked.sort_unstable();
                assert!(
                    asked.iter().copied().eq((0..ranks).filter(|other| *other != rank)),
                    "{rank} of {ranks}: {asked:?}"
                );
                let giver = order.next();
                order.given(0.001);
                assert_eq!(order.next(), giver);
            }
        }
    }

    #[test]
    fn pauses_grow_to_the_longest() {
        let mut order = Order::new(&mut fastrand::Rng::with_seed(1), 0, 2, 0.001);
        let pauses: Vec<f64> = (0..9).filter_map(|_| order.refused(0.1)).collect();
        assert_eq!(pauses[..3], [0.001, 0.002, 0.004]);
        assert_eq!(pauses[8], 0.1);
    }
}
