//! From the operands through the tree: what stands at the destination, directories of any depth, and parts for other threads
//! and processes. `entry` is one entry from the first look to the end.

pub(crate) mod claims;
pub(crate) mod enter;
pub(crate) mod entry;
pub(crate) mod existing;
pub(crate) mod operands;
pub(crate) mod parents;
pub(crate) mod precreate;
pub(crate) mod share;
pub(crate) mod tasks;
#[cfg(test)]
pub(crate) mod test_support;
pub(crate) mod walk;
pub(crate) mod walker;
