//! Where batches of names wait for whoever takes them: a thread of this process or another process.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use haul_io::transfer::Buffers;
use haul_sys::inode::{DeviceNumber, FileId, Inode};
use parking_lot::{Condvar, Mutex};

use crate::walk::{PathNode, path_below};

use super::entry::{Outcome, Rules};
use super::names::{Word, Work};
use super::row::{Answer, Compared, Part, bit};
use super::wire::{Directory, Note, Reply, WorkUnit, decode, encode};

/// Both directories, open.
pub(super) struct Sides {
    pub(super) source: Side,
    pub(super) copy: Side,
}

/// One of them.
pub(super) struct Side {
    pub(super) fd: OwnedFd,
    pub(super) inode: Inode,
    pub(super) path: Arc<PathNode>,
    /// The directory that the user named, and the filesystem that it is on.
    pub(super) operand: Arc<(PathBuf, DeviceNumber)>,
}

impl Side {
    /// Its path below the operand.
    fn below(&self) -> OsString {
        path_below(&self.operand.0, &self.path.path()).into()
    }

    /// As another process gets to know it.
    fn described(&self) -> Directory {
        let (operand, device) = &*self.operand;
        Directory {
            path: self.path.path().into_os_string(),
            inode: self.inode.id.inode(),
            born: self.inode.born.map(Into::into),
            operand: (self.inode.id.device() == *device).then(|| operand.clone().into_os_string()),
        }
    }
}

/// Names to be compared by whoever takes them.
pub(super) struct Batch {
    pub(super) sides: Arc<Sides>,
    /// Its position in the row.
    pub(super) slot: u64,
    /// Names of the copy, of which only those count that the source lacks.
    pub(super) of_copy: bool,
    /// With the position of each in the batch as it was made.
    pub(super) names: Vec<(usize, OsString)>,
    pub(super) answer: Sender<Answer>,
}

impl Batch {
    /// The names from this one on, which this batch has no more.
    fn split_off(&mut self, from: usize) -> Batch {
        let rest = self.names.split_off(from);
        self.with(rest)
    }

    /// Another part of the same batch.
    pub(super) fn with(&self, names: Vec<(usize, OsString)>) -> Batch {
        let (sides, answer) = (Arc::clone(&self.sides), self.answer.clone());
        Batch { sides, slot: self.slot, of_copy: self.of_copy, names, answer }
    }

    fn say(&self, names: usize, entries: u64, reports: Vec<(usize, Compared)>, directories: u32) {
        // Nobody listens if the walk has panicked.
        self.answer.send(Answer::Part(Part { slot: self.slot, names, entries, reports, directories })).ok();
    }

    /// Two files that a helper has found to be the same, one of which may have other names.
    fn same(&self, at: usize, (one, other): (u64, u64)) -> Option<(usize, Compared)> {
        let (position, name) = self.names.get(at)?;
        let Sides { source, copy } = &*self.sides;
        let id = |side: &Side, inode: u64| FileId::new(side.inode.id.device(), inode);
        let compared = Compared {
            source: source.path.below(name),
            copy: copy.path.below(name),
            outcome: Outcome { links: Some((id(source, one), id(copy, other))), ..Outcome::default() },
        };
        Some((*position, compared))
    }
}

/// Names that wait to be compared. With a board in its [`Session`](super::Session), a comparison is also the work of other
/// processes: the front end takes names from it, brings them to a [`Helper`](super::Helper) elsewhere, and brings back what
/// that says. One comparison at a time uses a board.
#[derive(Default)]
pub struct Board {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Batch>,
    /// What others cannot do.
    for_own: VecDeque<Batch>,
    /// What others have, by the number that they know it by.
    away: HashMap<u64, Batch>,
    tokens: u64,
    closed: bool,
}

/// What a message of a helper means for who has brought it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// The helper is still at work.
    More,
    /// It has done with the names that it was given, and has compared so many entries.
    Done(u64),
}

impl Board {
    /// An empty one.
    pub fn new() -> Board {
        Board::default()
    }

    /// Names for a helper in another process, as a message for it; `None` if none wait now. It must be answered, or the
    /// comparison never ends. Never blocks.
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        let batch = state.waiting.pop_front()?;
        state.tokens += 1;
        let token = state.tokens;
        let unit = WorkUnit {
            token,
            of_copy: batch.of_copy,
            source: batch.sides.source.described(),
            copy: batch.sides.copy.described(),
            below: batch.sides.source.below(),
            names: batch.names.iter().map(|(_, name)| name.clone()).collect(),
        };
        state.away.insert(token, batch);
        Some(encode(&unit))
    }

    /// A message of a helper. `None` if it makes no sense: names are lost then, and the comparison never ends. Never blocks.
    /// What comes after the end of the comparison is dropped.
    pub fn hear(&self, message: &[u8]) -> Option<Heard> {
        let reply = decode::<Reply>(message)?;
        let mut state = self.state.lock();
        if state.closed {
            return Some(Heard::Done(0));
        }
        match reply {
            Reply::Rest { token, from } => {
                let batch = state.away.get_mut(&token)?;
                let from = usize::try_from(from).ok().filter(|from| (1..batch.names.len()).contains(from))?;
                let rest = batch.split_off(from);
                state.waiting.push_front(rest);
                self.filled.notify_one();
                Some(Heard::More)
            }
            Reply::Cannot { token } => {
                let batch = state.away.remove(&token)?;
                drop(state);
                self.put_for_own(batch);
                Some(Heard::Done(0))
            }
            Reply::Done { token, entries, notes } => {
                let mut batch = state.away.remove(&token)?;
                let (mut reports, mut undone) = (Vec::new(), Vec::new());
                for Note { at, links } in notes {
                    let at = usize::try_from(at).ok()?;
                    match links {
                        Some(links) => reports.push(batch.same(at, links)?),
                        None => undone.push(batch.names.get(at)?.clone()),
                    }
                }
                batch.say(batch.names.len().checked_sub(undone.len())?, entries, reports, 0);
                if !undone.is_empty() {
                    batch.names = undone;
                    drop(state);
                    self.put_for_own(batch);
                }
                Some(Heard::Done(entries))
            }
        }
    }

    /// Batches that others have.
    pub(super) fn away(&self) -> usize {
        self.state.lock().away.len()
    }

    pub(super) fn put(&self, batch: Batch) {
        self.state.lock().waiting.push_back(batch);
        self.filled.notify_one();
    }

    /// For the threads of this process alone.
    pub(super) fn put_for_own(&self, batch: Batch) {
        self.state.lock().for_own.push_back(batch);
        self.filled.notify_one();
    }

    /// To where it came from.
    fn put_back(&self, batch: Batch, for_own: bool) {
        let mut state = self.state.lock();
        let queue = if for_own { &mut state.for_own } else { &mut state.waiting };
        queue.push_front(batch);
        self.filled.notify_one();
    }

    /// Nothing more is compared; whatever is left is dropped.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        *state = State { closed: true, tokens: state.tokens, ..State::default() };
        self.filled.notify_all();
    }

    /// As it was before the first comparison.
    pub(super) fn open(&self) {
        self.state.lock().closed = false;
    }

    /// Waits for the next batch, and whether it is for this process alone; `None` once there are no more.
    fn next(&self) -> Option<(Batch, bool)> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(batch) = state.for_own.pop_front() {
                return Some((batch, true));
            }
            if let Some(batch) = state.waiting.pop_front() {
                return Some((batch, false));
            }
            self.filled.wait(&mut state);
        }
    }

    /// What a thread of this process does until there is nothing left.
    pub(super) fn work(&self, rules: &Rules<'_>, answer: Sender<Answer>) {
        let _alarm = Alarm(answer);
        let mut buffers = Buffers::new();
        while let Some((mut batch, for_own)) = self.next() {
            let names: Vec<OsString> = batch.names.iter().map(|(_, name)| name.clone()).collect();
            let names: Vec<&OsStr> = names.iter().map(OsString::as_os_str).collect();
            let (mut entries, mut reports, mut directories) = (0, Vec::new(), 0);
            let sides = Arc::clone(&batch.sides);
            let paths = (sides.source.path.path(), sides.copy.path.path());
            let work = Work {
                rules,
                source: (sides.source.fd.as_fd(), &paths.0),
                copy: (sides.copy.fd.as_fd(), &paths.1),
                below: path_below(&sides.source.operand.0, &paths.0),
                of_copy: batch.of_copy,
                only_on: None,
            };
            work.go_through(&names, &mut buffers, &mut |word| match word {
                Word::RestFrom(from) => self.put_back(batch.split_off(from), for_own),
                Word::Elsewhere(_) => {}
                Word::Found(at, outcome) => {
                    entries += 1;
                    if outcome.directories {
                        directories |= bit(batch.names[at].0);
                    }
                    if outcome.matters() {
                        let (position, name) = &batch.names[at];
                        let (source, copy) = (sides.source.path.below(name), sides.copy.path.below(name));
                        reports.push((*position, Compared { source, copy, outcome }));
                    }
                }
            });
            let names = batch.names.len();
            drop(sides);
            batch.say(names, entries, reports, directories);
        }
    }
}

/// Reports to the walk that a thread has panicked: it would wait for ever for what that had.
struct Alarm(Sender<Answer>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // It may have panicked, too.
            self.0.send(Answer::Broken).ok();
        }
    }
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;
