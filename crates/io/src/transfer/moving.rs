//! One file while its data is being moved: each engine goes on at the exact byte where the one before refused.

use std::os::fd::AsFd;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::kernel::{Kernel, Linux};
use haul_sys::rustix::fs::{Advice, fadvise, ftruncate};
use haul_sys::rustix::io::retry_on_intr;

use crate::engine::parallel::{FileWorkers, Ran, Stopped};
use crate::engine::{End, Engine, EngineName, FailedOn, Failure, Job, Outcome, Refusal, Side, Zeros};
use crate::moved::Moved;
use crate::pace::Work;
use crate::ranges::{Extent, Extents};
use crate::tuner::Tuner;
use parking_lot::Mutex;

use super::drop_behind::DropBehind;
use super::engines::Engines;
use super::job::Transfer;
use super::last_bytes::LAST_BYTES;
use super::pieces::{Monitor, Ranges as PieceRanges, Trailing, piece_of, unit_of};
use super::pseudo_file::has_storage;
use super::readahead::{ReadAhead, Trial};
use super::report::{Cause, Stop, Tried};
use super::shared_range::SharedRange;
use super::sides::{open_for_direct, side};
use super::throttled::{CANCELLED, Throttled};
use super::unwritten::Sending;
use crate::control::Control;
use crate::options::DataOptions;
use crate::strategy::{self, DataFacts, Ranges, Steps};

/// No file is longer, and the kernel refuses requests that reach beyond it (EINVAL, EFBIG).
const END_OF_OFFSETS: u64 = i64::MAX as u64;

/// How far a cold source is read ahead where the user does not say it: enough for several requests of the device.
const COLD_WINDOW: u64 = 8 << 20;

pub struct Moving<'a> {
    pub job: &'a Transfer<'a>,
    pub control: Control<'a>,
    source: Side,
    dest: Side,
    pub steps: &'a Arc<Steps>,
    zeros: Zeros,
    read_ahead: Option<ReadAhead>,
    pub tried: Vec<Tried>,
    /// Engines that said they can do nothing for these two files.
    pub useless: Vec<EngineName>,
    pub moved: Moved,
    /// Bytes of it that other processes have copied.
    elsewhere: u64,
    behind: Option<DropBehind>,
    sending: Option<Sending>,
    /// The destination has got a size of its own, or bytes behind the end: it is set right when all is moved.
    ragged: bool,
    /// Most workers that there were.
    pub workers: usize,
    /// How far workers have come together.
    reached: u64,
}

/// How far a range got.
enum Reached {
    End,
    SourceEnd(u64),
}

impl<'a> Moving<'a> {
    pub fn new(
        job: &'a Transfer<'a>,
        control: Control<'a>,
        facts: &DataFacts,
        steps: &'a Arc<Steps>,
        options: &DataOptions,
        (trial, sending): (&Arc<Trial>, Option<Sending>),
    ) -> Moving<'a> {
        let seekable = facts.seekable && steps.ranges != Ranges::Stream;
        // What comes as a stream can still leave holes in a file.
        let dest_seekable = seekable || (job.dest_inode.kind == Kind::Regular && steps.find_zeros);
        let zeros = match steps.find_zeros {
            true if job.dest_inode.kind == Kind::Regular => Zeros::Skip(hole_block(facts.dest_block)),
            _ => Zeros::Write,
        };
        let mut source = side(&job.source, job.source_inode, seekable);
        // Its size is one that a read can meet.
        let plain = job.source_inode.kind == Kind::Regular && has_storage(job.source_inode) && !facts.pseudo_file;
        source.size = plain.then_some(job.source_inode.size);
        source.elsewhere.clone_from(&job.elsewhere);
        if source.elsewhere.is_some() {
            // Advice: what is read here are parts with others between them, and what the kernel reads ahead others read, too.
            fadvise(&job.source, 0, None, Advice::Random).ok();
        }
        let mut dest = side(&job.dest, job.dest_inode, dest_seekable);
        open_for_direct(&mut source, &mut dest, steps, facts);
        let forget = (steps.forget_source && seekable).then_some((
            &job.source,
            facts.size,
            facts.around.and_then(|around| around.cached),
        ));
        let send = (steps.send_dest && dest_seekable).then_some(&job.dest);
        Moving {
            job,
            control,
            source,
            dest,
            steps,
            zeros,
            read_ahead: match options.readahead {
                _ if !seekable || job.elsewhere.is_some() => None,
                Some(window) => Some(ReadAhead::new(window)),
                None => steps.read_ahead.then(|| ReadAhead::on_trial(COLD_WINDOW, trial)),
            },
            tried: Vec::with_capacity(2),
            useless: Vec::new(),
            moved: Moved::default(),
            elsewhere: 0,
            behind: if steps.forget_source || steps.send_dest { DropBehind::new(forget, send) } else { None },
            // What goes to the device as it is, or leaves no pages, is not waited for twice.
            sending: sending
                .filter(|_| !steps.send_dest && steps.first_mover().is_some_and(|name| !name.caps().leaves_no_pages())),
            ragged: false,
            workers: 1,
            reached: 0,
        }
    }

    pub fn run(&mut self, engines: &mut Engines) -> Result<(), Stop> {
        let cloned = match self.steps.cloning_first() {
            Some(name) if !self.useless.contains(&name) => self.clone_whole(engines, name)?,
            _ => None,
        };
        let end = match (cloned, self.steps.ranges) {
            (Some(end), _) => end,
            (None, ranges) => {
                self.allocate();
                match ranges {
                    Ranges::Stream => self.move_to_end(engines, 0)?,
                    _ if self.steps.workers.most > 1 || self.may_be_shared() => self.move_together(engines)?,
                    Ranges::Extents => self.move_extents(engines)?,
                    Ranges::Whole => self.move_to_end(engines, self.job.start)?,
                }
            }
        };
        self.complete(end)
    }

    /// All data is there, up to this size.
    pub fn complete(&mut self, end: u64) -> Result<(), Stop> {
        if let Some(read_ahead) = &mut self.read_ahead {
            read_ahead.reached(end);
        }
        if self.job.dest_inode.kind == Kind::Regular && (self.moved.holes > 0 || self.ragged) {
            self.set_size(end)?;
        }
        if let Some(follower) = self.job.follower {
            follower.whole(end, self.behind.is_some());
        }
        self.trail().reached(end);
        if let Some(sending) = &self.sending {
            sending.end();
        }
        match &self.behind {
            Some(behind) => behind.tidy(true).map_err(|errno| failed(Failure { on: FailedOn::Write, errno })),
            None => Ok(()),
        }
    }

    fn trail(&self) -> Trailing<'_> {
        Trailing {
            follower: self.job.follower,
            checkpoints: self.job.checkpoints,
            behind: self.behind.as_ref(),
            sending: self.sending.as_ref(),
        }
    }

    /// Takes the space of the file but for its last byte (see [`LAST_BYTES`]), where that was chosen. Whether there is enough
    /// of it the writes will tell.
    fn allocate(&mut self) {
        let space = self.job.source_inode.size.saturating_sub(1);
        if !self.steps.preallocate || self.job.dest_inode.kind != Kind::Regular || space == 0 {
            return;
        }
        self.ragged = true;
        if Linux.allocate(self.job.dest.as_fd(), 0, space).is_err() {
            // What was allocated before it failed would stay. A file that cannot even be emptied cannot be written either,
            // and that is where the error is to be met.
            retry_on_intr(|| ftruncate(&self.job.dest, self.job.start)).ok();
        }
    }

    /// After a failure: takes away what stands behind the last byte that counts. Allocated space and pieces that were ahead
    /// would make a destination that is kept look whole.
    pub fn cut(&self) {
        if let Some(sending) = &self.sending {
            sending.abandon();
        }
        if self.job.dest_inode.kind == Kind::Regular {
            // The copy has failed already, and that is what is reported. For the look see `set_size`.
            Inode::now(self.job.dest.as_fd()).ok();
            retry_on_intr(|| ftruncate(&self.job.dest, self.job.start + self.moved.total())).ok();
        }
    }

    /// Up to where several workers move it: the rest is moved by one when all else is there.
    fn end_for_many(&self) -> u64 {
        self.job.source_inode.size.saturating_sub(1) / LAST_BYTES * LAST_BYTES
    }

    /// Whether other processes may help with it.
    fn may_be_shared(&self) -> bool {
        self.job.shared_range(self.job.start, self.end_for_many()).is_some()
    }

    /// Moves everything by several workers, and with the help of other processes, as far as the size was seen, then whatever
    /// the source has grown by meanwhile. Returns the size reached.
    fn move_together(&mut self, engines: &mut Engines) -> Result<u64, Stop> {
        let job = self.job;
        let Some(shared) = job.shared_range(job.start, self.end_for_many()) else {
            return match self.by_teams(None)? {
                Reached::SourceEnd(at) => Ok(at),
                Reached::End => {
                    let at = self.reached;
                    self.move_to_end(engines, at)
                }
            };
        };
        // What others write lies behind what is certain.
        self.ragged = true;
        let reached = self.by_teams(Some(&shared));
        // Also after a failure: nobody may write to a file that is about to be removed.
        let (left, elsewhere) = shared.collect();
        self.elsewhere += elsewhere;
        if let Reached::SourceEnd(at) = reached? {
            return Ok(at);
        }
        let by_extents = self.steps.ranges == Ranges::Extents;
        if by_extents && self.reached < shared.front() {
            // The extents ended early, as those of a file do that has shrunk: what others have done may lie behind its end.
            return self.move_extents_from(engines, self.reached);
        }
        for (offset, len) in left {
            let reached = match by_extents {
                true => match self.move_extents_between(engines, offset, offset + len)? {
                    (Reached::End, end) if end < offset + len => return self.move_to_end(engines, end),
                    (reached, _) => reached,
                },
                false => self.move_range(engines, offset, len)?,
            };
            if let Reached::SourceEnd(at) = reached {
                return Ok(at);
            }
        }
        let end = self.end_for_many();
        match self.steps.ranges {
            Ranges::Extents => self.move_extents_from(engines, end),
            _ => self.move_to_end(engines, end),
        }
    }

    /// Moves the file by teams of workers, each with another engine, from where the one before it was refused.
    fn by_teams(&mut self, shared: Option<&SharedRange<'_>>) -> Result<Reached, Stop> {
        let steps = self.steps;
        let mut at = self.job.start;
        let mut last = End::Complete;
        for &name in &steps.engines {
            if self.useless.contains(&name) {
                continue;
            }
            let ran = match shared {
                Some(shared) => {
                    shared.go_on_at(at);
                    self.team(
                        name,
                        at,
                        &mut PieceRanges::shared(shared, self.job.source.as_fd(), steps.ranges),
                        Some(shared),
                    )
                }
                None => {
                    let by_extents = steps.ranges == Ranges::Extents;
                    let end = if by_extents { self.job.source_inode.size } else { self.end_for_many() };
                    self.team(name, at, &mut PieceRanges::all(at, end, self.job.source.as_fd(), steps.ranges), None)
                }
            };
            at = ran.at;
            self.reached = at;
            match ran.stopped {
                Stopped::Forbidden => return Err(self.forbidden()),
                Stopped::End(End::Failed(CANCELLED)) if self.control.cancel.is_cancelled() => {
                    return Err(Stop::Cancelled);
                }
                Stopped::End(End::Complete) => return Ok(Reached::End),
                Stopped::End(End::SourceEnd) => return Ok(Reached::SourceEnd(at)),
                Stopped::End(End::Failed(failure)) => return Err(failed(failure)),
                Stopped::End(End::Refused(refusal)) => {
                    last = End::Refused(refusal);
                    if !matches!(refusal, Refusal::Misaligned) {
                        self.useless.push(name);
                    }
                }
            }
        }
        Err(self.all_refused(last))
    }

    /// Moves a part of the file for another process. Returns how many bytes of it are certainly there, from its beginning:
    /// why it is not all of them, that process finds out by itself.
    pub(crate) fn run_part(&mut self, offset: u64, len: u64) -> u64 {
        let steps = self.steps;
        if steps.ranges == Ranges::Stream {
            // It has no parts.
            return 0;
        }
        let end = offset.saturating_add(len);
        let mut at = offset;
        for &name in &steps.engines {
            if name.caps().clones() {
                continue;
            }
            let ran = self.team(name, at, &mut PieceRanges::all(at, end, self.job.source.as_fd(), steps.ranges), None);
            at = ran.at;
            if !matches!(ran.stopped, Stopped::End(End::Refused(_))) {
                break;
            }
        }
        let written = self.behind.as_ref().is_none_or(|behind| behind.tidy(true).is_ok());
        if written { at - offset } else { 0 }
    }

    /// What all processes have moved of it.
    pub(crate) fn moved_by_all(&self) -> Moved {
        Moved { written: self.moved.written + self.elsewhere, ..self.moved }
    }

    /// Lets several workers move the ranges, from `at` on, each with such an engine.
    fn team(
        &mut self,
        name: EngineName,
        at: u64,
        ranges: &mut PieceRanges<'_>,
        shared: Option<&SharedRange<'_>>,
    ) -> Ran {
        let size = self.job.source_inode.size;
        let workers = if self.may_be_several(name) { self.steps.workers } else { strategy::Workers::ONE };
        let tuning = self.steps.tuning;
        let Control { pace, cancel, .. } = self.control;
        let make = || -> Box<dyn Engine> { Box::new(Throttled::new(name, &tuning, pace, cancel)) };
        let piece = piece_of(name, &tuning, size - size.min(at), workers.most);
        let read_ahead = self.read_ahead.take_if(|_| name.caps().gains_from_readahead()).map(Mutex::new);
        let lookout = Monitor {
            control: self.control,
            trail: self.trail(),
            read_ahead: read_ahead.as_ref().map(|ahead| (ahead, self.job.source.as_fd())),
            // Beyond an extent there may be a hole, which would only fill the page cache with zeros; beyond its own part of a
            // file another process reads.
            size: if self.steps.ranges == Ranges::Extents || shared.is_some() { 0 } else { size },
            shared,
        };
        let (source, dest) = (&self.source, &self.dest);
        let tuner = Tuner::of_file(workers.start, workers.most);
        let workers = FileWorkers { make: &make, source, dest, zeros: self.zeros, piece, tuner, watch: &lookout };
        let ran = workers.run(at, ranges);
        self.read_ahead = read_ahead.map(|ahead| ahead.into_inner());
        // Holes of the source are nobody's work.
        let holes_seen = self.zeros == Zeros::Write;
        let own = Moved { holes: if holes_seen { 0 } else { ran.moved.holes }, ..ran.moved };
        let end = if let Stopped::End(end) = ran.stopped { end } else { End::Complete };
        self.record(name, own, end);
        self.moved += ran.moved;
        self.ragged |= ran.beyond;
        self.workers = self.workers.max(ran.workers);
        ran
    }

    /// Whether several engines of this kind may work at these two files at the same time.
    fn may_be_several(&self, name: EngineName) -> bool {
        // Without an open file of their own, engines would turn O_DIRECT on and off under each other.
        let has = |wanted: bool, side: &Side| !wanted || side.direct.is_none() || side.direct_fd.is_some();
        let (source, dest) = name.caps().direct_files();
        !name.caps().alone && has(source, &self.source) && has(dest, &self.dest)
    }

    /// Why the lookout said no.
    fn forbidden(&self) -> Stop {
        match self.behind.as_ref().map(|behind| behind.tidy(false)) {
            Some(Err(errno)) => failed(Failure { on: FailedOn::Write, errno }),
            _ => Stop::Cancelled,
        }
    }

    /// Closes the open files for direct I/O.
    pub fn close(&mut self) -> Result<(), Stop> {
        drop(self.source.direct_fd.take());
        // An engine that keeps it for its next file lets go of it then.
        let Some(fd) = self.dest.direct_fd.take().and_then(|fd| Arc::try_unwrap(fd).ok()) else { return Ok(()) };
        haul_sys::close(fd).map_err(|errno| Stop::Failed(Cause::Closing(errno)))
    }

    /// Bytes of the copy that went through the page cache.
    pub fn left_in_cache(&self) -> u64 {
        let buffered = self.tried.iter().filter(|tried| !tried.engine.caps().leaves_no_pages());
        if self.steps.send_dest { 0 } else { buffered.map(|tried| tried.moved.written + tried.moved.offloaded).sum() }
    }

    /// Moves the extents that lseek finds, then whatever the source has grown by meanwhile. Returns the size reached.
    fn move_extents(&mut self, engines: &mut Engines) -> Result<u64, Stop> {
        self.move_extents_from(engines, self.job.start)
    }

    /// The same from this byte on.
    fn move_extents_from(&mut self, engines: &mut Engines, from: u64) -> Result<u64, Stop> {
        match self.move_extents_between(engines, from, self.job.source_inode.size)? {
            (Reached::SourceEnd(at), _) => Ok(at),
            (Reached::End, end) => self.move_to_end(engines, end),
        }
    }

    /// The extents from one byte to another; and where the last one ended.
    fn move_extents_between(&mut self, engines: &mut Engines, from: u64, to: u64) -> Result<(Reached, u64), Stop> {
        let source = Arc::clone(&self.job.source);
        let mut end = from;
        for extent in Extents::new(&Linux, source.as_fd(), from, to) {
            let extent = extent.map_err(|errno| failed(Failure { on: FailedOn::Read, errno }))?;
            match extent {
                Extent::Hole { offset, len } => {
                    self.count_hole(len);
                    end = offset + len;
                }
                Extent::Data { offset, len } => {
                    end = offset + len;
                    if let Reached::SourceEnd(at) = self.move_range(engines, offset, len)? {
                        // It shrank: holes that were passed before that point count, and nothing after it.
                        return Ok((Reached::SourceEnd(at), at));
                    }
                }
            }
        }
        Ok((Reached::End, end))
    }

    /// Tries to clone the whole file in one step, which keeps its holes and is a snapshot of it. `None`: refused.
    pub(crate) fn clone_whole(&mut self, engines: &mut Engines, name: EngineName) -> Result<Option<u64>, Stop> {
        let outcome = self.submit(engines, name, 0, END_OF_OFFSETS)?;
        self.useless.push(name);
        match outcome.end {
            End::Complete | End::SourceEnd => Ok(Some(outcome.moved.total())),
            End::Refused(_) if self.steps.strict => Err(self.all_refused(outcome.end)),
            End::Refused(_) => Ok(None),
            End::Failed(failure) => Err(failed(failure)),
        }
    }

    /// Moves everything from `offset` until the source ends; returns where that was.
    fn move_to_end(&mut self, engines: &mut Engines, offset: u64) -> Result<u64, Stop> {
        match self.move_range(engines, offset, END_OF_OFFSETS - offset)? {
            Reached::SourceEnd(at) => Ok(at),
            Reached::End => Ok(END_OF_OFFSETS),
        }
    }

    /// Moves a range with the first engine that will, and the rest of it with the next.
    fn move_range(&mut self, engines: &mut Engines, offset: u64, len: u64) -> Result<Reached, Stop> {
        let mut at = offset;
        let mut left = len;
        let mut last = End::Complete;
        let steps = self.steps;
        for &name in &steps.engines {
            if self.useless.contains(&name) {
                continue;
            }
            let max_job = engines.get(name, steps.tuning).caps().max_job;
            let unit = unit_of(name, &steps.tuning).unwrap_or(0);
            loop {
                if left == 0 {
                    return Ok(Reached::End);
                }
                if self.control.cancel.is_cancelled() {
                    return Err(Stop::Cancelled);
                }
                let piece = max_job.min(self.control.pace.piece()).min(self.read_ahead(name, at, left));
                // A buffer that the user asked for is used whole.
                let piece = piece.min(self.trail().piece().max(unit));
                let outcome = self.submit(engines, name, at, left.min(piece))?;
                let moved = outcome.moved.total();
                at += moved;
                left = left.saturating_sub(moved);
                last = outcome.end;
                match outcome.end {
                    End::Complete => {}
                    End::SourceEnd => return Ok(Reached::SourceEnd(at)),
                    End::Refused(refusal) => {
                        if !matches!(refusal, Refusal::Misaligned) {
                            self.useless.push(name);
                        }
                        break;
                    }
                    End::Failed(failure) => return Err(failed(failure)),
                }
            }
        }
        Err(self.all_refused(last))
    }

    /// Asks for the bytes that come next; returns the largest job after which that should be done again.
    fn read_ahead(&mut self, name: EngineName, at: u64, left: u64) -> u64 {
        let Some(read_ahead) = &mut self.read_ahead else { return u64::MAX };
        if !name.caps().gains_from_readahead() {
            return u64::MAX;
        }
        // A device has no size there, and nothing happens beyond its end.
        let size = if self.job.source_inode.kind == Kind::Regular { self.job.source_inode.size } else { u64::MAX };
        let end = at.saturating_add(left).min(size);
        let unit = unit_of(name, &self.steps.tuning).unwrap_or(0);
        read_ahead.widen(unit);
        read_ahead.ask(&Linux, self.job.source.as_fd(), at, end);
        read_ahead.piece().max(unit)
    }

    /// One job, from the engine's point of view, when its turn has come; counted, and reported to the observer.
    fn submit(&mut self, engines: &mut Engines, name: EngineName, offset: u64, len: u64) -> Result<Outcome, Stop> {
        let (control, size) = (self.control, self.job.source_inode.size);
        self.trail().let_follow(offset);
        // Sharing extents moves nothing. A size that is too small is made up for when the work is counted.
        let bytes = if name.caps().clones() { 0 } else { len.min(size.saturating_sub(offset)) };
        let turn = control.pace.turn(Work { bytes, operations: 1 }, &|| control.cancel.is_cancelled());
        let turn = turn.ok_or(Stop::Cancelled)?;
        let job = Job { source: self.source.clone(), dest: self.dest.clone(), offset, len, zeros: self.zeros };
        let outcome = engines.get(name, self.steps.tuning).run(&job);
        let moved = outcome.moved;
        // Engines whose requests are not system calls of their own count for one at least.
        let operations = engines.take_requests().max(1);
        control.pace.settle(turn, Work { bytes: moved.offloaded + moved.written, operations });
        self.moved += moved;
        self.record(name, moved, outcome.end);
        if moved.total() > 0 {
            self.control.progress.moved(moved);
        }
        self.trail().moved(moved);
        self.trail().reached(offset + moved.total());
        if let Some(behind) = &self.behind {
            behind.tidy(false).map_err(|errno| failed(Failure { on: FailedOn::Write, errno }))?;
        }
        Ok(outcome)
    }

    fn record(&mut self, name: EngineName, moved: Moved, end: End) {
        let refused = if let End::Refused(refusal) = end { Some(refusal) } else { None };
        // What the server has copied may be more than the source has by now.
        self.ragged |= refused == Some(Refusal::NoAnswer);
        match self.tried.iter_mut().find(|tried| tried.engine == name) {
            Some(tried) => {
                tried.moved += moved;
                tried.refused = tried.refused.or(refused);
            }
            None => self.tried.push(Tried { engine: name, moved, refused }),
        }
    }

    fn count_hole(&mut self, len: u64) {
        let holes = Moved { holes: len, ..Moved::default() };
        self.moved += holes;
        self.control.progress.moved(holes);
    }

    /// A hole at the end is made by the size alone; old contents beyond the end go away. A size that is right already is left
    /// alone: set again, ext4 commits it within seconds, and after a power cut the file would look whole where its data
    /// had not been written yet. A client of NFS leaves away what would set the size that it believes in.
    fn set_size(&self, size: u64) -> Result<(), Stop> {
        if Inode::now(self.job.dest.as_fd()).is_ok_and(|now| now.size == size) {
            return Ok(());
        }
        retry_on_intr(|| ftruncate(&self.job.dest, size)).map_err(|errno| Stop::Failed(Cause::Extending(errno)))
    }

    fn all_refused(&self, end: End) -> Stop {
        let clone = self.steps.cloning_first().is_some();
        Stop::Failed(match end {
            End::Refused(Refusal::Unsupported(errno)) if clone => Cause::NotCloned(errno),
            End::Refused(_) if clone => Cause::NotCloned(Errno::XDEV),
            end => Cause::Refused(end),
        })
    }
}

fn failed(failure: Failure) -> Stop {
    Stop::Failed(Cause::Moving(failure))
}

/// Holes are looked for in blocks of the destination, within what makes sense.
fn hole_block(block: u32) -> u32 {
    block.clamp(512, 64 << 10).next_power_of_two()
}

#[cfg(test)]
#[path = "moving_tests.rs"]
mod tests;
