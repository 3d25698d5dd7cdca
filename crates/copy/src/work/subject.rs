//! An entry to be copied, and where in the tree it stands.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use haul_sys::inode::{DeviceNumber, Inode};

use crate::links::DestDir;
use crate::list::Index;
use crate::meta::NewEntries;
use crate::plan::Dereference;
use crate::publish::Sides;
use crate::walk::Spot;
use crate::work::frame::Frame;
use crate::work::remote::Remote;

/// Where in the tree an entry stands.
#[derive(Clone, Copy)]
pub(crate) struct Level<'t> {
    /// The directory that will hold the copy, if it could be opened.
    pub dir: Option<&'t Arc<DestDir>>,
    /// Both directories, if they were entered in this walk.
    pub sides: Option<&'t Arc<Sides>>,
    /// The directories of the source on the way here, outermost first.
    pub ancestors: &'t [Frame],
    /// The directory says that the entry is a regular file.
    pub is_regular: bool,
    /// Its number in the list of what is to be copied, if there is one.
    pub listed: Option<Index>,
    /// Its copy, a directory, was made ahead, with this mode.
    pub made: Option<u32>,
}

/// What is known across all entries of one operand.
#[derive(Clone)]
pub(crate) struct Top {
    /// The operand.
    pub source: PathBuf,
    /// Its destination.
    pub dest: PathBuf,
    /// The operand is being copied into itself: the rest of it is left alone.
    pub into_itself: bool,
}

/// An entry to be copied.
pub(crate) struct Subject<'a> {
    pub source: Spot<'a>,
    pub dest: Spot<'a>,
    /// The source, links followed or not as the options say.
    pub inode: Inode,
    /// The source, if it was opened to be looked at.
    pub opened: Option<OwnedFd>,
    /// Which links are followed from here on: `-H` means none but the operands.
    pub dereference: Dereference,
    /// A symbolic link at the source is followed.
    pub follow: bool,
    /// It was named by the user, not found in a directory.
    pub is_operand: bool,
    /// The directories that it was found in and goes to, unless it was named by the user.
    pub sides: Option<&'a Arc<Sides>>,
    /// The filesystem of that destination directory.
    pub dest_device: Option<DeviceNumber>,
    /// How other processes find it, if they may help with it.
    pub remote: Option<&'a dyn Remote>,
}

impl Level<'_> {
    /// What is known of new entries of the directory that will hold the copy.
    pub(crate) fn entries(&self) -> NewEntries {
        self.ancestors.last().map_or(NewEntries::UNKNOWN, |parent| parent.place.entries)
    }
}
