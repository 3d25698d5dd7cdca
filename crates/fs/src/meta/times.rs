//! Times of the last access and of the last change of the contents.

use haul_sys::inode::{Inode, Time};
use haul_sys::rustix::fs::{Timespec, Timestamps};

use crate::error::{Error, What};

use super::request::{Report, Request};

/// Sets both times. False if that failed and matters.
pub(super) fn set(request: &Request<'_>, report: Report<'_>) -> bool {
    let Err(errno) = request.dest.object.set_times(&times_of(request.source.inode)) else { return true };
    report(Error::new(What::PreservingTimes, request.dest.path).errno(errno));
    !request.preserve.required
}

/// The times of an inode as the kernel takes them.
pub(super) fn times_of(inode: &Inode) -> Timestamps {
    let convert = |time: Time| Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() };
    Timestamps { last_access: convert(inode.accessed), last_modification: convert(inode.modified) }
}
