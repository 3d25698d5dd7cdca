//! Why a pass over an image ended early.

use std::io;

use haul_sys::Errno;

use haul_io::engine::Failure;

/// Why it ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Somebody asked for it.
    Cancelled,
    /// The source ended before its size.
    Ended,
    Reading(Errno),
    Failed(Failure),
    /// There are no threads.
    Threads(Errno),
}

impl Stop {
    /// What an error of reading the image means.
    pub(super) fn of_reading(error: &io::Error) -> Stop {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Stop::Ended,
            _ => Stop::Reading(Errno::from_io_error(error).unwrap_or(Errno::IO)),
        }
    }
}
