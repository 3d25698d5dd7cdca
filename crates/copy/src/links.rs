//! Another name for what was made, which haul-fs finds again by its identity.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};

use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode};
use haul_sys::object::Object;
use haul_sys::rustix::fs::{AtFlags, Mode, OFlags, linkat, openat};

pub(crate) use haul_fs::links::{Claim, DestDir, LinkTable, Made, Source, duplicate, pages};

use crate::publish::replace::{Replaced, make_or_replace};
use crate::publish::temporary::TemporaryNames;
use crate::walk::Spot;

/// Makes `dest` another name of what was made, and replaces what stands there in one step. `here` is the directory of
/// `dest`, if it is known; one of the `names` is what it has in between.
///
/// The inode is taken hold of first, and must be the one that was made: whatever was put under its name meanwhile, a
/// symbolic link above all, gets no name from us. With `follow` a symbolic link under the name leads to what was made
/// (it was written through); without, it is itself what was made.
///
/// # Errors
/// ESTALE if something else stands there now; else what the kernel says.
pub(crate) fn link_to(
    made: &Made,
    dest: Spot<'_>,
    here: Option<FileId>,
    follow: bool,
    names: &TemporaryNames,
) -> Result<Replaced, Errno> {
    let reopened;
    let dir = if here == Some(made.dir.id) {
        dest.dir()?
    } else {
        reopened = made.dir.open()?;
        reopened.as_fd()
    };
    let wanted = made.id.ok_or(Errno::STALE)?;
    let no_follow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let held = openat(dir, made.name.as_os_str(), OFlags::PATH | OFlags::CLOEXEC | no_follow, Mode::empty())?;
    if Inode::of(held.as_fd())?.id != wanted {
        return Err(Errno::STALE);
    }
    let object = Object { fd: held.as_fd(), path_only: true };
    make_or_replace(dest, Some(names), |name| match object.link_at(dest.dir()?, name) {
        Err(Errno::NOENT) => link_by_name(made, dir, dest, name, wanted),
        result => result,
    })
}

/// The way where /proc is missing and the kernel is old: by the name, and the result is looked at.
fn link_by_name(made: &Made, dir: BorrowedFd<'_>, dest: Spot<'_>, name: &OsStr, wanted: FileId) -> Result<(), Errno> {
    let dest = dest.beside(name, dest.path);
    linkat(dir, made.name.as_os_str(), dest.dir()?, name, AtFlags::empty())?;
    if dest.inode()?.id == wanted {
        return Ok(());
    }
    dest.unlink()?;
    Err(Errno::STALE)
}

#[cfg(test)]
mod tests;
