//! The journal of ext3 and ext4 (jbd2): what a replay would write.
//!
//! What the kernel replays is known only if the log is whole. So everything that it would accept in silence is doubted
//! here: a log that ends in the middle of a transaction, and blocks of later transactions than the last one.

pub(super) mod form;
mod journal;
mod log;
mod tags;
#[cfg(test)]
mod tests;

use super::blocks::{Blocks, Replayed};
use super::superblock::Layout;
use crate::refusal::Refusal;

pub(super) use journal::Journal;

/// A longer journal is not looked through. mke2fs makes none of more than 1 GiB by itself, with at most
/// half as many blocks.
const MOST_BLOCKS: u64 = 1 << 19;

/// What a replay would write, and how many transactions that are.
///
/// # Errors
/// If anything in the log is doubtful, or there are fast commits behind it.
pub(super) fn replay(journal: &Journal, blocks: &Blocks<'_>, layout: &Layout) -> Result<(Replayed, u32), Refusal> {
    if journal.file.blocks() > MOST_BLOCKS {
        return Err(Refusal::Budget("blocks of the journal"));
    }
    let log = log::read(journal, blocks, layout)?;
    journal.nothing_newer(blocks, log.end)?;
    journal.no_fast_commits(blocks, log.end)?;
    Ok((log.replayed(), log.end.wrapping_sub(journal.sequence)))
}
