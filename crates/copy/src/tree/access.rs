//! What a dry run can know of a directory entry without touching it: what permissions allow, and on which filesystem it is.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::{Access, AtFlags, StatxFlags, accessat, statx};

use crate::walk::Spot;
use crate::work::entry::Subject;

/// Whether this process may make entries beside the destination, as far as permissions tell.
pub(crate) fn may_make(dest: Spot<'_>) -> Result<(), Errno> {
    match dest.name.is_empty() {
        true => Err(Errno::NOENT),
        false => may_change(dest),
    }
}

/// Whether it may make, rename and remove entries in the directory of this one.
pub(crate) fn may_change(spot: Spot<'_>) -> Result<(), Errno> {
    may(Access::WRITE_OK | Access::EXEC_OK, spot, OsStr::new("."), true)
}

/// Whether this process may do that to an entry of the directory. What else may be wrong with it, the copy will say.
pub(crate) fn may(access: Access, spot: Spot<'_>, name: &OsStr, follow: bool) -> Result<(), Errno> {
    let no_follow = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    match accessat(spot.dir()?, name, access, AtFlags::EACCESS | no_follow) {
        Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Err(errno),
        _ => Ok(()),
    }
}

/// Whether the copy would be on another filesystem than the source, by the directories of both: a file of an overlay may have
/// another number than its directory.
pub(crate) fn is_on_other_filesystem(subject: &Subject<'_>) -> bool {
    // What stands for a directory that is only planned is on none.
    let on = |dir: Inode| (dir.kind == Kind::Directory).then(|| dir.id.device());
    let device = |spot: Spot<'_>| Inode::of(spot.dir().ok()?).ok().and_then(on);
    // What a link leads to may be anywhere.
    let leads_away = subject.follow() && subject.source.inode().is_ok_and(|entry| entry.kind == Kind::SymbolicLink);
    let dest = match subject.level.missing {
        true => subject.level.dir.and_then(|dir| Inode::of(dir.top().ok()?).ok()).and_then(on),
        false => device(subject.dest),
    };
    !leads_away && device(subject.source).zip(dest).is_some_and(|(source, dest)| source != dest)
}

/// Whether the directories of both are known to be on two mounts, also of one filesystem: nothing is renamed from one to the other.
pub(crate) fn are_on_two_mounts(subject: &Subject<'_>) -> bool {
    let dest = match subject.level.dir.filter(|_| subject.level.missing) {
        Some(dir) => dir.top().ok().and_then(mount_of),
        None => subject.dest.dir().ok().and_then(mount_of),
    };
    subject.source.dir().ok().and_then(mount_of).zip(dest).is_some_and(|(source, dest)| source != dest)
}

/// The mount that a directory is on, since Linux 5.8.
fn mount_of(dir: BorrowedFd<'_>) -> Option<u64> {
    let stat = statx(dir, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    (stat.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(stat.stx_mnt_id)
}
