//! What was made for which source file, so that names of one file stay names of one file: shared by all threads, and of
//! bounded size.
//!
//! The first thread that meets a source file claims it and makes the copy; every other that meets another name of it
//! waits until the copy is there, and then links to it. What is known afterwards is a record in [`Pages`], which take no
//! more memory than they were given and go on in a nameless file in the destination. Directories of the destination are
//! records as well, so nothing is kept in memory for each of them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};

use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Time};
use parking_lot::{Condvar, Mutex};

use super::dest_dir::{DestDir, Made};
use super::pages::{KEY, Key, Pages, Record};

/// Pages of 4 KiB in memory: 16 MiB, enough for about 150,000 files.
const PAGES_IN_MEMORY: usize = 4096;
/// Directories that are likely to be asked for again.
const RECENT: usize = 16;
/// So many directories are not looked through for those that nobody has any more.
const FEW_ALIVE: usize = 1024;

/// A source file. The inode number of one that is removed meanwhile may be given to another at once (seen on ext4); the
/// time at which it was made tells them apart, where the filesystem keeps that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source {
    /// Which file it is.
    pub id: FileId,
    /// When it was made, where the filesystem keeps that.
    pub born: Option<Time>,
}

impl From<&Inode> for Source {
    fn from(inode: &Inode) -> Source {
        Source { id: inode.id, born: inode.born }
    }
}

/// The answer to whoever meets a source file.
#[derive(Debug)]
pub enum Claim {
    /// Nobody has made it: the caller does, and then says so by [`LinkTable::complete`] or [`LinkTable::forget`]. Until
    /// then everybody else waits.
    First,
    /// It was made.
    Made(Made),
}

/// What was made for source files of several names, and for directories.
///
/// # Errors
/// Every method gives what the file of the table said, now or before: then nothing is known of any file.
#[derive(Debug)]
pub struct LinkTable {
    state: Mutex<State>,
    /// A claim came to its end.
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    pages: Pages,
    /// What is being made, by which thread: at most one for each.
    pending: HashMap<Source, Pending>,
    /// Directories that the user named.
    roots: HashMap<u32, Arc<DestDir>>,
    recent: VecDeque<(u32, Arc<DestDir>)>,
    /// Directories that somebody has in memory, so that nobody makes the way to them a second time: it may be long.
    alive: HashMap<u32, Weak<DestDir>>,
    /// How many of these there are before those that nobody has any more are looked for.
    enough_alive: usize,
    directories: u32,
    /// A thread panicked.
    abandoned: bool,
    /// The pages are not to be trusted any more, and why.
    broken: Option<Errno>,
}

#[derive(Debug)]
struct Pending {
    made: Made,
    by: ThreadId,
    /// Threads that wait for it.
    #[cfg(test)]
    waiting: usize,
}

impl Default for LinkTable {
    fn default() -> LinkTable {
        LinkTable::new(PAGES_IN_MEMORY)
    }
}

#[allow(clippy::missing_errors_doc)] // said once, above
impl LinkTable {
    /// An empty table with so many pages of 4 KiB in memory, at least one.
    pub fn new(pages_in_memory: usize) -> LinkTable {
        LinkTable::with(Pages::new(pages_in_memory))
    }

    /// An empty table that writes nothing anywhere, however large it grows.
    pub fn in_memory() -> LinkTable {
        LinkTable::with(Pages::unlimited())
    }

    fn with(pages: Pages) -> LinkTable {
        LinkTable {
            state: Mutex::new(State {
                pages,
                pending: HashMap::new(),
                roots: HashMap::new(),
                recent: VecDeque::new(),
                alive: HashMap::new(),
                enough_alive: 0,
                directories: 0,
                abandoned: false,
                broken: None,
            }),
            ended: Condvar::new(),
        }
    }

    /// A name of this source file was met; `made` is what the caller would make. Waits while another thread makes it.
    ///
    /// A thread has at most one claim that is neither completed nor forgotten; so there is always one that goes on.
    ///
    /// # Errors
    /// EDEADLK if the caller itself is just making it. After any other this file cannot be copied with its links.
    pub fn claim(&self, source: Source, made: impl FnOnce() -> Made) -> Result<Claim, Errno> {
        let mut state = self.state.lock();
        // Once a thread has panicked, whoever makes it may never come back, and the run has failed.
        while !state.abandoned
            && let Some(pending) = state.pending.get(&source)
        {
            if pending.by == thread::current().id() {
                return Err(Errno::DEADLK);
            }
            #[cfg(test)]
            state.pending.entry(source).and_modify(|pending| pending.waiting += 1);
            self.ended.wait(&mut state);
        }
        match state.guarded(|state| state.found(source))? {
            Some(made) => Ok(Claim::Made(made)),
            None => {
                let pending = Pending {
                    made: made(),
                    by: thread::current().id(),
                    #[cfg(test)]
                    waiting: 0,
                };
                state.pending.insert(source, pending);
                Ok(Claim::First)
            }
        }
    }

    /// What was claimed stands at its place now and is this file: the one that its name leads to in the way in which
    /// whoever links to it will look at it. After an error its other names will not be linked, which they report themselves.
    pub fn complete(&self, source: Source, dest: FileId) -> Result<(), Errno> {
        let mut state = self.state.lock();
        let Some(Pending { made, .. }) = state.pending.remove(&source) else { return Ok(()) };
        self.ended.notify_all();
        let made = Made { id: Some(dest), ..made };
        state.guarded(|state| state.insert(source, &made))
    }

    /// What was claimed was made before, by another process: this. Whoever waits for it here is notified.
    pub fn was_made_elsewhere(&self, source: Source, made: &Made) -> Result<(), Errno> {
        let mut state = self.state.lock();
        state.pending.remove(&source);
        self.ended.notify_all();
        state.guarded(|state| state.insert(source, made))
    }

    /// What was claimed or remembered could not be made. One of those who wait for it makes it instead.
    pub fn forget(&self, source: Source) -> Result<(), Errno> {
        let mut state = self.state.lock();
        if state.pending.remove(&source).is_some() {
            self.ended.notify_all();
            return Ok(());
        }
        state.guarded(|state| state.pages.remove(&key_of(source))).map(drop)
    }

    /// This file, which was made for the source, takes no more names: the next claim makes another one. Nothing happens where
    /// another one is made or remembered already.
    pub fn forget_if(&self, source: Source, dest: Option<FileId>) -> Result<(), Errno> {
        self.state.lock().guarded(|state| {
            let is_it = state.found(source)?.is_some_and(|made| made.id == dest);
            if is_it { state.pages.remove(&key_of(source)).map(drop) } else { Ok(()) }
        })
    }

    /// A thread panicked: nobody waits for what it was making.
    pub fn abandon(&self) {
        self.state.lock().abandoned = true;
        self.ended.notify_all();
    }

    /// What was made for this source, or is being made. Waits for nobody.
    pub fn get(&self, source: Source) -> Result<Option<Made>, Errno> {
        self.state.lock().guarded(|state| state.get(source))
    }

    /// Remembers what is about to be made for this source, unless something was made for it already: then that. For
    /// directories: nobody waits for them.
    pub fn remember(&self, source: Source, made: impl FnOnce() -> Made) -> Result<Option<Made>, Errno> {
        self.state.lock().guarded(|state| {
            let earlier = state.get(source)?;
            if earlier.is_none() {
                state.insert(source, &made())?;
            }
            Ok(earlier)
        })
    }
}

impl State {
    /// Does something with the pages. After an error they are not used any more: a record may be missing, and its file
    /// would be taken for one that was never met.
    fn guarded<T>(&mut self, act: impl FnOnce(&mut State) -> Result<T, Errno>) -> Result<T, Errno> {
        if let Some(errno) = self.broken {
            return Err(errno);
        }
        act(self).inspect_err(|errno| self.broken = Some(*errno))
    }

    fn found(&mut self, source: Source) -> Result<Option<Made>, Errno> {
        match self.pages.get(&key_of(source))? {
            Some(record) => self.made(&record).map(Some),
            None => Ok(None),
        }
    }

    fn get(&mut self, source: Source) -> Result<Option<Made>, Errno> {
        if let Some(pending) = self.pending.get(&source) {
            return Ok(Some(pending.made.clone()));
        }
        self.found(source)
    }

    fn insert(&mut self, source: Source, made: &Made) -> Result<(), Errno> {
        let dir = self.number_of(&made.dir)?;
        let record = Record { key: key_of(source), dir, name: made.name.clone(), id: made.id };
        self.put(&record, &made.dir)
    }

    fn put(&mut self, record: &Record, dir: &DestDir) -> Result<(), Errno> {
        self.pages.put(record, dir.top()?)
    }

    fn made(&mut self, record: &Record) -> Result<Made, Errno> {
        let dir = self.directory(record.dir)?;
        Ok(Made { dir, name: record.name.clone(), id: record.id })
    }

    /// The number of a directory. It gets one, and a record, if it has none; so do those above it.
    fn number_of(&mut self, dir: &Arc<DestDir>) -> Result<u32, Errno> {
        let mut unknown = Vec::new();
        let mut next = Some(dir);
        let mut number = None;
        while let Some(dir) = next {
            number = dir.number();
            if number.is_some() {
                break;
            }
            unknown.push(dir);
            next = dir.above();
        }
        for dir in unknown.into_iter().rev() {
            let own = self.directories.checked_add(1).ok_or(Errno::NOMEM)?;
            match number {
                None => {
                    self.roots.insert(own, Arc::clone(dir));
                }
                Some(above) => {
                    let (key, name) = (key_of_directory(own), dir.name().to_owned());
                    let record = Record { key, dir: above, name, id: Some(dir.id) };
                    self.put(&record, dir)?;
                }
            }
            self.directories = own;
            dir.set_number(own);
            self.keep(own, dir);
            number = Some(own);
        }
        number.ok_or(Errno::STALE)
    }

    /// The directory of this number, from its record and those above it.
    fn directory(&mut self, number: u32) -> Result<Arc<DestDir>, Errno> {
        let mut missing = Vec::new();
        let mut at = number;
        let mut dir = loop {
            let known = self.alive.get(&at).and_then(Weak::upgrade);
            if let Some(dir) = known.or_else(|| self.roots.get(&at).cloned()) {
                break dir;
            }
            let record = self.pages.get(&key_of_directory(at))?.ok_or(Errno::STALE)?;
            missing.push((at, record.name, record.id.ok_or(Errno::STALE)?));
            at = record.dir;
        };
        for (number, name, id) in missing.into_iter().rev() {
            dir = dir.known_below(&name, id);
            dir.set_number(number);
            self.alive.insert(number, Arc::downgrade(&dir));
        }
        self.keep(number, &dir);
        Ok(dir)
    }

    fn keep(&mut self, number: u32, dir: &Arc<DestDir>) {
        if self.recent.iter().any(|(known, _)| *known == number) {
            return;
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((number, Arc::clone(dir)));
        self.alive.insert(number, Arc::downgrade(dir));
        if self.alive.len() > self.enough_alive {
            self.alive.retain(|_, dir| dir.strong_count() > 0);
            self.enough_alive = (2 * self.alive.len()).max(FEW_ALIVE);
        }
    }
}

fn key_of(source: Source) -> Key {
    let mut key = [0; KEY];
    key[0] = b'f';
    key[1..17].copy_from_slice(&source.id.to_bytes());
    if let Some(born) = source.born {
        key[17..25].copy_from_slice(&born.seconds.to_ne_bytes());
        key[25..].copy_from_slice(&born.nanoseconds.to_ne_bytes());
    }
    key
}

fn key_of_directory(number: u32) -> Key {
    let mut key = [0; KEY];
    key[0] = b'd';
    key[1..5].copy_from_slice(&number.to_ne_bytes());
    key
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
