//! What is counted, and the report that is made of it.

use super::World;
use super::message::Body;
use crate::clock::seconds;
use crate::report::{Flow, Report};

/// Kinds of messages, in the order of [`crate::report::MESSAGES`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Want,
    No,
    Parcel,
    Chunk,
    Done,
    Link,
    Error,
    End,
}

impl Kind {
    pub fn of(body: &Body) -> Kind {
        match body {
            Body::Want => Kind::Want,
            Body::No => Kind::No,
            Body::Parcel(super::Task::Names { .. }) => Kind::Parcel,
            Body::Parcel(super::Task::Chunk { .. }) => Kind::Chunk,
            Body::Done(_) | Body::ChunkDone(_) => Kind::Done,
            Body::Claim | Body::Answer => Kind::Link,
            Body::Error => Kind::Error,
            Body::End | Body::Summary | Body::Status => Kind::End,
        }
    }
}

/// Messages in each second.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Window {
    second: u64,
    count: u64,
    peak: u64,
    total: u64,
}

impl Window {
    pub fn add(&mut self, second: u64, count: u64) {
        if second != self.second {
            (self.second, self.count) = (second, 0);
        }
        self.count += count;
        self.total += count;
        self.peak = self.peak.max(self.count);
    }

    fn flow(&self) -> Flow {
        Flow { total: self.total, peak: self.peak }
    }
}

#[derive(Debug, Default)]
pub(super) struct Totals {
    pub files: u64,
    pub large: u64,
    pub bytes: u64,
    pub directories: u64,
    pub copied_after: f64,
    pub at_rank_0: Window,
    /// Files of several names that were met, and those of them that were claimed.
    pub links: f64,
    pub claimed: u64,
    /// The same for errors.
    pub errors: f64,
    pub reported: u64,
    messages: [u64; 8],
}

impl Totals {
    pub fn count(&mut self, kind: Kind, weight: u64) {
        self.messages[kind as usize] += weight;
    }
}

/// Memory of an entry in the table of hard links.
const LINK_BYTES: f64 = 64.0;

impl World<'_> {
    pub(super) fn report(&self) -> Report {
        let config = self.config;
        let time = seconds(self.now).max(1e-9);
        let share = |busy: u64, servers: usize| seconds(busy) / time / servers as f64;
        let threads = config.threads_of_a_rank() as usize;
        let idle: Vec<f64> = self.ranks.iter().map(|rank| 1.0 - share(rank.busy, threads)).collect();
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let start = config.start + config.start_per_rank * config.ranks as f64;
        let busiest = self.nodes.iter().map(|node| node.messages).max_by_key(|window| window.total).unwrap_or_default();
        let rounds = if config.progress_interval > 0.0 { (time / config.progress_interval) as u64 } else { 0 };
        Report {
            ranks: config.ranks,
            nodes: config.nodes(),
            threads: threads as u64,
            seconds: start + time,
            files: self.totals.files,
            large_files: self.totals.large,
            directories: self.totals.directories,
            bytes: self.totals.bytes,
            metadata_busy: self.metadata.iter().map(|server| share(server.busy, 1)).sum::<f64>()
                / self.metadata.len() as f64,
            metadata_busiest: most(&mut self.metadata.iter().map(|server| share(server.busy, 1))),
            read_busy: share(self.read.busy, 1),
            write_busy: share(self.write.busy, 1),
            processors_busy: self
                .nodes
                .iter()
                .map(|node| share(node.cores.busy, config.cores_per_node as usize))
                .sum::<f64>()
                / self.nodes.len() as f64,
            communication_busiest: most(&mut self.ranks.iter().map(|rank| share(rank.communication.busy, 1))),
            idle: idle.iter().sum::<f64>() / idle.len() as f64,
            idle_most: most(&mut idle.iter().copied()),
            end_seconds: (time - self.totals.copied_after).max(0.0),
            messages: self.totals.messages,
            progress_messages: rounds * (config.ranks - 1),
            at_rank_0: self.totals.at_rank_0.flow(),
            busiest_node: busiest.flow(),
            longest_queue: self.ranks.iter().map(|rank| rank.longest_queue as u64).max().unwrap_or(0),
            memory: self.ranks.iter().map(|rank| rank.most_memory).max().unwrap_or(0),
            link_table: (self.totals.links * LINK_BYTES / config.ranks as f64) as u64,
            left_over: (self.parts.len() + self.large.len()) as u64,
            events: self.clock.planned(),
        }
    }
}
