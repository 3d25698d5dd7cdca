//! A directory of the source and its copy.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_sys::inode::Inode;

use crate::attributes::{Keep, side};
use crate::links::DestDir;
use crate::list::Index;
use crate::meta::NewEntries;
use crate::publish::Sides;
use crate::walk::PathNode;

/// A directory of the source and its copy: what does not change while it is being copied.
pub(crate) struct Directory {
    /// The source as it was when it was entered.
    pub source_inode: Inode,
    /// The destination directory just after it was made, or as it was found.
    pub dest_inode: Inode,
    /// What is known of entries that we make in the destination.
    pub entries: NewEntries,
    /// The source was opened with `O_PATH`.
    pub source_path_only: bool,
    pub dir: Arc<DestDir>,
    /// We made it, in this run or (`--resume`) in an earlier one.
    pub created: bool,
    /// We made it in this run: nothing can be in it but what we put there.
    pub fresh: bool,
    pub source_path: Arc<PathNode>,
    pub dest_path: Arc<PathNode>,
    /// Its number in the list of what is to be copied, if there is one.
    pub listed: Option<Index>,
    /// Another process could not begin with names of it: it gets no others.
    pub stays: AtomicBool,
}

/// A directory of which everything is copied, but for its attributes.
pub(crate) struct FullDirectory {
    pub place: Arc<Directory>,
    /// Both sides, if they are open.
    pub sides: Option<Arc<Sides>>,
}

impl FullDirectory {
    /// What setting its attributes needs, if both sides are open; with both paths, for messages.
    pub(crate) fn keep<'k>(&'k self, [source_path, dest_path]: [&'k Path; 2]) -> Option<Keep<'k>> {
        let sides = self.sides.as_ref()?;
        Some(Keep {
            source: side(&sides.source, self.place.source_path_only, &self.place.source_inode, source_path),
            dest: side(&sides.dest, true, &self.place.dest_inode, dest_path),
            created: self.place.created,
            entries: self.place.entries,
        })
    }
}
