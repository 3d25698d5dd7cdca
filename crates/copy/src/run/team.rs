//! A run from its first thread to its last.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};

use haul_sys::{Errno, memory};

use super::attributes::Unsealed;
use super::crew::{Crew, Given};
use super::fleet::{Part, Party, ToDo};
use super::selection::Selection;
use super::session::Session;
use super::shards::ShardReport;
use super::share::Task;
use super::transcript::{Transcript, Voice};
use super::{Run, Shared, affordable_threads, open_levels};
use crate::error::{Error, What};
use crate::events::Event;
use crate::facts;
use crate::meta::Caller;
use crate::plan::{Dereference, Destination, Plan};
use crate::stats::Stats;
use crate::tuner::Tuner;

/// The stack of a thread in bytes, unless somebody has set RUST_MIN_STACK.
const STACK: u64 = 2 << 20;

/// What the threads did together.
#[derive(Default)]
pub(super) struct Outcome {
    pub stats: Stats,
    pub failed: bool,
    pub damaged: Vec<PathBuf>,
    pub journal: Option<PathBuf>,
    pub shards: Option<ShardReport>,
    unsealed: Vec<Unsealed>,
}

/// What every thread needs to begin.
struct Team<'a> {
    plan: &'a Plan,
    session: &'a Session<'a>,
    shared: Shared,
    transcript: Transcript,
    crew: Crew<Task>,
    /// The other processes, if there are any.
    party: Option<Party<'a>>,
    open_levels: usize,
    outcome: Mutex<Outcome>,
}

/// Copies what the plan says, with as many threads as are useful and allowed.
pub(super) fn run(
    plan: &Plan,
    session: &Session<'_>,
    (selection, caller): (Option<Selection>, Caller),
    part: Option<Part<'_>>,
) -> Outcome {
    let tuner = threads(plan);
    let most = tuner.ceiling();
    let (transcript, first) = Transcript::new();
    let open_levels = open_levels(most + 1);
    let team = Team {
        plan,
        session,
        shared: Shared::new(selection, caller),
        transcript,
        // Half of what may be open is for the branches that the threads are in, the rest for directories that wait.
        crew: Crew::new(tuner, open_levels),
        party: part.map(Party::new),
        open_levels,
        outcome: Mutex::default(),
    };
    let mut others_failed = false;
    thread::scope(|scope| {
        if let Some(party) = &team.party {
            party.find_room(plan);
            let listen = || attend(scope, &team, party);
            if let Err(error) = thread::Builder::new().name("haul".into()).spawn_scoped(scope, listen) {
                // The others may ask this process for what only it knows: they cannot go on without it.
                lock(&team.outcome).failed = true;
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
                let error = Error::new(What::CannotStartThreads, dest_of(plan)).errno(errno);
                session.observer.event(&Event::Problem(&error));
                party.fleet.give_up();
                return;
            }
            party.fleet.begin(team.crew.hunger());
        }
        let voice = Voice::new(session.observer, &team.transcript, Some(first), &team.crew);
        let session = team.session_of_thread(&voice);
        let hire = |task| hire(scope, &team, task);
        let mut run = team.run_of_thread(&session, &voice, &hire);
        let _alarm = Alarm(&team);
        match &team.party {
            Some(party) if !party.is_first() => {
                team.crew.stand_by();
                run.serve(&team.crew);
            }
            party => {
                run.copy_operands();
                team.crew.close();
                others_failed = party.as_ref().is_some_and(|party| !party.fleet.finish());
            }
        }
        team.take_over(run);
    });
    let mut outcome = team.seal(others_failed);
    outcome.failed |= others_failed;
    outcome
}

fn dest_of(plan: &Plan) -> &OsStr {
    let (Destination::Guess(path) | Destination::Directory(path) | Destination::Exactly(path)) = &plan.destination;
    path
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens to the other processes until there is nothing more to hear.
fn attend<'scope, 'env>(scope: &'scope Scope<'scope, 'env>, team: &'scope Team<'env>, party: &Party<'env>) {
    let _alarm = Alarm(team);
    while let Some((from, message)) = party.fleet.receive() {
        match party.take(from, &message) {
            ToDo::Nothing => {}
            // Also what is handed back: whoever could do it may be waiting for it.
            ToDo::Work(task) => start(scope, team, team.crew.accept(task)),
            ToDo::AtOnce(task) => {
                start(scope, team, team.crew.accept(task));
                team.crew.one_fewer();
            }
            ToDo::Where { from, token, key } => party.say_where(&team.shared.links, from, token, &key),
        }
    }
    party.end();
    if !party.is_first() {
        team.crew.close();
    }
}

fn start<'scope, 'env>(scope: &'scope Scope<'scope, 'env>, team: &'scope Team<'env>, given: Given<Task>) {
    if let Given::ForNewThread(task) | Given::Back(task) = given
        && let Some(task) = hire(scope, team, task)
    {
        team.crew.keep_for_later(task);
    }
}

/// Starts another thread with its first task; gives that back if the system has no thread to give.
fn hire<'scope, 'env>(scope: &'scope Scope<'scope, 'env>, team: &'scope Team<'env>, task: Task) -> Option<Task> {
    if !memory::has_room_for_thread(STACK) {
        return Some(task);
    }
    // A thread that cannot be started drops its closure, but must not drop the task.
    let task = Arc::new(Mutex::new(Some(task)));
    let take = |task: &Mutex<Option<Task>>| task.lock().unwrap_or_else(PoisonError::into_inner).take();
    let first = Arc::clone(&task);
    let start = move || work(scope, team, take(&first));
    match thread::Builder::new().name("haul".into()).spawn_scoped(scope, start) {
        Ok(_detached) => None,
        Err(_none_to_give) => take(&task),
    }
}

fn work<'scope, 'env>(scope: &'scope Scope<'scope, 'env>, team: &'scope Team<'env>, first: Option<Task>) {
    let voice = Voice::new(team.session.observer, &team.transcript, None, &team.crew);
    let session = team.session_of_thread(&voice);
    let hire = |task| hire(scope, team, task);
    let mut run = team.run_of_thread(&session, &voice, &hire);
    let _alarm = Alarm(team);
    let mut next = first;
    while let Some(task) = next {
        run.do_task(task);
        team.crew.finished();
        next = team.crew.take();
    }
    team.take_over(run);
}

/// Lets the run end when a thread panics. The scope of the threads then passes the panic on.
struct Alarm<'a>(&'a Team<'a>);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.session.cancel.cancel();
            self.0.shared.links.abandon();
            if let Some(party) = &self.0.party {
                party.fleet.give_up();
                party.end();
            }
            self.0.crew.abandon();
        }
    }
}

impl Run<'_> {
    /// Does what comes from other processes until no more will come.
    fn serve(&mut self, crew: &Crew<Task>) {
        while let Some(task) = crew.take() {
            self.do_task(task);
            crew.finished();
        }
    }
}

impl Team<'_> {
    /// The session as one thread sees it: what it tells goes through its own voice.
    fn session_of_thread<'v>(&'v self, voice: &'v Voice<'v>) -> Session<'v> {
        Session {
            observer: voice,
            confirm: self.session.confirm,
            cancel: self.session.cancel.clone(),
            pace: self.session.pace.clone(),
            partials: self.session.partials.clone(),
            xattr_rules: self.session.xattr_rules.clone(),
            leave_out: self.session.leave_out.clone(),
        }
    }

    fn run_of_thread<'r>(
        &'r self,
        session: &'r Session<'r>,
        voice: &'r Voice<'r>,
        hire: &'r dyn Fn(Task) -> Option<Task>,
    ) -> Run<'r> {
        let mut run = Run::new(self.plan, session, &self.shared, voice);
        run.party = self.party.as_ref();
        run.crew = (self.party.is_some() || !self.crew.is_alone()).then_some(&self.crew);
        run.hire = hire;
        run.open_levels = self.open_levels;
        run
    }

    /// Adds what one thread did.
    fn take_over(&self, mut run: Run<'_>) {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.stats += &run.report.stats;
        outcome.failed |= run.report.failed;
        outcome.damaged.append(&mut run.report.damaged);
        outcome.unsealed.append(&mut run.unsealed);
    }

    /// When every hard link is made, files can become immutable.
    fn seal(self, others_failed: bool) -> Outcome {
        let is_first = self.party.as_ref().is_none_or(Party::is_first);
        let mut outcome = self.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        let voice = Voice::direct(self.session.observer);
        let mut run = Run::new(self.plan, self.session, &self.shared, &voice);
        // Before files become immutable, which then cannot be renamed.
        run.give_names();
        run.attributes().seal(std::mem::take(&mut outcome.unsealed), &mut run.report);
        run.sync_everything();
        let begun = &outcome.stats;
        let did_something = begun.directories + begun.regular + begun.resumed_files > 0;
        outcome.journal = match is_first {
            true => run.end_progress(outcome.failed || others_failed, did_something),
            // The first process ends it for all.
            false => None,
        };
        outcome.shards = run.end_shard(outcome.failed);
        outcome.stats += &run.report.stats;
        outcome.failed |= run.report.failed;
        outcome.damaged.sort();
        outcome
    }
}

/// How many threads may work on a tree.
fn threads(plan: &Plan) -> Tuner {
    let affordable = affordable_threads();
    // With -L a link may lead back into what is being copied, and then the order decides how the copy ends.
    let serial = !plan.recursive || plan.dereference == Dereference::Always;
    match plan.jobs {
        _ if serial => Tuner::fixed(1),
        Some(jobs) => Tuner::fixed(jobs.min(affordable)),
        None => {
            let measured = plan.profile.as_ref().map_or(0, |profile| profile.most_jobs());
            Tuner::of_tree(facts::cores(), affordable, measured)
        }
    }
}
