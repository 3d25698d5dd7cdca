//! The line to the other processes: MPI, used by one thread alone (MPI_THREAD_FUNNELED).
//!
//! A message is sent and waited for while others are received, so two processes that send to each other never wait for
//! each other. MPI has nothing to sleep on until a message comes: the thread asks, and rests between two questions for a
//! time that grows while nothing happens, so that it takes next to nothing of a processor that copies.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpi::Tag;
use mpi::point_to_point::MatchedReceiveVec;
use mpi::request;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};

use haul_frontend::screen::Screen;

use crate::broadcast::Broadcast;
use crate::exchange::Exchange;
use crate::name::NAME;
use crate::stuck;
use crate::talk::Talk;

/// The shortest and the longest time between two questions whether a message has come.
pub const SHORT_REST: Duration = Duration::from_micros(20);
const LONG_REST: Duration = Duration::from_micros(500);
/// How long a process listens when all have come to the end of the job.
const LINGER: Duration = Duration::from_millis(100);
/// Messages that are sent before somebody listens again.
const AT_ONCE: usize = 16;
/// What ordinary messages and goodbyes are known by.
const TALK: Tag = 0;
const GOODBYE: Tag = 1;
/// Time for last words to be read: MPICH's mpirun drops what is still on its way when a process ends the job.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// The messages of MPI.
pub struct Line<'w> {
    world: &'w SimpleCommunicator,
    rank: usize,
    ranks: usize,
    machine: usize,
    /// What has come and was not looked at.
    inbox: VecDeque<(usize, Vec<u8>)>,
    /// Goodbyes that have come.
    goodbyes: usize,
    /// Gets what is about parts of sources when it comes, also while something is being sent.
    broadcast: Option<Arc<Broadcast>>,
}

impl<'w> Line<'w> {
    /// Over this communicator.
    pub fn new(world: &'w SimpleCommunicator) -> Line<'w> {
        let number = |number: i32| usize::try_from(number).unwrap_or_default();
        let node = world.split_shared(world.rank());
        let mut near = vec![0_i32; number(node.size())];
        node.all_gather_into(&world.rank(), &mut near[..]);
        let machine = near.into_iter().min().map_or(0, number);
        Line {
            world,
            rank: number(world.rank()),
            ranks: number(world.size()),
            machine,
            inbox: VecDeque::new(),
            goodbyes: 0,
            broadcast: None,
        }
    }

    /// The number of this process.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many there are.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// The lowest rank that shares memory with this one.
    pub fn machine(&self) -> usize {
        self.machine
    }

    /// What is about parts of sources goes there from now on.
    pub fn listen_for(&mut self, broadcast: Arc<Broadcast>) {
        self.broadcast = Some(broadcast);
    }

    /// From rank 0 to all others.
    pub fn send_to_others(&mut self, bytes: &[u8]) {
        for rank in 1..self.ranks {
            self.send(rank, bytes);
        }
    }

    /// Sends what waits to be said; false if nothing does.
    pub fn send_waiting(&mut self, exchange: &Exchange) -> bool {
        let mut any = false;
        while self.send_some(exchange) {
            any = true;
        }
        any
    }

    /// Sends some of what waits to be said, and leaves the rest for when somebody has listened; false if nothing waits.
    pub fn send_some(&mut self, exchange: &Exchange) -> bool {
        let mut any = false;
        for (to, talk) in (0..AT_ONCE).map_while(|_| exchange.next_out()) {
            self.send(to, &talk.encode());
            any = true;
        }
        any
    }

    /// Sends bytes; meanwhile takes in what comes.
    pub fn send(&mut self, to: usize, bytes: &[u8]) {
        self.send_as(TALK, to, bytes);
    }

    fn send_as(&mut self, tag: Tag, to: usize, bytes: &[u8]) {
        // There are no more processes than MPI can count.
        let to = self.world.process_at_rank(i32::try_from(to).unwrap_or(i32::MAX));
        request::scope(|scope| {
            let mut sending = stuck::within(|| to.immediate_send_with_tag(scope, bytes, tag));
            let mut rest = Duration::ZERO;
            loop {
                sending = match stuck::within(|| sending.test()) {
                    Ok(_sent) => return,
                    Err(sending) => sending,
                };
                if !self.take_in() {
                    std::thread::sleep(rest);
                    rest = (rest + SHORT_REST).min(LONG_REST);
                }
            }
        });
    }

    /// Takes in what has come; false if nothing has.
    fn take_in(&mut self) -> bool {
        let mut any = false;
        while let Some(message) = stuck::within(|| self.world.any_process().immediate_matched_probe()) {
            let (bytes, status) = message.matched_receive_vec::<u8>();
            let from = usize::try_from(status.source_rank()).unwrap_or_default();
            any = true;
            if status.tag() == GOODBYE {
                self.goodbyes += 1;
                continue;
            }
            match self.broadcast.as_ref().filter(|_| Talk::is_of_sources(&bytes)) {
                Some(broadcast) => broadcast.hear(from, Talk::decode(bytes)),
                None => self.inbox.push_back((from, bytes)),
            }
        }
        any
    }

    /// The next message that has come.
    pub fn receive(&mut self) -> Option<(usize, Vec<u8>)> {
        if self.inbox.is_empty() {
            self.take_in();
        }
        self.inbox.pop_front()
    }

    /// Waits for the next message.
    pub fn wait(&mut self) -> (usize, Vec<u8>) {
        self.wait_for(|_| true)
    }

    /// Waits for the next message of this process. What others send meanwhile stays for later: they may have begun already.
    pub fn wait_for_rank(&mut self, rank: usize) -> Vec<u8> {
        self.wait_for(|from| from == rank).1
    }

    fn wait_for(&mut self, wanted: impl Fn(usize) -> bool) -> (usize, Vec<u8>) {
        let mut rest = SHORT_REST;
        loop {
            self.take_in();
            let found = self.inbox.iter().position(|(from, _)| wanted(*from));
            if let Some(message) = found.and_then(|at| self.inbox.remove(at)) {
                return message;
            }
            std::thread::sleep(rest);
            rest = (2 * rest).min(LONG_REST);
        }
    }

    /// Waits until all processes have come here, and takes in what somebody still sends meanwhile. MPI's own end of a job does
    /// not do that everywhere: with MPICH over UCX a process that still sends to one that has ended seems to wait for ever. All
    /// meet at rank 0, with which all have talked before: what makes a new connection may end so, too.
    pub fn leave(&mut self) {
        match self.rank {
            0 => {
                self.wait_for_goodbyes(self.ranks - 1);
                (1..self.ranks).for_each(|rank| self.send_as(GOODBYE, rank, &[]));
            }
            _ => {
                self.send_as(GOODBYE, 0, &[]);
                self.wait_for_goodbyes(1);
            }
        }
        // A connection that two others were just making needs both of its ends for a moment more.
        let end = Instant::now() + LINGER;
        while self.ranks > 2 && Instant::now() < end {
            self.take_in();
            std::thread::sleep(LONG_REST);
        }
    }

    fn wait_for_goodbyes(&mut self, count: usize) {
        let mut rest = SHORT_REST;
        while self.goodbyes < count {
            let busy = self.take_in();
            rest = next_rest(rest, busy);
            std::thread::sleep(rest);
        }
    }

    /// Ends all processes at once, and says on the standard error of this one, which is called `label`, that it does.
    pub fn give_up(&self, label: &str, status: u8) -> ! {
        let text = format!("{NAME}: {label} cannot go on; all processes of the job are ended\n");
        Screen::of_process().complain(text.as_bytes());
        std::thread::sleep(LAST_WORDS);
        self.world.abort(i32::from(status))
    }
}

/// The time until the next question, after this one.
pub fn next_rest(rest: Duration, busy: bool) -> Duration {
    if busy { SHORT_REST } else { (rest + rest / 2).min(LONG_REST) }
}
