//! The journal of ext3 and ext4 (jbd2): what a replay would write.
//!
//! What the kernel replays is known only if the log is whole. So everything that it would accept in silence is doubted
//! here: a log that ends in the middle of a transaction, and blocks of later transactions than the last one.

mod fast_commits;
pub(super) mod form;
mod journal;
mod log;
#[cfg(test)]
mod tests;

use super::blocks::{Blocks, Replayed};
use super::superblock::Layout;
use crate::refusal::{Refusal, over_budget_if};

pub(super) use fast_commits::FastCommits;
pub(super) use journal::Journal;

/// A longer journal is not looked through. mke2fs makes none of more than 1 GiB by itself, with at most
/// half as many blocks.
const MOST_BLOCKS: u64 = 1 << 19;

/// What a replay would do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replay {
    /// The blocks that the transactions write.
    pub(super) blocks: Replayed,
    /// How many transactions there are.
    pub(super) transactions: u32,
    /// What comes after them.
    pub(super) fast: FastCommits,
}

/// Reads the log, and the fast commits behind it.
pub(super) fn replay(journal: &Journal, blocks: &Blocks<'_>, layout: &Layout) -> Result<Replay, Refusal> {
    over_budget_if(journal.file.blocks() > MOST_BLOCKS, "blocks of the journal")?;
    let log = log::read(journal, blocks, layout)?;
    journal.nothing_newer(blocks, log.end)?;
    let fast = fast_commits::read(journal, blocks, layout, log.end)?;
    Ok(Replay { blocks: log.replayed(), transactions: log.end.wrapping_sub(journal.sequence), fast })
}
