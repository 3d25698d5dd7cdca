//! How a copy differs from its source.

use std::ffi::OsString;
use std::path::PathBuf;

use haul_sys::inode::{DeviceNumber, Kind, Time};

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
