//! One file whose metadata is to be kept: what all steps are given.

use std::path::Path;

use haul_sys::inode::{Inode, Kind};
use haul_sys::object::Object;

use crate::error::Error;
use crate::preserve::{ContextRule, Preserve};

use super::caller::Caller;
use super::memory::KnownFilesystems;
use super::new_entries::NewEntries;
use super::rules::XattrRules;

/// Hears of everything that could not be kept. Whether the copy failed is the result of the call.
pub type Report<'a> = &'a mut dyn FnMut(Error);

/// The source or the destination.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The inode that we hold.
    pub object: Object<'a>,
    /// Its attributes: of the source before its data was read, of the destination as it was found or made.
    pub inode: &'a Inode,
    /// The path for messages.
    pub path: &'a Path,
}

/// One file whose metadata is to be kept.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// What to keep.
    pub preserve: &'a Preserve,
    /// The context that a new file gets.
    pub context: &'a ContextRule,
    /// Where it comes from.
    pub source: Side<'a>,
    /// Where it goes.
    pub dest: Side<'a>,
    /// We made the destination.
    pub created: bool,
    /// What is known of the directory in which we made the destination, as it was given to
    /// [`creation_mode`](super::creation_mode); of the
    /// destination itself if that is a directory.
    pub entries: NewEntries,
    /// Extended attributes of users, and capabilities, that the source does not have are removed from a destination that we did
    /// not make (`--delete`).
    pub exact: bool,
    /// A destination that we did not make gets extended attributes of users also where its mode forbids its owner to write
    /// (`--update=changed`); cp leaves them.
    pub despite_mode: bool,
    /// No data is copied (`--attributes-only`): then every failing attribute is worth a message.
    pub no_data: bool,
    /// The source is removed (`--move`): what the destination cannot hold is lost, and worth a message.
    pub moves: bool,
    /// More hard links to the destination may follow, which the flags immutable and append-only would forbid: they are
    /// left for [`seal`](super::seal).
    pub seal_later: bool,
    /// Who copies.
    pub caller: Caller,
    /// Which extended attributes are not copied.
    pub rules: &'a XattrRules,
    /// What was reported already.
    pub memory: &'a KnownFilesystems,
}

impl Request<'_> {
    /// The destination is a symbolic link to the source (`-s`). It has times of its own, but keeping the owner or the
    /// flags of another kind of file makes no sense; cp leaves them alone.
    pub(super) fn links_to_source(&self) -> bool {
        self.dest.inode.kind == Kind::SymbolicLink && self.source.inode.kind != Kind::SymbolicLink
    }
}
