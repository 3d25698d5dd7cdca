//! What is certainly done of a copy, written down so that the same command can go on where it was interrupted.
//!
//! A journal promises only what is on the device. Whoever believes a promise compares first: each names files by
//! fingerprints of what stat says of them, and holds only for files that still look the same.

pub(crate) mod command;
mod record;

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind, Time};
use haul_sys::rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, fdatasync, flock, fsync, ftruncate, openat, unlinkat,
};
use haul_sys::rustix::io::retry_on_intr;
use haul_sys::rustix::process::geteuid;
use parking_lot::Mutex;

use crate::error::errno_of;
use crate::walk::sync_directory;
pub use record::{Digest, Fingerprint, RECORD, Record, read};

/// Records that are taken over at a time.
const BATCH: usize = 1024;

/// The journal of one command, open and locked.
#[derive(Debug)]
pub struct Journal {
    file: File,
    command: Fingerprint,
    /// When it was made, by the clock of its filesystem.
    began: Option<Time>,
    /// When this run began, by the same.
    this_run: Option<Time>,
    place: Mutex<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    /// Records that are there.
    records: u64,
    /// Half a record may stand behind them: what is written after it nobody would find.
    closed: bool,
}

/// Why a journal cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// What the kernel said.
    Kernel(Errno),
    /// Another process has it.
    Busy,
    /// It is no regular file of this user with a single name.
    Foreign,
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Trouble {
        Trouble::Kernel(errno)
    }
}

/// Tells every promise that is in a journal of this command in a directory, if there is one; nothing is written, and nobody is
/// kept out.
///
/// # Errors
/// Why it cannot be used.
pub(crate) fn look(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    command: &Fingerprint,
    each: &mut dyn FnMut(Record) -> Result<(), Errno>,
) -> Result<(), Trouble> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(dir, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::LOOP) => return Err(Trouble::Foreign),
        opened => File::from(opened?),
    };
    if !is_own(&Inode::of(file.as_fd())?) {
        return Err(Trouble::Foreign);
    }
    read(&mut &file, command, each).map(drop).map_err(|error| errno_of(error).into())
}

impl Journal {
    /// Opens the journal of this command in a directory, or makes it, and tells every promise that is in it. What follows the
    /// first record that is not whole goes.
    ///
    /// # Errors
    /// Why it cannot be used; then nothing has changed.
    pub fn open(
        dir: BorrowedFd<'_>,
        name: &OsStr,
        command: Fingerprint,
        each: &mut dyn FnMut(Record) -> Result<(), Errno>,
    ) -> Result<Journal, Trouble> {
        let (file, made) = open_locked(dir, name)?;
        let opened = Journal::begin(file, made, dir, command, each);
        if made && opened.is_err() {
            // What failed is reported; an empty journal would only be in the way.
            unlinkat(dir, name, AtFlags::empty()).ok();
        }
        opened
    }

    fn begin(
        file: File,
        made: bool,
        dir: BorrowedFd<'_>,
        command: Fingerprint,
        each: &mut dyn FnMut(Record) -> Result<(), Errno>,
    ) -> Result<Journal, Trouble> {
        let began = Inode::of(file.as_fd())?.born;
        let records = read(&mut &file, &command, each).map_err(errno_of)?;
        let place = Mutex::new(Place { records, closed: false });
        let mut journal = Journal { file, command, began, this_run: None, place };
        retry_on_intr(|| ftruncate(&journal.file, records * RECORD as u64))?;
        journal.append(&[Record::Begun])?;
        retry_on_intr(|| fsync(&journal.file))?;
        journal.this_run = Some(Inode::of(journal.file.as_fd())?.modified);
        if made {
            sync_directory(dir)?;
        }
        Ok(journal)
    }

    /// Takes over what another process has noted of the same command, in a journal of its own in this directory, and removes
    /// that. Tells every promise that is in it; true if there is any.
    ///
    /// # Errors
    /// Why it cannot be used; then it stays.
    pub(crate) fn take_over(
        &self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        each: &mut dyn FnMut(Record) -> Result<(), Errno>,
    ) -> Result<bool, Trouble> {
        let (file, _made) = open_locked(dir, name)?;
        let mut batch = Vec::new();
        let taken = read(&mut &file, &self.command, &mut |record| {
            each(record)?;
            batch.push(record);
            if batch.len() == BATCH { self.append(&std::mem::take(&mut batch)) } else { Ok(()) }
        });
        let taken = taken.map_err(errno_of)?;
        self.append(&batch)?;
        self.sync()?;
        unlinkat(dir, name, AtFlags::empty())?;
        Ok(taken > 0)
    }

    /// Whether something that was born then was born in an earlier run of this command, and after that had begun. `false` where
    /// the filesystem does not tell when the journal was.
    pub(crate) fn is_of_earlier_run(&self, born: Time) -> bool {
        let began = self.began.is_some_and(|began| began < born);
        began && self.this_run.is_some_and(|this_run| born < this_run)
    }

    /// Writes promises down, all of them or none. They survive this process; for the machine see [`Journal::sync`].
    ///
    /// # Errors
    /// What the kernel said. If half a record cannot be taken away again, nothing more is written.
    pub fn append(&self, records: &[Record]) -> Result<(), Errno> {
        let mut place = self.place.lock();
        if place.closed {
            return Err(Errno::IO);
        }
        let mut bytes = Vec::with_capacity(records.len() * RECORD);
        for (number, record) in (place.records..).zip(records) {
            bytes.extend(record.encode(number, &self.command));
        }
        let end = place.records * RECORD as u64;
        if let Err(error) = self.file.write_all_at(&bytes, end) {
            place.closed = retry_on_intr(|| ftruncate(&self.file, end)).is_err();
            return Err(errno_of(error));
        }
        place.records += records.len() as u64;
        Ok(())
    }

    /// Brings what was written to the device.
    ///
    /// # Errors
    /// What the kernel said. Promises may be lost then, which costs time and nothing else.
    pub fn sync(&self) -> Result<(), Errno> {
        retry_on_intr(|| fdatasync(&self.file))
    }
}

/// How files are opened in which runs note what they do: never through a link, never waiting.
pub(crate) const OPEN: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Opens such a file, or makes it, as the flag says. `None` where a symbolic link has its name.
pub(crate) fn open_or_make(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Option<(File, bool)>, Errno> {
    loop {
        let (opened, made) = match openat(dir, name, OPEN, Mode::empty()) {
            Err(Errno::NOENT) => {
                (openat(dir, name, OPEN | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR), true)
            }
            opened => (opened, false),
        };
        match opened {
            // Another process has just made it.
            Err(Errno::EXIST) if made => {}
            Err(Errno::LOOP) => return Ok(None),
            opened => return Ok(Some((opened?.into(), made))),
        }
    }
}

/// Whether it can be such a file of this user.
pub(crate) fn is_own(inode: &Inode) -> bool {
    inode.kind == Kind::Regular && inode.user == geteuid().as_raw()
}

/// Opens or makes the file, and locks it. The flag says that it was made.
fn open_locked(dir: BorrowedFd<'_>, name: &OsStr) -> Result<(File, bool), Trouble> {
    loop {
        let (file, made) = open_or_make(dir, name)?.ok_or(Trouble::Foreign)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // Filesystems without locks do without.
            Ok(()) | Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(Errno::WOULDBLOCK) => return Err(Trouble::Busy),
            Err(errno) => return Err(errno.into()),
        }
        let inode = Inode::of(file.as_fd())?;
        match inode.links {
            // Who had it has just ended well and removed it; or the filesystem counts no links.
            0 if is_own(&inode) && !Inode::at(dir, name).is_ok_and(|named| named.id == inode.id) => {}
            0 | 1 if is_own(&inode) => return Ok((file, made)),
            _ => return Err(Trouble::Foreign),
        }
    }
}

#[cfg(test)]
mod tests;
