//! New names, and names that replace what stands there in one step.

use std::ffi::OsStr;

use haul_sys::Errno;
use haul_sys::rustix::fs::{AtFlags, linkat, renameat, unlinkat};

use super::temporary::{TemporaryNames, temporary_name};
use crate::walk::Spot;

/// Where filesystem or kernel cannot refuse a name that is taken, it is looked at first.
pub(crate) fn rename_to_free(spot: Spot<'_>, last: &OsStr) -> Result<(), Errno> {
    match spot.rename_to_free(last) {
        Err(Errno::INVAL | Errno::NOSYS) => match spot.beside(last, spot.path).inode() {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => spot.rename_to(last),
            Err(errno) => Err(errno),
        },
        result => result,
    }
}

/// What a hard or symbolic link replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replaced {
    Nothing,
    Something,
}

/// Makes `dest` a hard link to `source`. With names to `replace` by an existing destination is replaced in one step.
pub(crate) fn hard_link(
    source: Spot<'_>,
    dest: Spot<'_>,
    flags: AtFlags,
    replace: Option<&TemporaryNames>,
) -> Result<Replaced, Errno> {
    make_or_replace(dest, replace, |name| linkat(source.dir()?, source.name, dest.dir()?, name, flags))
}

/// Makes `dest` a symbolic link. With names to `replace` by an existing destination is replaced in one step.
pub(crate) fn symbolic_link(text: &OsStr, dest: Spot<'_>, replace: Option<&TemporaryNames>) -> Result<Replaced, Errno> {
    make_or_replace(dest, replace, |name| dest.beside(name, dest.path).make_link(text))
}

pub(crate) fn make_or_replace(
    dest: Spot<'_>,
    replace: Option<&TemporaryNames>,
    make: impl Fn(&OsStr) -> Result<(), Errno>,
) -> Result<Replaced, Errno> {
    let names = match (make(dest.name), replace) {
        (Ok(()), _) => return Ok(Replaced::Nothing),
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
        Ok(()) | Err(Errno::NOENT) => Ok(Replaced::Something),
        Err(errno) => Err(errno),
    }
}
