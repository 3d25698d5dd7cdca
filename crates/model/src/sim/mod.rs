//! The simulation: what there is, and what happens next.
//!
//! `walk` is what a thread does, `share` who gives what to whom, `parts` when a directory is finished, `large` the chunks
//! of large files, `message` the way between ranks, `outcome` what is counted.

mod large;
mod message;
mod outcome;
mod parts;
mod share;
mod walk;

use crate::Config;
use crate::clock::{Clock, Nanos, nanos};
use crate::report::Report;
use crate::server::{Cores, Server};
use crate::slab::Slab;
use crate::tree::Tree;
use large::Large;
use message::Message;
use outcome::{Totals, Window};
use parts::Part;
use share::{Order, Task, Wanter};
use walk::{Frame, Then, Work};

/// What was done, for whoever watches a simulation. Directories are known by [`crate::Dir::id`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// A directory was made at the destination.
    Made {
        /// Which one.
        dir: u64,
        /// In which one; `None` for the first.
        parent: Option<u64>,
    },
    /// The regular files of these names were copied.
    Files {
        /// Where they are.
        dir: u64,
        /// The first name.
        from: u64,
        /// The name behind the last one.
        to: u64,
    },
    /// A chunk of a large file was copied.
    Chunk {
        /// Where the file is.
        dir: u64,
        /// Its name.
        name: u64,
        /// Which chunk.
        index: u64,
    },
    /// A large file has all its chunks.
    Large {
        /// Where the file is.
        dir: u64,
        /// Its name.
        name: u64,
    },
    /// A directory got its attributes, and nothing happens in it any more.
    Finished {
        /// Which one.
        dir: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The thread may begin what it has to do.
    Begin(u32),
    /// The metadata server has done what the thread wanted.
    Served(u32),
    /// The thread has done what it had to do.
    Done(u32),
    /// A directory that waited for parts has its attributes.
    Finished(u32),
    /// A message is there.
    Arrived(u32),
    /// The communication thread has looked at it.
    Delivered(u32),
    /// The request for work has waited long enough.
    Impatient { rank: u32, stamp: u64 },
    /// A rank that was refused by all asks again.
    Rested(u32),
}

struct Thread {
    rank: u32,
    stack: Vec<Frame>,
    work: Work,
    then: Then,
    began: Nanos,
}

struct Rank {
    node: u32,
    /// How many times slower than others.
    factor: f64,
    communication: Server,
    /// Of a slow rank only: what it gets of its node's bandwidth.
    link: Server,
    threads: std::ops::Range<u32>,
    idle: Vec<u32>,
    /// Work that came when no thread was idle any more.
    inbox: std::collections::VecDeque<Task>,
    wanters: std::collections::VecDeque<Wanter>,
    asking: bool,
    /// All others were asked in vain; it waits before it asks again.
    resting: bool,
    order: Order,
    /// Large files of its threads.
    large: Vec<u32>,
    ended: bool,
    parts: u64,
    busy: Nanos,
    longest_queue: usize,
    most_memory: u64,
}

struct Node {
    cores: Cores,
    read: Server,
    write: Server,
    messages: Window,
}

struct World<'a> {
    config: &'a Config,
    tree: Tree,
    clock: Clock<Event>,
    now: Nanos,
    chance: fastrand::Rng,
    threads: Vec<Thread>,
    ranks: Vec<Rank>,
    nodes: Vec<Node>,
    parts: Slab<Part>,
    large: Slab<Large>,
    mail: Slab<Message>,
    metadata: Vec<Server>,
    read: Server,
    write: Server,
    files_of_a_step: u64,
    stamps: u64,
    totals: Totals,
    /// Ranks whose totals rank 0 has.
    summaries: u64,
    /// Ranks that know how the job has ended.
    heard: u64,
    finished: bool,
    observe: &'a mut dyn FnMut(Nanos, Observed),
}

/// Simulates.
///
/// # Errors
/// A value of the configuration cannot be, or there were more events than it allows.
pub fn simulate(config: &Config) -> Result<Report, String> {
    simulate_observed(config, &mut |_, _| ())
}

/// Simulates, and tells `observe` what is done and when, in nanoseconds.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_observed(config: &Config, observe: &mut dyn FnMut(u64, Observed)) -> Result<Report, String> {
    config.check()?;
    let mut world = World::new(config, observe);
    let first = world.tree.root();
    world.make_directory(0, first);
    for thread in 1..world.threads.len() {
        world.idle(thread as u32);
    }
    for rank in 0..world.ranks.len() {
        world.feed(rank as u32);
    }
    while !world.finished {
        let Some((now, event)) = world.clock.next() else {
            return Err(
                "the model stands still although the copy is not done: this is a mistake in the model".to_owned()
            );
        };
        if world.clock.planned() > config.most_events {
            return Err(format!(
                "more than {} events, at {:.1} simulated seconds; a larger batch or most-events helps",
                config.most_events,
                crate::clock::seconds(now)
            ));
        }
        world.now = now;
        world.happens(event);
    }
    Ok(world.report())
}

impl<'a> World<'a> {
    fn new(config: &'a Config, observe: &'a mut dyn FnMut(Nanos, Observed)) -> World<'a> {
        let threads_of_a_rank = config.threads_of_a_rank();
        let mut chance = fastrand::Rng::with_seed(config.seed);
        let mut threads = Vec::new();
        let mut ranks = Vec::new();
        for rank in 0..config.ranks {
            let first = threads.len() as u32;
            threads.extend((0..threads_of_a_rank).map(|_| Thread::new(rank as u32)));
            let order = Order::new(&mut chance, rank, config.ranks, config.pause);
            ranks.push(Rank::new(config, rank, first..threads.len() as u32, order));
        }
        World {
            config,
            tree: Tree::new(config),
            clock: Clock::new(),
            now: 0,
            chance,
            threads,
            ranks,
            nodes: (0..config.nodes()).map(|node| Node::new(config, node)).collect(),
            parts: Slab::new(),
            large: Slab::new(),
            mail: Slab::new(),
            metadata: vec![Server::with_rate(config.metadata_rate); config.metadata_servers as usize],
            read: Server::with_rate(config.read_bandwidth),
            write: Server::with_rate(config.write_bandwidth),
            files_of_a_step: config.files_of_a_step(),
            stamps: 0,
            totals: Totals::default(),
            summaries: 0,
            heard: 0,
            finished: false,
            observe,
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Begin(thread) => self.ask_metadata_server(thread),
            Event::Served(thread) => self.work_and_move_data(thread),
            Event::Done(thread) => {
                let rank = self.threads[thread as usize].rank;
                self.ranks[rank as usize].busy += self.now - self.threads[thread as usize].began;
                self.thread_is_done(thread);
                self.feed(rank);
            }
            Event::Finished(part) => self.complete(part),
            Event::Arrived(message) => self.arrived(message),
            Event::Delivered(message) => self.delivered(message),
            Event::Impatient { rank, stamp } => self.impatient(rank, stamp),
            Event::Rested(rank) => {
                self.ranks[rank as usize].resting = false;
                self.feed(rank);
            }
        }
    }

    fn see(&mut self, what: Observed) {
        (self.observe)(self.now, what);
    }

    fn node_of(&self, rank: u32) -> u32 {
        self.ranks[rank as usize].node
    }

    /// The thread does this, and then that.
    fn begin(&mut self, thread: u32, work: Work, then: Then) {
        let slot = &mut self.threads[thread as usize];
        slot.began = self.now;
        slot.then = then;
        let not_before = work.not_before;
        slot.work = work;
        if not_before > self.now {
            self.clock.at(not_before, Event::Begin(thread));
        } else {
            self.ask_metadata_server(thread);
        }
    }

    fn ask_metadata_server(&mut self, thread: u32) {
        let work = &self.threads[thread as usize].work;
        let server = (work.directory % self.metadata.len() as u64) as usize;
        let (server, operations) = (&mut self.metadata[server], work.operations);
        if server.has_no_limit() || operations == 0.0 {
            return self.work_and_move_data(thread);
        }
        let served = server.book(self.now, operations);
        self.clock.at(served, Event::Served(thread));
    }

    /// Processor time, the ways there and back, and the transfer. Processor and transfer go on at the same time.
    fn work_and_move_data(&mut self, thread: u32) {
        let Thread { rank, work, .. } = &self.threads[thread as usize];
        let rank = &mut self.ranks[*rank as usize];
        let node = &mut self.nodes[rank.node as usize];
        let (now, bytes) = (self.now, work.bytes as f64);
        let processed = node.cores.book(now, nanos(work.processor)).max(now + nanos(work.processor * rank.factor));
        let waited = processed + nanos(work.waits * rank.factor);
        let links = [
            self.read.book(now, bytes),
            self.write.book(now, bytes),
            node.read.book(now, bytes),
            node.write.book(now, bytes),
            rank.link.book(now, bytes),
        ];
        let done = links.into_iter().fold(waited, Nanos::max);
        self.clock.at(done, Event::Done(thread));
    }
}

impl Thread {
    fn new(rank: u32) -> Thread {
        Thread { rank, stack: Vec::new(), work: Work::default(), then: Then::Nothing, began: 0 }
    }
}

impl Rank {
    fn new(config: &Config, rank: u64, threads: std::ops::Range<u32>, order: Order) -> Rank {
        let factor = config.slow.iter().find(|(slow, _)| *slow == rank).map_or(1.0, |(_, factor)| *factor);
        let link = if factor > 1.0 { config.client_bandwidth / factor } else { 0.0 };
        Rank {
            node: (rank / config.ranks_per_node) as u32,
            factor,
            communication: Server::with_cost(config.message_cost * factor),
            link: Server::with_rate(link),
            threads,
            idle: Vec::new(),
            inbox: std::collections::VecDeque::new(),
            wanters: std::collections::VecDeque::new(),
            asking: false,
            resting: false,
            order,
            large: Vec::new(),
            ended: false,
            parts: 0,
            busy: 0,
            longest_queue: 0,
            most_memory: 0,
        }
    }
}

impl Node {
    fn new(config: &Config, node: u64) -> Node {
        let ranks = config.ranks_per_node.min(config.ranks - node * config.ranks_per_node);
        let taken = ranks as f64 * config.communication_share / config.cores_per_node as f64;
        Node {
            cores: Cores::new(config.cores_per_node, (1.0 - taken).max(0.05)),
            read: Server::with_rate(config.client_bandwidth),
            write: Server::with_rate(config.client_bandwidth),
            messages: Window::default(),
        }
    }
}
