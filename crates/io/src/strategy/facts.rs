//! What the choice of steps depends on.

use haul_sys::inode::Kind;

use crate::facts::{Filesystem, Surroundings};

use super::tiny::is_tiny;
use crate::profile::{Preference, SizeClass};

/// Files below this size are copied before the questions about them are answered.
pub const WORTH_ASKING: u64 = SizeClass::Medium.least();

/// Below this size one read and one write are quicker than setting up an in-kernel copy (measured: 100,000 files of
/// 1 to 16 KiB took 1.2 times as long with copy_file_range).
pub const SMALL: u64 = SizeClass::Small.least(); // 64 KiB

/// What the rest of a copy demands of how the bytes are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demands {
    /// The source is read again behind the copy, for a digest or to verify it.
    pub reads_again: bool,
    /// And the copy is read through the page cache then.
    pub verified_in_cache: bool,
    /// The copy is a new file that replaces another one when it gets its name.
    pub renamed: bool,
    /// Somebody waits until the copy is on its device.
    pub durable: bool,
}

impl Demands {
    /// Nothing but that the bytes are moved.
    pub const NONE: Demands = Demands { reads_again: false, verified_in_cache: false, renamed: false, durable: false };
}

/// What is known about the two open files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataFacts {
    /// What the source is.
    pub source: Kind,
    /// What the destination is.
    pub dest: Kind,
    /// Size of the source in bytes as stat gave it.
    pub size: u64,
    /// Bytes allocated to the source.
    pub allocated: u64,
    /// Both sides have offsets.
    pub seekable: bool,
    /// The source is on a filesystem that makes its contents up while they are read (/proc, /sys): its size means nothing.
    pub pseudo_file: bool,
    /// An earlier file of this filesystem pair could not be cloned, since the filesystems cannot.
    pub clone_is_known_to_fail: bool,
    /// An earlier file of this filesystem pair could not be copied inside the kernel.
    pub copy_range_is_known_to_fail: bool,
    /// Preferred size of a request of the destination in bytes, which on disks is the block size: smaller holes are no use.
    pub dest_block: u32,
    /// The kernel says what O_DIRECT demands of the source.
    pub direct_source: bool,
    /// The kernel says what O_DIRECT demands of the destination.
    pub direct_dest: bool,
    /// The source's filesystem has a device of its own here.
    pub local_disk: bool,
    /// Both sides are on one server, which copies by itself when the kernel is asked to. Not asked, and false, for small files.
    pub one_server: bool,
    /// What the destination is on. Not asked, and other, where nothing depends on it.
    pub dest_on: Filesystem,
    /// The destination held something before this copy.
    pub replaces: bool,
    /// Other processes have read the source, or will, and pass it on.
    pub read_elsewhere: bool,
    /// What the rest of the copy needs.
    pub demands: Demands,
    /// What is asked only for files of at least [`WORTH_ASKING`] bytes.
    pub around: Option<Surroundings>,
    /// What the user's profile says of files of this size, if it knows the storage.
    pub preferred: Preference,
}

impl DataFacts {
    /// Facts that lead to the same choice and are the same for most small files, for which it is made only once.
    #[must_use]
    pub(crate) fn in_kind(self) -> DataFacts {
        let dense_and_small = (1..SMALL).contains(&self.size) && self.allocated >= self.size && self.around.is_none();
        let size = if is_tiny(self.size, self.dest_on) { 1 } else { SMALL - 1 };
        if dense_and_small { DataFacts { size, allocated: size, ..self } } else { self }
    }
}

/// Less than half of the source is in the page cache.
pub(super) fn is_cold(facts: &DataFacts) -> bool {
    facts.around.is_some_and(|around| is_half_cold(&around, facts.size.min(facts.allocated)))
}

/// Less than half of so many bytes of a source is in the page cache.
pub(super) fn is_half_cold(around: &Surroundings, amount: u64) -> bool {
    around.cached.is_some_and(|cached| cached < amount / 2)
}
