//! Which names are one file.

use std::collections::HashMap;
use std::sync::Arc;

use haul_sys::inode::{FileId, Inode, Kind};

use crate::walk::PathNode;

use super::difference::Difference;

/// Files that have several names, by the first of those that was met.
#[derive(Debug, Default)]
pub(super) struct Links {
    sources: HashMap<FileId, (FileId, Arc<PathNode>)>,
    copies: HashMap<FileId, (FileId, Arc<PathNode>)>,
}

impl Links {
    /// Looks at two files and remembers them. The path is that of the copy.
    pub(super) fn look(&mut self, (source, copy): (FileId, FileId), path: &Arc<PathNode>) -> Option<Difference> {
        let new = || Arc::clone(path);
        let (other, first) = self.sources.entry(source).or_insert_with(|| (copy, new()));
        if *other != copy {
            return Some(Difference::NotLinked(first.path()));
        }
        let (other, first) = self.copies.entry(copy).or_insert_with(|| (source, new()));
        (*other != source).then(|| Difference::Linked(first.path()))
    }
}

/// Which files two names are of, if one of them may have other names.
pub(super) fn of((source, copy): &(Inode, Inode)) -> Option<(FileId, FileId)> {
    let one_name = source.kind == Kind::Directory || source.kind != copy.kind || source.links.max(copy.links) < 2;
    (!one_name).then_some((source.id, copy.id))
}
