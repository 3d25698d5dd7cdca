//! Several workers at one file: its ranges are cut into pieces that each worker moves with an engine of its own.
//!
//! Pieces are taken in order and end in any. What counts is the exact contiguous prefix: a piece behind one that failed, was
//! refused or found the end of the source has been written perhaps, and is as good as not.

use std::collections::BTreeMap;
use std::thread::{self, Scope};
use std::time::Instant;

use haul_sys::{Errno, memory};
use parking_lot::{Condvar, Mutex};

use super::contract::{End, Engine, FailedOn, Job, Side, Zeros};
use super::transfer::failed;
use crate::moved::Moved;
use crate::tuner::{Load, Meter, Tuner};

/// Pieces that may be done while the one before them is not: then the workers wait, so that memory stays bounded.
const AHEAD: usize = 4096;

/// What a worker may take where memory is limited, in bytes: its stack, and a buffer that does with less.
const MEMORY: u64 = 8 << 20;

/// A range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// There may be data.
    Data {
        /// First byte.
        offset: u64,
        /// Bytes, at least one.
        len: u64,
    },
    /// It reads as zeros and needs no space.
    Hole {
        /// First byte.
        offset: u64,
        /// Bytes, at least one.
        len: u64,
    },
}

impl Extent {
    /// The byte after its last one.
    pub fn end(self) -> u64 {
        let (Extent::Data { offset, len } | Extent::Hole { offset, len }) = self;
        offset + len
    }
}

/// Is asked and notified while a file is being moved, by any of the workers.
pub trait Watch: Sync {
    /// Whether so many bytes at this offset may be moved now. May wait for its turn. `false` ends the work here.
    fn may_move(&self, offset: u64, len: u64) -> bool;

    /// The prefix has grown by `moved` and reaches up to `to`. Calls come one at a time and in order.
    fn advanced(&self, to: u64, moved: Moved);
}

/// Who works, on what, and how.
pub struct FileWorkers<'a> {
    /// Makes a worker's engine.
    pub make: &'a (dyn Fn() -> Box<dyn Engine> + Sync),
    /// From here.
    pub source: &'a Side,
    /// To here.
    pub dest: &'a Side,
    /// What to do with runs of zeros.
    pub zeros: Zeros,
    /// Bytes of a piece; pieces begin at multiples of it, where the ranges allow.
    pub piece: u64,
    /// How many workers.
    pub tuner: Tuner,
    /// Is asked and notified.
    pub watch: &'a dyn Watch,
}

/// Why the work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// As a single job would have ended.
    End(End),
    /// The watch said no.
    Forbidden,
}

/// How far the work came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// The end of the prefix.
    pub at: u64,
    /// Bytes of the prefix, holes of the source included.
    pub moved: Moved,
    /// Why it ended there.
    pub stopped: Stopped,
    /// Most workers that there were.
    pub workers: usize,
    /// Something behind the prefix may have been written: the destination may be longer than it should.
    pub beyond: bool,
}

impl FileWorkers<'_> {
    /// Moves the data of these extents, which are in order and without gaps; the first begins at `from`.
    pub fn run(&self, from: u64, ranges: &mut (dyn Iterator<Item = Result<Extent, Errno>> + Send)) -> Ran {
        let shared = Shared {
            workers: self,
            began: Instant::now(),
            state: Mutex::new(State {
                ranges,
                left: None,
                given: from,
                done: BTreeMap::new(),
                at: from,
                moved: Moved::default(),
                stopped: None,
                no_more: false,
                meter: Meter::new(self.piece),
                tuner: self.tuner.clone(),
                started: 1,
            }),
            changed: Condvar::new(),
        };
        thread::scope(|scope| {
            shared.spawn(scope);
            shared.work(scope, 0);
        });
        let state = shared.state.into_inner();
        let mut stopped = state.stopped.unwrap_or(Stopped::End(End::Complete));
        // An error behind a refusal is as final as any: the next engine must not try that place again.
        let failure = state.done.values().map(|(_, stopped)| *stopped).find(|stopped| is_failure(*stopped));
        if let (Stopped::End(End::Refused(_)), Some(failure)) = (stopped, failure) {
            stopped = failure;
        }
        Ran { at: state.at, moved: state.moved, stopped, workers: state.started, beyond: !state.done.is_empty() }
    }
}

fn is_failure(stopped: Stopped) -> bool {
    matches!(stopped, Stopped::End(End::Failed(_)))
}

/// What the workers share.
struct Shared<'a, 'i> {
    workers: &'a FileWorkers<'a>,
    began: Instant,
    state: Mutex<State<'i>>,
    changed: Condvar,
}

struct State<'i> {
    ranges: &'i mut (dyn Iterator<Item = Result<Extent, Errno>> + Send),
    /// What is left of the range in hand.
    left: Option<(u64, u64)>,
    /// Everything before this offset was given out or is a hole.
    given: u64,
    /// Pieces that are done, or holes, by their offset, as far as they are ahead of the prefix.
    done: BTreeMap<u64, (Moved, Stopped)>,
    at: u64,
    moved: Moved,
    /// Why the prefix ends, once it does.
    stopped: Option<Stopped>,
    /// No piece is given out any more.
    no_more: bool,
    meter: Meter,
    tuner: Tuner,
    /// Workers started so far.
    started: usize,
}

impl<'i> Shared<'_, 'i> {
    /// Starts the workers that are wanted and not there yet.
    fn spawn<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        loop {
            let index = {
                let mut state = self.state.lock();
                if state.no_more || state.started >= state.tuner.level() {
                    return;
                }
                state.started += 1;
                state.started - 1
            };
            let spawned = memory::has_room_for_thread(MEMORY)
                && thread::Builder::new().spawn_scoped(scope, move || self.work(scope, index)).is_ok();
            if !spawned {
                // No thread to be had: those that are there do it.
                let mut state = self.state.lock();
                state.started -= 1;
                state.tuner = Tuner::of_file(state.started, state.started);
                return;
            }
        }
    }

    fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, index: usize) {
        let workers = self.workers;
        let _alarm = Alarm(self);
        let mut engine = None;
        while let Some((offset, len)) = self.next(index) {
            if !workers.watch.may_move(offset, len) {
                self.done(offset, Moved::default(), Stopped::Forbidden, 0);
                continue;
            }
            let (source, dest) = (workers.source.clone(), workers.dest.clone());
            let job = Job { source, dest, offset, len, zeros: workers.zeros };
            let engine = engine.get_or_insert_with(workers.make);
            let outcome = engine.run(&job);
            if self.done(offset, outcome.moved, Stopped::End(outcome.end), len) {
                self.spawn(scope);
            }
        }
    }

    /// The next piece for this worker; waits while it is not wanted or too far ahead.
    fn next(&self, index: usize) -> Option<(u64, u64)> {
        let mut state = self.state.lock();
        loop {
            if state.no_more {
                return None;
            }
            // Of those who wait the first goes on, or nobody would.
            if index < state.tuner.level() && state.done.len() < AHEAD {
                break;
            }
            self.changed.wait(&mut state);
        }
        let piece = state.cut(self.workers.piece);
        state.advance(self.workers.watch);
        if state.no_more {
            self.changed.notify_all();
        }
        piece
    }

    /// A piece has ended; whether another worker is wanted.
    fn done(&self, offset: u64, moved: Moved, stopped: Stopped, len: u64) -> bool {
        let mut state = self.state.lock();
        let active = state.tuner.level();
        // Less was moved than asked for, whatever the engine says: nothing behind it counts.
        let stopped = match stopped {
            Stopped::End(End::Complete) if moved.total() < len => Stopped::End(failed(FailedOn::Copy, Errno::IO)),
            stopped => stopped,
        };
        state.no_more |= stopped != Stopped::End(End::Complete);
        let waited_for = offset == state.at || state.no_more;
        let crowded = state.done.len() >= AHEAD;
        state.done.insert(offset, (moved, stopped));
        state.advance(self.workers.watch);
        if let Some(rate) = state.meter.moved(moved.total(), self.began.elapsed()) {
            state.tuner.measured(rate, Load::Low);
        }
        let wanted = state.tuner.level();
        if (waited_for && crowded) || wanted > active || state.no_more {
            self.changed.notify_all();
        }
        wanted > state.started
    }
}

/// Lets the others stop when a worker panics: nobody will do its piece. The scope of the threads passes the panic on.
struct Alarm<'d, 'a, 'i>(&'d Shared<'a, 'i>);

impl Drop for Alarm<'_, '_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.state.lock().no_more = true;
            self.0.changed.notify_all();
        }
    }
}

impl State<'_> {
    /// Takes the next piece off the ranges. Holes on the way are done at once.
    fn cut(&mut self, piece: u64) -> Option<(u64, u64)> {
        loop {
            if let Some((offset, len)) = self.left.take() {
                // Up to the next multiple, so that a first odd piece sets the others right.
                let first = (piece - offset % piece).min(len);
                if first < len {
                    self.left = Some((offset + first, len - first));
                }
                self.given = offset + first;
                return Some((offset, first));
            }
            match self.ranges.next() {
                None => {
                    self.no_more = true;
                    return None;
                }
                // The source has changed. Nobody would come as far as what is behind the gap.
                Some(Ok(Extent::Data { offset, .. } | Extent::Hole { offset, .. })) if offset != self.given => {
                    self.no_more = true;
                    return None;
                }
                Some(Ok(Extent::Data { offset, len })) => self.left = Some((offset, len)),
                Some(Ok(Extent::Hole { offset, len })) => {
                    let moved = Moved { holes: len, ..Moved::default() };
                    self.done.insert(offset, (moved, Stopped::End(End::Complete)));
                    self.given = offset + len;
                }
                Some(Err(errno)) => {
                    let end = failed(FailedOn::Read, errno);
                    self.done.insert(self.given, (Moved::default(), Stopped::End(end)));
                    self.no_more = true;
                    return None;
                }
            }
        }
    }

    /// Lets the prefix grow over everything that is done right behind it.
    fn advance(&mut self, watch: &dyn Watch) {
        let mut grown = Moved::default();
        while self.stopped.is_none()
            && let Some((moved, stopped)) = self.done.remove(&self.at)
        {
            grown += moved;
            self.at += moved.total();
            if stopped != Stopped::End(End::Complete) {
                self.stopped = Some(stopped);
                self.no_more = true;
            }
        }
        if grown.total() > 0 {
            self.moved += grown;
            watch.advanced(self.at, grown);
        }
    }
}
