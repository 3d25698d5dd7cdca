//! The file in which the shards of a job note what they have done. What is in it is in `record`.
//!
//! It stays when all are done: there is no moment between the end of the last shard and the end of the record, and a shard
//! that is started again finds what has become of its job.
//!
//! Who changes it has its first byte locked. A shard that copies has its own byte locked until its process ends, so no two
//! processes copy the same shard, and no job is replaced while it is being copied. These are locks of byte ranges, which
//! network filesystems show to all machines. Where there are no locks, bytes of different shards do not touch each other, and
//! who ends writes that before it looks at the others: then one of two that end at the same time sees the other.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use haul_sys::inode::{Inode, Kind, Time};
use haul_sys::rustix::fs::{AtFlags, Mode, OFlags, fsync, ftruncate, openat, renameat, unlinkat};
use haul_sys::rustix::io::{fcntl_dupfd_cloexec, retry_on_intr};
use haul_sys::{Errno, range_lock};
use parking_lot::Mutex;

use crate::error::errno_of;
use crate::journal::{Fingerprint, OPEN, is_own, open_or_make};
use crate::list::Shard;
use crate::plan::Job;
use crate::shards::record::{HEADER, Header, Meaning, NAME, fingerprint, meaning};
use crate::walk::sync_directory;

/// No filesystem keeps times so coarsely that the clock of files takes longer for a step.
const LONGEST_STEP: Duration = Duration::from_secs(3);

/// What the byte of a shard says.
const BEGUN: u8 = 1;
const ENDING: u8 = 2;
const DONE: u8 = 3;
const FAILED: u8 = 4;

/// Why the file cannot be used.
pub(crate) enum Trouble {
    Kernel(Errno),
    /// It is no regular file of this user with a single name, or something else is in it.
    Foreign,
    /// It is of a job of this ID, for which this shard is no shard.
    Job(Meaning, String),
    /// It is of another job, of this ID, of which a shard is being copied.
    Running(String),
    /// What the job has made is not there any more.
    OtherDestination,
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Trouble {
        Trouble::Kernel(errno)
    }
}

/// What a shard that begins brings along.
pub(crate) struct Claim<'a> {
    pub command: &'a Fingerprint,
    pub shard: Shard,
    pub split: [u8; 16],
    pub job: &'a Job,
    /// The names of the copies of the operands in the directory of the file.
    pub roots: &'a [OsString],
}

/// What there is of a shard when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Earlier {
    Nothing,
    /// It was begun and is not done, or another job was that is not finished.
    Begun,
    Done,
}

/// Does what is left to do of a shard. Gets which shards are over, and returns whether everything of this one is copied; otherwise
/// it should be run again.
pub(crate) type Finish<'a> = dyn FnMut(&dyn Fn(u32) -> bool) -> bool + 'a;

/// The state of a job.
pub(crate) struct State {
    file: File,
    dir: OwnedFd,
    name: OsString,
    pub(crate) header: Header,
    roots: Vec<OsString>,
    noted: Mutex<Noted>,
}

/// What was noted, as far as it was read.
#[derive(Default)]
struct Noted {
    names: HashSet<Fingerprint>,
    read: u64,
}

pub(crate) fn name(command: &Fingerprint) -> OsString {
    OsString::from(format!(".haul-shards-{:016x}", command.half()))
}

impl State {
    /// Opens the file or makes it, and notes that the shard has begun; what was there of it. A shard that is done stays so.
    /// `None` if another process is copying this shard.
    pub(crate) fn open(dir: BorrowedFd<'_>, claim: &Claim<'_>) -> Result<Option<(State, Earlier)>, Trouble> {
        let name = name(claim.command);
        let file = open_locked(dir, &name)?;
        let header = match read_header(&file)? {
            Some(found) => found?,
            None => {
                let header = first_header(claim);
                let header = begin(&file, header, &[], &[])?;
                // Who may not read the directory cannot sync it either.
                sync_directory(dir).ok();
                header
            }
        };
        if header.command != *claim.command {
            return Err(Trouble::Foreign);
        }
        let bytes = read_bytes(&file, &header)?;
        let finished = bytes.iter().all(|byte| *byte == DONE);
        let replaced = read_prints(&file, header.replaced_start(), header.replaced)?;
        let wanted = (claim.shard.count().get(), claim.split);
        let (file, header) = match meaning(&header, finished, &replaced, claim.job, wanted) {
            Meaning::Same => (file, header),
            Meaning::Replace => replace((dir, &name), (&file, &header), replaced, finished, claim)?,
            other => return Err(Trouble::Job(other, header.shown_id())),
        };
        let dir = fcntl_dupfd_cloexec(dir, 0)?;
        let state = State { file, dir, name, header, roots: claim.roots.to_vec(), noted: Mutex::default() };
        if !state.roots_are_there()? {
            return Err(Trouble::OtherDestination);
        }
        let earlier = match state.bytes()?[claim.shard.index() as usize] {
            DONE => Earlier::Done,
            0 if !state.header.inherited => Earlier::Nothing,
            _ => Earlier::Begun,
        };
        if earlier != Earlier::Done {
            if !granted(range_lock::try_lock(state.file.as_fd(), byte_of(claim.shard), 1))? {
                return Ok(None);
            }
            state.set(claim.shard, BEGUN)?;
            // Whoever comes later must find it after a power cut, too, if what is made is there.
            retry_on_intr(|| fsync(&state.file))?;
        }
        unlock(&state.file);
        Ok(Some((state, earlier)))
    }

    /// Whether a file was made since the job began; `None` where births do not tell.
    pub(crate) fn is_of_job(&self, found: &Inode) -> Option<bool> {
        let began = Some(self.header.began).filter(|_| self.header.births)?;
        Some(began < found.born?)
    }

    pub(crate) fn note(&self, print: Fingerprint) -> Result<(), Errno> {
        // The lock of the file is one for all threads.
        let _noted = self.noted.lock();
        lock(&self.file)?;
        let start = self.header.notes_start();
        let written = Inode::of(self.file.as_fd()).and_then(|inode| {
            let whole = inode.size.saturating_sub(start) / NAME as u64;
            self.file.write_all_at(&print.to_bytes(), start + whole * NAME as u64).map_err(errno_of)
        });
        unlock(&self.file);
        written
    }

    /// Whether a shard has noted it.
    pub(crate) fn is_noted(&self, print: Fingerprint) -> bool {
        let mut noted = self.noted.lock();
        let mut bytes = [0; NAME];
        let start = self.header.notes_start();
        // What was noted is not taken back; what cannot be read was not.
        if lock(&self.file).is_err() {
            return false;
        }
        while self.file.read_exact_at(&mut bytes, start + noted.read).is_ok() {
            noted.names.insert(Fingerprint::from_bytes(bytes));
            noted.read += NAME as u64;
        }
        unlock(&self.file);
        noted.names.contains(&print)
    }

    /// Ends a shard. Gives whether all of it is copied, and which are not done then.
    pub(crate) fn end(&self, shard: Shard, finish: &mut Finish<'_>) -> Result<(bool, Vec<u32>), Errno> {
        lock(&self.file)?;
        if !is_at(self.dir.as_fd(), &self.name, &self.file)? {
            // Where there are no locks another job may have come.
            return Err(Errno::STALE);
        }
        self.set(shard, ENDING)?;
        let bytes = self.bytes()?;
        let is_over = |other: u32| matches!(bytes.get(other as usize), Some(&(ENDING | DONE | FAILED)));
        let whole = finish(&is_over);
        self.note_roots()?;
        self.set(shard, if whole { DONE } else { FAILED })?;
        // Others leave to the last one what this one does not need any more.
        retry_on_intr(|| fsync(&self.file))?;
        let missing = self.missing()?;
        unlock(&self.file);
        Ok((whole, missing))
    }

    /// The numbers of the shards that are not done, from 1 on.
    pub(crate) fn missing(&self) -> Result<Vec<u32>, Errno> {
        Ok(missing_of(&self.bytes()?))
    }

    /// Whether the directories that the job knows are where they were. One that was put there by somebody else has nothing in
    /// it of the shards that are done.
    fn roots_are_there(&self) -> Result<bool, Errno> {
        let known = read_prints(&self.file, self.header.roots_start(), self.header.roots)?;
        let is_there = |(name, print): (&OsString, &Fingerprint)| {
            print.to_bytes() == [0; NAME] || root_print(self.dir.as_fd(), name) == Some(*print)
        };
        Ok(self.roots.iter().zip(&known).all(is_there))
    }

    fn note_roots(&self) -> Result<(), Errno> {
        let known = read_prints(&self.file, self.header.roots_start(), self.header.roots)?;
        for (at, (name, _)) in
            (0u64..).zip(self.roots.iter().zip(&known)).filter(|(_, (_, print))| print.to_bytes() == [0; NAME])
        {
            if let Some(print) = root_print(self.dir.as_fd(), name) {
                let place = self.header.roots_start() + at * NAME as u64;
                self.file.write_all_at(&print.to_bytes(), place).map_err(errno_of)?;
            }
        }
        Ok(())
    }

    fn set(&self, shard: Shard, byte: u8) -> Result<(), Errno> {
        self.file.write_all_at(&[byte], byte_of(shard)).map_err(errno_of)
    }

    fn bytes(&self) -> Result<Vec<u8>, Errno> {
        read_bytes(&self.file, &self.header)
    }
}

/// What the record of a command says: which shards are not done, of how many, and the ID of the job. `None` if there is none.
pub(crate) fn look(dir: BorrowedFd<'_>, command: &Fingerprint) -> Result<Option<(Header, Vec<u32>)>, Trouble> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(dir, name(command), flags, Mode::empty()) {
        Ok(opened) => File::from(opened),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(Trouble::Foreign),
        Err(errno) => return Err(errno.into()),
    };
    let Some(header) = read_header(&file)? else { return Ok(None) };
    let header = header?;
    if header.command != *command {
        return Err(Trouble::Foreign);
    }
    let missing = missing_of(&read_bytes(&file, &header)?);
    Ok(Some((header, missing)))
}

fn missing_of(bytes: &[u8]) -> Vec<u32> {
    (1u32..).zip(bytes).filter(|(_, byte)| **byte != DONE).map(|(number, _)| number).collect()
}

fn byte_of(shard: Shard) -> u64 {
    HEADER as u64 + u64::from(shard.index())
}

/// Which directory a copy is; `None` if it is none, or not there.
fn root_print(dir: BorrowedFd<'_>, name: &OsStr) -> Option<Fingerprint> {
    let inode = Inode::at(dir, name).ok().filter(|inode| inode.kind == Kind::Directory)?;
    Some(Fingerprint::of_file(&inode))
}

/// The header of a job that has none before it.
fn first_header(claim: &Claim<'_>) -> Header {
    let text = match claim.job {
        Job::Recorded => &[],
        Job::Launched(id) | Job::Named(id) => id.as_encoded_bytes(),
    };
    Header {
        command: *claim.command,
        split: claim.split,
        id: fingerprint(text),
        text: text.to_vec(),
        count: claim.shard.count().get(),
        epoch: 0,
        roots: u32::try_from(claim.roots.len()).unwrap_or(0),
        replaced: 0,
        began: Time { seconds: 0, nanoseconds: 0 },
        births: false,
        inherited: false,
    }
}

/// The header; `None` if nobody has written it yet, an error if something else stands there.
fn read_header(file: &File) -> Result<Option<Result<Header, Trouble>>, Trouble> {
    let inode = Inode::of(file.as_fd())?;
    if inode.kind != Kind::Regular {
        return Err(Trouble::Foreign);
    }
    let mut bytes = [0; HEADER];
    if inode.size < HEADER as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut bytes, 0).map_err(errno_of)?;
    if bytes == [0; HEADER] {
        return Ok(None);
    }
    let whole = |header: &Header| inode.size >= header.notes_start();
    Ok(Some(Header::decode(&bytes).filter(whole).ok_or(Trouble::Foreign)))
}

fn read_bytes(file: &File, header: &Header) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; header.count as usize];
    file.read_exact_at(&mut bytes, HEADER as u64).map_err(errno_of)?;
    Ok(bytes)
}

fn read_prints(file: &File, start: u64, count: u32) -> Result<Vec<Fingerprint>, Errno> {
    let mut bytes = vec![0; count as usize * NAME];
    file.read_exact_at(&mut bytes, start).map_err(errno_of)?;
    let print = |part: &[u8]| part.try_into().map_or([0; NAME], |print: [u8; NAME]| print);
    Ok(bytes.chunks_exact(NAME).map(|part| Fingerprint::from_bytes(print(part))).collect())
}

/// Writes the record of a job that begins, in a file that has none. What is born from here on is born after the time in it,
/// if births can be compared at all. The header is the last that is written.
fn begin(file: &File, header: Header, replaced: &[Fingerprint], notes: &[u8]) -> Result<Header, Errno> {
    let mut header = Header { replaced: u32::try_from(replaced.len()).map_err(|_| Errno::OVERFLOW)?, ..header };
    retry_on_intr(|| ftruncate(file, 0))?;
    if !header.inherited {
        (header.births, header.began) = moment(file)?;
    }
    retry_on_intr(|| ftruncate(file, header.notes_start()))?;
    let prints: Vec<u8> = replaced.iter().flat_map(|print| print.to_bytes()).collect();
    file.write_all_at(&prints, header.replaced_start()).map_err(errno_of)?;
    file.write_all_at(notes, header.notes_start()).map_err(errno_of)?;
    file.write_all_at(&header.encode(), 0).map_err(errno_of)?;
    retry_on_intr(|| fsync(file))?;
    Ok(header)
}

/// A moment after which the clock of the filesystem has gone on. False if births tell nothing there.
fn moment(file: &File) -> Result<(bool, Time), Errno> {
    let started = Instant::now();
    let mut first = None;
    loop {
        file.write_all_at(&[0], 0).map_err(errno_of)?;
        let inode = Inode::of(file.as_fd())?;
        let began = *first.get_or_insert(inode.modified);
        if inode.born.is_none() || started.elapsed() > LONGEST_STEP {
            return Ok((false, began));
        }
        if inode.modified > began {
            return Ok((true, began));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Puts the record of another job in the place of the one that is open and locked.
fn replace(
    (dir, name): (BorrowedFd<'_>, &OsStr),
    (old, before): (&File, &Header),
    mut replaced: Vec<Fingerprint>,
    finished: bool,
    claim: &Claim<'_>,
) -> Result<(File, Header), Trouble> {
    if !granted(range_lock::try_lock(old.as_fd(), HEADER as u64, u64::from(before.count)))? {
        return Err(Trouble::Running(before.shown_id()));
    }
    let mut temporary = name.to_owned();
    temporary.push(".new");
    // Whoever has made one has had the same lock, and was killed.
    match unlinkat(dir, &temporary, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let create = OFlags::CREATE | OFlags::EXCL;
    let file = File::from(openat(dir, &temporary, OPEN | create, Mode::RUSR | Mode::WUSR)?);
    lock(&file)?;
    replaced.push(before.id);
    let mut header = Header { epoch: before.epoch.wrapping_add(1), inherited: !finished, ..first_header(claim) };
    let mut notes = Vec::new();
    if !finished {
        // What that job has made is there, and half of it may be.
        (header.births, header.began) = (before.births, before.began);
        let end = Inode::of(old.as_fd())?.size;
        let start = before.notes_start();
        notes = vec![0; usize::try_from(end.saturating_sub(start)).map_err(|_| Errno::OVERFLOW)? / NAME * NAME];
        old.read_exact_at(&mut notes, start).map_err(errno_of)?;
    }
    let header = begin(&file, header, &replaced, &notes)?;
    renameat(dir, &temporary, dir, name)?;
    // As above.
    sync_directory(dir).ok();
    Ok((file, header))
}

fn open_locked(dir: BorrowedFd<'_>, name: &OsStr) -> Result<File, Trouble> {
    loop {
        let (file, _made) = open_or_make(dir, name)?.ok_or(Trouble::Foreign)?;
        lock(&file)?;
        // Another job may have put its own there while this one waited.
        if is_at(dir, name, &file)? {
            let inode = Inode::of(file.as_fd())?;
            return if is_own(&inode) && inode.links <= 1 { Ok(file) } else { Err(Trouble::Foreign) };
        }
    }
}

/// Whether the open file is what has this name.
fn is_at(dir: BorrowedFd<'_>, name: &OsStr, file: &File) -> Result<bool, Errno> {
    match (Inode::of(file.as_fd()), Inode::at(dir, name)) {
        (Ok(open), Ok(named)) => Ok(open.id == named.id),
        (Err(Errno::STALE), _) | (_, Err(Errno::STALE | Errno::NOENT)) => Ok(false),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    }
}

fn lock(file: &File) -> Result<(), Errno> {
    granted(retry_on_intr(|| range_lock::lock(file.as_fd(), 0, 1)).map(|()| true)).map(|_| ())
}

/// Filesystems without locks do without.
fn granted(locked: Result<bool, Errno>) -> Result<bool, Errno> {
    match locked {
        Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(true),
        locked => locked,
    }
}

fn unlock(file: &File) {
    // What cannot be unlocked is unlocked by the end of the process.
    range_lock::unlock(file.as_fd(), 0, 1).ok();
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
