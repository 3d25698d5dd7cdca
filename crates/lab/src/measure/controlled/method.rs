//! How bytes are to go, with nothing left to choose.

use haul_io::engine::EngineName;
use haul_sys::queue::QueueKind;
use serde::{Deserialize, Serialize};

use crate::measure::failure::Failure;

/// How the bytes go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Method {
    pub by: By,
    /// Bytes of a request, and of a mapping.
    pub request: u64,
    /// The source is read past the page cache.
    pub direct_source: bool,
    /// The copy is written past it.
    pub direct_dest: bool,
    /// The space of each file is allocated before it is written.
    pub preallocate: bool,
    /// Each file is asked for as a whole before its first request.
    pub readahead: bool,
    /// Mappings are private, not shared.
    pub private: bool,
    /// Other processes that read the source, one file, through mappings of their own meanwhile.
    pub readers: u64,
}

/// The calls that move them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    #[default]
    ReadWrite,
    /// Mappings of the source, written from.
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
        Method { by, request, ..Method::default() }
    }

    /// # Errors
    /// If its settings exclude each other.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let impossible = match (self.by == By::Mapped, self.direct_source, self.private) {
            (true, true, _) => "what is mapped is in the page cache, so its source cannot be read past that",
            (false, _, true) => "nothing is mapped, so no mapping can be private",
            _ => return Ok(()),
        };
        Err(Failure::Refused(impossible.to_owned()))
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
