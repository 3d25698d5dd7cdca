//! What the operands of a command stand for: what is in them, what a list or a shard takes of them, what the destination is.

pub(crate) mod operands;
pub(crate) mod selection;
pub(crate) mod survey;
