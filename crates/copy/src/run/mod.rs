//! A whole run: the only module that knows all the others.

mod threads;

use std::borrow::Cow;
use std::path::Path;

use crate::error::{Error, What};
use crate::events::Event;
use crate::meta;
use crate::plan::{Durable, Plan};
use crate::sources::selection;
use crate::stats::Stats;
use crate::walk::ask_server_again;

pub use crate::publish::Partials;
pub use crate::report::{Session, SharedReads};
pub use crate::shards::{ShardReport, shard_status};
pub use crate::sources::operands::settle_destination;
pub use crate::sources::operands::source_of;
pub use crate::sources::survey::{Survey, list};
pub use haul_cluster::{Part, SpareCapacity, Transport};
pub use haul_io::control::Cancel;
pub use threads::Summary;

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
    let settled;
    let plan = match plan {
        Plan { resume: true, durable: Durable::None | Durable::Flush, .. } => {
            settled = Plan { durable: Durable::File, ..plan.clone() };
            &settled
        }
        _ => plan,
    };
    let settled;
    let plan = if plan.moves {
        // What is made there must not change what it means.
        settled = Plan { destination: settle_destination(plan), ..plan.clone() };
        &settled
    } else {
        plan
    };
    if plan.shard.is_some() {
        // Another machine may have made it, or exchanged it, a moment ago.
        ask_server_again(Path::new(plan.destination.path()));
    }
    let first = part.is_none_or(|part| part.transport.rank() == 0);
    let caller = match against_dry_run(plan, part.is_some()) {
        Some(what) => Err(Error::new(What::NotDry, "").detail(what)),
        None => meta::Caller::this_thread(),
    };
    let prepared = caller.map_err(|error| {
        session.observer.event(&Event::Problem(Cow::Borrowed(&error)));
        1
    });
    let prepared = prepared.and_then(|caller| Ok((selection::prepare(plan, session, first)?, caller)));
    let (selection, caller) = match prepared {
        Ok(prepared) => prepared,
        Err(errors) => {
            if let Some(part) = part.filter(|part| part.transport.rank() == 0) {
                // The others wait for something to do. That nothing is done was reported.
                part.transport.finish();
            }
            let (cancelled, stats) = (session.cancel.is_cancelled(), Stats { errors, ..Stats::default() });
            return Summary { failed: true, cancelled, stats, ..Summary::default() };
        }
    };
    if let Some((entries, bytes)) = selection.as_ref().map(|selection| selection.totals(plan)) {
        session.observer.event(&Event::Listed { entries, bytes });
    }
    threads::run(plan, session, (selection, caller), part)
}

/// Why a dry run of this plan is not possible, if it is to be one.
fn against_dry_run(plan: &Plan, with_others: bool) -> Option<&'static str> {
    let together = with_others.then_some("several processes");
    if plan.dry_run { plan.against_dry_run().or(together) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_processes_did_adds_up() {
        let part = |errors, path: &str| Summary {
            damaged: vec![path.into()],
            stats: Stats { errors, ..Stats::default() },
            ..Summary::default()
        };
        let mut sum = part(1, "a");
        sum += Summary { failed: true, cancelled: true, journal: Some("j".into()), ..part(2, "b") };
        assert!(sum.failed && sum.cancelled);
        assert_eq!((sum.stats.errors, sum.damaged), (3, vec!["a".into(), "b".into()]));
        assert_eq!(sum.journal, Some("j".into()));
    }

    #[test]
    fn the_journal_of_the_first_process_stays() {
        let with = |journal: &str| Summary { journal: Some(journal.into()), ..Summary::default() };
        let mut sum = with("first");
        sum += with("second");
        assert_eq!(sum.journal, Some("first".into()));
    }
}
