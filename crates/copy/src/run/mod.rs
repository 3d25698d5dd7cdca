//! A whole run: the only module that knows all the others.

mod summary;
mod threads;

use crate::events::Event;
use crate::meta;
use crate::plan::{Durable, Plan};
use crate::sources::selection;
use crate::stats::Stats;
use std::borrow::Cow;

pub use crate::publish::Partials;
pub use crate::report::Session;
pub use crate::shards::{ShardReport, shard_status};
pub use crate::sources::destination::settle_destination;
pub use crate::sources::survey::{Survey, list};
pub use crate::sources::within::source_of;
pub use haul_cluster::{Part, SpareCapacity, Transport};
pub use haul_io::control::Cancel;
pub use summary::Summary;

/// Copies what the plan says.
///
/// Errors are reported to the observer, one by one, and the run goes on with the next file; the summary says whether
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
        session.observer.event(&Event::Problem(Cow::Borrowed(&error)));
        Box::new(Stats { errors: 1, ..Stats::default() })
    });
    let prepared = prepared.and_then(|caller| Ok((selection::prepare(plan, session, first)?, caller)));
    let (selection, caller) = match prepared {
        Ok(prepared) => prepared,
        Err(stats) => {
            if let Some(part) = part.filter(|part| part.transport.rank() == 0) {
                // The others wait for something to do. That nothing is done was reported.
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
