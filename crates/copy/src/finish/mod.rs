//! From whole data to its name, and to what must be known of it afterwards: names, syncs, attributes of directories, what goes
//! from them, what the journal and the shards of a job note; and, in one place, what undoes.

pub(crate) mod deletion;
pub(crate) mod directories;
pub(crate) mod moved;
pub(crate) mod naming;
pub(crate) mod removal;
pub(crate) mod resume;
pub(crate) mod shard;
pub(crate) mod undo;
pub(crate) mod written;
