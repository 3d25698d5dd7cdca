//! How bytes are to go, with nothing left to choose.

use haul_io::engine::EngineName;
use haul_sys::queue::QueueKind;
use serde::{Deserialize, Serialize};

/// How the bytes go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Method {
    pub by: By,
    /// Bytes of a request, and of a mapping.
    pub request: u64,
    /// The source is read past the page cache.
    #[serde(default)]
    pub direct_source: bool,
    /// The copy is written past it.
    #[serde(default)]
    pub direct_dest: bool,
    /// The space of each file is allocated before it is written.
    #[serde(default)]
    pub preallocate: bool,
    /// Each file is asked for as a whole before its first request.
    #[serde(default)]
    pub readahead: bool,
}

/// The calls that move them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    ReadWrite,
    /// Shared mappings of the source, written from.
    Mapped,
    CopyRange,
    Splice,
    PosixAio,
    LinuxAio,
    IoUring,
}

impl Method {
    /// Through the page cache, without anything besides.
    pub fn new(by: By, request: u64) -> Method {
        Method { by, request, direct_source: false, direct_dest: false, preallocate: false, readahead: false }
    }

    pub(super) fn queue(&self) -> Option<QueueKind> {
        match self.by {
            By::PosixAio => Some(QueueKind::PosixAio),
            By::LinuxAio => Some(QueueKind::LinuxAio),
            By::IoUring => Some(QueueKind::IoUring),
            By::ReadWrite | By::Mapped | By::CopyRange | By::Splice => None,
        }
    }

    /// The engine of haul-io whose jobs are these calls.
    pub(super) fn engine(&self) -> EngineName {
        match (self.by, self.direct_source || self.direct_dest) {
            (By::Mapped, false) => EngineName::Mapped,
            (By::Mapped, true) => EngineName::MappedDirect,
            (By::CopyRange, _) => EngineName::CopyRange,
            (By::Splice, _) => EngineName::Splice,
            (_, false) => EngineName::ReadWrite,
            (_, true) => EngineName::Direct,
        }
    }
}
