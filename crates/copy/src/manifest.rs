//! File lists under their former name, by which `run` imports them.

pub(crate) use crate::list::{Assignment, Entry, FileList as Manifest, Index, Misplaced, Root, Shard};
