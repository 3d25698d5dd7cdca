//! The main thread of a process while its run goes on: carries messages between the run and the others, and does what is
//! not for the run.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use haul_copy::run::Transport;
use haul_frontend::progress::Progress;
use haul_frontend::report::Report;

use crate::broadcast::Broadcast;
use crate::exchange::{Exchange, lock};
use crate::figures::Account;
use crate::line::{Line, SHORT_REST, next_rest};
use crate::standing::{Standing, Survey};
use crate::status;
use crate::talk::Talk;

/// How long a process that was asked for work looks whether it gets some to give; the second one, if it has none itself.
const HOLD: Duration = Duration::from_millis(20);
const SHORT_HOLD: Duration = Duration::from_millis(1);
/// The same while a large file is being copied: its next chunk is certain to come, and whoever asked elsewhere meanwhile
/// would come back for it.
const LONG_HOLD: Duration = Duration::from_secs(2);
/// The shortest and the longest time between two questions for work, when all have been asked in vain.
const SHORT_PAUSE: Duration = Duration::from_millis(1);
const LONG_PAUSE: Duration = Duration::from_millis(100);
/// Time between two reports of how far a process is.
const REPORT: Duration = Duration::from_millis(250);
/// Time between two questions how far all ranks are.
const BETWEEN_SURVEYS: Duration = Duration::from_secs(1);

/// What the two sides of a process share.
pub struct Desk {
    /// What the user sees.
    pub report: Arc<Report>,
    /// By rank, how messages name it.
    pub labels: Vec<String>,
    /// Rank 0 shows how far the job is all the time.
    pub shows_progress: bool,
    /// Somebody wants to know how far the job is.
    pub asked: Arc<AtomicBool>,
    /// With `--each`: who reads what for whom. Each rank copies everything then.
    pub broadcast: Option<Arc<Broadcast>>,
    /// What passes between them.
    pub exchange: Arc<Exchange>,
    /// What the other processes have done, as they end.
    pub accounts: Mutex<Vec<Account>>,
    /// What this one has done, on its way to rank 0.
    pub own: Mutex<Option<Vec<u8>>>,
    /// Rank 0: the exit status, once all is done.
    pub status: OnceLock<u8>,
    /// The run has come to an end, and has said how.
    pub is_done: AtomicBool,
}

/// Carries messages until the job is over; returns its exit status.
pub struct Carrier<'a, 's, 'w> {
    line: &'a mut Line<'w>,
    desk: &'a Desk,
    copying: &'a ScopedJoinHandle<'s, ()>,
    started: Instant,
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
    /// Rank 0: how many send no parts of sources any more, once it has said that.
    said_stop: bool,
    stopped: usize,
    said_cancel: bool,
    said_account: bool,
    next_report: Instant,
    /// Bytes and entries that the last report has said; for rank 0, that the reports of the others have said.
    reported: (u64, u64),
    /// Rank 0: the answers to the last question how far the job is.
    survey: Option<Survey>,
    next_survey: Instant,
}

impl<'a, 's, 'w> Carrier<'a, 's, 'w> {
    /// For the messages of the run in the thread `copying`.
    pub fn new(line: &'a mut Line<'w>, desk: &'a Desk, copying: &'a ScopedJoinHandle<'s, ()>) -> Carrier<'a, 's, 'w> {
        let (rank, ranks) = (line.rank(), line.ranks());
        let mut others: Vec<usize> = (0..ranks).filter(|other| *other != rank).collect();
        fastrand::shuffle(&mut others);
        // At first only rank 0 has something. If everybody asked the one above it in a binary tree, nobody is asked by many.
        let above = rank.saturating_sub(1) / 2;
        others.sort_by_key(|other| *other != above);
        let now = Instant::now();
        desk.broadcast.iter().for_each(|broadcast| line.listen_for(Arc::clone(broadcast)));
        Carrier {
            line,
            desk,
            copying,
            started: now,
            victims: others.into(),
            asked: None,
            next_question: now,
            pause: SHORT_PAUSE,
            refused: 0,
            ended: 0,
            all_well: true,
            said_end: false,
            said_stop: false,
            stopped: 0,
            said_cancel: false,
            said_account: false,
            next_report: now + REPORT,
            reported: (0, 0),
            survey: None,
            next_survey: now,
        }
    }

    /// Does it.
    pub fn carry(mut self) -> u8 {
        let mut rest = SHORT_REST;
        loop {
            let mut busy = match &self.desk.broadcast {
                // Parts of sources may come as fast as they are sent, and somebody has to listen.
                Some(_) => self.line.send_some(&self.desk.exchange),
                None => self.line.send_waiting(&self.desk.exchange),
            };
            while let Some((from, bytes)) = self.line.receive() {
                busy = true;
                if let Some(Talk::Status(status)) = self.hear(from, bytes) {
                    self.desk.exchange.hang_up();
                    return status;
                }
            }
            self.look_around();
            // A run that has come to its end has said so before.
            let has_panicked = self.copying.is_finished() && !self.desk.is_done.load(Ordering::Acquire);
            if has_panicked || self.desk.exchange.has_given_up() {
                self.line.send_waiting(&self.desk.exchange);
                // Here, too: rank 0 may have no time to say what it has heard. With `--resume` another job goes on.
                self.line.give_up(self.label(), status::INCOMPLETE);
            }
            if let Some(status) = self.end_if_all_is_done() {
                return status;
            }
            rest = next_rest(rest, busy);
            self.desk.exchange.wait(rest);
        }
    }

    /// One message. Returns it if it ends the job.
    fn hear(&mut self, from: usize, bytes: Vec<u8>) -> Option<Talk> {
        let Some(talk) = Talk::decode(bytes) else {
            // Another version: somebody would wait for ever for what it wanted.
            self.desk.exchange.give_up();
            return None;
        };
        match talk {
            Talk::Run(bytes) => self.desk.exchange.deliver(from, bytes),
            Talk::Want => self.desk.exchange.is_wanted_by(from),
            Talk::Work(bytes) => {
                self.asked = None;
                (self.refused, self.pause) = (0, SHORT_PAUSE);
                // A rank that had something is likely to have more.
                self.victims.retain(|victim| *victim != from);
                self.victims.push_front(from);
                self.desk.exchange.deliver(from, bytes);
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
            Talk::Text(output, text) => {
                let mut screen = self.desk.report.screen();
                if output { screen.print(&text) } else { screen.complain(&text) }
            }
            Talk::Progress(bytes, entries) => {
                if let Some(progress) = self.desk.report.progress() {
                    progress.add(bytes, entries);
                    self.reported = (self.reported.0 + bytes, self.reported.1 + entries);
                }
            }
            Talk::Cancel => {
                self.desk.report.cancel().cancel();
                self.desk.report.pace().wake();
                self.stop_all();
            }
            Talk::End => self.desk.exchange.hang_up(),
            // From a rank that has begun sooner.
            talk @ (Talk::Fetch(_) | Talk::Part(..)) => match &self.desk.broadcast {
                Some(broadcast) => broadcast.hear(from, Some(talk)),
                None => self.desk.exchange.give_up(),
            },
            Talk::Stop => {
                self.desk.broadcast.iter().for_each(|broadcast| broadcast.end());
                self.line.send(from, &Talk::Stopped.encode());
            }
            Talk::Stopped => self.stopped += 1,
            Talk::Account(bytes) => {
                let account = serde_json::from_slice::<Account>(&bytes).ok();
                self.all_well &= account.as_ref().is_some_and(|account| !account.failed);
                lock(&self.desk.accounts).extend(account);
                self.ended += 1;
                if self.ended + 1 == self.line.ranks() {
                    self.desk.exchange.others_have_ended(self.all_well);
                    self.desk.exchange.hang_up();
                }
            }
            Talk::Ask if self.line.rank() == 0 => self.ask_all(),
            Talk::Ask => {
                let standing = serde_json::to_vec(&self.standing()).unwrap_or_default();
                self.line.send(0, &Talk::Standing(standing).encode());
            }
            Talk::Standing(bytes) => {
                if let (Some(survey), Ok(standing)) = (&mut self.survey, serde_json::from_slice(&bytes)) {
                    survey.hear(from, standing);
                }
            }
            Talk::Failed(name) => self.desk.report.failures().into_iter().for_each(|failures| failures.add(&name)),
            status @ Talk::Status(_) => return Some(status),
        }
        None
    }

    /// What is to be done from time to time.
    fn look_around(&mut self) {
        // A rank that asks a process without work loses time.
        let hold = match (self.desk.exchange.will_have_work(), self.desk.exchange.is_hungry()) {
            (true, _) => LONG_HOLD,
            (false, true) => SHORT_HOLD,
            (false, false) => HOLD,
        };
        for rank in self.desk.exchange.tired_of_waiting(hold) {
            self.line.send(rank, &Talk::No.encode());
        }
        if self.asked.is_none()
            && Instant::now() >= self.next_question
            && !self.said_account
            && self.desk.exchange.is_hungry()
            && let Some(victim) = self.victims.front().copied()
        {
            self.asked = Some(victim);
            self.line.send(victim, &Talk::Want.encode());
        }
        if !self.said_cancel && self.desk.report.cancel().is_cancelled() {
            self.stop_all();
        }
        if self.line.rank() != 0 && Instant::now() >= self.next_report {
            self.report();
        }
        if self.desk.asked.swap(false, Ordering::Relaxed) {
            match self.line.rank() {
                0 => self.ask_all(),
                _ => self.line.send(0, &Talk::Ask.encode()),
            }
        }
        if let Some(survey) = self.survey.take_if(|survey| survey.is_over()) {
            self.show(&survey);
        }
    }

    /// How messages name this process.
    fn label(&self) -> &'a str {
        self.desk.labels.get(self.line.rank()).map_or("?", String::as_str)
    }

    /// How far this process is.
    fn standing(&self) -> Standing {
        let (bytes, entries) = self.desk.report.progress().map_or((0, 0), Progress::done);
        let others = if self.line.rank() == 0 { self.reported } else { (0, 0) };
        Standing {
            bytes: bytes.saturating_sub(others.0),
            entries: entries.saturating_sub(others.1),
            errors: self.desk.report.problems(),
        }
    }

    /// Rank 0: asks the others how far they are. A launcher passes a signal on to all ranks, and each of them asks.
    fn ask_all(&mut self) {
        let now = Instant::now();
        if self.survey.is_none() && now >= self.next_survey {
            self.next_survey = now + BETWEEN_SURVEYS;
            self.survey = Some(Survey::new(self.line.ranks(), self.standing()));
            self.line.send_to_others(&Talk::Ask.encode());
        }
    }

    fn show(&self, survey: &Survey) {
        let label = |rank: usize| self.desk.labels.get(rank).cloned().unwrap_or_default();
        // Of one copy.
        let copies = if self.desk.broadcast.is_some() { self.line.ranks() as u64 } else { 1 };
        let totals = self.desk.report.progress().and_then(Progress::totals);
        let totals = totals.map(|(bytes, entries)| (bytes * copies, entries * copies));
        for line in survey.report(self.started.elapsed(), totals, &label) {
            self.desk.report.complain(line.as_bytes());
        }
    }

    fn report(&mut self) {
        self.next_report = Instant::now() + REPORT;
        if !self.desk.shows_progress {
            return;
        }
        let Some(progress) = self.desk.report.progress() else { return };
        let (bytes, entries) = progress.done();
        let before = std::mem::replace(&mut self.reported, (bytes, entries));
        if before != self.reported {
            self.line.send(0, &Talk::Progress(bytes - before.0, entries - before.1).encode());
        }
    }

    /// Rank 0 notifies everybody, the others notify rank 0.
    fn stop_all(&mut self) {
        if std::mem::replace(&mut self.said_cancel, true) {
            return;
        }
        match self.line.rank() {
            0 => self.line.send_to_others(&Talk::Cancel.encode()),
            _ => self.line.send(0, &Talk::Cancel.encode()),
        }
    }

    fn end_if_all_is_done(&mut self) -> Option<u8> {
        if self.line.rank() != 0 {
            // Everything that the run has said goes first.
            if !self.said_account
                && let Some(account) = lock(&self.desk.own).take()
            {
                self.said_account = true;
                self.report();
                self.line.send_waiting(&self.desk.exchange);
                self.line.send(0, &Talk::Account(account).encode());
            }
            return None;
        }
        if self.desk.exchange.is_over() && !std::mem::replace(&mut self.said_end, true) {
            self.line.send_to_others(&Talk::End.encode());
            if self.line.ranks() == 1 {
                self.desk.exchange.others_have_ended(true);
                self.desk.exchange.hang_up();
            }
        }
        let status = *self.desk.status.get()?;
        if let Some(broadcast) = &self.desk.broadcast {
            // Whoever has gone receives nothing, and a rank that sends to it would wait for ever.
            if !std::mem::replace(&mut self.said_stop, true) {
                broadcast.end();
                self.line.send_to_others(&Talk::Stop.encode());
            }
            if self.stopped + 1 < self.line.ranks() {
                return None;
            }
        }
        if let Some(survey) = self.survey.take() {
            self.show(&survey);
        }
        self.line.send_to_others(&Talk::Status(status).encode());
        Some(status)
    }
}
