//! Names and attributes of files: what stands where, which file it is, what a copy keeps beside the bytes.
//!
//! * [`walk`] finds entries and names them without ever resolving a path twice: operands, directory listings, identity of
//!   files, paths for messages.
//! * [`meta`] gives a destination the owner, mode, ACLs, extended attributes, times and flags of its source, in one order;
//!   [`preserve`] says which of them.
//! * [`links`] is the table of what was made for which source; it spills to a file that has no name.
//! * [`mounts`] tells what mounts show of directories, and where.
//! * [`layout`] is over how many servers Lustre stripes a file.
//! * [`offline`] tells which files an archive has taken away.
//! * [`temporary`] makes names for files that are not whole.
//! * [`error`] is the one error type: what failed, on which path, what the kernel said.
//!
//! It **knows** directories by open descriptors, entries by their names in them, and files by their identity. It **must not
//! know** how bytes are moved, what becomes of an existing destination, plans, threads and messages: those are haul-copy's.
//! As a library it neither prints nor changes anything of its host process.
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc)]

pub mod error;
pub mod layout;
pub mod links;
pub mod meta;
pub mod mounts;
pub mod offline;
pub mod preserve;
pub mod temporary;
pub mod walk;
