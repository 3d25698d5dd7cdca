//! The two entries that a decision is about.

use haul_sys::inode::{Inode, Kind};

use crate::plan::Dereference;

/// The entry of the source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    /// Links followed or not as the options say.
    pub inode: &'a Inode,
    /// Which links are followed from here on.
    pub dereference: Dereference,
    /// It was named by the user.
    pub is_operand: bool,
}

impl Source<'_> {
    /// Whether it matters what the two lead to.
    pub(crate) fn needs_targets(&self, existing: &Existing) -> bool {
        let links = [self.inode.kind, existing.target.kind] == [Kind::SymbolicLink; 2];
        self.dereference == Dereference::Never && !links
    }
}

/// A destination as it was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Existing {
    /// The entry itself.
    pub entry: Inode,
    /// What the copy would act on: the entry, or what it leads to.
    pub target: Inode,
    /// Its name is `.` or `..`.
    pub is_dot: bool,
}

impl Existing {
    /// Other entries may be names of the same file.
    pub(crate) fn has_several_names(&self) -> bool {
        self.target.kind != Kind::Directory && self.target.links > 1
    }
}
