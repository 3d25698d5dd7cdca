//! Moves the data of one open file: runs the steps that the strategy chose, each engine from the exact byte where the
//! one before refused.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use haul_sys::Errno;
use haul_sys::kernel::{Kernel, Linux};
use haul_sys::rustix::fs::ftruncate;
use haul_sys::rustix::io::retry_on_intr;

use super::Session;
use super::behind::Behind;
use super::made_up::{has_offsets, is_kept_somewhere, is_made_up};
use super::open_sides::{direct_align, open_for_direct, side};
use super::paced::{CANCELLED, Paced};
use super::pieces::{LAST_BYTES, Lookout, piece_of, ranged, reached};
use super::readahead::ReadAhead;
use crate::engine::climb::Climb;
use crate::engine::parallel::{Ran, Range, Stopped, Team};
use crate::engine::wrap::Tally;
use crate::engine::{self, End, Engine, FailedOn, Failure, Job, Outcome, Refusal, Side, Zeros, complete};
use crate::error::{Error, What};
use crate::events::{DataReport, Event, Tried};
use crate::facts::{DeviceNumber, Inode, Kind};
use crate::images::ImageReport;
use crate::moved::Moved;
use crate::pace::Work;
use crate::plan::{EngineName, Plan};
use crate::probe::{self, Probe};
use crate::ranges::{Extent, Extents};
use crate::stats::Stats;
use crate::strategy::{self, DataFacts, Ranges, Steps, WORTH_ASKING};
use crate::verify::Follower;

/// No file is longer, and the kernel refuses requests that reach beyond it (EINVAL, EFBIG).
const END_OF_OFFSETS: u64 = i64::MAX as u64;

/// Buffer of a `direct` engine that moves one file after the other.
const KEPT_BUFFER: usize = 4 << 20;

/// How far a cold source is read ahead where the user does not say it: enough for several requests of the device.
const COLD_WINDOW: u64 = 8 << 20;

/// What all movers of a run find out, for each other.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// What filesystem pairs cannot do.
    cannot: RwLock<BTreeMap<(EngineName, DeviceNumber, DeviceNumber), Refusal>>,
    pub probe: Probe,
}

/// Moves data; owns the engines. One for each thread that copies files, all with the same memory.
pub(super) struct Mover {
    engines: BTreeMap<EngineName, Box<dyn Engine>>,
    /// Requests that the engines make.
    tally: Tally,
    tuning: engine::Tuning,
    shared: Arc<Shared>,
    /// What was chosen last without questions, and for what.
    chosen: Option<(DataFacts, Arc<Steps>)>,
}

/// Two open files.
#[derive(Clone)]
pub(super) struct DataJob<'a> {
    pub source: Arc<OwnedFd>,
    pub dest: Arc<OwnedFd>,
    pub source_inode: &'a Inode,
    pub dest_inode: &'a Inode,
    pub source_path: &'a Path,
    pub dest_path: &'a Path,
    /// The directory of the source, if that is known.
    pub source_dir: Option<BorrowedFd<'a>>,
    /// What is known of it as a disk image that is copied like any other file.
    pub image: Option<&'a ImageReport>,
    /// Reads behind the copy.
    pub follower: Option<&'a Follower>,
}

/// The data is not whole.
pub(super) struct Broken {
    /// Why; `None` if the run was cancelled.
    pub error: Option<Error>,
}

/// One file while it is being moved.
struct Moving<'a> {
    job: &'a DataJob<'a>,
    session: &'a Session<'a>,
    source: Side,
    dest: Side,
    steps: &'a Steps,
    zeros: Zeros,
    read_ahead: Option<ReadAhead>,
    tried: Vec<Tried>,
    /// Engines that said they can do nothing for these two files.
    useless: Vec<EngineName>,
    moved: Moved,
    behind: Option<Behind>,
    /// The destination has got a size of its own, or bytes behind the end: it is set right when all is moved.
    ragged: bool,
    /// Most workers that there were.
    workers: usize,
}

/// Why moving stopped before its end.
enum Stop {
    Cancelled,
    Failed(Error),
}

/// How far a range got.
enum Reached {
    End,
    SourceEnd(u64),
}

impl Mover {
    pub fn new(plan: &Plan, shared: Arc<Shared>) -> Mover {
        let tuning = engine::Tuning { buffer_size: plan.buffer_size, ..engine::Tuning::default() };
        Mover { engines: BTreeMap::new(), tally: Tally::default(), tuning, shared, chosen: None }
    }

    /// [`strategy::choose`] by what needs no questions, which is the same for most files of a tree.
    fn choose_quickly(&mut self, facts: &DataFacts, plan: &Plan) -> Arc<Steps> {
        let facts = facts.in_kind();
        match &self.chosen {
            Some((same, steps)) if *same == facts => Arc::clone(steps),
            _ => {
                let steps = Arc::new(strategy::choose(&facts, plan));
                self.chosen = Some((facts, Arc::clone(&steps)));
                steps
            }
        }
    }

    /// Moves the data, tells the observer, and counts.
    pub fn move_data(
        &mut self,
        job: &DataJob<'_>,
        plan: &Plan,
        session: &Session<'_>,
        stats: &mut Stats,
    ) -> Result<(), Broken> {
        let started = Instant::now();
        session.observer.event(&Event::DataStarted { source: job.source_path, size: job.source_inode.size });
        let large = probe::is_worth_it(job.source_inode, job.dest_inode, WORTH_ASKING);
        if large {
            self.shared.probe.begin();
        }
        let quick = self.facts(job, false);
        let steps = self.choose_quickly(&quick, plan);
        let mut refused = Vec::new();
        if large && steps.engines.first() == Some(&EngineName::Clone) {
            // Sharing extents takes a millisecond, and the questions about a large file some fifty.
            let mut attempt = Moving::new(job, session, &quick, &steps, plan);
            let cloned = attempt.clone_whole(self).and_then(|end| match end {
                Some(end) => attempt.complete(end).map(Some),
                None => Ok(None),
            });
            match cloned {
                Ok(None) => refused = std::mem::take(&mut attempt.tried),
                Ok(Some(())) => return self.conclude(attempt, Ok(()), large, started, stats),
                Err(stop) => return self.conclude(attempt, Err(stop), large, started, stats),
            }
        }
        for tried in &refused {
            self.learn(job, tried);
        }
        if !large {
            let mut moving = Moving::new(job, session, &quick, &steps, plan);
            let result = moving.run(self);
            return self.conclude(moving, result, large, started, stats);
        }
        let facts = self.facts(job, large);
        let steps = strategy::choose(&facts, plan);
        let mut moving = Moving::new(job, session, &facts, &steps, plan);
        moving.useless.extend(refused.iter().map(|tried| tried.engine));
        moving.tried = refused;
        let result = moving.run(self);
        self.conclude(moving, result, large, started, stats)
    }

    /// Closes what the file was moved with, counts, and tells the observer.
    fn conclude(
        &mut self,
        mut moving: Moving<'_>,
        result: Result<(), Stop>,
        large: bool,
        started: Instant,
        stats: &mut Stats,
    ) -> Result<(), Broken> {
        let (job, session, steps) = (moving.job, moving.session, moving.steps);
        if result.is_err() {
            moving.cut();
        }
        let result = result.and(moving.close());
        if large {
            self.shared.probe.end(moving.moved.total(), moving.left_in_cache());
        }
        stats.moved += moving.moved;
        for tried in &moving.tried {
            let entry = stats.engines.entry(tried.engine).or_default();
            entry.files += u64::from(tried.moved.total() > 0);
            entry.moved += tried.moved;
            entry.refusals += u64::from(tried.refused.is_some());
            self.learn(job, tried);
        }
        let mut tried = std::mem::take(&mut moving.tried);
        if session.observer.in_order() {
            let mut known = self.known_refusals(job, steps);
            known.retain(|known| tried.iter().all(|tried| tried.engine != known.engine));
            tried.splice(..0, known);
        }
        session.observer.event(&Event::DataDone(&DataReport {
            source: job.source_path,
            dest: job.dest_path,
            reasons: &steps.reasons,
            tried: &tried,
            holes: steps.hole_search(),
            moved: moving.moved,
            workers: moving.workers,
            time: started.elapsed(),
            image: job.image,
        }));
        result.map_err(|stop| match stop {
            Stop::Cancelled => Broken { error: None },
            Stop::Failed(error) => Broken { error: Some(error) },
        })
    }

    fn facts(&self, job: &DataJob<'_>, large: bool) -> DataFacts {
        let (source, dest) = (job.source_inode, job.dest_inode);
        let pair = (source.id.device(), dest.id.device());
        let cannot = {
            // Held for a moment only: what is asked below can take its time on some filesystems.
            let known = self.shared.cannot.read().unwrap_or_else(PoisonError::into_inner);
            [EngineName::Clone, EngineName::CopyRange].map(|engine| known.contains_key(&(engine, pair.0, pair.1)))
        };
        DataFacts {
            source: source.kind,
            dest: dest.kind,
            size: source.size,
            allocated: source.allocated,
            seekable: has_offsets(&job.source, source) && has_offsets(&job.dest, dest),
            made_up: source.kind == Kind::Regular && is_made_up(&job.source, source),
            clone_is_known_to_fail: cannot[0],
            copy_range_is_known_to_fail: cannot[1],
            dest_block: dest.block_size,
            direct_source: direct_align(source).is_some(),
            direct_dest: direct_align(dest).is_some(),
            local_disk: source.id.device().major != 0,
            around: large.then(|| {
                let probe = &self.shared.probe;
                probe.look((job.source.as_fd(), source), (job.dest.as_fd(), dest))
            }),
        }
    }

    /// What engines would have said that were not asked again. Each thread learns for itself when it needs not ask, and
    /// what is told must not depend on that.
    fn known_refusals(&self, job: &DataJob<'_>, steps: &Steps) -> Vec<Tried> {
        let pair = (job.source_inode.id.device(), job.dest_inode.id.device());
        let known = self.shared.cannot.read().unwrap_or_else(PoisonError::into_inner);
        let refused = |engine: &EngineName| {
            let refusal = known.get(&(*engine, pair.0, pair.1))?;
            Some(Tried { engine: *engine, moved: Moved::default(), refused: Some(*refusal) })
        };
        steps.passed_over.iter().filter_map(refused).collect()
    }

    /// Remembers refusals that concern the two filesystems and not just these two files.
    fn learn(&mut self, job: &DataJob<'_>, tried: &Tried) {
        let Some(refusal) = tried.refused else { return };
        let of_filesystems =
            matches!(refusal, Refusal::Unsupported(Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY | Errno::NOSYS));
        if of_filesystems && matches!(tried.engine, EngineName::Clone | EngineName::CopyRange) {
            let pair = (job.source_inode.id.device(), job.dest_inode.id.device());
            let mut known = self.shared.cannot.write().unwrap_or_else(PoisonError::into_inner);
            known.insert((tried.engine, pair.0, pair.1), refusal);
        }
    }

    fn engine(&mut self, name: EngineName) -> &mut dyn Engine {
        let (mut tuning, tally) = (self.tuning, &self.tally);
        if name == EngineName::Direct {
            // Kept as long as the thread, and there may be many of them.
            tuning.buffer_size = tuning.buffer_size.or(Some(KEPT_BUFFER));
        }
        let make = || engine::make_on(Arc::new(tally.clone()), name, &tuning);
        self.engines.entry(name).or_insert_with(make).as_mut()
    }
}

impl<'a> Moving<'a> {
    fn new(
        job: &'a DataJob<'a>,
        session: &'a Session<'a>,
        facts: &DataFacts,
        steps: &'a Steps,
        plan: &Plan,
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
        let plain = job.source_inode.kind == Kind::Regular && is_kept_somewhere(job.source_inode) && !facts.made_up;
        source.size = plain.then_some(job.source_inode.size);
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
            session,
            source,
            dest,
            steps,
            zeros,
            read_ahead: plan
                .readahead
                .or(steps.read_ahead.then_some(COLD_WINDOW))
                .filter(|_| seekable)
                .map(ReadAhead::new),
            tried: Vec::with_capacity(2),
            useless: Vec::new(),
            moved: Moved::default(),
            behind: if steps.forget_source || steps.send_dest { Behind::new(forget, send) } else { None },
            ragged: false,
            workers: 1,
        }
    }

    fn run(&mut self, mover: &mut Mover) -> Result<(), Stop> {
        let cloned = match self.steps.engines.first() {
            Some(EngineName::Clone) if !self.useless.contains(&EngineName::Clone) => self.clone_whole(mover)?,
            _ => None,
        };
        let end = match (cloned, self.steps.ranges) {
            (Some(end), _) => end,
            (None, ranges) => {
                self.allocate();
                match ranges {
                    Ranges::Stream => self.move_to_end(mover, 0)?,
                    _ if self.steps.workers.most > 1 => self.move_together(mover)?,
                    Ranges::Extents => self.move_extents(mover)?,
                    Ranges::Whole => self.move_to_end(mover, 0)?,
                }
            }
        };
        self.complete(end)
    }

    /// All data is there, up to this size.
    fn complete(&mut self, end: u64) -> Result<(), Stop> {
        if self.job.dest_inode.kind == Kind::Regular && (self.moved.holes > 0 || self.ragged) {
            self.set_size(end)?;
        }
        if let Some(follower) = self.job.follower {
            follower.whole(end, self.behind.is_some());
        }
        reached(self.job.follower, self.behind.as_ref(), end);
        match &self.behind {
            Some(behind) => behind.tidy(true).map_err(|errno| self.failed(Failure { on: FailedOn::Write, errno })),
            None => Ok(()),
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
            retry_on_intr(|| ftruncate(&self.job.dest, 0)).ok();
        }
    }

    /// After a failure: takes away what stands behind the last byte that counts. Allocated space and pieces that were ahead
    /// would make a destination that is kept look whole.
    fn cut(&self) {
        if self.job.dest_inode.kind == Kind::Regular {
            // The copy has failed already, and that is what is reported.
            retry_on_intr(|| ftruncate(&self.job.dest, self.moved.total())).ok();
        }
    }

    /// Moves everything by several workers, as far as the size was seen, then whatever the source has grown by meanwhile.
    /// Returns the size reached.
    fn move_together(&mut self, mover: &mut Mover) -> Result<u64, Stop> {
        let steps = self.steps;
        let mut at = 0;
        let mut last = End::Complete;
        for &name in &steps.engines {
            if self.useless.contains(&name) {
                continue;
            }
            let ran = self.team(mover, name, at)?;
            at = ran.at;
            match ran.stopped {
                Stopped::Forbidden => return Err(self.forbidden()),
                Stopped::End(End::Failed(CANCELLED)) if self.session.cancel.is_cancelled() => {
                    return Err(Stop::Cancelled);
                }
                Stopped::End(End::Complete) => return self.move_to_end(mover, at),
                Stopped::End(End::SourceEnd) => return Ok(at),
                Stopped::End(End::Failed(failure)) => return Err(self.failed(failure)),
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

    /// Lets several workers move the file from `at` on, each with such an engine.
    fn team(&mut self, mover: &mut Mover, name: EngineName, at: u64) -> Result<Ran, Stop> {
        let size = self.job.source_inode.size;
        let workers = if self.may_be_several(name) { self.steps.workers } else { strategy::Workers::ONE };
        let tuning = mover.tuning;
        let (pace, cancel) = (&self.session.pace, &self.session.cancel);
        let make = || -> Box<dyn Engine> { Box::new(Paced::new(name, &tuning, pace, cancel)) };
        let piece = piece_of(name, size - size.min(at), workers.most);
        let read_ahead = self.read_ahead.take_if(|_| ReadAhead::helps(name)).map(Mutex::new);
        let lookout = Lookout {
            session: self.session,
            behind: self.behind.as_ref(),
            follower: self.job.follower,
            read_ahead: read_ahead.as_ref().map(|ahead| (ahead, self.job.source.as_fd())),
            // Beyond an extent there may be a hole, which would only fill the page cache with zeros.
            size: if self.steps.ranges == Ranges::Extents { 0 } else { size },
        };
        let (source, dest) = (&self.source, &self.dest);
        let climb = Climb::new(workers.start, workers.most).by_pieces_of(piece);
        let team = Team { make: &make, source, dest, zeros: self.zeros, piece, climb, watch: &lookout };
        let ran = match self.steps.ranges {
            Ranges::Extents => team.run(at, &mut Extents::new(&Linux, source.as_fd(), at, size).map(ranged)),
            _ => {
                let end = size.saturating_sub(1) / LAST_BYTES * LAST_BYTES;
                team.run(at, &mut (at < end).then(|| Ok(Range::Data(at, end - at))).into_iter())
            }
        };
        let refused = match ran.stopped {
            Stopped::End(End::Refused(refusal)) => Some(refusal),
            _ => None,
        };
        self.read_ahead = read_ahead.map(|ahead| ahead.into_inner().unwrap_or_else(PoisonError::into_inner));
        // Holes of the source are nobody's work.
        let holes_seen = self.zeros == Zeros::Write;
        let own = Moved { holes: if holes_seen { 0 } else { ran.moved.holes }, ..ran.moved };
        self.record(name, own, refused);
        self.moved += ran.moved;
        self.ragged |= ran.beyond;
        self.workers = self.workers.max(ran.workers);
        Ok(ran)
    }

    /// Whether several engines of this kind may work at these two files at the same time.
    fn may_be_several(&self, name: EngineName) -> bool {
        // Without an open file of their own, engines would turn O_DIRECT on and off under each other.
        let own = |side: &Side| side.direct.is_none() || side.direct_fd.is_some();
        match name {
            EngineName::Direct => own(&self.source) && own(&self.dest),
            EngineName::MappedDirect => own(&self.dest),
            EngineName::Clone | EngineName::Null | EngineName::Splice => false,
            _ => true,
        }
    }

    /// Why the lookout said no.
    fn forbidden(&self) -> Stop {
        match self.behind.as_ref().map(|behind| behind.tidy(false)) {
            Some(Err(errno)) => self.failed(Failure { on: FailedOn::Write, errno }),
            _ => Stop::Cancelled,
        }
    }

    /// Closes the open files for direct I/O.
    fn close(&mut self) -> Result<(), Stop> {
        drop(self.source.direct_fd.take());
        // An engine that keeps it for its next file lets go of it then.
        let Some(fd) = self.dest.direct_fd.take().and_then(|fd| Arc::try_unwrap(fd).ok()) else { return Ok(()) };
        let dest = self.job.dest_path;
        haul_sys::close(fd).map_err(|errno| Stop::Failed(Error::new(What::Closing, dest).errno(errno)))
    }

    /// Bytes of the copy that went through the page cache.
    fn left_in_cache(&self) -> u64 {
        let past = [EngineName::Direct, EngineName::MappedDirect, EngineName::Dontcache];
        let buffered = self.tried.iter().filter(|tried| !past.contains(&tried.engine));
        if self.steps.send_dest { 0 } else { buffered.map(|tried| tried.moved.written + tried.moved.offloaded).sum() }
    }

    /// Moves the extents that lseek finds, then whatever the source has grown by meanwhile. Returns the size reached.
    fn move_extents(&mut self, mover: &mut Mover) -> Result<u64, Stop> {
        let source = Arc::clone(&self.job.source);
        let mut end = 0;
        for extent in Extents::new(&Linux, source.as_fd(), 0, self.job.source_inode.size) {
            let extent = extent.map_err(|errno| self.failed(Failure { on: FailedOn::Read, errno }))?;
            match extent {
                Extent::Hole { offset, len } => {
                    self.count_hole(len);
                    end = offset + len;
                }
                Extent::Data { offset, len } => {
                    end = offset + len;
                    if let Reached::SourceEnd(at) = self.move_range(mover, offset, len)? {
                        // It shrank: holes that were passed before that point count, and nothing after it.
                        return Ok(at);
                    }
                }
            }
        }
        self.move_to_end(mover, end)
    }

    /// Tries to clone the whole file in one step, which keeps its holes and is a snapshot of it. `None`: refused.
    fn clone_whole(&mut self, mover: &mut Mover) -> Result<Option<u64>, Stop> {
        let outcome = self.submit(mover, EngineName::Clone, 0, END_OF_OFFSETS)?;
        self.useless.push(EngineName::Clone);
        match outcome.end {
            End::Complete | End::SourceEnd => Ok(Some(outcome.moved.total())),
            End::Refused(_) if self.steps.strict => Err(self.all_refused(outcome.end)),
            End::Refused(_) => Ok(None),
            End::Failed(failure) => Err(self.failed(failure)),
        }
    }

    /// Moves everything from `offset` until the source ends; returns where that was.
    fn move_to_end(&mut self, mover: &mut Mover, offset: u64) -> Result<u64, Stop> {
        match self.move_range(mover, offset, END_OF_OFFSETS - offset)? {
            Reached::SourceEnd(at) => Ok(at),
            Reached::End => Ok(END_OF_OFFSETS),
        }
    }

    /// Moves a range with the first engine that will, and the rest of it with the next.
    fn move_range(&mut self, mover: &mut Mover, offset: u64, len: u64) -> Result<Reached, Stop> {
        let mut at = offset;
        let mut left = len;
        let mut last = End::Complete;
        let steps = self.steps;
        for &name in &steps.engines {
            if self.useless.contains(&name) {
                continue;
            }
            let max_job = mover.engine(name).caps().max_job;
            loop {
                if left == 0 {
                    return Ok(Reached::End);
                }
                if self.session.cancel.is_cancelled() {
                    return Err(Stop::Cancelled);
                }
                let followed = self.job.follower.map_or(u64::MAX, |_| Follower::PIECE);
                let piece = max_job.min(self.session.pace.piece()).min(self.read_ahead(name, at, left)).min(followed);
                let outcome = self.submit(mover, name, at, left.min(piece))?;
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
                    End::Failed(failure) => return Err(self.failed(failure)),
                }
            }
        }
        Err(self.all_refused(last))
    }

    /// Asks for the bytes that come next; returns the largest job after which that should be done again.
    fn read_ahead(&mut self, name: EngineName, at: u64, left: u64) -> u64 {
        let Some(read_ahead) = &mut self.read_ahead else { return u64::MAX };
        if !ReadAhead::helps(name) {
            return u64::MAX;
        }
        // A device has no size there, and nothing happens beyond its end.
        let size = if self.job.source_inode.kind == Kind::Regular { self.job.source_inode.size } else { u64::MAX };
        let end = at.saturating_add(left).min(size);
        read_ahead.ask(&Linux, self.job.source.as_fd(), at, end);
        read_ahead.piece()
    }

    /// One job, from the engine's point of view, when its turn has come; counted, and told to the observer.
    fn submit(&mut self, mover: &mut Mover, name: EngineName, offset: u64, len: u64) -> Result<Outcome, Stop> {
        let (session, size) = (self.session, self.job.source_inode.size);
        if let Some(follower) = self.job.follower {
            follower.let_follow(offset);
        }
        // Sharing extents moves nothing. A size that is too small is made up for when the work is counted.
        let bytes = if name == EngineName::Clone { 0 } else { len.min(size.saturating_sub(offset)) };
        let turn = session.pace.turn(Work { bytes, operations: 1 }, &|| session.cancel.is_cancelled());
        let turn = turn.ok_or(Stop::Cancelled)?;
        let engine = mover.engine(name);
        let job = Job { id: 0, source: self.source.clone(), dest: self.dest.clone(), offset, len, zeros: self.zeros };
        let outcome = complete(engine, job).map_err(|errno| self.failed(Failure { on: FailedOn::Copy, errno }));
        let moved = outcome.as_ref().map(|outcome| outcome.moved).unwrap_or_default();
        // Engines whose requests are not system calls of their own count for one at least.
        let operations = mover.tally.take().max(1);
        session.pace.settle(turn, Work { bytes: moved.offloaded + moved.written, operations });
        let outcome = outcome?;
        self.moved += outcome.moved;
        let refused = match outcome.end {
            End::Refused(refusal) => Some(refusal),
            _ => None,
        };
        self.record(name, outcome.moved, refused);
        if outcome.moved.total() > 0 {
            self.session.observer.event(&Event::Progress(outcome.moved));
        }
        reached(self.job.follower, self.behind.as_ref(), offset + outcome.moved.total());
        if let Some(behind) = &self.behind {
            behind.tidy(false).map_err(|errno| self.failed(Failure { on: FailedOn::Write, errno }))?;
        }
        Ok(outcome)
    }

    fn record(&mut self, name: EngineName, moved: Moved, refused: Option<Refusal>) {
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
        self.session.observer.event(&Event::Progress(holes));
    }

    /// A hole at the end is made by the size alone; old contents beyond the end go away.
    fn set_size(&self, size: u64) -> Result<(), Stop> {
        retry_on_intr(|| ftruncate(&self.job.dest, size))
            .map_err(|errno| Stop::Failed(Error::new(What::Extending, self.job.dest_path).errno(errno)))
    }

    fn failed(&self, failure: Failure) -> Stop {
        let (source, dest) = (self.job.source_path, self.job.dest_path);
        let error = match failure.on {
            FailedOn::Read => Error::new(What::Reading, source),
            FailedOn::Write => Error::new(What::Writing, dest),
            FailedOn::Copy => Error::new(What::Copying, source).and(dest),
            FailedOn::Hole => Error::new(What::MakingHole, dest),
            FailedOn::Truncated => return Stop::Failed(Error::new(What::SourceTruncated, source)),
        };
        Stop::Failed(error.errno(failure.errno))
    }

    fn all_refused(&self, end: End) -> Stop {
        let (source, dest) = (self.job.source_path, self.job.dest_path);
        let clone = self.steps.engines.first() == Some(&EngineName::Clone);
        match end {
            End::Refused(refusal) if clone => {
                let errno = match refusal {
                    Refusal::Unsupported(errno) => errno,
                    _ => Errno::XDEV,
                };
                Stop::Failed(Error::new(What::CloneFailed, dest).and(source).errno(errno))
            }
            end => Stop::Failed(Error::new(What::EngineRefused, source).and(dest).detail(format!("{end:?}"))),
        }
    }
}

/// Holes are looked for in blocks of the destination, within what makes sense.
fn hole_block(block: u32) -> u32 {
    block.clamp(512, 64 << 10).next_power_of_two()
}
