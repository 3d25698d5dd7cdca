//! The gate of free space. What one thread finds full may be full of a file of another that does not fit either, and that is
//! about to be removed. A single thread would have met free space there, so its file is tried again.

use std::os::fd::OwnedFd;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use haul_sys::Errno;
use haul_sys::rustix::fs::fstatvfs;

use crate::facts::Inode;
use crate::transfer::Broken;

/// Held together by all that fill a file, and by one alone that tries again.
#[derive(Debug)]
pub(crate) struct FreeSpaceGate {
    filling: RwLock<()>,
    several: bool,
}

/// What a thread holds of it.
#[expect(dead_code, reason = "held until it is dropped")]
pub(crate) enum Held<'a> {
    Together(RwLockReadGuard<'a, ()>),
    Alone(RwLockWriteGuard<'a, ()>),
}

impl FreeSpaceGate {
    /// `several`: more than one thread may be filling the device.
    pub(crate) fn new(several: bool) -> FreeSpaceGate {
        FreeSpaceGate { filling: RwLock::new(()), several }
    }

    /// Whether other threads may be filling the device, too.
    pub(crate) fn has_company(&self) -> bool {
        self.several
    }

    /// Makes an entry; once more if there was no space for it while others were at work.
    pub(crate) fn with_space<T>(&self, make: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        match make() {
            Err(errno) if is_full(errno) && self.has_company() => {
                let _alone = self.alone();
                make()
            }
            made => made,
        }
    }

    /// A file is being filled, until this is dropped. Space that it gives back must be given back before.
    pub(crate) fn together(&self) -> RwLockReadGuard<'_, ()> {
        self.filling.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no file is being filled: what is half is gone or whole by then. Others wait until this is dropped.
    pub(crate) fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.filling.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a copy failed for want of space.
pub(crate) fn ran_out<T>(result: &Result<T, Broken>) -> bool {
    matches!(result, Err(Broken { error: Some(error) }) if error.errno.is_some_and(is_full))
}

/// Whether the source would fit now, as far as can be told: a large file is not written twice for nothing.
pub(crate) fn would_fit(dest: &OwnedFd, source: &Inode) -> bool {
    fstatvfs(dest).is_ok_and(|free| free.f_bfree.saturating_mul(free.f_frsize) >= source.size.min(source.allocated))
}

fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT)
}
