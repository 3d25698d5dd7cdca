//! A run from its first thread to its last.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, Scope};

use haul_cluster::{Part, ToDo};
use haul_io::facts;
use haul_io::tuner::Tuner;
use haul_sys::kernel::Linux;
use haul_sys::{Errno, memory};
use parking_lot::Mutex;

use crate::attributes::DeferredFlags;
use crate::context::RunContext;
use crate::context::Services;
use crate::context::Worker;
use crate::error::{Error, What};
use crate::events::Event;
use crate::finish::{naming, resume, shard};
use crate::meta::Caller;
use crate::peers::paths::room_for_tables;
use crate::peers::{PeerGroup, task_of};
use crate::plan::{Dereference, Destination, Plan};
use crate::report::Session;
use crate::schedule::limits::{affordable_threads, open_levels};
use crate::schedule::ordered::{EventSink, OrderedEvents};
use crate::schedule::pool::{Offer, Pool};
use crate::shards::ShardReport;
use crate::sources::selection::Selection;
use crate::stats::Stats;
use crate::tree::walker::Walker;
use crate::tree::{operands, tasks};
use crate::work::task::Task;

/// The stack of a thread in bytes, unless somebody has set RUST_MIN_STACK.
const STACK: u64 = 2 << 20;

/// What the threads did together.
#[derive(Default)]
pub(crate) struct Outcome {
    pub stats: Stats,
    pub failed: bool,
    pub damaged: Vec<PathBuf>,
    pub journal: Option<PathBuf>,
    pub shards: Option<ShardReport>,
    deferred: Vec<DeferredFlags>,
}

/// What every thread needs to begin.
struct Team<'a> {
    plan: &'a Plan,
    session: &'a Session<'a>,
    services: Services,
    ordered: OrderedEvents,
    pool: Pool<Task>,
    /// The other processes, if there are any.
    peers: Option<PeerGroup<'a>>,
    open_levels: usize,
    outcome: Mutex<Outcome>,
}

/// Copies what the plan says, with as many threads as are useful and allowed.
pub(crate) fn run(
    plan: &Plan,
    session: &Session<'_>,
    (selection, caller): (Option<Selection>, Caller),
    part: Option<Part<'_>>,
) -> Outcome {
    let tuner = threads(plan);
    let most = tuner.ceiling();
    let (ordered, first) = OrderedEvents::new();
    let open_levels = open_levels(most + 1);
    let team = Team {
        plan,
        session,
        services: Services::new(selection, caller, most > 1),
        ordered,
        // Half of what may be open is for the branches that the threads are in, the rest for directories that wait.
        pool: Pool::new(tuner, open_levels),
        peers: part.map(PeerGroup::new),
        open_levels,
        outcome: Mutex::default(),
    };
    let mut others_failed = false;
    thread::scope(|scope| {
        if let Some(peers) = &team.peers {
            peers.set_room(room_for_tables(plan));
            let listen = || attend(scope, &team, peers);
            if let Err(error) = thread::Builder::new().name("haul".into()).spawn_scoped(scope, listen) {
                // The others may ask this process for what only it knows: they cannot go on without it.
                team.outcome.lock().failed = true;
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
                let error = Error::new(What::CannotStartThreads, dest_of(plan)).errno(errno);
                session.observer.event(&Event::Problem(Cow::Borrowed(&error)));
                peers.transport.give_up();
                return;
            }
            peers.transport.begin(team.pool.spare_capacity());
        }
        let sink = EventSink::new(session.observer, &team.ordered, Some(first), &team.pool);
        let session = team.session_of_thread(&sink);
        let spawn = |task| spawn(scope, &team, task);
        let mut walker = team.walker_of_thread(&session, &sink, &spawn);
        let _alarm = Alarm(&team);
        match &team.peers {
            Some(peers) if !peers.is_first() => {
                team.pool.start_idle();
                work_off(&mut walker, team.pool.take(), &team.pool);
            }
            peers => {
                operands::copy_operands(&mut walker);
                team.pool.close();
                others_failed = peers.as_ref().is_some_and(|peers| !peers.transport.finish());
            }
        }
        team.take_over(walker);
    });
    let mut outcome = team.seal(others_failed);
    outcome.failed |= others_failed;
    outcome
}

fn dest_of(plan: &Plan) -> &OsStr {
    let (Destination::Guess(path) | Destination::Directory(path) | Destination::Exactly(path)) = &plan.destination;
    path
}

/// Listens to the other processes until there is nothing more to hear.
fn attend<'scope, 'env>(scope: &'scope Scope<'scope, 'env>, team: &'scope Team<'env>, peers: &PeerGroup<'env>) {
    let _alarm = Alarm(team);
    while let Some((from, message)) = peers.transport.receive() {
        match peers.take(from, &message) {
            ToDo::Where { from, token, key } => peers.say_where(&team.services.links, from, token, &key),
            todo => {
                // Also what is handed back: whoever could do it may be waiting for it.
                let is_back = matches!(todo, ToDo::Back { .. });
                if let Some(task) = task_of(todo) {
                    start(scope, team, team.pool.accept(task));
                }
                if is_back {
                    team.pool.one_fewer();
                }
            }
        }
    }
    peers.end();
    if !peers.is_first() {
        team.pool.close();
    }
}

fn start<'scope, 'env>(scope: &'scope Scope<'scope, 'env>, team: &'scope Team<'env>, given: Offer<Task>) {
    if let Offer::ForNewThread(task) | Offer::Back(task) = given
        && let Some(task) = spawn(scope, team, task)
    {
        team.pool.keep_for_later(task);
    }
}

/// Starts another thread with its first task; gives that back if the system has no thread to give.
fn spawn<'scope, 'env>(scope: &'scope Scope<'scope, 'env>, team: &'scope Team<'env>, task: Task) -> Option<Task> {
    if !memory::has_room_for_thread(STACK) {
        return Some(task);
    }
    // A thread that cannot be started drops its closure, but must not drop the task.
    let task = Arc::new(Mutex::new(Some(task)));
    let take = |task: &Mutex<Option<Task>>| task.lock().take();
    let first = Arc::clone(&task);
    let start = move || work(scope, team, take(&first));
    match thread::Builder::new().name("haul".into()).spawn_scoped(scope, start) {
        Ok(_detached) => None,
        Err(_none_to_give) => take(&task),
    }
}

fn work<'scope, 'env>(scope: &'scope Scope<'scope, 'env>, team: &'scope Team<'env>, first: Option<Task>) {
    let sink = EventSink::new(team.session.observer, &team.ordered, None, &team.pool);
    let session = team.session_of_thread(&sink);
    let spawn = |task| spawn(scope, team, task);
    let mut walker = team.walker_of_thread(&session, &sink, &spawn);
    let _alarm = Alarm(team);
    work_off(&mut walker, first, &team.pool);
    team.take_over(walker);
}

/// Lets the run end when a thread panics. The scope of the threads then passes the panic on.
struct Alarm<'a>(&'a Team<'a>);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.session.cancel.cancel();
            self.0.services.links.abandon();
            if let Some(peers) = &self.0.peers {
                peers.transport.give_up();
                peers.end();
            }
            self.0.pool.abandon();
        }
    }
}

/// Does this task, and those that come after it, until no more will come.
fn work_off(walker: &mut Walker<'_>, first: Option<Task>, pool: &Pool<Task>) {
    let mut next = first;
    while let Some(task) = next {
        tasks::do_task(walker, task);
        pool.finished();
        next = pool.take();
    }
}

impl Team<'_> {
    /// The session as one thread sees it: what it tells goes through its own sink.
    fn session_of_thread<'v>(&'v self, sink: &'v EventSink<'v>) -> Session<'v> {
        Session {
            observer: sink,
            confirm: self.session.confirm,
            cancel: self.session.cancel.clone(),
            pace: self.session.pace.clone(),
            partials: self.session.partials.clone(),
            xattr_rules: self.session.xattr_rules.clone(),
            skip_files: self.session.skip_files.clone(),
        }
    }

    fn walker_of_thread<'r>(
        &'r self,
        session: &'r Session<'r>,
        sink: &'r EventSink<'r>,
        spawn: &'r dyn Fn(Task) -> Option<Task>,
    ) -> Walker<'r> {
        let mut walker = Walker::alone(
            RunContext {
                plan: self.plan,
                session,
                services: &self.services,
                kernel: &Linux,
                peers: self.peers.as_ref(),
            },
            sink,
            tasks::do_task,
        );
        walker.pool = (self.peers.is_some() || !self.pool.is_alone()).then_some(&self.pool);
        walker.spawn = spawn;
        walker.open_levels = self.open_levels;
        walker
    }

    /// Adds what one thread did.
    fn take_over(&self, mut walker: Walker<'_>) {
        let mut outcome = self.outcome.lock();
        outcome.stats += &walker.worker.report.stats;
        outcome.failed |= walker.worker.report.failed;
        outcome.damaged.append(&mut walker.worker.report.damaged);
        outcome.deferred.append(&mut walker.worker.deferred);
    }

    /// When every hard link is made, files can become immutable.
    fn seal(self, others_failed: bool) -> Outcome {
        let is_first = self.peers.as_ref().is_none_or(PeerGroup::is_first);
        let mut outcome = self.outcome.into_inner();
        let (plan, session, services) = (self.plan, self.session, &self.services);
        let cx = RunContext { plan, session, services, kernel: &Linux, peers: None };
        let mut worker = Worker::new(cx);
        // Before files become immutable, which then cannot be renamed.
        naming::give_names(cx, &mut worker);
        cx.attributes().seal(std::mem::take(&mut outcome.deferred), &mut worker.report);
        naming::sync_everything(cx, &mut worker);
        let begun = &outcome.stats;
        let did_something = begun.directories + begun.regular + begun.resumed_files > 0;
        outcome.journal = match is_first {
            true => resume::end_progress(cx, &mut worker.report, outcome.failed || others_failed, did_something),
            // The first process ends it for all.
            false => None,
        };
        outcome.shards = shard::end_shard(cx, &mut worker.report, outcome.failed);
        outcome.stats += &worker.report.stats;
        outcome.failed |= worker.report.failed;
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
            let measured = plan.data.profile.as_ref().map_or(0, |profile| profile.most_jobs());
            Tuner::of_tree(facts::cores(), affordable, measured)
        }
    }
}

#[cfg(test)]
#[path = "threads_tests.rs"]
mod tests;
