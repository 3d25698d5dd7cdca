//! Directory entries that are recognised when they are met again, by whatever path.

use std::ffi::OsString;

use haul_sys::inode::{FileId, Inode};

use super::operand::last_component;
use super::spot::Spot;

/// A directory entry together with the file that it led to: the same name for the same file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KnownEntry {
    file: FileId,
    dir: FileId,
    name: OsString,
}

impl KnownEntry {
    /// The entry that leads to this file; `None` if its directory cannot be looked at.
    pub fn of(spot: Spot<'_>, file: FileId) -> Option<KnownEntry> {
        let dir = directory_id(spot)?;
        Some(KnownEntry { file, dir, name: last_component(spot.name).to_owned() })
    }
}

/// Whether two spots are the same name in the same directory.
pub fn one_entry(a: Spot<'_>, b: Spot<'_>) -> bool {
    let name = |spot: Spot<'_>| last_component(spot.name).to_owned();
    name(a) == name(b) && directory_id(a).is_some_and(|dir| Some(dir) == directory_id(b))
}

/// Which directory an entry stands in, if that is known.
pub fn directory_id(spot: Spot<'_>) -> Option<FileId> {
    Inode::of(spot.dir().ok()?).ok().map(|inode| inode.id)
}
