//! A whole run: the only room that knows all the others.

mod attributes;
mod changes;
mod check;
mod command;
mod context;
mod durable;
mod entry;
mod existing;
mod free_space;
mod images;
mod names;
mod operand_set;
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
mod services;
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
mod worker;

use haul_sys::memory;
use haul_sys::rustix::process;

use crate::events::Event;
use crate::meta;
use crate::plan::{Durable, Plan};
use crate::stats::Stats;

pub use crate::control::Cancel;
pub use crate::publish::Partials;
pub use crate::transfer::facts_of;
use context::RunContext;
use operand_set::Operands;
pub use operands::settle_destination;
use ordered::EventSink;
use peers::PeerGroup;
pub use peers::{Part, Transport};
use pool::Pool;
pub use pool::SpareCapacity;
use reporter::Reported;
pub use session::Session;
pub use shards::{ShardReport, shard_status};
use share::Task;
pub use summary::Summary;
pub use survey::{Survey, list};
pub use within::source_of;
use worker::Worker;

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

/// One thread of a run.
struct Run<'a> {
    cx: RunContext<'a>,
    worker: Worker<'a>,
    /// The way to the observer; the session's leads here, too.
    sink: &'a EventSink<'a>,
    /// The other threads, if there can be any.
    pool: Option<&'a Pool<Task>>,
    /// The other processes, if there are any.
    peers: Option<&'a PeerGroup<'a>>,
    /// Starts another thread for a task; gives the task back if the system has none.
    spawn: &'a dyn Fn(Task) -> Option<Task>,
    operands: Operands,
    /// Directories of one branch kept open on each side.
    open_levels: usize,
}

impl<'a> Run<'a> {
    /// A run of one thread; the team sets the rest.
    fn new(cx: RunContext<'a>, sink: &'a EventSink<'a>) -> Run<'a> {
        Run {
            cx,
            worker: Worker::new(cx),
            sink,
            pool: None,
            peers: None,
            spawn: &Some,
            operands: Operands::new(cx.plan.sources.len() > 1),
            open_levels: open_levels(1),
        }
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
