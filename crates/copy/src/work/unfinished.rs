//! What is known of a file while it is made under a temporary name.

use std::os::fd::OwnedFd;

use haul_sys::inode::Inode;

use crate::journal::Fingerprint;

/// What is known of a file that is being made under another name.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    /// The number in its name, with `--resume`.
    pub number: Option<u64>,
    /// The directory and the name that it goes to, if it is large enough to be noted in parts.
    pub home: Option<Fingerprint>,
    /// What an earlier run has left of it.
    pub adopted: Option<Adopted>,
    /// Bytes of it that are right already.
    pub start: u64,
    /// What its source was before the first byte of it was read.
    pub print: Option<Fingerprint>,
    /// It is not whole, and stays for the next run.
    pub left: bool,
}

/// The beginning of a file that an earlier run has left, open.
#[derive(Debug)]
pub(crate) struct Adopted {
    pub fd: OwnedFd,
    pub inode: Inode,
    /// Bytes that are on the device.
    pub prefix: u64,
    /// What they are a copy of.
    pub source: Fingerprint,
}
