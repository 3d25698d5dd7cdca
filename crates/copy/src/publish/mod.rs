//! From a whole file to its name: temporary names, what is half made and must go if the run ends, backups, names that replace
//! others in one step, and which filesystems have to be synced.
//!
//! Knows directories by open descriptors and files by their identity; nothing of trees, threads and options of a run.

pub(crate) mod background_sync;
pub(crate) mod backup;
pub(crate) mod filesystems;
mod partial;
pub(crate) mod probe;
pub(crate) mod ready;
pub(crate) mod replace;

pub(crate) use haul_fs::temporary;
pub use partial::Partials;
pub(crate) use ready::Sides;
