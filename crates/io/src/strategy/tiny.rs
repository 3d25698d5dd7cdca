//! Files so small that reading and writing them is quicker than sharing their extents.
//!
//! On XFS that is so up to 8 KiB, if the source is in the page cache. Not where the copy must be durable: shared
//! extents leave no data to write back.

use crate::facts::Filesystem;

/// No file beyond this is tiny anywhere.
pub const MOST: u64 = 8 << 10;

/// Up to how many bytes a file that is in the page cache is read and written sooner than its extents are shared.
fn largest(on: Filesystem) -> u64 {
    match on {
        Filesystem::Xfs => MOST,
        Filesystem::Btrfs | Filesystem::Ext4 | Filesystem::Other => 0,
    }
}

/// Whether a file of so many bytes is tiny where it goes.
pub(super) fn is_tiny(size: u64, on: Filesystem) -> bool {
    size <= largest(on)
}

/// Whether it is read and written first. A copy that must be durable shares extents, which leaves no data to be written back.
pub(super) fn is_read_and_written_sooner(size: u64, on: Filesystem, durable: bool) -> bool {
    is_tiny(size, on) && size > 0 && !durable
}
