//! Says how a copy differs from its source. Nothing is written.
//!
//! One thread walks the source and puts batches of names on a board (`board`), from which threads take them, and other
//! processes, if there are any (`helper`, `wire`). They compare what has these names on both sides (`names`, `entry`). What
//! they found is told in the order of the walk (`row`), by the thread that walks, so the order does not depend on theirs.
//! Batches under way are bounded, and so is what waits to be told; nothing else grows with the tree but the table of hard
//! links.

mod board;
mod entry;
mod helper;
mod links;
mod names;
mod row;
mod walk;
mod wire;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::facts::{DeviceNumber, Kind, Time};
use crate::meta::XattrRules;
use crate::plan::Plan;

pub use board::{Board, Heard};
pub use helper::Helper;
pub use walk::{compare, threads};

/// How two things of the same name differ, or that there is one only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// The copy lacks it.
    OnlyInSource,
    /// The source lacks it.
    OnlyInCopy,
    /// What they are.
    Kind(Kind, Kind),
    /// Bytes.
    Size(u64, u64),
    /// The first byte that is not the same, counted from 0.
    Contents(u64),
    /// The texts of symbolic links.
    Target(OsString, OsString),
    /// What device nodes stand for.
    Node(DeviceNumber, DeviceNumber),
    /// Permission bits.
    Mode(u32, u32),
    /// User and group.
    Owner((u32, u32), (u32, u32)),
    /// Times of the last change of the contents.
    Modified(Time, Time),
    /// An extended attribute, or an ACL by the name of its attribute, that is on one side only or has another value.
    Attribute(OsString),
    /// The copy is another file than that of this name, of which the source is a hard link; or it should be a hard link of
    /// its source.
    NotLinked(PathBuf),
    /// The copy is the same file as that of this name; their sources are two.
    Linked(PathBuf),
    /// The copy is the source itself by another name: what is written to one is written to the other. Where hard links
    /// are what was asked for, see [`Difference::NotLinked`].
    Same,
}

/// One difference and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// In the source.
    pub source: PathBuf,
    /// In the copy.
    pub copy: PathBuf,
    /// What.
    pub difference: Difference,
}

/// Hears what is found, in the order of the walk.
pub trait Observer {
    /// The two differ.
    fn differs(&self, found: &Found);
    /// Something could not be looked at.
    fn problem(&self, error: &Error);
}

/// What a comparison needs besides the plan.
pub struct Session<'a> {
    /// Hears everything.
    pub observer: &'a dyn Observer,
    /// Which extended attributes are not copied, so that nobody misses them.
    pub rules: &'a XattrRules,
    /// Whether to stop. Whoever brings names to helpers stops those, too: what they have is waited for.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// From where other processes get names to compare, if there are any.
    pub board: Option<&'a Board>,
}

/// What was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Names on either side.
    pub entries: u64,
    /// Differences that were told.
    pub differences: u64,
    /// What could not be looked at.
    pub errors: u64,
    /// It was stopped before the end.
    pub stopped: bool,
}

impl Summary {
    /// Whether everything was looked at and is the same.
    pub fn is_same(&self) -> bool {
        self.differences == 0 && self.errors == 0 && !self.stopped
    }
}

/// What is compared, as far as the plan keeps it.
struct Rules<'a> {
    plan: &'a Plan,
    xattrs: &'a XattrRules,
    stop: &'a (dyn Fn() -> bool + Sync),
}

fn joined(dir: &Path, name: &std::ffi::OsStr) -> PathBuf {
    dir.join(name)
}
