//! From the operands through the tree: what stands at the destination, directories of any depth, and parts for other threads
//! and processes. `entry` is one entry from the first look to the end.

mod access;
pub(crate) mod claims;
mod clone_tree;
mod delete_at_last;
mod dry_run;
pub(crate) mod enter;
pub(crate) mod entry;
pub(crate) mod existing;
pub(crate) mod look_ahead;
pub(crate) mod offline;
pub(crate) mod operands;
pub(crate) mod parents;
mod planned_rename;
pub(crate) mod precreate;
pub(crate) mod remove_sources;
mod rename;
mod same;
mod share;
pub(crate) mod tasks;
#[cfg(test)]
pub(crate) mod test_support;
pub(crate) mod walk;
pub(crate) mod walker;
