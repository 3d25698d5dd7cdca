//! The way between ranks.

use super::outcome::Kind;
use super::share::Task;
use super::{Event, World};
use crate::clock::{nanos, seconds};
use crate::sizes::mix;

/// What a message is about.
#[derive(Debug)]
pub(super) enum Body {
    Want,
    No,
    Parcel(Task),
    Done(u32),
    ChunkDone(u32),
    Claim,
    Answer,
    Error,
    End,
    Summary,
    Status,
}

#[derive(Debug)]
pub(super) struct Message {
    from: u32,
    to: u32,
    /// So many messages are simulated as this one.
    weight: u64,
    body: Body,
}

/// Bytes of a message without names.
const SHORT: u64 = 64;

impl World<'_> {
    fn send(&mut self, from: u32, to: u32, (bytes, weight): (u64, u64), body: Body) {
        self.totals.count(Kind::of(&body), weight);
        let second = self.now / 1_000_000_000;
        if from == 0 || to == 0 {
            self.totals.at_rank_0.add(second, weight);
        }
        let way = if self.node_of(from) == self.node_of(to) {
            self.config.local_latency
        } else {
            for rank in [from, to] {
                let node = self.node_of(rank) as usize;
                self.nodes[node].messages.add(second, weight);
            }
            let rate = self.config.network_bandwidth;
            self.config.network_latency + if rate > 0.0 { bytes as f64 / rate } else { 0.0 }
        };
        // Whoever gets it looks for messages only from time to time.
        let way = way + self.config.poll * self.chance.f64();
        let sent = self.ranks[from as usize].communication.book(self.now, weight as f64);
        let message = self.mail.insert(Message { from, to, weight, body });
        self.clock.at(sent + nanos(way), Event::Arrived(message));
    }

    pub(super) fn arrived(&mut self, id: u32) {
        let Message { to, weight, .. } = *self.mail.get(id);
        let seen = self.ranks[to as usize].communication.book(self.now, weight as f64);
        if seen > self.now {
            self.clock.at(seen, Event::Delivered(id));
        } else {
            self.delivered(id);
        }
    }

    pub(super) fn delivered(&mut self, id: u32) {
        let Message { from, to, weight, body } = self.mail.remove(id);
        match body {
            Body::Want => self.wanted(to, from),
            Body::No => self.refused(to),
            Body::Parcel(task) => self.received(to, task),
            Body::Done(part) => self.one_part_less(part),
            Body::ChunkDone(large) => self.chunk_is_back(large),
            Body::Claim => self.send(to, from, (SHORT * weight, weight), Body::Answer),
            Body::Answer | Body::Error => {}
            Body::End => {
                self.ranks[to as usize].ended = true;
                self.send(to, 0, (SHORT * 16, 1), Body::Summary);
            }
            Body::Summary => {
                self.summaries += 1;
                if self.summaries + 1 == self.config.ranks {
                    for rank in 1..self.config.ranks {
                        self.send(0, rank as u32, (SHORT, 1), Body::Status);
                    }
                }
            }
            Body::Status => {
                self.heard += 1;
                self.finished = self.heard + 1 == self.config.ranks;
            }
        }
    }

    pub(super) fn send_want(&mut self, from: u32, to: u32) {
        self.send(from, to, (SHORT, 1), Body::Want);
    }

    pub(super) fn send_no(&mut self, from: u32, to: u32) {
        self.send(from, to, (SHORT, 1), Body::No);
    }

    pub(super) fn send_parcel(&mut self, from: u32, to: u32, task: Task) {
        let name = self.config.name_bytes;
        let bytes = match &task {
            Task::Names { dir, names, .. } => SHORT + (u64::from(dir.depth) + names.end - names.start) * name,
            Task::Chunk { .. } => SHORT * 4,
        };
        self.send(from, to, (bytes, 1), Body::Parcel(task));
    }

    pub(super) fn send_done(&mut self, from: u32, above: u32) {
        let to = self.parts.get(above).rank;
        self.send(from, to, (SHORT, 1), Body::Done(above));
    }

    pub(super) fn send_chunk_done(&mut self, from: u32, to: u32, large: u32) {
        self.send(from, to, (SHORT, 1), Body::ChunkDone(large));
    }

    /// Files of several names among these are claimed at the rank that keeps their table, and the one who made a file is asked
    /// where; that goes to the keeper here, too. Gives the time that the thread waits for the answers, in seconds.
    pub(super) fn claim_links(&mut self, thread: u32, place: u64, files: f64) -> f64 {
        if self.config.links == 0.0 || self.config.ranks == 1 {
            return 0.0;
        }
        self.totals.links += files * self.config.links;
        let claims = (self.totals.links - self.totals.claimed as f64) as u64;
        let rank = self.threads[thread as usize].rank;
        let keeper = (mix(place) % self.config.ranks) as u32;
        self.totals.claimed += claims;
        if claims == 0 || keeper == rank {
            return 0.0;
        }
        self.send(rank, keeper, (SHORT * 2 * claims, 2 * claims), Body::Claim);
        claims as f64 * 4.0 * (self.config.network_latency + self.config.poll / 2.0 + 2.0 * self.config.message_cost)
    }

    /// Files that could not be copied are named at rank 0.
    pub(super) fn report_errors(&mut self, rank: u32, files: u64) {
        if self.config.errors == 0.0 {
            return;
        }
        self.totals.errors += files as f64 * self.config.errors;
        let news = (self.totals.errors - self.totals.reported as f64) as u64;
        self.totals.reported += news;
        if news > 0 && rank != 0 {
            self.send(rank, 0, (SHORT * 4 * news, news), Body::Error);
        }
    }

    /// The directory that is copied is finished: rank 0 says so to all, and waits for their totals.
    pub(super) fn end_of_job(&mut self) {
        self.totals.copied_after = seconds(self.now);
        self.ranks[0].ended = true;
        self.finished = self.config.ranks == 1;
        for rank in 1..self.config.ranks {
            self.send(0, rank as u32, (SHORT, 1), Body::End);
        }
    }
}
