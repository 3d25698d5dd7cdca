//! A run from its first thread to its last.

use std::borrow::Cow;
use std::ops::AddAssign;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, Scope};

use haul_cluster::messages::Message;
use haul_cluster::{Part, ToDo};
use haul_io::facts;
use haul_io::tuner::{MOST_REMOTE, Tuner};
use haul_sys::kernel::Linux;
use haul_sys::{Errno, memory};
use parking_lot::Mutex;

use crate::attributes::DeferredFlags;
use crate::context::{RunContext, Services, Worker};
use crate::error::{Error, What};
use crate::events::Event;
use crate::finish::{deletion, naming, resume, shard};
use crate::links::LinkTable;
use crate::meta::Caller;
use crate::peers::{PeerGroup, task_of};
use crate::plan::{Dereference, Durable, Plan};
use crate::report::{Reporter, Session};
use crate::schedule::limits::{affordable_threads, open_levels, threads_with_usual_levels};
use crate::schedule::ordered::{EventSink, OrderedEvents};
use crate::schedule::pool::{Offer, Pool};
use crate::shards::ShardReport;
use crate::sources::operands::holder_of;
use crate::sources::selection::Selection;
use crate::stats::Stats;
use crate::tree::walker::Walker;
use crate::tree::{operands, remove_sources, tasks};
use crate::work::task::Task;

/// The stack of a thread in bytes, unless somebody has set RUST_MIN_STACK.
const STACK: u64 = 2 << 20;

/// How a run ended. The exit status is a function of this.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Something that was asked for was not done.
    pub failed: bool,
    /// That is all that failed: another process of the same copy has not done its part.
    pub failed_elsewhere: bool,
    /// The run was cancelled before its end.
    pub cancelled: bool,
    /// Overwritten files that are neither the old nor the new ones.
    pub damaged: Vec<PathBuf>,
    /// With `resume`: what is left to do stays in this journal, and the same plan goes on from it.
    pub journal: Option<PathBuf>,
    /// With a shard: what all shards of its job have done.
    pub shards: Option<ShardReport>,
    /// The counters.
    pub stats: Stats,
}

impl Summary {
    /// Adds what one thread has reported.
    fn add(&mut self, report: Reporter<'_>) {
        self.stats += &report.stats;
        self.failed |= report.failed;
        self.damaged.extend(report.damaged);
    }
}

impl AddAssign for Summary {
    /// What two processes did together.
    fn add_assign(&mut self, other: Summary) {
        let failed_here = [&*self, &other].into_iter().any(|one| one.failed && !one.failed_elsewhere);
        self.failed |= other.failed;
        self.failed_elsewhere = self.failed && !failed_here;
        self.cancelled |= other.cancelled;
        self.damaged.extend(other.damaged);
        self.journal = self.journal.take().or(other.journal);
        self.shards = self.shards.take().or(other.shards);
        self.stats += &other.stats;
    }
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
    summary: Mutex<Summary>,
    /// Files whose last flags wait for the last hard link.
    deferred: Mutex<Vec<DeferredFlags>>,
}

/// Copies what the plan says, with as many threads as are useful and allowed.
pub(crate) fn run(
    plan: &Plan,
    session: &Session<'_>,
    (selection, caller): (Option<Selection>, Caller),
    part: Option<Part<'_>>,
) -> Summary {
    let tuner = threads(plan);
    let most = tuner.ceiling();
    let (ordered, first) = OrderedEvents::new();
    let open_levels = open_levels(most + 1);
    let found = selection.as_ref().map(|selection| (selection.filtered.clone(), selection.missing));
    let (filtered, missing) = found.unwrap_or_default();
    let mut services = Services::new(selection, caller, most > 1);
    if plan.dry_run {
        // What does not fit into its pages would be written to the destination.
        services.links = LinkTable::in_memory();
    }
    let team = Team {
        plan,
        session,
        services,
        ordered,
        // Half of what may be open is for the branches that the threads are in, the rest for directories that wait.
        pool: Pool::new(tuner, open_levels),
        peers: part.map(PeerGroup::new),
        open_levels,
        summary: Mutex::new(Summary { failed: filtered.errors > missing, stats: filtered, ..Summary::default() }),
        deferred: Mutex::default(),
    };
    let mut others_failed = false;
    thread::scope(|scope| {
        if let Some(peers) = &team.peers {
            // For tables that do not fit into memory.
            peers.set_room(holder_of(&plan.destination).ok().map(|(dir, ..)| dir));
            let listen = || attend(scope, &team, peers);
            if let Err(error) = thread::Builder::new().name("haul".into()).spawn_scoped(scope, listen) {
                // The others may ask this process for what only it knows: they cannot go on without it.
                team.summary.lock().failed = true;
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
                let error = Error::new(What::CannotStartThreads, plan.destination.path()).errno(errno);
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
    team.seal(others_failed)
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
                    start(scope, team, peers, team.pool.accept(task));
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

fn start<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    team: &'scope Team<'env>,
    peers: &PeerGroup<'env>,
    given: Offer<Task>,
) {
    if let Offer::ForNewThread(task) | Offer::Back(task) = given
        && let Some(task) = spawn(scope, team, task)
    {
        do_without_thread(&team.pool, peers, task);
    }
}

/// What becomes of a task that has come from another process where no thread could be spawned for it.
fn do_without_thread(pool: &Pool<Task>, peers: &PeerGroup<'_>, task: Task) {
    match task {
        // The threads of this process may all wait for the owner of the file, to link to it, and the owner waits for the chunk.
        Task::Chunk(from, chunk) => {
            pool.could_not_spawn();
            peers.tell(Some((from, Message::ChunkDone { token: chunk.token, moved: 0 })));
        }
        task => pool.keep_for_later(task),
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
        Session { observer: sink, ..self.session.clone() }
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
        self.deferred.lock().append(&mut walker.worker.deferred);
        self.summary.lock().add(walker.worker.report);
    }

    /// When every hard link is made, files can become immutable.
    fn seal(self, others_failed: bool) -> Summary {
        let is_first = self.peers.as_ref().is_none_or(PeerGroup::is_first);
        let mut summary = self.summary.into_inner();
        let (plan, session, services) = (self.plan, self.session, &self.services);
        let cx = RunContext { plan, session, services, kernel: &Linux, peers: None };
        let mut worker = Worker::new(cx);
        // Before files become immutable, which then cannot be renamed.
        naming::give_names(&mut worker);
        let failures = worker.report.failures_of_copying();
        cx.attributes().seal(self.deferred.into_inner(), &mut worker.report);
        if worker.report.failures_of_copying() > failures {
            // Of which sources nobody knows here.
            services.stays.lose();
        }
        sync_and_move(&mut worker, &summary.stats, self.open_levels);
        deletion::report_rest(&mut worker);
        let begun = &summary.stats;
        let did_something = begun.directories + begun.regular + begun.resumed_files > 0;
        // Whoever runs a shard again finds no more of them: it is done.
        let missing = services.selection.as_ref().is_some_and(|selection| selection.missing > 0);
        summary.journal = match is_first {
            true => resume::end_progress(&mut worker, summary.failed || others_failed || missing, did_something),
            // The first process ends it for all.
            false => None,
        };
        summary.shards = shard::end_shard(&mut worker, summary.failed);
        summary.add(worker.report);
        summary.failed |= missing;
        summary.failed_elsewhere = others_failed && !summary.failed;
        summary.failed |= others_failed;
        summary.cancelled = session.cancel.is_cancelled();
        summary.damaged.sort();
        summary
    }
}

/// Brings everything to its device, if that is asked for. Of a move, the sources that were copied go then.
fn sync_and_move(worker: &mut Worker<'_>, done: &Stats, open_levels: usize) {
    let plan = worker.cx.plan;
    if plan.dry_run {
        return;
    }
    let copied = done.regular + done.directories + done.symbolic_links + done.hard_links + done.special + done.skipped;
    if plan.moves && plan.durable == Durable::None && copied == 0 {
        // What was renamed is where it was on the device.
        return;
    }
    let errors = worker.report.stats.errors;
    let synced = worker.cx.services.filesystems.that_sync_whole();
    naming::sync_everything(worker);
    let is_durable = worker.report.stats.errors == errors && !worker.cx.cancelled();
    if plan.moves && copied > 0 && is_durable {
        remove_sources::remove_sources(worker, open_levels, &synced);
    }
}

/// How many threads may work on a tree.
fn threads(plan: &Plan) -> Tuner {
    let affordable = affordable_threads();
    // With -L a link may lead back into what is being copied, and then the order decides how the copy ends.
    let serial = !plan.recursive || plan.dereference == Dereference::Always || plan.dry_run;
    match plan.jobs {
        _ if serial => Tuner::fixed(1),
        Some(jobs) => Tuner::fixed(jobs.min(affordable)),
        None => {
            let measured = plan.data.profile.as_ref().map_or(0, |profile| profile.most_jobs());
            let remote = MOST_REMOTE.min(threads_with_usual_levels());
            Tuner::of_tree(facts::cores(), affordable, measured.max(remote))
        }
    }
}

#[cfg(test)]
#[path = "threads_tests.rs"]
mod tests;
