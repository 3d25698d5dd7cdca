//! One copy: the run of this process in threads of its own, and the line to the others in the main thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Instant;

use haul_copy::plan::{Durable, Plan};
use haul_copy::run::{self, Part, Partials, Session, Summary, Transport};
use haul_copy::stats::Stats;
use haul_frontend::failures::Failures;
use haul_frontend::files::ListFile;
use haul_frontend::persona::Persona;
use haul_frontend::record::Record;
use haul_frontend::report::Report;
use haul_frontend::run_options::RunOptions;
use haul_frontend::screen::Screen;
use haul_frontend::session::{self, remove_partials_soon, session};
use haul_frontend::show::Show;
use haul_frontend::summary::summary_line;
use haul_frontend::watch::{self, Caught};
use haul_frontend::{exit, profile, words};
use haul_io::pace::Limit;
use haul_sys::inode::FileId;
use haul_sys::process_state::Usage;

use crate::agree::{self, Agreed};
use crate::at_work::AtWork;
use crate::broadcast::{Broadcast, READERS, Reads};
use crate::carrier::{Carrier, Desk};
use crate::exchange::{Exchange, lock};
use crate::figures::{self, Account};
use crate::line::Line;
use crate::name::NAME;
use crate::options::Own;
use crate::status;

const FAILURES: &str = "list of failures";

/// What all processes of the job are about to do.
pub struct Job {
    /// What they know of each other.
    pub agreed: Agreed,
    /// The same for all but for the number of threads.
    pub plan: Plan,
    /// What the user wants to see.
    pub show: Show,
    /// Throttling, lists and profiles.
    pub options: RunOptions,
    /// What haul does not know: chunks of large files, and whether each rank makes a copy of its own.
    pub own: Own,
    /// What was found out with the list of names, if there is one: the same in all processes.
    pub found: Stats,
    /// Of these, in rank 0, those that could not be found.
    pub failed: Vec<Vec<u8>>,
    /// What tells other jobs of this one, where that can be.
    pub at_work: Option<AtWork>,
    /// Somebody wants to know how far the job is.
    pub asked: Arc<AtomicBool>,
}

impl Job {
    /// Does it; returns the exit status of the job.
    pub fn run(mut self, line: &mut Line<'_>) -> u8 {
        let rank = line.rank();
        let exchange = Arc::new(Exchange::new(rank, self.agreed.machines.clone()));
        let mut report = self.report(rank, &exchange);
        // Where each rank copies everything, one of them says what.
        let silent = Show { verbose: false, debug: false, explain: false, ..self.show };
        let show = if self.own.each && rank > 0 { silent } else { self.show };
        report.configure(show, &self.plan, self.agreed.progress, show.verbose);
        report.keep_count(&self.plan);
        let prepared = self.prepare(rank, &mut report, &exchange);
        if let Err(why) = agree::all_ready(line, &self.agreed, prepared) {
            if rank == 0 {
                Report::new(NAME.as_bytes().to_vec()).complain(&why);
            }
            return status::REFUSED;
        }
        let report = Arc::new(report);
        let ranks = self.agreed.hosts.len();
        let broadcast = self.own.each.then(|| {
            let (exchange, cancel) = (Arc::clone(&exchange), report.cancel().clone());
            Arc::new(Broadcast::new(exchange, rank, ranks, cancel, self.plan.open_noatime))
        });
        let desk = Desk {
            report: Arc::clone(&report),
            labels: (0..ranks).map(|rank| self.agreed.label(rank)).collect(),
            shows_progress: self.agreed.progress && !self.own.each,
            broadcast,
            asked: Arc::clone(&self.asked),
            exchange,
            accounts: Mutex::default(),
            own: Mutex::default(),
            status: OnceLock::new(),
            is_done: AtomicBool::new(false),
        };
        thread::scope(|scope| {
            let begin = |name: &str| thread::Builder::new().name(name.into());
            if let Some(broadcast) = &desk.broadcast {
                let begun =
                    (0..READERS).filter(|_| begin("haul-read").spawn_scoped(scope, || broadcast.serve()).is_ok());
                if begun.count() == 0 {
                    line.give_up(&self.agreed.label(rank), status::INCOMPLETE);
                }
            }
            let copying = begin("haul-run").spawn_scoped(scope, || self.copy(rank, &desk));
            let status = match &copying {
                Ok(copying) => Carrier::new(line, &desk, copying).carry(),
                Err(_) => line.give_up(&self.agreed.label(rank), status::INCOMPLETE),
            };
            desk.broadcast.iter().for_each(|broadcast| broadcast.end());
            status
        })
    }

    fn report(&self, rank: usize, exchange: &Arc<Exchange>) -> Report {
        let name = match self.own.each {
            // Each of them may have something to say of the same name.
            true => format!("{NAME}: {}", self.agreed.label(rank)),
            false => NAME.to_owned(),
        };
        if rank == 0 {
            return Report::new(name.into_bytes());
        }
        let exchange = Arc::clone(exchange);
        let pass_on = move |output: bool, text: &[u8]| exchange.say_text(output, text);
        Report::on(Screen::of_other_process(Box::new(pass_on)), name.into_bytes())
    }

    /// What is left to do before the run.
    ///
    /// # Errors
    /// What is wrong, for the user.
    fn prepare(&mut self, rank: usize, report: &mut Report, exchange: &Arc<Exchange>) -> Result<(), Vec<u8>> {
        if !self.own.each {
            self.plan.destination = self.agreed.destination();
        } else if rank > 0 {
            // They are those that rank 0 prints.
            self.plan.checksum = None;
        }
        self.plan.jobs = self.plan.jobs.or_else(|| self.agreed.jobs(rank));
        if self.plan.checksum.is_some() {
            // Rank 0 prints them.
            report.list_digests(None);
        }
        if let Some(path) = &self.options.failures {
            let failures = match rank {
                0 => {
                    let list = ListFile::begin(path);
                    let list = list.map_err(|error| words::cannot_write(FAILURES, path, &error, report.quoter()))?;
                    let failures = Failures::listed(&self.plan, list, self.options.zero_ends_names);
                    self.failed.iter().for_each(|name| failures.add(name));
                    failures
                }
                _ => {
                    let exchange = Arc::clone(exchange);
                    Failures::passed_on(&self.plan, Box::new(move |name| exchange.say_failed(name)))
                }
            };
            report.list_failures(failures);
        }
        self.plan.data.profile = profile::load(&self.options.profiles, Persona::Haul, report)?;
        session::raise_descriptor_limit();
        self.options.throttling.apply_priority()?;
        // Together they reach what the user allows.
        let share = |rate: Option<u64>| rate.map(|rate| (rate / self.agreed.hosts.len() as u64).max(1));
        let Limit { bytes, operations } = self.options.throttling.limit;
        report.pace().set_limit(Limit { bytes: share(bytes), operations: share(operations) });
        Ok(())
    }

    /// The run of this process.
    fn copy(&self, rank: usize, desk: &Desk) {
        let started = Instant::now();
        let report = &desk.report;
        let partials = Partials::default();
        let caught = self.start_watching(report, &partials).unwrap_or_default();
        let session = session(report, &self.plan, partials, self.skip_files());
        let summary = match &desk.broadcast {
            Some(broadcast) => {
                let reads = Reads(Arc::clone(broadcast));
                let mut summary = run::run(&self.plan, &Session { shared_reads: Some(&reads), ..session });
                let others_failed = rank == 0 && !desk.exchange.finish();
                summary.failed_elsewhere = others_failed && !summary.failed;
                summary.failed |= others_failed;
                summary
            }
            None => {
                let part = Part { transport: &*desk.exchange, chunk: self.own.chunk() };
                run::run_together(&self.plan, &session, part)
            }
        };
        session::report_errors(report, &summary);
        if let Some(journal) = summary.journal.as_ref().filter(|_| self.own.each) {
            report.advise(&words::resume_hint(journal, report.quoter()));
        }
        let host = self.agreed.hosts.get(rank).map_or("", String::as_str);
        let usage = Usage::of_process();
        let time = started.elapsed();
        let failed = rank > 0 && !report.finish();
        let received = desk.broadcast.as_ref().map_or(0, |broadcast| broadcast.received());
        let account = Account::new(rank, host, &summary, failed, &usage, time);
        let account = account.with_received(received).with_signal(caught.signal());
        if rank == 0 {
            let status = self.conclude(desk, account, summary, usage, started);
            desk.status.get_or_init(|| status);
        } else {
            *lock(&desk.own) = Some(serde_json::to_vec(&account).unwrap_or_default());
        }
        desk.is_done.store(true, Ordering::Release);
    }

    /// Rank 0, when all others have ended: sums up. Returns the exit status.
    fn conclude(&self, desk: &Desk, own: Account, mut summary: Summary, mut usage: Usage, started: Instant) -> u8 {
        let report = &desk.report;
        let mut accounts = lock(&desk.accounts);
        for account in accounts.iter() {
            summary += account.summary();
            account.add_to(&mut usage);
        }
        accounts.push(own);
        accounts.sort_by_key(|account| account.rank);
        // A signal to any rank stops all of them.
        let signal = accounts.iter().find_map(|account| account.signal);
        if let Some(journal) = summary.journal.as_ref().filter(|_| !self.own.each) {
            report.advise(&words::resume_hint(journal, report.quoter()));
        }
        // They were reported before.
        summary.stats += &self.found;
        summary.failed |= self.found.errors > 0;
        session::explain_filter(report, &self.plan, self.show, &summary);
        let listed = report.failures().map_or(Ok(()), |list| list.finish(self.plan.durable != Durable::None));
        if let (Err(error), Some(path)) = (&listed, &self.options.failures) {
            report.fail(&words::cannot_write(FAILURES, path, error, report.quoter()));
        }
        let output_failed = !report.finish() || listed.is_err();
        let status = exit::status(&summary, signal, output_failed);
        if let Some(format) = self.show.stats {
            let (profile, time) = (self.plan.data.profile.as_deref(), started.elapsed());
            let record = Record::new(NAME.to_owned(), &summary, profile, report.pace(), usage, time, status);
            report.screen().complain((record.show(format) + &figures::show(format, &accounts)).as_bytes());
        } else if self.agreed.progress && !self.show.quiet {
            report.screen().sum_up(summary_line(&summary, started.elapsed()).as_bytes());
        }
        status
    }

    /// The file of jobs, which is no part of a copy in which it stands. Only what deletes comes by it, and no snapshot is taken
    /// where a file is skipped.
    fn skip_files(&self) -> Vec<FileId> {
        let at_work = self.at_work.as_ref().filter(|_| self.plan.delete.is_some());
        at_work.and_then(AtWork::file_id).into_iter().collect()
    }

    fn start_watching(&self, report: &Arc<Report>, partials: &Partials) -> std::io::Result<Caught> {
        let (of_thread, partials) = (Arc::clone(report), partials.clone());
        let abandon = Box::new(move |_| remove_partials_soon(&of_thread, &partials));
        watch::start(Arc::clone(report), Arc::new(self.plan.clone()), self.skip_files(), abandon)
    }
}
