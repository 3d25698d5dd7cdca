//! The other side of a board: compares names for a process that has met them.
//!
//! It may see less than that process, or see it later: its mounts and its caches are its own. So whatever it could not open,
//! finds on another filesystem than expected, or finds to be different, that process looks at itself, and so it does at
//! directories. All that a helper says is which files are the same, and which of those may have other names.
//!
//! It opens both directories by their paths, and knows them by inode number and birth. The process that walks
//! translates device numbers: it knows on what filesystems its own directories are. So neither errors nor differences
//! travel, and what a machine remembers of an older state makes none.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use haul_io::transfer::Buffers;
use haul_sys::Errno;
use haul_sys::inode::Inode;
use haul_sys::rustix::fs::CWD;

use crate::meta::XattrRules;
use crate::plan::Plan;
use crate::walk::open_directory;

use super::entry::{Outcome, Rules};
use super::names::{Word, Work};
use super::wire::{Directory, Note, Reply, WorkUnit, decode, encode};

/// One thread of a process that helps another one to compare.
pub struct Helper<'a> {
    rules: Rules<'a>,
    buffers: Buffers,
}

impl<'a> Helper<'a> {
    /// With the plan of the comparison and what else its [`Session`](super::Session) has.
    pub fn new(plan: &'a Plan, xattrs: &'a XattrRules, stop: &'a (dyn Fn() -> bool + Sync)) -> Helper<'a> {
        Helper { rules: Rules { plan, xattrs, stop, offline: Arc::default() }, buffers: Buffers::new() }
    }

    /// Compares the names that [`Board::take`](super::Board::take) gave. What it says is for
    /// [`Board::hear`](super::Board::hear), and has to arrive there in this order. `None` if the message makes no sense.
    pub fn compare(&mut self, unit: &[u8], say: &mut dyn FnMut(Vec<u8>)) -> Option<()> {
        let WorkUnit { token, of_copy, source, copy, below, names } = decode(unit)?;
        let (Ok(one), Ok(other)) = (open(&source), open(&copy)) else {
            // Who sent it can see them.
            say(encode(&Reply::Cannot { token }));
            return Some(());
        };
        let names: Vec<&OsStr> = names.iter().map(OsString::as_os_str).collect();
        let work = Work {
            rules: &self.rules,
            source: (one.0.as_fd(), Path::new(&source.path)),
            copy: (other.0.as_fd(), Path::new(&copy.path)),
            below: Path::new(&below),
            of_copy,
            only_on: Some((one.1.id.device(), other.1.id.device())),
        };
        let (mut entries, mut notes) = (0, Vec::new());
        work.go_through(&names, &mut self.buffers, &mut |word| match word {
            Word::RestFrom(from) => say(encode(&Reply::Rest { token, from: from as u64 })),
            Word::Elsewhere(at) => notes.push(Note { at: at as u64, links: None }),
            Word::Found(at, outcome) if is_the_same(&outcome) => {
                entries += 1;
                if let Some((one, other)) = outcome.links {
                    notes.push(Note { at: at as u64, links: Some((one.inode(), other.inode())) });
                }
            }
            Word::Found(at, ..) => notes.push(Note { at: at as u64, links: None }),
        });
        say(encode(&Reply::Done { token, entries, notes }));
        Some(())
    }
}

/// Whether there is nothing to be reported. What differs for this machine may be what it knew of a file before that was
/// changed elsewhere, and what is not there may only not be known yet: the other process has to see that, too.
fn is_the_same(outcome: &Outcome) -> bool {
    outcome.problems.is_empty() && outcome.differences.is_empty()
}

/// Opens a directory and makes sure that it is the one that was meant.
fn open(directory: &Directory) -> Result<(OwnedFd, Inode), Errno> {
    let open = |path: &OsStr| {
        let fd = open_directory(CWD, path)?;
        let inode = Inode::of(fd.as_fd())?;
        Ok((fd, inode))
    };
    let (fd, inode) = open(&directory.path)?;
    if inode.id.inode() != directory.inode {
        return Err(Errno::STALE);
    }
    // The roots of filesystems that each machine has for itself have one number everywhere, but were not made at one time.
    match (inode.born.map(<(i64, u32)>::from), directory.born) {
        (Some(here), Some(there)) if here == there => return Ok((fd, inode)),
        (Some(_), Some(_)) => return Err(Errno::STALE),
        _ => {}
    }
    // Where nobody tells when they were made, only the filesystem of the operand is known to be the same here.
    let operand = directory.operand.as_deref().ok_or(Errno::XDEV)?;
    let device = open(operand)?.1.id.device();
    if device == inode.id.device() { Ok((fd, inode)) } else { Err(Errno::XDEV) }
}
