//! `--compare`: rank 0 walks and reports, all ranks compare.
//!
//! A rank asks for names by `Want`, once for each batch that it can have at a time, and by each answer again. The main
//! thread carries the messages, as in a copy.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Mutex, OnceLock};
use std::thread;

use haul_copy::compare::{Board, Heard, Helper, Summary, threads};
use haul_copy::plan::Plan;
use haul_copy::run::Transport;
use haul_frontend::compare::{Helped, compare};
use haul_frontend::report::Report;
use haul_frontend::screen::Screen;
use haul_frontend::show::Show;
use haul_frontend::{exit, session};

use crate::agree::{self, Agreed, Purpose};
use crate::exchange::{Exchange, lock};
use crate::line::{Line, SHORT_REST, next_rest};
use crate::name::NAME;
use crate::talk::Talk;

/// Batches that a rank has for each of its threads: one that is compared, and one that waits, so that nobody waits for a
/// message.
const IN_HAND: usize = 2;

/// Does it; returns the exit status of the job.
pub fn compare_all(line: &mut Line<'_>, mut report: Report, plan: &Plan, show: Show) -> u8 {
    let agreed = match agree::agree(line, plan, false, Purpose::Read) {
        Ok((agreed, _)) => agreed,
        Err(why) => {
            if line.rank() == 0 {
                report.complain(why.as_bytes());
            }
            return exit::TROUBLE;
        }
    };
    let plan = Plan { jobs: plan.jobs.or_else(|| agreed.jobs(line.rank())), ..plan.clone() };
    session::raise_descriptor_limit();
    if line.rank() > 0 {
        return help(line, &agreed, &plan);
    }
    report.configure(show, &plan, false, show.verbose);
    if line.ranks() == 1 { compare(&report, &plan, show, None) } else { lead(line, &agreed, &report, &plan, show) }
}

/// Rank 0: compares, and gives to others what waits.
fn lead(line: &mut Line<'_>, agreed: &Agreed, report: &Report, plan: &Plan, show: Show) -> u8 {
    let board = Board::new();
    let status = OnceLock::new();
    // Entries that others have compared, by rank.
    let shares = Mutex::new(vec![0_u64; line.ranks()]);
    let shares_table = |summary: &Summary| table(agreed, summary, &lock(&shares));
    let work = || {
        let ended = compare(report, plan, show, Some(Helped { board: &board, shares: &shares_table }));
        status.get_or_init(|| ended);
    };
    thread::scope(|scope| {
        let Ok(comparing) = thread::Builder::new().name("haul-run".into()).spawn_scoped(scope, work) else {
            give_up(line, agreed)
        };
        // The ranks that wait for names, in the order in which they asked.
        let mut asked = VecDeque::new();
        let mut rest = SHORT_REST;
        loop {
            let mut busy = false;
            while let Some((from, bytes)) = line.receive() {
                busy = true;
                match Talk::decode(bytes) {
                    Some(Talk::Want) => asked.push_back(from),
                    Some(Talk::Run(message)) => {
                        // Held until it is counted: with the last answer the shares may be printed.
                        let mut shares = lock(&shares);
                        match board.hear(&message) {
                            Some(Heard::More) => {}
                            Some(Heard::Done(entries)) => {
                                shares[from] += entries;
                                asked.push_back(from);
                            }
                            None => give_up(line, agreed),
                        }
                    }
                    // Another version: somebody would wait for ever for what it wanted.
                    _ => give_up(line, agreed),
                }
            }
            while let Some(rank) = asked.front().copied()
                && let Some(work) = board.take()
            {
                asked.pop_front();
                line.send(rank, &Talk::Work(work).encode());
                busy = true;
            }
            if comparing.is_finished() {
                let Some(&status) = status.get() else { give_up(line, agreed) };
                line.send_to_others(&Talk::Status(status).encode());
                return status;
            }
            if !busy {
                thread::sleep(rest);
            }
            rest = next_rest(rest, busy);
        }
    })
}

/// All other ranks: compare what rank 0 gives them, until it says how the job has ended.
fn help(line: &mut Line<'_>, agreed: &Agreed, plan: &Plan) -> u8 {
    // What there is to say of the rules rank 0 says.
    let silent = Report::on(Screen::of_other_process(Box::new(|_, _| ())), NAME.as_bytes().to_vec());
    let rules = session::xattr_rules(&silent, plan);
    let exchange = Exchange::new(line.rank(), agreed.machines.clone());
    let work = || {
        let _alarm = Alarm(&exchange);
        let mut helper = Helper::new(plan, &rules, &|| false);
        while let Some((from, work)) = exchange.receive() {
            if helper.compare(&work, &mut |message| exchange.say(from, Talk::Run(message))).is_none() {
                return exchange.give_up();
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads(plan) {
            match thread::Builder::new().name("haul-compare".into()).spawn_scoped(scope, work) {
                Ok(_) => (0..IN_HAND).for_each(|_| line.send(0, &Talk::Want.encode())),
                Err(_) => break,
            }
        }
        let mut rest = SHORT_REST;
        loop {
            let mut busy = line.send_waiting(&exchange);
            while let Some((from, bytes)) = line.receive() {
                busy = true;
                match Talk::decode(bytes) {
                    Some(Talk::Work(work)) => exchange.deliver(from, work),
                    Some(Talk::Status(status)) => {
                        exchange.hang_up();
                        return status;
                    }
                    _ => exchange.give_up(),
                }
            }
            if exchange.has_given_up() {
                give_up(line, agreed);
            }
            rest = next_rest(rest, busy);
            exchange.wait(rest);
        }
    })
}

/// Ends all processes: the others would wait for this one for ever.
fn give_up(line: &Line<'_>, agreed: &Agreed) -> ! {
    line.give_up(&agreed.label(line.rank()), exit::TROUBLE)
}

/// Reports that a thread has panicked.
struct Alarm<'a>(&'a Exchange);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.give_up();
        }
    }
}

/// One line for each rank: what it has compared.
fn table(agreed: &Agreed, summary: &Summary, shares: &[u64]) -> String {
    let others: u64 = shares.iter().sum();
    let mut text = String::new();
    for (rank, share) in shares.iter().enumerate() {
        let entries = if rank == 0 { summary.entries.saturating_sub(others) } else { *share };
        // Writing to a String cannot fail.
        writeln!(text, "{}: {entries} of them", agreed.label(rank)).unwrap_or_default();
    }
    text
}
