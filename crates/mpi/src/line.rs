//! The line to the other processes: MPI, used by one thread alone (MPI_THREAD_FUNNELED).
//!
//! A message is sent and waited for while others are received, so two processes that send to each other never wait for
//! each other. MPI has nothing to sleep on until a message comes: the thread asks, and rests between two questions for a
//! time that grows while nothing happens, so that it takes next to nothing of a processor that copies.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mpi::point_to_point::MatchedReceiveVec;
use mpi::request;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Source};

use haul_copy::run::Transport;

use crate::exchange::Exchange;
use crate::stuck;
use crate::talk::Talk;

/// The shortest and the longest time between two questions whether a message has come.
pub const SHORT_REST: Duration = Duration::from_micros(20);
pub const LONG_REST: Duration = Duration::from_micros(500);
/// How long a process that was asked for work looks whether it gets some to give; the second one, if it has none itself.
const HOLD: Duration = Duration::from_millis(20);
const SHORT_HOLD: Duration = Duration::from_millis(1);
/// The shortest and the longest time between two questions for work, when all have been asked in vain.
const SHORT_PAUSE: Duration = Duration::from_millis(1);
const LONG_PAUSE: Duration = Duration::from_millis(100);
/// Time between two reports of how far a process is.
const REPORT: Duration = Duration::from_millis(250);

/// The messages of MPI.
pub struct Line<'w> {
    world: &'w SimpleCommunicator,
    rank: usize,
    ranks: usize,
    /// What has come and was not looked at.
    inbox: VecDeque<(usize, Vec<u8>)>,
}

impl<'w> Line<'w> {
    /// Over this communicator.
    pub fn new(world: &'w SimpleCommunicator) -> Line<'w> {
        let number = |number: i32| usize::try_from(number).unwrap_or_default();
        Line { world, rank: number(world.rank()), ranks: number(world.size()), inbox: VecDeque::new() }
    }

    /// The number of this process.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many there are.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Sends bytes; meanwhile takes in what comes.
    pub fn send(&mut self, to: usize, bytes: &[u8]) {
        // There are no more processes than MPI can count.
        let to = self.world.process_at_rank(i32::try_from(to).unwrap_or(i32::MAX));
        request::scope(|scope| {
            let mut sending = stuck::within(|| to.immediate_send(scope, bytes));
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
            self.inbox.push_back((usize::try_from(status.source_rank()).unwrap_or_default(), bytes));
            any = true;
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

    /// Ends all processes at once.
    pub fn abort(&self, status: i32) -> ! {
        self.world.abort(status)
    }
}

/// What the front end does with what is not for the run.
pub trait Host {
    /// Text of another process for standard output (true) or standard error.
    fn text(&self, output: bool, text: &[u8]);
    /// Another process has done so many more bytes and entries.
    fn progress(&self, bytes: u64, entries: u64);
    /// Bytes and entries that this process has done since the last time, if it is asked for.
    fn own_progress(&self) -> Option<(u64, u64)>;
    /// The job is to stop.
    fn cancel(&self);
    /// Whether this process was asked to stop.
    fn is_cancelled(&self) -> bool;
    /// What another process has done. True if all was well.
    fn account(&self, from: usize, bytes: &[u8]) -> bool;
    /// The run of this process is over: what it has done. `None` as long as it is not.
    fn own_account(&self) -> Option<Vec<u8>>;
    /// Rank 0: the exit status, once its own run is over, too.
    fn status(&self) -> Option<u8>;
    /// The run of this process has ended in a way that it was not meant to.
    fn has_panicked(&self) -> bool;
    /// Reports by itself that this process ends the job.
    fn says_farewell(&self);
}

/// Carries messages until the job is over; returns its exit status.
pub struct Carrier<'a, 'w> {
    line: &'a mut Line<'w>,
    exchange: &'a Exchange,
    host: &'a dyn Host,
    /// Whom this process asks for work, and whom it has asked.
    victims: VecDeque<usize>,
    asked: Option<usize>,
    next_question: Instant,
    pause: Duration,
    refused: usize,
    /// Rank 0: how many have ended, and whether all of them did well.
    ended: usize,
    all_well: bool,
    said_end: bool,
    said_cancel: bool,
    said_account: bool,
    next_report: Instant,
}

impl<'a, 'w> Carrier<'a, 'w> {
    /// For the messages of this run.
    pub fn new(line: &'a mut Line<'w>, exchange: &'a Exchange, host: &'a dyn Host) -> Carrier<'a, 'w> {
        let (rank, ranks) = (line.rank(), line.ranks());
        let mut others: Vec<usize> = (0..ranks).filter(|other| *other != rank).collect();
        fastrand::shuffle(&mut others);
        // At first only rank 0 has something. If everybody asked the one above it in a binary tree, nobody is asked by many.
        let above = rank.saturating_sub(1) / 2;
        others.sort_by_key(|other| *other != above);
        let now = Instant::now();
        Carrier {
            line,
            exchange,
            host,
            victims: others.into(),
            asked: None,
            next_question: now,
            pause: SHORT_PAUSE,
            refused: 0,
            ended: 0,
            all_well: true,
            said_end: false,
            said_cancel: false,
            said_account: false,
            next_report: now + REPORT,
        }
    }

    /// Does it.
    pub fn carry(mut self) -> u8 {
        let mut rest = SHORT_REST;
        loop {
            let mut busy = false;
            while let Some((to, talk)) = self.exchange.next_out() {
                self.line.send(to, &talk.encode());
                busy = true;
            }
            while let Some((from, bytes)) = self.line.receive() {
                busy = true;
                if let Some(Talk::Status(status)) = self.hear(from, bytes) {
                    self.exchange.hang_up();
                    return status;
                }
            }
            self.look_around();
            if self.exchange.has_given_up() || self.host.has_panicked() {
                while let Some((to, talk)) = self.exchange.next_out() {
                    self.line.send(to, &talk.encode());
                }
                // Here, too: rank 0 may have no time to say what it has heard. With `--resume` another job goes on.
                self.host.says_farewell();
                self.line.abort(1);
            }
            if let Some(status) = self.end_if_all_is_done() {
                return status;
            }
            rest = if busy { SHORT_REST } else { (rest + rest / 2).min(LONG_REST) };
            self.exchange.wait(rest);
        }
    }

    /// One message. Returns it if it ends the job.
    fn hear(&mut self, from: usize, bytes: Vec<u8>) -> Option<Talk> {
        let Some(talk) = Talk::decode(bytes) else {
            // Another version: somebody would wait for ever for what it wanted.
            self.exchange.give_up();
            return None;
        };
        match talk {
            Talk::Run(bytes) => self.exchange.deliver(from, bytes),
            Talk::Want => self.exchange.is_wanted_by(from),
            Talk::Work(bytes) => {
                self.asked = None;
                (self.refused, self.pause) = (0, SHORT_PAUSE);
                // A rank that had something is likely to have more.
                self.victims.retain(|victim| *victim != from);
                self.victims.push_front(from);
                self.exchange.deliver(from, bytes);
            }
            Talk::No => {
                self.asked = None;
                self.refused += 1;
                self.victims.rotate_left(1);
                if self.refused >= self.victims.len() {
                    self.refused = 0;
                    self.next_question = Instant::now() + self.pause;
                    self.pause = (2 * self.pause).min(LONG_PAUSE);
                }
            }
            Talk::Text(output, text) => self.host.text(output, &text),
            Talk::Progress(bytes, entries) => self.host.progress(bytes, entries),
            Talk::Cancel => {
                self.host.cancel();
                self.stop_all();
            }
            Talk::End => self.exchange.hang_up(),
            Talk::Account(bytes) => {
                self.all_well &= self.host.account(from, &bytes);
                self.ended += 1;
                if self.ended + 1 == self.line.ranks() {
                    self.exchange.others_have_ended(self.all_well);
                    self.exchange.hang_up();
                }
            }
            status @ Talk::Status(_) => return Some(status),
        }
        None
    }

    /// What is to be done from time to time.
    fn look_around(&mut self) {
        // A rank that asks a process without work loses time: in the model (docs/cluster.md) 256 ranks were 19 % slower.
        let hold = if self.exchange.is_hungry() { SHORT_HOLD } else { HOLD };
        for rank in self.exchange.tired_of_waiting(hold) {
            self.line.send(rank, &Talk::No.encode());
        }
        if self.asked.is_none()
            && Instant::now() >= self.next_question
            && !self.said_account
            && self.exchange.is_hungry()
            && let Some(victim) = self.victims.front().copied()
        {
            self.asked = Some(victim);
            self.line.send(victim, &Talk::Want.encode());
        }
        if !self.said_cancel && self.host.is_cancelled() {
            self.stop_all();
        }
        if self.line.rank() != 0 && Instant::now() >= self.next_report {
            self.report();
        }
    }

    fn report(&mut self) {
        self.next_report = Instant::now() + REPORT;
        if let Some((bytes, entries)) = self.host.own_progress().filter(|done| *done != (0, 0)) {
            self.line.send(0, &Talk::Progress(bytes, entries).encode());
        }
    }

    /// Rank 0 notifies everybody, the others notify rank 0.
    fn stop_all(&mut self) {
        if std::mem::replace(&mut self.said_cancel, true) {
            return;
        }
        let to = if self.line.rank() == 0 { 1..self.line.ranks() } else { 0..1 };
        for rank in to {
            self.line.send(rank, &Talk::Cancel.encode());
        }
    }

    fn end_if_all_is_done(&mut self) -> Option<u8> {
        if self.line.rank() != 0 {
            // Everything that the run has said goes first.
            if !self.said_account
                && let Some(account) = self.host.own_account()
            {
                self.said_account = true;
                self.report();
                while let Some((to, talk)) = self.exchange.next_out() {
                    self.line.send(to, &talk.encode());
                }
                self.line.send(0, &Talk::Account(account).encode());
            }
            return None;
        }
        if self.exchange.is_over() && !std::mem::replace(&mut self.said_end, true) {
            for rank in 1..self.line.ranks() {
                self.line.send(rank, &Talk::End.encode());
            }
            if self.line.ranks() == 1 {
                self.exchange.others_have_ended(true);
                self.exchange.hang_up();
            }
        }
        let status = self.host.status()?;
        for rank in 1..self.line.ranks() {
            self.line.send(rank, &Talk::Status(status).encode());
        }
        Some(status)
    }
}
