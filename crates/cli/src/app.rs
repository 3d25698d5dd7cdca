//! The command from start to end.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use haul_copy::plan::{Durable, Plan};
use haul_copy::run::{self, Partials, Summary};
use haul_frontend::complaint::{Complaint, fatal, misuse};
use haul_frontend::environment::Environment;
use haul_frontend::failures::Failures;
use haul_frontend::files::{self, ListFile};
use haul_frontend::flags::Information;
use haul_frontend::options::{Invocation, parse};
use haul_frontend::persona::Persona;
use haul_frontend::record::Record;
use haul_frontend::report::Report;
use haul_frontend::run_options::{Profiles, RunOptions};
use haul_frontend::session::{self, remove_partials, remove_partials_soon, session};
use haul_frontend::show::Show;
use haul_frontend::summary::summary_line;
use haul_frontend::throttle::{Priority, Throttling};
use haul_frontend::watch::{self, Caught};
use haul_frontend::{compare, exit, help, json, profile, words};
use haul_sys::inode::FileId;
use haul_sys::memory;
use haul_sys::process_state::{self, Usage};
use signal_hook::consts::SIGPIPE;

use crate::governor::Governor;
use crate::{brief, punch, shards, smartcp};

/// What messages call the lists that it writes.
const DIGEST_LIST: &str = "list of digests";
const FAILURE_LIST: &str = "list of failures";
const FILE_LIST: &str = "file list";

/// How the process was started.
struct Call {
    started: Instant,
    name: OsString,
    persona: Persona,
}

/// Runs the command with the arguments of this process and gives its exit status.
pub fn main() -> u8 {
    let started = Instant::now();
    let mut arguments = env::args_os();
    let misused = exit::misuse(env::args_os());
    memory::end_with_status(misused);
    memory::spare_address_space();
    let name = arguments.next().unwrap_or_else(|| OsString::from("haul"));
    let persona = Persona::of(&name);
    session::set_signals();
    let report = Report::new(name.clone().into_vec());
    if persona == Persona::Smartcp {
        return smartcp::main(&name, arguments, report);
    }
    let wanted = {
        let mut warn = |message: &[u8]| report.complain(message);
        parse(arguments, persona, &Environment::of_process(), report.quoter(), &mut warn)
    };
    match wanted {
        Ok(Invocation::Copy(plan, show, options)) => copy(Call { started, name, persona }, report, plan, show, options),
        Ok(Invocation::Compare(plan, show)) => compare::compare(&report, &plan, show, None),
        Ok(Invocation::Punch(request)) => punch::punch(&report, &request),
        Ok(Invocation::Print(Information::Help)) => report.print_only(&help::help(&name)),
        Ok(Invocation::Print(Information::Version)) => {
            let program = if persona == Persona::Cp { "cp (haul)" } else { "haul" };
            report.print_only(&help::version(program))
        }
        Err(complaint) => refuse(&report, &complaint, misused),
    }
}

fn refuse(report: &Report, complaint: &Complaint, status: u8) -> u8 {
    report.refuse(complaint);
    status
}

/// Prepares a copy and runs it.
fn copy(call: Call, mut report: Report, mut plan: Box<Plan>, show: Show, options: RunOptions) -> u8 {
    let with_progress = report.wants_progress(show.progress) && !plan.dry_run;
    // Scripts read what cp says.
    let every_error = call.persona == Persona::Cp || show.verbose;
    report.configure(show, &plan, with_progress, every_error);
    session::raise_descriptor_limit();
    if call.persona == Persona::Haul || options.throttling.control.is_some() {
        process_state::ignore_sigusr2();
    }
    let skip = match begin_lists(&plan, &options, &mut report) {
        Ok(skip) => skip,
        Err(complaint) => return refuse(&report, &complaint, exit::FAILURE),
    };
    let brief = options.list_out.is_none() && brief::is_brief(&plan, show);
    if !brief || !matches!(options.profiles, Profiles::Usual) {
        plan.data.profile = match profile::load(&options.profiles, call.persona, &report) {
            Ok(profile) => profile,
            Err(message) => return refuse(&report, &fatal(message), exit::FAILURE),
        };
    }
    if options.shard_status {
        return shards::status(&plan, &report);
    }
    if let Err(message) = find_part(&mut plan, &options, &report) {
        return refuse(&report, &fatal(message), exit::FAILURE);
    }
    report.start(&plan);
    let report = Arc::new(report);
    if !throttle(&report, &options.throttling) {
        return exit::FAILURE;
    }
    // Called as cp it prints what cp prints.
    let sums_up = with_progress && !show.quiet && call.persona == Persona::Haul;
    let run = Command {
        call,
        report,
        plan: Arc::from(plan),
        show,
        lists: (options.digests, options.failures),
        skip,
        brief,
        sums_up,
    };
    match options.list_out {
        Some(path) => run.list(&path),
        None => run.copy(),
    }
}

/// Begins the lists of failures and of digests, as far as they are wanted, and makes sure that no list replaces a file of a
/// source. Gives what is written there.
fn begin_lists(plan: &Plan, options: &RunOptions, report: &mut Report) -> Result<Vec<FileId>, Complaint> {
    let lists = [&options.digests, &options.failures, &options.list_out];
    let of_source = |path: &PathBuf| files::replaces_source(plan, path, true, report.quoter());
    if let Some(message) = lists.into_iter().flatten().find_map(of_source) {
        return Err(misuse(message));
    }
    let mut skip = Vec::new();
    let begin = |what, path: &Path, report: &Report| {
        let unwritten = |error| fatal(words::cannot_write(what, path, &error, report.quoter()));
        ListFile::begin(path).map_err(unwritten)
    };
    if let Some(path) = &options.failures {
        let list = begin(FAILURE_LIST, path, report)?;
        skip.extend(list.id());
        report.list_failures(Failures::listed(plan, list, options.zero_ends_names));
    }
    if plan.checksum.is_some() && !plan.dry_run {
        let list = options.digests.as_deref().map(|path| begin(DIGEST_LIST, path, report)).transpose()?;
        skip.extend(list.as_ref().and_then(ListFile::id));
        report.list_digests(list);
    }
    Ok(skip)
}

/// Which part of which copy this is, as far as the command line does not say it.
fn find_part(plan: &mut Plan, options: &RunOptions, report: &Report) -> Result<(), Vec<u8>> {
    if plan.shard.is_some() && !options.job_is_given {
        plan.job = shards::launched_job(|name| env::var_os(name));
    }
    if let Some(path) = &options.list {
        plan.list = Some(Arc::new(files::load_list(path, report.quoter())?));
    }
    Ok(())
}

/// Applies the priority, before there are threads that would keep the old one, and starts what changes the pace. Reports what
/// is not possible; `false` if the copy must not begin then.
fn throttle(report: &Arc<Report>, throttling: &Throttling) -> bool {
    if let Err(message) = throttling.apply_priority() {
        report.fail(message.as_bytes());
        return false;
    }
    let (governor, yields) = Governor::new(Arc::clone(report), throttling);
    if let Err(error) = yields {
        let idle = throttling.priority.is_none() && Priority::Idle.apply().is_ok();
        let instead = if idle { "; copying at idle priority instead" } else { "" };
        report.warn(format!("--yield is not possible here: {error}{instead}").as_bytes());
    }
    if let Some(Err(error)) = governor.map(Governor::start) {
        report.warn(format!("the limits cannot be changed while copying: {error}").as_bytes());
    }
    true
}

struct Command {
    call: Call,
    report: Arc<Report>,
    plan: Arc<Plan>,
    show: Show,
    /// Where the digests and the names of failures go.
    lists: (Option<PathBuf>, Option<PathBuf>),
    /// Lists that stand in the source.
    skip: Vec<FileId>,
    /// It is over in a moment.
    brief: bool,
    /// One line at the end says what was done.
    sums_up: bool,
}

impl Command {
    fn copy(&self) -> u8 {
        let partials = Partials::default();
        // Without the thread signals have their default effect, and the copy is as good as any.
        let caught = self.start_watching(&partials, &self.skip).unwrap_or_default();
        let session = session(&self.report, &self.plan, partials, self.skip.clone());
        let summary = run::run(&self.plan, &session);
        session::report_errors(&self.report, &summary);
        session::explain_filter(&self.report, &self.plan, self.show, &summary);
        if self.plan.dry_run {
            self.report.sum_up_dry_run();
        }
        if let Some(journal) = &summary.journal {
            self.report.advise(&words::resume_hint(journal, self.report.quoter()));
        }
        if let Some(shards) = &summary.shards {
            // Lists of digests are for other programs to read.
            shards::report(shards, self.plan.checksum.is_some() || self.show.json, &self.report);
        }
        let listed = self.finish_lists();
        let signal = caught.signal();
        if self.show.json {
            let record = self.record(&summary, exit::status(&summary, signal, !listed));
            self.report.screen().end_with(json::summary(&record, summary.journal.as_deref()).as_bytes());
        }
        let output_failed = !self.report.finish() || !listed;
        let signal = caught.signal();
        let status = exit::status(&summary, signal, output_failed);
        if let Some(format) = self.show.stats {
            self.report.screen().complain(self.record(&summary, status).show(format).as_bytes());
        } else if self.sums_up {
            let line = summary_line(&summary, self.call.started.elapsed());
            self.report.screen().sum_up(line.as_bytes());
        }
        self.end(&summary, signal, status)
    }

    /// `--list-out`.
    fn list(&self, path: &Path) -> u8 {
        let unwritten = |error| words::cannot_write(FILE_LIST, path, &error, self.report.quoter());
        // A place where no file can be is known at once.
        let list = match ListFile::begin(path) {
            Ok(list) => list,
            Err(error) => return refuse(&self.report, &fatal(unwritten(error)), exit::FAILURE),
        };
        let skip: Vec<FileId> = list.id().into_iter().collect();
        let partials = Partials::default();
        let caught = self.start_watching(&partials, &skip).unwrap_or_default();
        let survey = run::list(&self.plan, &session(&self.report, &self.plan, partials, skip));
        let cancelled = self.report.cancel().is_cancelled();
        let summary = Summary { failed: survey.failed, cancelled, ..Summary::default() };
        let durable = self.plan.durable != Durable::None;
        let refused = survey.list.operands().len() == 0;
        let saved = match cancelled || refused {
            // The signal may end the process below, and its file must be gone by then. What was refused is no list.
            true => {
                drop(list);
                Ok(())
            }
            false => list.save(&survey.list, durable).map_err(unwritten),
        };
        self.report.sum_up();
        if let Err(message) = &saved {
            self.report.complain(message);
        }
        let output_failed = !self.report.finish() || saved.is_err();
        let signal = caught.signal();
        let status = exit::status(&summary, signal, output_failed);
        self.end(&summary, signal, status)
    }

    /// `false` if there is no list, though there should be one, which it reports.
    fn finish_lists(&self) -> bool {
        let durable = self.plan.durable != Durable::None;
        let ((digests, failures), report) = (&self.lists, &self.report);
        let ended = [
            (DIGEST_LIST, digests, report.finish_digest_list(durable)),
            (FAILURE_LIST, failures, report.failures().map_or(Ok(()), |list| list.finish(durable))),
        ];
        let mut all = true;
        for (what, path, ended) in ended {
            if let Err(error) = ended {
                let path = path.as_deref().unwrap_or(Path::new(""));
                report.fail(&words::cannot_write(what, path, &error, report.quoter()));
                all = false;
            }
        }
        all
    }

    fn start_watching(&self, partials: &Partials, skip: &[FileId]) -> std::io::Result<Caught> {
        let (report, partials, persona) = (Arc::clone(&self.report), partials.clone(), self.call.persona);
        let (last_report, last_partials) = (Arc::clone(&report), partials.clone());
        memory::before_the_end(move || remove_partials(&last_report, &last_partials));
        if self.brief && !self.report.pace().is_active() {
            return watch::without_thread(&self.report, persona == Persona::Cp);
        }
        let abandon = Box::new(move |signal| {
            remove_partials_soon(&report, &partials);
            end_by(signal, persona);
        });
        watch::start(Arc::clone(&self.report), Arc::clone(&self.plan), skip.to_vec(), abandon)
    }

    fn end(&self, summary: &Summary, signal: Option<i32>, status: u8) -> u8 {
        // Also where the last words had no reader.
        if let Some(signal) = signal.filter(|signal| summary.cancelled || *signal == SIGPIPE) {
            end_by(signal, self.call.persona);
        }
        status
    }

    fn record<'a>(&self, summary: &'a Summary, status: u8) -> Record<'a> {
        let name = self.call.name.to_string_lossy().into_owned();
        let (pace, usage, profile) = (self.report.pace(), Usage::of_process(), self.plan.data.profile.as_deref());
        Record::new(name, summary, profile, pace, usage, self.call.started.elapsed(), status)
    }
}

/// Called as `cp`, a command that a signal stops ends by that signal, as GNU cp does: a shell then ends its loop, too.
fn end_by(signal: i32, persona: Persona) {
    if persona == Persona::Cp || signal == SIGPIPE {
        // If it fails, the caller exits with the status that a shell shows for this signal.
        signal_hook::low_level::emulate_default_handler(signal).ok();
    }
}
