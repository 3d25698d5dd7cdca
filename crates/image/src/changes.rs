//! Whether somebody wrote to a source between two looks at it.

use std::fs;
use std::os::fd::BorrowedFd;

use haul_sys::Errno;

use haul_sys::inode::{Inode, Kind, Time};

use super::in_use::InUse;
use super::system::System;

/// What shows a write. A file that somebody has mapped into memory may be written without a trace here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Bytes of a file.
    size: u64,
    modified: Time,
    /// Who sets `modified` back cannot set this. That of a device changes with its owner, too, and is left out.
    changed: Option<Time>,
    /// What was written to a device and what was discarded, in requests and sectors.
    written: Option<[u64; 4]>,
}

impl Look {
    /// With these attributes, which must not be younger than what it is to vouch for.
    pub fn of(inode: &Inode, system: &System) -> Look {
        let is_device = inode.kind == Kind::BlockDevice;
        Look {
            size: if is_device { 0 } else { inode.size },
            modified: inode.modified,
            changed: (!is_device).then_some(inode.changed),
            written: if is_device { written(inode, system) } else { None },
        }
    }

    pub(super) fn at(file: BorrowedFd<'_>, system: &System) -> Result<Look, Errno> {
        Inode::of(file).map(|inode| Look::of(&inode, system))
    }
}

/// The counters of a device (`Documentation/block/stat.rst`).
fn written(inode: &Inode, system: &System) -> Option<[u64; 4]> {
    let (major, minor) = (inode.node.major, inode.node.minor);
    let counters = fs::read_to_string(system.sys.join(format!("dev/block/{major}:{minor}/stat"))).ok()?;
    let counters: Vec<u64> = counters.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let at = |index: usize| counters.get(index).copied().unwrap_or(0);
    (counters.len() > 6).then(|| [at(4), at(6), at(11), at(13)])
}

/// Why a map that was proven is not relied on any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt {
    /// What it was read from has changed.
    Map,
    /// Somebody wrote to the image since it was looked at first.
    Written,
    /// Somebody uses the image by now.
    InUse(InUse),
    /// A system hibernates in a swap file of the image. What it had mounted goes on in its memory.
    Asleep,
}

impl std::fmt::Display for Doubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Doubt::Map => write!(f, "its guests' maps were changed meanwhile"),
            Doubt::Written => write!(f, "it was written to meanwhile"),
            Doubt::Asleep => write!(f, "a hibernated system is in a swap file of it"),
            Doubt::InUse(user) => write!(f, "it is in use by now: {user}"),
        }
    }
}
