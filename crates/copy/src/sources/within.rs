//! Whether something is in a source: told by the identity of directories, not by paths.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use haul_sys::Errno;
use haul_sys::rustix::fs::{Mode, OFlags, openat};

use crate::decide::Wanted;
use crate::facts::{Inode, Kind};
use crate::plan::{Dereference, Plan};
use crate::walk::{Operand, Spot};

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The source of this plan that a file is, or that it stands in; the file itself need not exist yet.
///
/// What a copy would reach only through a symbolic link in a source is not in it.
#[must_use]
pub fn source_of<'p>(plan: &'p Plan, file: &Path) -> Option<&'p OsStr> {
    let file = Operand::open(file.as_os_str());
    let found = file.spot().inode_following().ok();
    // What cannot be looked at cannot be copied either.
    let dirs = file.spot().dir().and_then(ways_up).unwrap_or_default();
    let holds = |source: &&std::ffi::OsString| {
        let Ok(inode) = operand_inode(Operand::open(source).spot(), plan) else { return false };
        match inode.kind {
            Kind::Directory => plan.recursive && reaches(&inode, &dirs, plan),
            _ => found.is_some_and(|found| found.is_same_file_as(&inode)),
        }
    };
    plan.sources.iter().find(holds).map(|source| source.as_os_str())
}

/// Whether a copy of the directory `source` comes to the first of these directories, of which each is in the next.
pub(crate) fn reaches(source: &Inode, dirs: &[Inode], plan: &Plan) -> bool {
    let Some(at) = dirs.iter().position(|dir| dir.is_same_file_as(source)) else { return false };
    let wanted = Wanted::new(plan, &[]);
    dirs[..=at].windows(2).all(|pair| wanted.contents(&pair[0], Some(pair[1].id.device())))
}

/// A directory and all that it is in.
pub(crate) fn ways_up(from: BorrowedFd<'_>) -> Result<Vec<Inode>, Errno> {
    let mut found = vec![Inode::of(from)?];
    let mut at = openat(from, "..", DIRECTORY, Mode::empty())?;
    loop {
        let inode = Inode::of(at.as_fd())?;
        // The root is its own parent.
        if found.last().is_some_and(|below| below.id == inode.id) {
            return Ok(found);
        }
        found.push(inode);
        at = openat(&at, "..", DIRECTORY, Mode::empty())?;
    }
}

/// The attributes of an operand, links followed or not as the plan says.
pub(crate) fn operand_inode(spot: Spot<'_>, plan: &Plan) -> Result<Inode, Errno> {
    if plan.dereference == Dereference::Never { spot.inode() } else { spot.inode_following() }
}
