//! What the destination that the user named stands for.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use haul_sys::Errno;
use haul_sys::rustix::fs::{CWD, Mode, OFlags, openat};

use crate::plan::{Destination, Plan};

/// What the destination of this plan is at this moment: a directory to copy into, or the copy itself. To be asked by one of
/// several processes before any of them has made something there.
#[must_use]
pub fn settle_destination(plan: &Plan) -> Destination {
    let Destination::Guess(path) = &plan.destination else { return plan.destination.clone() };
    match open_directory(path) {
        // Rank 0 says why that does not go.
        _ if plan.ambiguous_destination().is_some() => plan.destination.clone(),
        Err(_) if plan.sources.len() > 1 => plan.destination.clone(),
        Ok(_) => Destination::Directory(path.clone()),
        Err(_) => Destination::Exactly(path.clone()),
    }
}

/// Opens a directory that the user named.
pub(crate) fn open_directory(path: &OsStr) -> Result<OwnedFd, Errno> {
    openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}
