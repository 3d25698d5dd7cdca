//! What goes wrong, where, and when.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::tree::Tree;

/// An operation that something can be wrong with, as FUSE knows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum On {
    Lookup,
    /// Every answer that has the attributes of a file.
    Look,
    SetAttributes,
    ReadLink,
    Make,
    Remove,
    /// Its flags are its byte: 0, 1 (RENAME_NOREPLACE) or 2 (RENAME_EXCHANGE). Either name will do.
    Rename,
    Link,
    Open,
    Create,
    Read,
    Write,
    /// close(2), once for each descriptor.
    Flush,
    Sync,
    OpenDirectory,
    /// Entries, from the one with the number that a read has as its offset; `.` and `..` are the first two.
    List,
    SyncDirectory,
    /// Extended attributes of users are byte 0; ACLs and all others are byte 1.
    SetAttribute,
    /// As for setting them.
    GetAttribute,
    ListAttributes,
    Allocate,
    /// lseek(2) with SEEK_DATA or SEEK_HOLE.
    Seek,
    /// copy_file_range(2); the file is the source.
    CopyRange,
}

impl On {
    /// Whether it changes something.
    pub(super) fn mutates(self) -> bool {
        matches!(
            self,
            On::SetAttributes
                | On::Make
                | On::Remove
                | On::Rename
                | On::Link
                | On::Create
                | On::Write
                | On::SetAttribute
                | On::Allocate
        )
    }
}

/// SEEK_DATA or SEEK_HOLE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whence {
    /// The next data is asked for.
    Data,
    /// The next hole is asked for.
    Hole,
}

/// What the kernel learns of a file.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Its inode number. The kernel believes each new answer.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its space in blocks of 512 bytes.
    pub blocks: u64,
}

/// Answers a search by its offset and the file's size, both in bytes.
pub type Search = fn(Whence, u64, u64) -> Result<u64, Errno>;

/// Changes what the kernel learns. With it comes how often it was.
pub type Lie = fn(&mut Look, u32);

/// An entry of a directory, as it is listed.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its inode number.
    pub inode: u64,
    /// Its type, as d_type tells it.
    pub kind: fuser::FileType,
    /// Its name.
    pub name: std::ffi::OsString,
}

/// What happens instead of what was asked for.
#[derive(Clone)]
pub enum What {
    /// It fails, and nothing happens.
    Fail(Errno),
    /// It fails, and the file has lost its contents.
    LoseAndFail(Errno),
    /// It moves so many bytes at most, or lists so many entries.
    Most(u64),
    /// A copy does nothing and answers this count of bytes.
    Claim(u32),
    /// A search answers what this says.
    Seek(Search),
    /// The answer is changed.
    Look(Lie),
    /// The entries are changed.
    List(fn(&mut Vec<Listed>)),
    /// An attribute, or the list of their names, is this much longer whenever it is asked for.
    Grow(usize),
    /// The file's contents change first, and its times with them.
    Change(fn(&mut Vec<u8>)),
    /// It waits until the fault is taken away, or it is interrupted.
    Block,
    /// It takes that long.
    Delay(Duration),
}

/// Something that goes wrong.
#[derive(Clone)]
pub struct Fault {
    on: On,
    path: String,
    byte: Option<u64>,
    first: u32,
    times: u32,
    what: What,
    met: u32,
}

impl Fault {
    /// One of an operation on every file whose path begins like this. It does nothing yet.
    pub fn of(on: On, path: &str) -> Fault {
        Fault { on, path: path.to_owned(), byte: None, first: 0, times: u32::MAX, what: What::Most(u64::MAX), met: 0 }
    }

    /// Only for requests that have this byte among theirs.
    #[must_use]
    pub fn at(self, byte: u64) -> Fault {
        Fault { byte: Some(byte), ..self }
    }

    /// Not for the first such requests of this number.
    #[must_use]
    pub fn after(self, requests: u32) -> Fault {
        Fault { first: requests, ..self }
    }

    /// Only for one request.
    #[must_use]
    pub fn once(self) -> Fault {
        Fault { times: 1, ..self }
    }

    /// What happens.
    #[must_use]
    pub fn does(self, what: What) -> Fault {
        Fault { what, ..self }
    }

    fn fits(&self, on: On, path: &str, range: &Range<u64>) -> bool {
        self.on == on && path.starts_with(&self.path) && self.byte.is_none_or(|byte| range.contains(&byte))
    }
}

/// All faults that are set.
#[derive(Default)]
pub(super) struct Script(Vec<Fault>);

impl Script {
    pub(super) fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    pub(super) fn has_faults(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn met(&self) -> u32 {
        self.0.iter().map(|fault| fault.met.saturating_sub(fault.first).min(fault.times)).sum()
    }

    /// What an operation meets, with how often it was met before.
    pub(super) fn meet(&mut self, on: On, path: &str, range: &Range<u64>) -> Vec<(What, u32)> {
        let mut met = Vec::new();
        for fault in self.0.iter_mut().filter(|fault| fault.fits(on, path, range)) {
            let turn = fault.met;
            fault.met += 1;
            if turn >= fault.first && turn - fault.first < fault.times {
                met.push((fault.what.clone(), turn - fault.first));
            }
        }
        met
    }
}

/// What is, what was done, and what goes wrong.
#[derive(Default)]
pub(super) struct State {
    pub tree: Tree,
    pub script: Script,
    pub mutations: Vec<(On, String)>,
    /// Requests that wait.
    blocked: u32,
    /// How often all faults were taken away.
    released: u64,
    /// How often what blocks was interrupted.
    interrupted: u64,
}

/// The state, shared by the test and those who answer the kernel.
#[derive(Default)]
pub(super) struct Stage {
    state: Mutex<State>,
    moved: Condvar,
}

/// What is left to do differently, when waiting, changing and failing are done.
#[derive(Default)]
pub(super) struct Odd {
    pub most: Option<u64>,
    pub claim: Option<u32>,
    pub seek: Option<Search>,
    pub list: Option<fn(&mut Vec<Listed>)>,
    pub grow: usize,
    pub looks: Vec<(Lie, u32)>,
}

impl Stage {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an operation on an inode: what goes wrong with it goes wrong here, as far as it is the same for all.
    pub(super) fn begin(&self, on: On, ino: u64, range: Range<u64>) -> Result<(MutexGuard<'_, State>, Odd), Errno> {
        let path = self.lock().tree.path_of(ino);
        self.begin_at(on, &path, Some(ino), range)
    }

    /// The same of an entry that need not exist.
    pub(super) fn begin_in(
        &self,
        on: On,
        parent: u64,
        name: &std::ffi::OsStr,
        range: Range<u64>,
    ) -> Result<MutexGuard<'_, State>, Errno> {
        let path = self.lock().tree.path_in(parent, name);
        self.begin_at(on, &path, None, range).map(|(state, _)| state)
    }

    fn begin_at(
        &self,
        on: On,
        path: &str,
        ino: Option<u64>,
        range: Range<u64>,
    ) -> Result<(MutexGuard<'_, State>, Odd), Errno> {
        let mut state = self.lock();
        if on.mutates() {
            state.mutations.push((on, path.to_owned()));
        }
        let mut odd = Odd::default();
        for (what, turn) in state.script.meet(on, path, &range) {
            match what {
                What::Fail(errno) => return Err(errno),
                What::LoseAndFail(errno) => {
                    state.tree.change(ino, Vec::clear);
                    return Err(errno);
                }
                What::Most(most) => odd.most = Some(most),
                What::Claim(count) => odd.claim = Some(count),
                What::Seek(seek) => odd.seek = Some(seek),
                What::List(list) => odd.list = Some(list),
                What::Grow(by) => odd.grow = by * (turn as usize + 1),
                What::Change(change) => state.tree.change(ino, change),
                What::Block => state = self.wait(state)?,
                What::Delay(time) => {
                    drop(state);
                    std::thread::sleep(time);
                    state = self.lock();
                }
                What::Look(look) => odd.looks.push((look, turn)),
            }
        }
        Ok((state, odd))
    }

    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Result<MutexGuard<'a, State>, Errno> {
        let before = (state.released, state.interrupted);
        state.blocked += 1;
        self.moved.notify_all();
        while before == (state.released, state.interrupted) {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.blocked -= 1;
        if state.released == before.0 { Err(Errno::INTR) } else { Ok(state) }
    }

    pub(super) fn interrupt(&self) {
        self.lock().interrupted += 1;
        self.moved.notify_all();
    }

    pub(super) fn release(&self) {
        let mut state = self.lock();
        state.script = Script::default();
        state.released += 1;
        self.moved.notify_all();
    }

    /// # Panics
    /// If nothing blocks in time.
    pub(super) fn wait_until_blocked(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        while state.blocked == 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "nothing has met the fault");
            state = self.moved.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
