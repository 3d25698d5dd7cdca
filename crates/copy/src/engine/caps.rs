//! What an engine can do.

use crate::plan::EngineName;

/// What an engine can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Which engine this is.
    pub name: EngineName,
    /// The bytes pass through memory that haul can read: zero detection and hashing are possible.
    pub sees_bytes: bool,
    /// Holes of the source stay holes even when a whole range is asked for.
    pub keeps_holes: bool,
    /// Source and destination share extents afterwards.
    pub shares_extents: bool,
    /// Offsets and lengths must be multiples of the block size (a range that ends at the end of the source may end anywhere).
    pub needs_alignment: bool,
    /// Works on pipes, sockets and terminals, where there are no offsets.
    pub streams: bool,
    /// Largest useful job in bytes; the caller cuts longer ranges so that progress and cancellation have a chance.
    pub max_job: u64,
}
