//! One copy: the run of this process in threads of its own, and the line to the others in the main thread.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use haul_copy::plan::Plan;
use haul_copy::run::{self, Part, Partials, Summary};
use haul_frontend::persona::Persona;
use haul_frontend::record::Record;
use haul_frontend::report::Report;
use haul_frontend::run_options::RunOptions;
use haul_frontend::screen::Screen;
use haul_frontend::session::{self, remove_partials, session};
use haul_frontend::show::Show;
use haul_frontend::watch::{self, Caught};
use haul_frontend::{exit, process, profile, words};
use haul_io::pace::Limit;
use haul_sys::process_state::Usage;

use crate::agree::Agreed;
use crate::exchange::{Exchange, lock};
use crate::figures::{self, Account};
use crate::line::{Carrier, Host, Line};
use crate::name::NAME;

/// The exit status is not known yet.
pub const UNKNOWN: u8 = u8::MAX;
/// Time for last words to be read: MPICH's mpirun drops what is still on its way when a process ends the job.
const LAST_WORDS: Duration = Duration::from_millis(250);

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
    /// Bytes of a chunk of a large file.
    pub chunk: u64,
}

/// What the two sides of a process share.
struct Desk {
    report: Arc<Report>,
    exchange: Arc<Exchange>,
    started: Instant,
    /// What the last report of progress has said.
    reported: Mutex<(u64, u64)>,
    /// What the processes have done, as they end.
    accounts: Mutex<Vec<Account>>,
    /// What this one has done, on its way to rank 0.
    own: Mutex<Option<Vec<u8>>>,
    status: AtomicU8,
    /// The run has come to an end, and has said how.
    is_done: AtomicBool,
}

impl Job {
    /// Does it; returns the exit status of the job.
    pub fn run(mut self, line: &mut Line<'_>) -> u8 {
        let rank = line.rank();
        let exchange = Arc::new(Exchange::new(rank, self.agreed.machines.clone()));
        let mut report = self.report(rank, &exchange);
        report.configure(self.show, self.plan.data.reflink, self.agreed.progress, self.show.verbose);
        let prepared = self.prepare(rank, &mut report);
        let report = Arc::new(report);
        let desk = Desk {
            report: Arc::clone(&report),
            exchange: Arc::clone(&exchange),
            started: Instant::now(),
            reported: Mutex::default(),
            accounts: Mutex::default(),
            own: Mutex::default(),
            status: AtomicU8::new(UNKNOWN),
            is_done: AtomicBool::new(false),
        };
        if let Err(why) = prepared {
            report.complain(&why);
            // The others would wait for this one for ever.
            report.cancel().cancel();
        }
        thread::scope(|scope| {
            let copying = thread::Builder::new().name("haul-run".into()).spawn_scoped(scope, || self.copy(rank, &desk));
            let label = self.agreed.label(rank);
            let status = match &copying {
                Ok(copying) => Carrier::new(line, &exchange, &Guarded { desk: &desk, copying, label }).carry(),
                Err(_) => {
                    farewell(&label);
                    line.abort(1)
                }
            };
            desk.status.store(status, Ordering::Release);
            status
        })
    }

    fn report(&self, rank: usize, exchange: &Arc<Exchange>) -> Report {
        if rank == 0 {
            return Report::new(NAME.as_bytes().to_vec());
        }
        let exchange = Arc::clone(exchange);
        let pass_on = move |output: bool, text: &[u8]| exchange.say_text(output, text);
        Report::on(Screen::of_other_process(Box::new(pass_on)), NAME.as_bytes().to_vec())
    }

    /// What is left to do before the run.
    ///
    /// # Errors
    /// What is wrong, for the user.
    fn prepare(&mut self, rank: usize, report: &mut Report) -> Result<(), Vec<u8>> {
        self.plan.destination = self.agreed.destination();
        self.plan.jobs = self.plan.jobs.or_else(|| self.agreed.jobs(rank));
        if self.plan.checksum.is_some() {
            // Rank 0 prints them.
            report.list_digests(None);
        }
        self.plan.data.profile = profile::load(&self.options.profiles, Persona::Haul, report)?;
        process::raise_descriptor_limit();
        self.options.throttling.apply_priority()?;
        // Together they reach what the user allows.
        let share = |rate: Option<u64>| rate.map(|rate| (rate / self.agreed.hosts.len() as u64).max(1));
        let Limit { bytes, operations } = self.options.throttling.limit;
        report.pace().set_limit(Limit { bytes: share(bytes), operations: share(operations) });
        Ok(())
    }

    /// The run of this process.
    fn copy(&self, rank: usize, desk: &Desk) {
        let report = &desk.report;
        let partials = Partials::default();
        let caught = self.start_watching(report, &partials).unwrap_or_default();
        let session = session(report, &self.plan, partials, Vec::new());
        let part = Part { transport: &*desk.exchange, chunk: self.chunk };
        let summary = run::run_together(&self.plan, &session, part);
        session::report_errors(report, &summary);
        let host = self.agreed.hosts.get(rank).map_or("", String::as_str);
        let usage = Usage::of_process();
        let time = desk.started.elapsed();
        let failed = rank > 0 && !report.finish();
        let account = Account::new(rank, host, &summary, failed, &usage, time);
        if rank == 0 {
            self.conclude(desk, account, summary, usage, &caught);
        } else {
            *lock(&desk.own) = Some(serde_json::to_vec(&account).unwrap_or_default());
        }
        desk.is_done.store(true, Ordering::Release);
    }

    /// Rank 0, when all others have ended: sums up.
    fn conclude(&self, desk: &Desk, own: Account, mut summary: Summary, mut usage: Usage, caught: &Caught) {
        let report = &desk.report;
        let mut accounts = lock(&desk.accounts);
        for account in accounts.iter() {
            summary += account.summary();
            account.add_to(&mut usage);
        }
        accounts.push(own);
        accounts.sort_by_key(|account| account.rank);
        if let Some(journal) = &summary.journal {
            report.complain(&words::resume_hint(journal, report.quoter()));
        }
        let output_failed = !report.finish();
        let status = exit::status(&summary, caught.signal(), output_failed);
        self.print_stats(report, &summary, usage, desk.started.elapsed(), status, &accounts);
        desk.status.store(status, Ordering::Release);
    }

    fn print_stats(
        &self,
        report: &Report,
        summary: &Summary,
        usage: Usage,
        time: Duration,
        status: u8,
        accounts: &[Account],
    ) {
        let Some(format) = self.show.stats else { return };
        let record = Record::new(NAME.to_owned(), summary, report.pace(), usage, time, status);
        let record = record.with(self.plan.data.profile.as_deref());
        let whole = record.show(format);
        report.print_record(whole.and_then(|whole| Ok(whole + &figures::show(format, accounts)?)));
    }

    fn start_watching(&self, report: &Arc<Report>, partials: &Partials) -> std::io::Result<Caught> {
        let (of_thread, partials) = (Arc::clone(report), partials.clone());
        let abandon = Box::new(move |signal| {
            remove_partials(&of_thread, &partials);
            std::process::exit(128 + signal);
        });
        watch::start(Arc::clone(report), Arc::new(self.plan.clone()), abandon)
    }
}

/// Reports on the standard error of this process that it ends the job.
pub fn farewell(label: &str) {
    let text = format!("{NAME}: {label} cannot go on; all processes of the job are ended\n");
    Screen::of_process().complain(text.as_bytes());
    thread::sleep(LAST_WORDS);
}

/// The desk, and which rank works there.
struct Guarded<'a, 's> {
    desk: &'a Desk,
    copying: &'a thread::ScopedJoinHandle<'s, ()>,
    label: String,
}

impl Host for Guarded<'_, '_> {
    fn text(&self, output: bool, text: &[u8]) {
        let mut screen = self.desk.report.screen();
        if output { screen.print(text) } else { screen.complain(text) }
    }

    fn progress(&self, bytes: u64, entries: u64) {
        if let Some(progress) = self.desk.report.progress() {
            progress.add_bytes(bytes);
            progress.add_entries(entries);
        }
    }

    fn own_progress(&self) -> Option<(u64, u64)> {
        let (bytes, entries) = self.desk.report.progress()?.done();
        let mut reported = lock(&self.desk.reported);
        let more = (bytes - reported.0, entries - reported.1);
        *reported = (bytes, entries);
        Some(more)
    }

    fn cancel(&self) {
        self.desk.report.cancel().cancel();
        self.desk.report.pace().wake();
    }

    fn is_cancelled(&self) -> bool {
        self.desk.report.cancel().is_cancelled()
    }

    fn account(&self, _from: usize, bytes: &[u8]) -> bool {
        let Ok(account) = serde_json::from_slice::<Account>(bytes) else { return false };
        let well = !account.failed;
        lock(&self.desk.accounts).push(account);
        well
    }

    fn own_account(&self) -> Option<Vec<u8>> {
        lock(&self.desk.own).take()
    }

    fn status(&self) -> Option<u8> {
        Some(self.desk.status.load(Ordering::Acquire)).filter(|status| *status != UNKNOWN)
    }

    fn has_panicked(&self) -> bool {
        // A run that has come to its end has said so before.
        self.copying.is_finished() && !self.desk.is_done.load(Ordering::Acquire)
    }

    fn says_farewell(&self) {
        farewell(&self.label);
    }
}
