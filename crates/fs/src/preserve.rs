//! Which attributes a copy keeps, and what its new files get instead.

use std::ffi::OsString;

/// How much a kept attribute matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// It is not kept.
    #[default]
    No,
    /// It is kept where the destination can.
    Try,
    /// It must be kept, else the copy fails.
    Require,
}

/// The permission bits of new files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ModeRule {
    /// The source's bits less the umask.
    #[default]
    Default,
    /// The source's bits and ACL exactly (`--preserve=mode`).
    Keep,
    /// As any new file: 0666 or 0777 less the umask (`--no-preserve=mode`).
    Discard,
}

/// Attributes to keep; none by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Preserve {
    /// Permission bits and ACLs.
    pub mode: ModeRule,
    /// User and group.
    pub ownership: bool,
    /// Access and modification time, in nanoseconds.
    pub timestamps: bool,
    /// Hard links between copied files.
    pub links: bool,
    /// SELinux context.
    pub context: Wish,
    /// Extended attributes of all namespaces.
    pub xattr: Wish,
    /// A failure to keep owner, mode or times fails the copy.
    pub required: bool,
    /// Say nothing about extended attributes that the destination cannot hold (`-a`).
    pub quiet: bool,
    /// Inode flags (`chattr`): append-only, immutable, no-dump and others.
    pub flags: bool,
    /// Project ID, for project quotas.
    pub project: bool,
}

/// The SELinux (or SMACK) context of new files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContextRule {
    /// Whatever the kernel gives them.
    Default,
    /// The default of the destination (`-Z`).
    OfDestination,
    /// This one (`--context=CTX`).
    Fixed(OsString),
}
