//! The list itself: its entries, how they are added, and what is known of each.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use haul_sys::inode::{FileId, Kind, Time};

/// The most bytes of a name, and of the path of an operand.
pub(crate) const MOST_NAME: usize = 65_535;

/// The number of an entry in its list. Those of a directory come after it, and before whatever is not in it.
pub type Index = u32;

/// One entry as it is added to a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What kind of file it is.
    pub kind: Kind,
    /// Size in bytes of a regular file or of the text of a symbolic link; 0 of all others.
    pub size: u64,
    /// Last change of its contents.
    pub modified: Time,
    /// Last change of the inode: of contents or attributes, whatever the other time was set to since.
    pub changed: Time,
    /// Which file it is, if it may have several names in the list.
    pub id: Option<FileId>,
}

/// Which file an operand was, where its filesystem tells when files were made: that and the inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    /// The number within its filesystem.
    pub inode: u64,
    /// When it was made.
    pub born: Time,
}

/// A list of entries. Its operands are in the order of the command.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FileList {
    pub(super) operands: Vec<Operand>,
    pub(super) entries: Vec<Node>,
    /// The names of all entries, one after the other, in the order of the entries.
    pub(super) names: Vec<u8>,
    /// Files that may have several names, by the number of the entry.
    pub(super) ids: Vec<(Index, FileId)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operand {
    pub(super) path: Vec<u8>,
    pub(super) root: Option<Root>,
    /// Its own entry; none if it was not there.
    pub(super) first: Index,
    pub(super) end: Index,
}

/// What is kept of an entry besides its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    /// The directory that it is in; its own number if it is an operand.
    pub(super) parent: Index,
    /// Where its name ends among all names.
    pub(super) name_end: u64,
    pub(super) size: u64,
    pub(super) modified: Time,
    pub(super) changed: Time,
    pub(super) kind: Kind,
}

/// Why an entry cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misplaced {
    /// There is no operand, or it has its entry already.
    Operand,
    /// What it would be in is no directory of this operand, or was left before.
    Parent,
    /// The name is empty, a dot, two dots, too long, or has a slash or a zero in it.
    Name,
    /// A list has room for 4,294,967,294 entries.
    Full,
}

impl Misplaced {
    pub(super) fn message(self) -> &'static str {
        match self {
            Misplaced::Operand => "an entry outside of every operand",
            Misplaced::Parent => "an entry in something that is no directory",
            Misplaced::Name => "an impossible name",
            Misplaced::Full => "too many entries",
        }
    }
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Misplaced {}

impl FileList {
    /// Adds an operand as it is written on the command line; its entries come next.
    pub fn add_operand(&mut self, path: &OsStr, root: Option<Root>) {
        let at = self.next_index();
        self.operands.push(Operand { path: path.as_bytes().to_vec(), root, first: at, end: at });
    }

    /// Adds the entry of the last operand itself.
    ///
    /// # Errors
    /// Why that is not possible; then nothing has changed.
    pub fn add_root(&mut self, entry: &Entry) -> Result<Index, Misplaced> {
        let at = self.next_index();
        match self.operands.last() {
            Some(operand) if operand.first == at => self.push(at, b"", entry),
            _ => Err(Misplaced::Operand),
        }
    }

    /// Adds an entry to a directory that was added before, and whose last entries these are so far.
    ///
    /// # Errors
    /// Why that is not possible; then nothing has changed.
    pub fn add(&mut self, parent: Index, name: &OsStr, entry: &Entry) -> Result<Index, Misplaced> {
        let name = name.as_bytes();
        let reserved = matches!(name, b"" | b"." | b"..") || name.len() > MOST_NAME;
        if reserved || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
            return Err(Misplaced::Name);
        }
        let above = self.operands.last().ok_or(Misplaced::Operand)?;
        let node = self.entries.get(parent as usize).ok_or(Misplaced::Parent)?;
        if parent < above.first || node.kind != Kind::Directory || !self.is_open(parent) {
            return Err(Misplaced::Parent);
        }
        self.push(parent, name, entry)
    }

    /// Whether the last entry is this one, or in it.
    fn is_open(&self, directory: Index) -> bool {
        let mut at = self.next_index().saturating_sub(1);
        while at > directory {
            let above = self.entries[at as usize].parent;
            if above == at {
                return false;
            }
            at = above;
        }
        at == directory
    }

    fn push(&mut self, parent: Index, name: &[u8], entry: &Entry) -> Result<Index, Misplaced> {
        let at = self.next_index();
        if at >= Index::MAX - 1 {
            return Err(Misplaced::Full);
        }
        self.names.extend_from_slice(name);
        if let Some(id) = entry.id {
            self.ids.push((at, id));
        }
        let name_end = self.names.len() as u64;
        let Entry { kind, size, modified, changed, .. } = *entry;
        self.entries.push(Node { parent, name_end, size, modified, changed, kind });
        if let Some(operand) = self.operands.last_mut() {
            operand.end = at + 1;
        }
        Ok(at)
    }

    pub(super) fn next_index(&self) -> Index {
        // `push` makes sure that it fits.
        Index::try_from(self.entries.len()).unwrap_or(Index::MAX)
    }

    /// How many entries there are, operands included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The operands as they were written, in order: the path, which file it was, and its entry if it was there.
    pub fn operands(&self) -> impl ExactSizeIterator<Item = (&OsStr, Option<Root>, Option<Index>)> {
        self.operands.iter().map(|operand| {
            let entry = (operand.end > operand.first).then_some(operand.first);
            (OsStr::from_bytes(&operand.path), operand.root, entry)
        })
    }

    /// An entry.
    ///
    /// # Panics
    /// If there is none of this number.
    pub fn entry(&self, at: Index) -> Entry {
        let node = &self.entries[at as usize];
        let id = self.ids.binary_search_by_key(&at, |(at, _)| *at).ok().map(|found| self.ids[found].1);
        Entry { kind: node.kind, size: node.size, modified: node.modified, changed: node.changed, id }
    }

    /// Its kind.
    ///
    /// # Panics
    /// If there is none of this number.
    pub fn kind(&self, at: Index) -> Kind {
        self.entries[at as usize].kind
    }

    /// Its name in its directory; empty for an operand.
    ///
    /// # Panics
    /// If there is none of this number.
    pub fn name(&self, at: Index) -> &OsStr {
        let start = match at.checked_sub(1) {
            Some(before) => self.entries[before as usize].name_end,
            None => 0,
        };
        OsStr::from_bytes(&self.names[start as usize..self.entries[at as usize].name_end as usize])
    }

    /// The directory that it is in; `None` for an operand.
    ///
    /// # Panics
    /// If there is none of this number.
    pub fn parent(&self, at: Index) -> Option<Index> {
        Some(self.entries[at as usize].parent).filter(|parent| *parent != at)
    }

    /// The names on the way from the operand to this entry, outermost first. Empty for an operand.
    ///
    /// # Panics
    /// If there is none of this number.
    pub(crate) fn names_to(&self, at: Index) -> Vec<&OsStr> {
        let mut names = Vec::new();
        let mut next = at;
        while let Some(parent) = self.parent(next) {
            names.push(self.name(next));
            next = parent;
        }
        names.reverse();
        names
    }

    /// The operand that an entry belongs to, by its number.
    pub(crate) fn operand_of(&self, at: Index) -> usize {
        self.operands.partition_point(|operand| operand.end <= at)
    }

    /// Sizes of all regular files in bytes. What has several names counts once for each.
    pub fn bytes(&self) -> u64 {
        let regular = self.entries.iter().filter(|node| node.kind == Kind::Regular);
        regular.fold(0, |sum, node| sum.saturating_add(node.size))
    }
}
