//! What there is to copy, as a list: every entry of every operand, in depth-first order. Made by a walk, saved, loaded, sorted,
//! and split among processes that know nothing else of each other.
//!
//! Plain data: nothing in here looks at a filesystem.

mod file_list;
mod format;
mod names;
mod split;

pub use file_list::{Entry, FileList, Index, Misplaced, Root};
pub use format::{LoadError, digest_text, fix_checksum, load, save};
pub use names::{BadName, Names};
pub use split::{Assignment, MOST_SHARDS, Shard, Work, sort, split};

#[cfg(test)]
mod tests;
