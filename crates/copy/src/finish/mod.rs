//! From whole data to its name, and to what must be known of it afterwards: names, syncs, attributes of directories, what the
//! journal and the shards of a job note; and, in one place, what undoes.

pub(crate) mod directories;
pub(crate) mod naming;
pub(crate) mod resume;
pub(crate) mod shard;
pub(crate) mod undo;
pub(crate) mod written;
