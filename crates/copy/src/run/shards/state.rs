//! The file in which the shards of a job note what they have done.
//!
//! | bytes | what |
//! |---|---|
//! | 0-15 | `haul shards 1` and zeros |
//! | 16-31 | the fingerprint of the command without the shard |
//! | 32-47 | the digest of the split |
//! | 48-51 | how many shards there are, little-endian |
//! | 52 | 1 if directories of the job are known by their birth, 0 if by their names |
//! | 53-63 | zeros |
//! | 64 on | one byte for each shard, see below |
//! | behind | the names of directories that were made, 16 bytes each, if they are known by those |
//!
//! Who changes it has it locked. Where there are no locks, bytes of different shards do not touch each other, and who ends
//! writes that before it looks at the others: then one of two that end at the same time sees the other.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use haul_sys::Errno;
use haul_sys::rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, Timespec, Timestamps, flock, fsync, ftruncate, openat, unlinkat,
};
use haul_sys::rustix::io::{fcntl_dupfd_cloexec, retry_on_intr};
use haul_sys::rustix::process::geteuid;

use super::OPEN;
use crate::facts::{Inode, Kind, Time};
use crate::journal::Fingerprint;
use crate::manifest::Shard;
use crate::meta::Object;

const MAGIC: &[u8; 16] = b"haul shards 1\0\0\0";
const HEADER: usize = 64;
/// Bytes of a name.
const NAME: usize = 16;
/// No filesystem keeps times so coarsely that the clock of files takes longer for a step.
const LONGEST_STEP: Duration = Duration::from_secs(3);

/// What the byte of a shard says.
const BEGUN: u8 = 1;
const ENDING: u8 = 2;
const DONE: u8 = 3;
const FAILED: u8 = 4;

/// Why the file cannot be used.
pub(super) enum Trouble {
    Kernel(Errno),
    /// It is no regular file of this user with a single name, or something else is in it.
    Foreign,
    /// The others are so many.
    OtherCount(u32),
    /// The others have divided something else.
    OtherList,
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Trouble {
        Trouble::Kernel(errno)
    }
}

/// What there is of a shard when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Earlier {
    Nothing,
    /// It was begun, and is not done.
    Begun,
    Done,
}

/// How a shard ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Everything is copied.
    Well,
    /// There were errors, and it should be run again.
    Badly,
}

/// Does what is left to do of a shard. Is told which shards are over, and says how this one ended.
pub(super) type Finish<'a> = dyn FnMut(&dyn Fn(u32) -> bool) -> Ended + 'a;

/// The state of a job.
pub(super) struct State {
    file: File,
    dir: OwnedFd,
    name: OsString,
    count: u32,
    /// When the job began by the clock of the filesystem, if births tell what is of the job.
    born: Option<Time>,
    noted: Mutex<Noted>,
}

/// Names of directories, as far as they were read.
#[derive(Default)]
struct Noted {
    names: HashSet<Fingerprint>,
    read: u64,
}

/// The name of the file.
pub(super) fn name(command: &Fingerprint) -> OsString {
    OsString::from(format!(".haul-shards-{:016x}", command.half()))
}

impl State {
    /// Opens the file or makes it, and notes that the shard has begun; what was there of it. A shard that is done stays so.
    pub(super) fn open(
        dir: BorrowedFd<'_>,
        command: &Fingerprint,
        shard: Shard,
        split: [u8; 16],
    ) -> Result<(State, Earlier), Trouble> {
        let (name, count) = (name(command), shard.count().get());
        let file = open_locked(dir, &name)?;
        let mut header = read_header(&file)?;
        if header.is_none() {
            begin(&file, command, count, split)?;
            header = read_header(&file)?;
            let above = openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            // Who may not read the directory cannot sync it either.
            above.and_then(|above| retry_on_intr(|| fsync(&above))).ok();
        }
        let header = header.ok_or(Trouble::Foreign)?;
        if header[..16] != MAGIC[..] || header[16..32] != command.to_bytes() {
            return Err(Trouble::Foreign);
        }
        let others = u32::from_le_bytes([header[48], header[49], header[50], header[51]]);
        if others != count {
            return Err(Trouble::OtherCount(others));
        }
        if header[32..48] != split {
            return Err(Trouble::OtherList);
        }
        let born = Inode::of(file.as_fd())?.born.filter(|_| header[52] == 1);
        let dir = fcntl_dupfd_cloexec(dir, 0)?;
        let state = State { file, dir, name, count, born, noted: Mutex::default() };
        let earlier = match state.bytes()?[shard.index() as usize] {
            0 => Earlier::Nothing,
            DONE => Earlier::Done,
            _ => Earlier::Begun,
        };
        if earlier != Earlier::Done {
            state.set(shard, BEGUN)?;
            // Whoever comes later must find it after a power cut, too, if what is made is there.
            retry_on_intr(|| fsync(&state.file))?;
        }
        unlock(&state.file);
        Ok((state, earlier))
    }

    /// Whether a file was made since the job began; `None` where births do not tell.
    pub(super) fn is_of_job(&self, found: &Inode) -> Option<bool> {
        Some(self.born? < found.born?)
    }

    /// Notes a name, where births do not tell.
    pub(super) fn note(&self, name: impl FnOnce() -> Result<Fingerprint, Errno>) -> Result<(), Errno> {
        if self.born.is_some() {
            return Ok(());
        }
        let name = name()?;
        // The lock of the file is one for all threads.
        let _noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        lock(&self.file)?;
        let start = self.names_start();
        let written = Inode::of(self.file.as_fd()).and_then(|inode| {
            let whole = inode.size.saturating_sub(start) / NAME as u64;
            self.file.write_all_at(&name.to_bytes(), start + whole * NAME as u64).map_err(errno_of)
        });
        unlock(&self.file);
        written
    }

    /// Whether a shard has noted this name.
    pub(super) fn is_noted(&self, name: Fingerprint) -> bool {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; NAME];
        let start = self.names_start();
        // What was noted is not taken back; what cannot be read was not.
        if self.born.is_some() || lock(&self.file).is_err() {
            return false;
        }
        while self.file.read_exact_at(&mut bytes, start + noted.read).is_ok() {
            noted.names.insert(Fingerprint::from_bytes(bytes));
            noted.read += NAME as u64;
        }
        unlock(&self.file);
        noted.names.contains(&name)
    }

    /// Ends a shard. When all have ended well the file goes.
    pub(super) fn end(&self, shard: Shard, finish: &mut Finish<'_>) -> Result<Ended, Errno> {
        lock(&self.file)?;
        self.set(shard, ENDING)?;
        let bytes = self.bytes()?;
        let is_over = |other: u32| matches!(bytes.get(other as usize), Some(&(ENDING | DONE | FAILED)));
        let ended = finish(&is_over);
        self.set(shard, if ended == Ended::Well { DONE } else { FAILED })?;
        // Others leave to the last one what this one does not need any more.
        retry_on_intr(|| fsync(&self.file))?;
        if self.bytes()?.iter().all(|byte| *byte == DONE) {
            self.remove()?;
        }
        unlock(&self.file);
        Ok(ended)
    }

    /// Removes the file. The directory may be a finished one of the copy, so it keeps its times.
    fn remove(&self) -> Result<(), Errno> {
        let before = Inode::of(self.dir.as_fd());
        match unlinkat(&self.dir, self.name.as_os_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        if let Ok(before) = before {
            let time = |time: Time| Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() };
            let times = Timestamps { last_access: time(before.accessed), last_modification: time(before.modified) };
            // Another's directory cannot be one of the copy.
            Object { fd: self.dir.as_fd(), path_only: true }.set_times(&times).ok();
        }
        Ok(())
    }

    fn set(&self, shard: Shard, byte: u8) -> Result<(), Errno> {
        self.file.write_all_at(&[byte], HEADER as u64 + u64::from(shard.index())).map_err(errno_of)
    }

    fn bytes(&self) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; self.count as usize];
        self.file.read_exact_at(&mut bytes, HEADER as u64).map_err(errno_of)?;
        Ok(bytes)
    }

    fn names_start(&self) -> u64 {
        HEADER as u64 + u64::from(self.count)
    }
}

/// The header; `None` if nobody has written it yet.
fn read_header(file: &File) -> Result<Option<[u8; HEADER]>, Errno> {
    let mut header = [0; HEADER];
    let size = Inode::of(file.as_fd())?.size;
    if size < HEADER as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut header, 0).map_err(errno_of)?;
    Ok((size > HEADER as u64).then_some(header))
}

/// Writes the header. What is born from here on is born after the file, if births can be compared at all.
fn begin(file: &File, command: &Fingerprint, count: u32, split: [u8; 16]) -> Result<(), Errno> {
    let mut header = [0; HEADER];
    header[..16].copy_from_slice(MAGIC);
    header[16..32].copy_from_slice(&command.to_bytes());
    header[32..48].copy_from_slice(&split);
    header[48..52].copy_from_slice(&count.to_le_bytes());
    let started = Instant::now();
    loop {
        file.write_all_at(&header, 0).map_err(errno_of)?;
        let inode = Inode::of(file.as_fd())?;
        let Some(born) = inode.born else { break };
        if inode.modified > born {
            header[52] = 1;
            break;
        }
        if started.elapsed() > LONGEST_STEP {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    file.write_all_at(&header, 0).map_err(errno_of)?;
    // The bytes of the shards make it whole.
    retry_on_intr(|| ftruncate(file, HEADER as u64 + u64::from(count)))
}

fn open_locked(dir: BorrowedFd<'_>, name: &OsStr) -> Result<File, Trouble> {
    loop {
        let opened = match openat(dir, name, OPEN, Mode::empty()) {
            Err(Errno::NOENT) => {
                let create = haul_sys::rustix::fs::OFlags::CREATE | haul_sys::rustix::fs::OFlags::EXCL;
                match openat(dir, name, OPEN | create, Mode::RUSR | Mode::WUSR) {
                    Err(Errno::EXIST) => continue,
                    made => made?,
                }
            }
            Err(Errno::LOOP) => return Err(Trouble::Foreign),
            opened => opened?,
        };
        let file = File::from(opened);
        lock(&file)?;
        let inode = Inode::of(file.as_fd())?;
        let ours = inode.kind == Kind::Regular && inode.user == geteuid().as_raw();
        match inode.links {
            // The last shard of an earlier job has just removed it.
            0 if ours => {}
            1 if ours => return Ok(file),
            _ => return Err(Trouble::Foreign),
        }
    }
}

fn lock(file: &File) -> Result<(), Errno> {
    match retry_on_intr(|| flock(file, FlockOperation::LockExclusive)) {
        // Filesystems without locks do without.
        Ok(()) | Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn unlock(file: &File) {
    // What cannot be unlocked is unlocked by the end of the process.
    flock(file, FlockOperation::Unlock).ok();
}

fn errno_of(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
