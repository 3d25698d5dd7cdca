//! The command `haul-mpi`: one copy by all processes of an MPI job, with the options of `haul`.
//!
//! The main thread talks to the other processes; the run has threads of its own. Rank 0 prints for all of them, and the
//! exit status in every process is that of the whole job.
//!
//! * **Knows** MPI (`line`, the only file that sends and receives), what launchers tell (`launcher`), the agreement of all
//!   ranks before anything is written (`agree`), other jobs (`at_work`), how messages and the run meet (`exchange`,
//!   `carrier`), what ranks that copy the same read for each other (`apart`, `broadcast`, `reads`), how far all ranks are (`standing`), how it ended (`status`), and what must end the job (`panics`, `stuck`).
//! * **Must not know** how a tree is divided or copied: that is `haul_copy::run::run_together`, which it gives a
//!   `Transport`. Options and messages are those of haul-frontend.
//!
//! It is not a default member of the workspace, since it needs MPI and libclang to build.
#![forbid(unsafe_code)]

mod agree;
mod apart;
mod at_work;
mod broadcast;
mod carrier;
mod compare;
mod directory;
mod exchange;
mod figures;
mod job;
mod launcher;
mod line;
mod name;
mod options;
mod panics;
mod reads;
mod standing;
mod status;
mod stuck;
mod talk;

use std::mem::take;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, thread};

use haul_copy::Context;
use haul_copy::plan::Plan;
use haul_copy::run::{self, Partials, Session, Survey};
use haul_frontend::complaint::{Complaint, fatal, misuse};
use haul_frontend::environment::Environment;
use haul_frontend::failures::Failures;
use haul_frontend::flags::Information;
use haul_frontend::help;
use haul_frontend::options::{Invocation, parse};
use haul_frontend::persona::Persona;
use haul_frontend::report::Report;
use haul_frontend::run_options::RunOptions;
use haul_frontend::session::{self, session};
use haul_frontend::show::Show;
use haul_frontend::{files, watch};
use haul_sys::process_state::{ignore_sighup, is_ignored};
use haul_sys::rustix::process::Signal;
use haul_sys::signals;
use mpi::Threading;

use agree::Purpose;
use exchange::lock;
use job::Job;
use launcher::Launch;
use line::Line;
use name::NAME;
use options::Own;

/// What a process has to say why nothing is done, before the others end their launcher's job.
const TIME_TO_SPEAK: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    panics::end_the_job();
    session::set_signals();
    let report = Report::new(NAME.as_bytes().to_vec());
    // Without it the signal ends the job, as everywhere.
    let asked = watch::requests().unwrap_or_default();
    let launch = launcher::launch(|name| env::var(name).ok());
    let hangup = Signal::HUP.as_raw();
    let stays = is_ignored(hangup);
    // It reports to nobody before there is anybody.
    let Some((universe, threading)) = mpi::initialize_with_threading(Threading::Funneled) else {
        report.complain(b"cannot start: MPI is not available to this process");
        return status::refused(env::args_os().skip(1)).into();
    };
    // UCX, below MPICH, takes it for a wish to see what it does, until the run has a handler of its own.
    if stays {
        ignore_sighup();
    } else {
        signals::note(hangup).ok();
    }
    if threading < Threading::Funneled {
        report.complain(b"cannot start: this MPI does not work in a program with threads");
        return status::refused(env::args_os().skip(1)).into();
    }
    stuck::watch();
    let world = universe.world();
    let mut line = Line::new(&world);
    let status = run(&mut line, report, Start { launch, asked });
    line.leave();
    drop(world);
    stuck::within_end(|| drop(universe));
    ExitCode::from(status)
}

/// What is known before the ranks know of each other.
struct Start {
    launch: Option<Launch>,
    /// Somebody wants to know how far the job is.
    asked: Arc<AtomicBool>,
}

fn run(line: &mut Line<'_>, mut report: Report, start: Start) -> u8 {
    let first = line.rank() == 0;
    let mut complaints = Vec::new();
    let wanted = options::take_own(env::args_os().skip(1)).map_err(misuse).and_then(|(own, rest)| {
        let mut warn = |message: &[u8]| complaints.push(message.to_vec());
        let wanted = parse(rest, Persona::Haul, &Environment::of_process(), report.quoter(), &mut warn)?;
        Ok((wanted, own))
    });
    // All ranks read the same, or hear it below; one of them says it.
    complaints.iter().filter(|_| first).for_each(|warning| report.complain(warning));
    let (wanted, own) = match wanted {
        Ok(wanted) => wanted,
        Err(complaint) => return refuse(line, &report, &complaint),
    };
    if !matches!(wanted, Invocation::Print(_))
        && let Some(status) = refuse_misfit(line, &report, start.launch)
    {
        return status;
    }
    let (mut plan, show, run_options) = match wanted {
        Invocation::Copy(plan, show, run_options) => (plan, show, run_options),
        Invocation::Compare(..) if own.each => {
            let complaint =
                fatal("'--compare' is not possible with '--each': let 'haul --compare' run on each machine");
            return refuse(line, &report, &complaint);
        }
        Invocation::Compare(plan, show) => return compare::compare_all(line, report, &plan, show),
        Invocation::Punch(_) => {
            let complaint = fatal("'--punch' is for one process: use haul");
            return refuse(line, &report, &complaint);
        }
        Invocation::Print(_) if !first => return 0,
        Invocation::Print(Information::Help) => return report.print_only(&help_text()),
        Invocation::Print(Information::Version) => return report.print_only(&help::version(NAME)),
    };
    if let Some(complaint) = objection(&plan, &run_options, own, (show, &report)) {
        return refuse(line, &report, &complaint);
    }
    let progress = report.wants_progress(show.progress);
    if let Some(path) = &run_options.list {
        match files::load_list(path, report.quoter()) {
            Ok(list) => plan.list = Some(Arc::new(list)),
            Err(message) => return refuse(line, &report, &fatal(message)),
        }
    }
    let failed = Arc::new(Mutex::new(Vec::new()));
    if first && run_options.failures.is_some() {
        // The list is begun when all have agreed.
        let keep = Arc::clone(&failed);
        report.list_failures(Failures::passed_on(&plan, Box::new(move |name| lock(&keep).push(name.to_vec()))));
    }
    let names = plan.names.as_ref().map(|_| find_names(&report, &plan, first).settle(&plan)).transpose();
    let nothing = names.is_err();
    let (list, found) = names.ok().flatten().unzip();
    plan.list = list.or(plan.list);
    let purpose = if own.each { Purpose::WriteEach } else { Purpose::Write };
    match agree::agree(line, &plan, progress, purpose) {
        Ok(_) if nothing => 1,
        Ok((agreed, at_work)) => {
            let found = found.unwrap_or_default();
            let failed = take(&mut *lock(&failed));
            Job { agreed, plan: *plan, show, options: run_options, own, found, failed, at_work, asked: start.asked }
                .run(line)
        }
        Err(why) => {
            if first {
                report.complain(why.as_bytes());
            }
            status::REFUSED
        }
    }
}

/// Why this copy is not one for several processes.
fn objection(plan: &Plan, options: &RunOptions, own: Own, (show, report): (Show, &Report)) -> Option<Complaint> {
    if let Some(why) = options::refusal(plan, options, own) {
        return Some(fatal(why));
    }
    if let Some(why) =
        options.failures.as_ref().and_then(|path| files::replaces_source(plan, path, false, report.quoter()))
    {
        return Some(fatal(why));
    }
    show.json.then(|| fatal("'--json' is for one process: use haul"))
}

/// What the names that the user has given stand for. All ranks look, so that they agree on it, and one reports.
fn find_names(report: &Report, plan: &Plan, first: bool) -> Survey {
    let session = session(report, plan, Partials::default(), Vec::new());
    let quiet = Context::default();
    run::list(plan, &if first { session } else { Session { observer: quiet.observer, ..session } })
}

/// The exit status, if this process is not one of those that its launcher has started together: a copy by each of them
/// would be a copy of everything.
fn refuse_misfit(line: &Line<'_>, report: &Report, launch: Option<Launch>) -> Option<u8> {
    let library = mpi::environment::library_version().unwrap_or_default();
    let misfit = launcher::misfit(line.ranks(), &library, launch)?;
    if misfit.speaks {
        report.complain(misfit.why.as_bytes());
    } else {
        // A launcher ends all processes when the first one has failed: that must be the one that says why.
        thread::sleep(TIME_TO_SPEAK);
    }
    Some(status::refused(env::args_os().skip(1)))
}

/// Says on rank 0 why nothing is done. Ranks with other options may be about to do something: they hear that they differ.
fn refuse(line: &mut Line<'_>, report: &Report, complaint: &Complaint) -> u8 {
    let agreed = agree::agree(line, &Plan::default(), false, Purpose::Refuse);
    if line.rank() == 0 {
        match agreed {
            Err(why) if !why.is_empty() => report.refuse(&Complaint { message: why.into_bytes(), ..*complaint }),
            _ => report.refuse(complaint),
        }
    }
    status::refused(env::args_os().skip(1))
}

fn help_text() -> String {
    let own = "\n\
        haul-mpi is started by mpirun or srun, as many times as there are processes, all\n\
        with the same options. It has two of its own:\n\
        \n      --chunk=SIZE         files of at least two such chunks are copied by\n\
        \x20                          several processes (64M)\n\
        \x20     --each               each process makes a whole copy, at a destination of its\n\
        \x20                          own (one process for each machine); large files are\n\
        \x20                          read from their storage once, and passed on\n\
        \n\
        --jobs=N is the number of threads of each process; by default the processes on\n\
        a machine share its processors. --limit is the rate of all of them together.\n\
        --interactive, --control, --yield, --punch, --digests, --list-out, --shard,\n\
        --move, --clone-tree=always, --dry-run and --json are refused, and so is - for\n\
        standard input; --delete and --mirror, too, but for --each. Not with --each:\n\
        --chunk, --compare, --engine, --failures, --reflink=always.\n";
    help::help(NAME.as_ref()) + own
}
