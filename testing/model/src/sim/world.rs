//! What there is: ranks, their threads, machines, servers, and what these do with the work that they are given.

use super::message::Message;
use super::observed::Observed;
use super::order::{Order, Wanter};
use super::totals::{Totals, Window};
use super::work::{Frame, Task, Then, Work};
use crate::clock::{Clock, Nanos, nanos};
use crate::config::Config;
use crate::server::{Cores, Server};
use crate::slab::Slab;
use crate::tree::Tree;

/// Memory of the real program, as far as it depends on the tree: a directory that a thread is in, with its
/// descriptors' places and its counts; a part that is not done; what a name takes beside its bytes.
const FRAME_BYTES: u64 = 512;
const PART_BYTES: u64 = 256;
const NAME_BYTES: u64 = 40;

/// What is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
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

/// A thread of a rank.
pub(super) struct Thread {
    pub rank: u32,
    pub stack: Vec<Frame>,
    pub work: Work,
    pub then: Then,
    pub began: Nanos,
}

/// A process of the job.
pub(super) struct Rank {
    pub node: u32,
    /// How many times slower than others.
    pub factor: f64,
    pub communication: Server,
    /// Of a slow rank only: what it gets of its node's bandwidth.
    pub link: Server,
    pub threads: std::ops::Range<u32>,
    pub idle: Vec<u32>,
    /// Work that came when no thread was idle any more.
    pub inbox: std::collections::VecDeque<Task>,
    pub wanters: std::collections::VecDeque<Wanter>,
    pub asking: bool,
    /// All others were asked in vain; it waits before it asks again.
    pub resting: bool,
    pub order: Order,
    /// Large files of its threads.
    pub large: Vec<u32>,
    pub ended: bool,
    pub parts: u64,
    pub busy: Nanos,
    pub longest_queue: usize,
    pub most_memory: u64,
}

/// A machine.
pub(super) struct Node {
    pub cores: Cores,
    pub read: Server,
    pub write: Server,
    pub messages: Window,
}

/// All there is.
pub(super) struct World<'a> {
    pub config: &'a Config,
    pub tree: Tree,
    pub clock: Clock<Event>,
    pub now: Nanos,
    pub chance: fastrand::Rng,
    pub threads: Vec<Thread>,
    pub ranks: Vec<Rank>,
    pub nodes: Vec<Node>,
    pub parts: Slab<Part>,
    pub large: Slab<Large>,
    pub mail: Slab<Message>,
    pub metadata: Vec<Server>,
    pub read: Server,
    pub write: Server,
    pub files_of_a_step: u64,
    pub stamps: u64,
    pub totals: Totals,
    /// Ranks whose totals rank 0 has.
    pub summaries: u64,
    /// Ranks that know how the job has ended.
    pub heard: u64,
    pub finished: bool,
    pub observe: &'a mut dyn FnMut(Nanos, Observed),
}

/// A directory in the hands of the rank that made it, or a part of its names in the hands of another.
#[derive(Debug)]
pub(super) struct Part {
    /// Who has it.
    pub rank: u32,
    /// Whose part it is. `None`: it is the directory that is copied.
    pub above: Option<u32>,
    /// Parts given away, and directories below, that are not done.
    pub pending: u64,
    /// All names are begun.
    pub walked: bool,
    /// The directory, if this is the one who made it and sets its attributes.
    pub made: Option<u64>,
}

/// A large file that is being copied.
#[derive(Debug)]
pub(super) struct Large {
    pub owner: u32,
    pub rank: u32,
    pub dir: u64,
    pub depth: u32,
    pub name: u64,
    /// Chunks that are not begun.
    pub left: std::ops::Range<u64>,
    pub chunks: u64,
    /// Chunks in other hands.
    pub out: u64,
    /// The owner has nothing to do but wait for them.
    pub waiting: bool,
    pub made: Nanos,
}

impl<'a> World<'a> {
    pub(super) fn new(config: &'a Config, observe: &'a mut dyn FnMut(Nanos, Observed)) -> World<'a> {
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

    pub(super) fn see(&mut self, what: Observed) {
        (self.observe)(self.now, what);
    }

    pub(super) fn node_of(&self, rank: u32) -> u32 {
        self.ranks[rank as usize].node
    }

    /// Work of the metadata server of a directory, with its ways there and back.
    pub(super) fn operations(&self, directory: u64, operations: f64) -> Work {
        Work { operations, directory, waits: operations * self.config.metadata_latency, ..Work::default() }
    }

    /// The thread does this, and then that.
    pub(super) fn begin(&mut self, thread: u32, work: Work, then: Then) {
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

    pub(super) fn ask_metadata_server(&mut self, thread: u32) {
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
    pub(super) fn work_and_move_data(&mut self, thread: u32) {
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

    /// The thread has nothing to do. The rank has to be fed then.
    pub(super) fn idle(&mut self, thread: u32) {
        let rank = self.threads[thread as usize].rank;
        self.ranks[rank as usize].idle.push(thread);
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
