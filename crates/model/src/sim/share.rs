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

/// Another order in which to ask all ranks: start, stride, none asked yet.
pub(super) fn new_round(chance: &mut fastrand::Rng, ranks: u64) -> (u64, u64, u64) {
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
    (chance.u64(0..ranks), stride, 0)
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
        if !slot.idle.is_empty() && !slot.asking && !slot.ended && self.config.ranks > 1 {
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

    /// Asks another rank: first who gave something last, then all others in an order of chance.
    fn ask(&mut self, rank: u32) {
        let ranks = self.config.ranks;
        let slot = &mut self.ranks[rank as usize];
        slot.asking = true;
        let favourite = slot.last_giver.filter(|_| slot.round.2 == 0);
        let victim = match favourite {
            Some(giver) => {
                slot.round.2 = 1;
                giver
            }
            None => loop {
                let (start, stride, asked) = slot.round;
                if asked > ranks {
                    slot.round = new_round(&mut self.chance, ranks);
                    continue;
                }
                slot.round.2 += 1;
                let candidate = ((u128::from(start) + u128::from(stride) * u128::from(asked)) % u128::from(ranks)) as u32;
                if candidate != rank {
                    break candidate;
                }
            },
        };
        self.send_want(rank, victim);
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
        self.ranks[rank as usize].asking = false;
        self.feed(rank);
    }

    pub(super) fn received(&mut self, rank: u32, from: u32, task: Task) {
        let round = new_round(&mut self.chance, self.config.ranks);
        let slot = &mut self.ranks[rank as usize];
        slot.asking = false;
        slot.last_giver = Some(from);
        slot.round = round;
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
