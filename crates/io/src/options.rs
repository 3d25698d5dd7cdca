//! What the user chooses about how bytes are moved: plain data.

use std::str::FromStr;
use std::sync::Arc;

use crate::engine::EngineName;
use crate::profile::Profile;

/// How the data of a file is to be moved, as far as the user says it.
#[derive(Debug, Clone, Default)]
pub struct DataOptions {
    /// When holes are made.
    pub sparse: Sparse,
    /// When extents are shared.
    pub reflink: Reflink,
    /// How bytes are moved.
    pub engine: EngineChoice,
    /// Size of a read or write buffer in bytes; `None` lets each engine take its own.
    pub buffer_size: Option<usize>,
    /// Bytes of the source that are asked for ahead of the copy (`--readahead`); `None` leaves that to the kernel.
    pub readahead: Option<u64>,
    /// Whether the copy stays in the page cache.
    pub cache: CacheUse,
    /// Who sees to it that data in the page cache is written to the device.
    pub writeback: Writeback,
    /// When space is allocated before it is written.
    pub preallocate: Preallocate,
    /// What was measured to be faster on some storages. It changes only how bytes are moved, and what is set here otherwise
    /// comes first.
    pub profile: Option<Arc<Profile>>,
}

/// Which engine moves the bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The one that fits the facts best.
    #[default]
    Auto,
    /// This one; what it refuses goes on with `read-write` from the exact byte (only [`EngineName::Null`] has no help).
    Only(EngineName),
}

impl FromStr for EngineChoice {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        if name == "auto" {
            return Ok(EngineChoice::Auto);
        }
        EngineName::named(name).map(EngineChoice::Only).ok_or(())
    }
}

/// When holes are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sparse {
    /// Where the source has them.
    #[default]
    Auto,
    /// Also where the source has long enough runs of zeros.
    Always,
    /// Nowhere.
    Never,
}

/// When extents are shared between source and copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reflink {
    /// Where the filesystem can.
    #[default]
    Auto,
    /// Always; a copy that cannot share fails.
    Always,
    /// Never.
    Never,
}

/// Whether the copy is left in the page cache, to be read soon, or goes to the device and leaves the memory to others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheUse {
    /// Files that are large for the memory that is free go to the device, others stay.
    #[default]
    Auto,
    /// It stays, as with cp.
    Keep,
    /// It goes to the device, but for small files.
    Drop,
}

/// Who sees to it that copies in the page cache are written to the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Writeback {
    /// The kernel, when it likes, as with cp.
    #[default]
    Kernel,
    /// The copy, where the device is known to be slow: about what it writes in two seconds is left in memory.
    Auto,
}

/// When space is allocated before it is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Preallocate {
    /// Where it lets several writes into one file go on at the same time, and for new files of 1 MiB and more that go through
    /// the page cache to ext4.
    #[default]
    Auto,
    /// For every file without holes.
    Always,
    /// Never.
    Never,
}
