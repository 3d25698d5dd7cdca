//! How a run ended.

use std::ops::AddAssign;
use std::path::PathBuf;

use crate::shards::ShardReport;
use crate::stats::Stats;

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
