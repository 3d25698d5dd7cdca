//! A whole run: the only module that knows all the others.

mod threads;

use std::borrow::Cow;
use std::ops::AddAssign;
use std::path::PathBuf;

use crate::events::Event;
use crate::meta;
use crate::plan::{Durable, Plan};
use crate::sources::selection;
use crate::stats::Stats;

pub use crate::publish::Partials;
pub use crate::report::Session;
pub use crate::shards::{ShardReport, shard_status};
pub use crate::sources::operands::settle_destination;
pub use crate::sources::operands::source_of;
pub use crate::sources::survey::{Survey, list};
pub use haul_cluster::{Part, SpareCapacity, Transport};
pub use haul_io::control::Cancel;

/// How a run ended. The exit status is a function of this.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Something that was asked for was not done.
    pub failed: bool,
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

impl AddAssign for Summary {
    /// What two processes did together.
    fn add_assign(&mut self, other: Summary) {
        self.failed |= other.failed;
        self.cancelled |= other.cancelled;
        self.damaged.extend(other.damaged);
        self.journal = self.journal.take().or(other.journal);
        self.shards = self.shards.take().or(other.shards);
        self.stats += &other.stats;
    }
}

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
