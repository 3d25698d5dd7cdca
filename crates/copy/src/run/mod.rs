//! A whole run: the only room that knows all the others.

mod attributes;
mod changes;
mod check;
mod command;
mod durable;
mod entry;
mod existing;
mod free_space;
mod images;
mod names;
mod operands;
mod ordered;
mod parents;
mod peers;
mod pool;
mod precreate;
mod regular;
mod reporter;
mod resume;
mod selection;
mod session;
mod shards;
mod share;
mod special;
mod summary;
mod survey;
mod temporary_file;
mod threads;
mod tree;
mod within;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};

use haul_sys::memory;
use haul_sys::rustix::process;

use crate::events::Event;
use crate::facts::DeviceNumber;
use crate::journal::Record;
use crate::links::LinkTable;
use crate::meta;
use crate::plan::{Durable, Plan};
use crate::publish::temporary::TemporaryNames;
use crate::stats::Stats;
use crate::transfer;
use crate::walk::{Identities, KnownEntry, PathCursor};

pub use crate::control::Cancel;
pub use crate::publish::Partials;
pub use crate::transfer::facts_of;
use attributes::{Attributes, DeferredFlags};
pub use operands::settle_destination;
use ordered::EventSink;
use peers::PeerGroup;
pub use peers::{Part, Transport};
use pool::Pool;
pub use pool::SpareCapacity;
use reporter::{Reported, Reporter};
pub use session::Session;
pub use shards::{ShardReport, shard_status};
use share::Task;
pub use summary::Summary;
pub use survey::{Survey, list};
pub use within::source_of;

/// What a thread may take, in bytes, where memory is limited: its stack, buffers, names of directories.
const MEMORY_OF_A_THREAD: u64 = 16 << 20;

/// Copies what the plan says.
///
/// Errors are told to the observer, one by one, and the run goes on with the next file; the summary says whether
/// there were any.
pub fn run(plan: &Plan, session: &Session<'_>) -> Summary {
    run_as(plan, session, None)
}

/// The same as one of several processes that copy together. All of them have the same plan, with a destination that was
/// settled by [`settle_destination`] in the first of them. What one of them did is in its summary; they add up.
pub fn run_together(plan: &Plan, session: &Session<'_>, part: Part<'_>) -> Summary {
    run_as(plan, session, Some(part))
}

fn run_as(plan: &Plan, session: &Session<'_>, part: Option<Part<'_>>) -> Summary {
    let durable;
    let plan = if plan.resume && plan.durable != Durable::File {
        durable = Plan { durable: Durable::File, ..plan.clone() };
        &durable
    } else {
        plan
    };
    let first = part.is_none_or(|part| part.transport.rank() == 0);
    let prepared = meta::Caller::this_thread().map_err(|error| {
        session.observer.event(&Event::Problem(&error));
        Box::new(Stats { errors: 1, ..Stats::default() })
    });
    let prepared = prepared.and_then(|caller| Ok((selection::prepare(plan, session, first)?, caller)));
    let (selection, caller) = match prepared {
        Ok(prepared) => prepared,
        Err(stats) => {
            if let Some(part) = part.filter(|part| part.transport.rank() == 0) {
                // The others wait for something to do. That nothing is done is told already.
                part.transport.finish();
            }
            return Summary {
                failed: true,
                cancelled: session.cancel.is_cancelled(),
                stats: *stats,
                ..Summary::default()
            };
        }
    };
    let outcome = threads::run(plan, session, (selection, caller), part);
    Summary {
        failed: outcome.failed,
        cancelled: session.cancel.is_cancelled(),
        damaged: outcome.damaged,
        journal: outcome.journal,
        shards: outcome.shards,
        stats: outcome.stats,
    }
}

/// What all threads of a run share.
struct Shared {
    /// What was made for source files that have several names, and for directories.
    links: LinkTable,
    /// What was said already about attributes that cannot be kept.
    memory: meta::PairMemory,
    /// Which filesystems show files of others.
    identities: Identities,
    /// What was found out about filesystems, devices and memory.
    transfers: Arc<transfer::Shared>,
    space_gate: free_space::FreeSpaceGate,
    /// Whose turn it is to look at a disk image, and to copy it.
    images: Mutex<()>,
    /// What is not on its device yet, where that matters.
    ledger: durable::Ledger,
    /// What is written down for another run, if that is wanted.
    progress: OnceLock<resume::Progress>,
    /// What is to be copied, if it is not everything.
    selection: Option<selection::Selection>,
    /// What files are called before they have their names, where nobody will look for them.
    names: TemporaryNames,
    /// What this run and others do together, if it is a shard.
    shards: OnceLock<shards::Shards>,
    caller: meta::Caller,
}

/// The state of a run, or of one thread of it.
struct Run<'a> {
    plan: &'a Plan,
    session: &'a Session<'a>,
    shared: &'a Shared,
    /// The way to the observer; the session's leads here, too.
    sink: &'a EventSink<'a>,
    /// The other threads, if there can be any.
    pool: Option<&'a Pool<Task>>,
    /// The other processes, if there are any.
    peers: Option<&'a PeerGroup<'a>>,
    /// Starts another thread for a task; gives the task back if the system has none.
    spawn: &'a dyn Fn(Task) -> Option<Task>,
    report: Reporter<'a>,
    /// What was finished since that was written down last.
    finished: Vec<Record>,
    /// The filesystem that was written to last, where that matters.
    writes_to: Option<DeviceNumber>,
    /// Operands seen, and destinations made for operands; only kept when there are several operands.
    seen_sources: Option<HashSet<KnownEntry>>,
    made_for_operands: Option<HashSet<KnownEntry>>,
    /// The number of the operand that is being copied.
    operand: usize,
    /// Moves data; owns the engines.
    mover: transfer::Mover,
    /// Files whose last flags wait for their last hard link.
    deferred: Vec<DeferredFlags>,
    /// Directories of one branch kept open on each side.
    open_levels: usize,
    /// Memory for the two paths of the next entry of a directory.
    paths: [PathCursor; 2],
}

impl Shared {
    fn new(selection: Option<selection::Selection>, caller: meta::Caller) -> Shared {
        Shared {
            links: LinkTable::default(),
            transfers: Arc::default(),
            space_gate: free_space::FreeSpaceGate::default(),
            images: Mutex::default(),
            ledger: durable::Ledger::default(),
            progress: OnceLock::new(),
            selection,
            names: TemporaryNames::anybodys(),
            shards: OnceLock::new(),
            memory: meta::PairMemory::new(),
            identities: Identities::default(),
            caller,
        }
    }
}

impl<'a> Run<'a> {
    /// A run of one thread; the team sets the rest.
    fn new(plan: &'a Plan, session: &'a Session<'a>, shared: &'a Shared, sink: &'a EventSink<'a>) -> Run<'a> {
        let several = plan.sources.len() > 1;
        Run {
            plan,
            session,
            shared,
            sink,
            pool: None,
            peers: None,
            spawn: &Some,
            report: Reporter::new(session, plan.fail_fast),
            finished: Vec::new(),
            writes_to: None,
            seen_sources: several.then(HashSet::new),
            made_for_operands: several.then(HashSet::new),
            operand: 0,
            mover: transfer::Mover::new(Arc::clone(&shared.transfers)),
            deferred: Vec::new(),
            open_levels: open_levels(1),
            paths: Default::default(),
        }
    }

    /// What files are called before they have their names: so that the same command finds them if this run is killed, where
    /// there is something that will know the command again.
    fn temporary_names(&self) -> &'a TemporaryNames {
        let shared = self.shared;
        let of_shard = shared.shards.get().map(shards::Shards::names);
        shared.progress.get().map(resume::Progress::names).or(of_shard).unwrap_or(&shared.names)
    }

    /// What sets attributes.
    fn attributes(&self) -> Attributes<'a> {
        Attributes::new(self.plan, &self.session.xattr_rules, &self.shared.memory, self.shared.caller)
    }

    fn names_if(&self, wanted: bool) -> Option<&'a TemporaryNames> {
        wanted.then(|| self.temporary_names())
    }

    /// Waits for the turn to make a file. A cancelled run is told at once, and stops where it always does.
    fn wait_to_make(&self) {
        let _came = self.session.pace.turn_to_make(&|| self.cancelled());
    }

    fn cancelled(&self) -> bool {
        self.session.cancel.is_cancelled()
    }
}

/// How many levels of a tree each of so many threads keeps open: each takes a descriptor on either side, and half of them
/// must be left for the rest.
fn open_levels(threads: usize) -> usize {
    (descriptors() / 4 / threads).clamp(1, 4096)
}

/// How many threads there are descriptors and memory for. Beside the levels that it keeps open a thread needs a directory that
/// it just enters, the two files, a pipe, and the level that is closed next. The first thread needs as much memory as any other.
fn affordable_threads() -> usize {
    let for_memory =
        memory::left().map_or(usize::MAX, |left| usize::try_from(left / MEMORY_OF_A_THREAD).unwrap_or(usize::MAX));
    (descriptors() / 16).min(for_memory).max(1)
}

/// How many descriptors may be open, but for a few that have nothing to do with trees.
fn descriptors() -> usize {
    let limit = process::getrlimit(process::Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit.saturating_sub(16)).unwrap_or(usize::MAX)
}
