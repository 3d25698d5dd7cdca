//! The command `haul-mpi`: one copy by all processes of an MPI job, with the options of `haul`.
//!
//! The main thread talks to the other processes; the run has threads of its own. Rank 0 prints for all of them, and the
//! exit status in every process is that of the whole job.
//!
//! * **Knows** MPI (`line`, the only file that sends and receives), the agreement of all ranks before anything
//!   is written (`agree`), how messages and the run meet (`exchange`), and what must end the job (`panics`, `stuck`).
//! * **Must not know** how a tree is divided or copied: that is `haul_copy::run::run_together`, which it gives a
//!   `Transport`. Options and messages are those of haul-frontend.
//!
//! It is not a default member of the workspace, since it needs MPI and libclang to build.
#![forbid(unsafe_code)]

mod agree;
mod compare;
mod exchange;
mod figures;
mod job;
mod line;
mod name;
mod options;
mod panics;
mod stuck;
mod talk;

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;
use std::sync::Arc;

use haul_copy::plan::Plan;
use haul_frontend::complaint::{Complaint, fatal, misuse};
use haul_frontend::environment::Environment;
use haul_frontend::help;
use haul_frontend::options::{Invocation, parse};
use haul_frontend::persona::Persona;
use haul_frontend::report::Report;
use haul_frontend::{exit, lists, process};
use mpi::Threading;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};

use job::Job;
use line::Line;
use name::NAME;
use options::Own;

fn main() -> ExitCode {
    panics::end_the_job();
    process::set_signals();
    let report = Report::new(NAME.as_bytes().to_vec());
    // It reports to nobody before there is anybody.
    let Some((universe, threading)) = mpi::initialize_with_threading(Threading::Funneled) else {
        report.complain(b"cannot start: MPI is not available to this process");
        return ExitCode::FAILURE;
    };
    if threading < Threading::Funneled {
        report.complain(b"cannot start: this MPI does not work in a program with threads");
        return ExitCode::FAILURE;
    }
    stuck::watch();
    let world = universe.world();
    let status = run(&world, report);
    drop(world);
    drop(universe);
    ExitCode::from(status)
}

fn run(world: &SimpleCommunicator, report: Report) -> u8 {
    let mut line = Line::new(world);
    let first = line.rank() == 0;
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let said: Vec<Vec<u8>> = arguments.iter().map(|argument| argument.clone().into_vec()).collect();
    let machine = machine(world);
    let mut complaints = Vec::new();
    let wanted = Own::take(arguments).map_err(misuse).and_then(|own| {
        let mut warn = |message: &[u8]| complaints.push(message.to_vec());
        let wanted = parse(own.rest, Persona::Haul, &Environment::of_process(), report.quoter(), &mut warn)?;
        Ok((wanted, own.chunk))
    });
    // All ranks read the same, or hear it below; one of them says it.
    complaints.iter().filter(|_| first).for_each(|warning| report.complain(warning));
    let (wanted, chunk) = match wanted {
        Ok(wanted) => wanted,
        Err(complaint) => return refuse(&mut line, &report, &said, machine, &complaint),
    };
    let (plan, show, run_options) = match wanted {
        Invocation::Copy(plan, show, run_options) => (plan, show, run_options),
        Invocation::Compare(plan, show) => return compare::compare_all(&mut line, report, &plan, show, &said, machine),
        Invocation::Punch(_) => {
            let complaint = fatal("'--punch' is for one process: use haul");
            return refuse(&mut line, &report, &said, machine, &complaint);
        }
        Invocation::Help if first => return report.print_only(&help_text()),
        Invocation::Version if first => return report.print_only(&help::version(NAME)),
        Invocation::Help | Invocation::Version => return 0,
    };
    if let Some(why) = options::refusal(&plan, &run_options) {
        return refuse(&mut line, &report, &said, machine, &fatal(why));
    }
    let progress = report.wants_progress(show.progress);
    let mut plan = plan;
    if let Some(path) = &run_options.list {
        match lists::load(path, &report) {
            Ok(list) => plan.list = Some(Arc::new(list)),
            Err(message) => return refuse(&mut line, &report, &said, machine, &fatal(message)),
        }
    }
    match agree::agree(&mut line, &plan, &said, machine, progress, true) {
        Ok(agreed) => Job { agreed, plan: *plan, show, options: run_options, chunk }.run(&mut line),
        Err(why) => {
            if first {
                report.complain(why.as_bytes());
            }
            1
        }
    }
}

/// The lowest rank that shares memory with this one.
fn machine(world: &SimpleCommunicator) -> usize {
    let node = world.split_shared(world.rank());
    let mut ranks = vec![0_i32; usize::try_from(node.size()).unwrap_or(1)];
    node.all_gather_into(&world.rank(), &mut ranks[..]);
    ranks.into_iter().min().and_then(|lowest| usize::try_from(lowest).ok()).unwrap_or_default()
}

/// Says on rank 0 why nothing is done. Ranks with other options may be about to do something: they hear that they differ.
fn refuse(line: &mut Line<'_>, report: &Report, said: &[Vec<u8>], machine: usize, complaint: &Complaint) -> u8 {
    let nothing = Plan::default();
    let agreed = agree::agree(line, &nothing, said, machine, false, false);
    if line.rank() == 0 {
        match agreed {
            Ok(_) => report.refuse(complaint),
            Err(why) => report.refuse(&Complaint { message: why.into_bytes(), ..*complaint }),
        }
    }
    exit::misuse(said.iter().map(|word| OsStr::from_bytes(word)))
}

fn help_text() -> String {
    let own = "\n\
        haul-mpi is started by mpirun or srun, as many times as there are processes, all\n\
        with the same options. It has one of its own:\n\
        \n      --chunk=SIZE         files of at least two such chunks are copied by\n\
        \x20                          several processes (64M)\n\
        \n\
        --jobs=N is the number of threads of each process; by default the processes on\n\
        a machine share its processors. --limit is the rate of all of them together.\n\
        --interactive, --control, --yield, --punch, --digests, --list-out and --shard\n\
        are refused.\n";
    help::help(NAME.as_ref()) + own
}
