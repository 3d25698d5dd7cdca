//! Which names are one file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::facts::{FileId, Inode, Kind};

use super::Difference;

/// Files that have several names, by the first of those that was met.
#[derive(Debug, Default)]
pub(super) struct Links {
    sources: HashMap<FileId, (FileId, PathBuf)>,
    copies: HashMap<FileId, (FileId, PathBuf)>,
}

impl Links {
    /// Looks at a pair and remembers it. The path is that of the copy.
    pub(super) fn look(&mut self, (source, copy): &(Inode, Inode), path: &Path) -> Option<Difference> {
        if source.kind == Kind::Directory || source.kind != copy.kind || source.links.max(copy.links) < 2 {
            return None;
        }
        let new = || path.to_owned();
        let (other, first) = self.sources.entry(source.id).or_insert_with(|| (copy.id, new()));
        if *other != copy.id {
            return Some(Difference::NotLinked(first.clone()));
        }
        let (other, first) = self.copies.entry(copy.id).or_insert_with(|| (source.id, new()));
        (*other != source.id).then(|| Difference::Linked(first.clone()))
    }
}
