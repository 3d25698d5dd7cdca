//! The engines by the names that users, profiles and reports know them by.

use std::fmt;
use std::str::FromStr;

/// The engines by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EngineName {
    /// One byte range, one small buffer, nothing clever: the oracle.
    Reference,
    /// `pread` and `pwrite` with a buffer of any size.
    ReadWrite,
    /// `copy_file_range`.
    CopyRange,
    /// `FICLONE` and `FICLONERANGE`.
    Clone,
    /// `splice` through a pipe.
    Splice,
    /// `write` straight from a mapping of the source.
    Mapped,
    /// `O_DIRECT` writes straight from a mapping of the source.
    MappedDirect,
    /// `O_DIRECT` where the sides allow it.
    Direct,
    /// Many requests at a time by io_uring, with `O_DIRECT` where the sides allow it.
    IoUring,
    /// Many requests at a time by Linux AIO, with `O_DIRECT`.
    LinuxAio,
    /// Many requests at a time by the C library's POSIX AIO, with `O_DIRECT` where the sides allow it.
    PosixAio,
    /// `preadv2` and `pwritev2` that leave nothing in the page cache.
    Dontcache,
    /// Moves nothing and says that it did: measures the overhead of the rest.
    Null,
}

impl EngineName {
    /// Every engine, in the order in which the documentation lists them.
    pub const ALL: [EngineName; 13] = [
        EngineName::Reference,
        EngineName::ReadWrite,
        EngineName::CopyRange,
        EngineName::Clone,
        EngineName::Splice,
        EngineName::Mapped,
        EngineName::MappedDirect,
        EngineName::Direct,
        EngineName::IoUring,
        EngineName::LinuxAio,
        EngineName::PosixAio,
        EngineName::Dontcache,
        EngineName::Null,
    ];

    /// The name that users write.
    pub fn as_str(self) -> &'static str {
        match self {
            EngineName::Reference => "reference",
            EngineName::ReadWrite => "read-write",
            EngineName::CopyRange => "copy-range",
            EngineName::Clone => "clone",
            EngineName::Splice => "splice",
            EngineName::Mapped => "mapped",
            EngineName::MappedDirect => "mapped-direct",
            EngineName::Direct => "direct",
            EngineName::IoUring => "io-uring",
            EngineName::LinuxAio => "linux-aio",
            EngineName::PosixAio => "posix-aio",
            EngineName::Dontcache => "dontcache",
            EngineName::Null => "null",
        }
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which engine moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    /// The one that fits the facts best.
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
        EngineName::ALL.into_iter().find(|engine| engine.as_str() == name).map(EngineChoice::Only).ok_or(())
    }
}
