//! A file that other processes may help with.

use std::ffi::OsStr;

use haul_io::transfer::Peers;

/// A file of the source as other processes find it.
pub(crate) trait Remote: Sync {
    /// How they find it together with its copy, which has this name for the moment.
    fn with_copy(&self, name: &OsStr) -> Box<dyn Peers + '_>;
}
