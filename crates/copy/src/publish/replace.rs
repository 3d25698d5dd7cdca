//! New names, and names that replace what stands there in one step.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};

use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Kind};
use haul_sys::object::Object;
use haul_sys::rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, linkat, openat, renameat, renameat_with, unlinkat};

use super::temporary::{TemporaryNames, temporary_name};
use crate::links::Made;
use crate::walk::Spot;

/// Gives an entry another name in its directory, unless that is taken: EEXIST. Where kernel or filesystem cannot refuse such a
/// rename, it is looked at first. No link, which a server would refuse: an old name that is removed while a process of this
/// machine has the file open gets a third one from a client of NFS, whose removal later moves the times of the directory.
pub(crate) fn rename_to_free(spot: Spot<'_>, last: &OsStr) -> Result<(), Errno> {
    match spot.rename_to_free(last) {
        Err(Errno::INVAL | Errno::NOSYS) => rename_if_free((spot, spot.name), (spot, last)),
        result => result,
    }
}

/// Looks at the new name as the server has it now, and renames. A client goes by what it remembers, also that there is nothing
/// of a name, until its directory has another change attribute.
fn rename_if_free((source, name): (Spot<'_>, &OsStr), (dest, last): (Spot<'_>, &OsStr)) -> Result<(), Errno> {
    dest.beside(OsStr::new("."), dest.path).inode_now(true)?;
    match dest.beside(last, dest.path).inode_now(false) {
        Ok(_) => Err(Errno::EXIST),
        Err(Errno::NOENT) => renameat(source.dir()?, name, dest.dir()?, last),
        Err(errno) => Err(errno),
    }
}

/// Gives an entry this name in another directory of its filesystem, in the place of what stands there if it `replaces` that.
/// EXDEV if the two are on different filesystems or mounts.
pub(crate) fn rename_to_other(
    (source, name): (Spot<'_>, &OsStr),
    (dest, last): (Spot<'_>, &OsStr),
    replaces: bool,
) -> Result<(), Errno> {
    let (from, to) = (source.dir()?, dest.dir()?);
    if !replaces {
        match renameat_with(from, name, to, last, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => return link_to_free((source, name), (dest, last)),
            result => return result,
        }
    }
    renameat(from, name, to, last)
}

/// The same to a name that is free, where the kernel or the filesystem (NFS) cannot refuse to rename to one that is taken: a link
/// refuses it, also where a client remembers that nothing is there. Without links there is nothing better than to look first.
fn link_to_free((source, name): (Spot<'_>, &OsStr), (dest, last): (Spot<'_>, &OsStr)) -> Result<(), Errno> {
    let (from, to) = (source.dir()?, dest.dir()?);
    if source.beside(name, source.path).inode()?.kind != Kind::Directory {
        match linkat(from, name, to, last, AtFlags::empty()) {
            Ok(()) => {
                return unlinkat(from, name, AtFlags::empty()).inspect_err(|_| take_back((source, name), (dest, last)));
            }
            Err(Errno::EXIST) => return Err(Errno::EXIST),
            // No links here, or not of this file. What else is wrong, the rename says, too.
            Err(_) => {}
        }
    }
    rename_if_free((source, name), (dest, last))
}

/// Removes a second name of a file, if the first is there.
fn take_back((source, name): (Spot<'_>, &OsStr), (dest, last): (Spot<'_>, &OsStr)) {
    let inodes = [source.beside(name, source.path), dest.beside(last, dest.path)].map(|spot| spot.inode());
    if let [Ok(first), Ok(second)] = inodes
        && first.is_same_file_as(&second)
    {
        dest.dir().and_then(|to| unlinkat(to, last, AtFlags::empty())).ok();
    }
}

/// Makes `dest` a hard link to `source`. With names to `replace` by an existing destination is replaced in one step.
pub(crate) fn hard_link(
    source: Spot<'_>,
    dest: Spot<'_>,
    flags: AtFlags,
    replace: Option<&TemporaryNames>,
) -> Result<bool, Errno> {
    make_or_replace(dest, replace, |name| linkat(source.dir()?, source.name, dest.dir()?, name, flags))
}

/// Makes `dest` a symbolic link. With names to `replace` by an existing destination is replaced in one step.
pub(crate) fn symbolic_link(text: &OsStr, dest: Spot<'_>, replace: Option<&TemporaryNames>) -> Result<bool, Errno> {
    make_or_replace(dest, replace, |name| dest.beside(name, dest.path).make_link(text))
}

/// Makes a link of this name. True if it has replaced something.
pub(crate) fn make_or_replace(
    dest: Spot<'_>,
    replace: Option<&TemporaryNames>,
    make: impl Fn(&OsStr) -> Result<(), Errno>,
) -> Result<bool, Errno> {
    let names = match (make(dest.name), replace) {
        (Ok(()), _) => return Ok(false),
        (Err(Errno::EXIST), Some(names)) => names,
        (Err(errno), _) => return Err(errno),
    };
    let temporary = temporary_name(names, |name| make(name))?;
    let dir = dest.dir()?;
    let renamed = renameat(dir, &temporary, dir, dest.name);
    // Renaming one name of a file over another name of the same file does nothing, successfully: the temporary name
    // must go in that case too.
    let removed = unlinkat(dir, &temporary, AtFlags::empty());
    renamed?;
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// Makes `dest` another name of what was made, and with `names` replaces what stands there in one step; one of them is what it
/// has in between. `here` is the directory of `dest`, if it is known.
///
/// The inode is taken hold of first, and must be the one that was made: whatever was put under its name meanwhile, a
/// symbolic link above all, gets no name from us. With `follow` a symbolic link under the name leads to what was made
/// (it was written through); without, it is itself what was made.
///
/// # Errors
/// ESTALE if something else stands there now; EEXIST if `dest` is taken and nothing may be replaced; else what the kernel says.
pub(crate) fn link_to(
    made: &Made,
    dest: Spot<'_>,
    here: Option<FileId>,
    follow: bool,
    names: Option<&TemporaryNames>,
) -> Result<bool, Errno> {
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
    let linked = make_or_replace(dest, names, |name| match object.link_at(dest.dir()?, name) {
        Err(Errno::NOENT) => link_by_name(made, dir, dest, name, wanted),
        result => result,
    });
    match linked {
        // As where a server answers a request that it has carried out already.
        Err(Errno::EXIST) if names.is_none() && dest.inode().is_ok_and(|inode| inode.id == wanted) => Ok(false),
        linked => linked,
    }
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
#[path = "replace_tests.rs"]
mod tests;
