//! Moves the data of one open file: runs the steps that the strategy chose, each engine from the exact byte where the
//! one before refused.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use haul_sys::Errno;
use haul_sys::kernel::Linux;
use haul_sys::rustix::fs::{self, SeekFrom, ftruncate};

use super::Session;
use super::readahead::ReadAhead;
use crate::engine::wrap::Tally;
use crate::engine::{self, DirectAlign, End, Engine, FailedOn, Failure, Job, Outcome, Refusal, Side, Submitted, Zeros};
use crate::error::{Error, What};
use crate::events::{DataReport, Event, HoleSearch, Tried};
use crate::facts::{DeviceNumber, Inode, Kind};
use crate::moved::Moved;
use crate::pace::Work;
use crate::plan::{EngineName, Plan};
use crate::ranges::{Extent, Extents};
use crate::stats::Stats;
use crate::strategy::{self, DataFacts, Ranges, Steps};

/// No file is longer, and the kernel refuses requests that reach beyond it (EINVAL, EFBIG).
const END_OF_OFFSETS: u64 = i64::MAX as u64;

/// Moves data; owns the engines and remembers what filesystem pairs cannot do.
pub(super) struct Mover {
    engines: BTreeMap<EngineName, Box<dyn Engine>>,
    /// Requests that the engines make.
    tally: Tally,
    tuning: engine::Tuning,
    cannot: HashSet<(EngineName, DeviceNumber, DeviceNumber)>,
}

/// Two open files.
pub(super) struct DataJob<'a> {
    pub source: Arc<OwnedFd>,
    pub dest: Arc<OwnedFd>,
    pub source_inode: &'a Inode,
    pub dest_inode: &'a Inode,
    pub source_path: &'a Path,
    pub dest_path: &'a Path,
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
    pub fn new(plan: &Plan) -> Mover {
        let tuning = engine::Tuning { buffer_size: plan.buffer_size, ..engine::Tuning::default() };
        Mover { engines: BTreeMap::new(), tally: Tally::default(), tuning, cannot: HashSet::new() }
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
        let facts = self.facts(job);
        let steps = strategy::choose(&facts, plan);
        let mut moving = Moving::new(job, session, &facts, &steps, plan);
        let result = moving.run(self);
        stats.moved += moving.moved;
        for tried in &moving.tried {
            let entry = stats.engines.entry(tried.engine).or_default();
            entry.files += u64::from(tried.moved.total() > 0);
            entry.moved += tried.moved;
            entry.refusals += u64::from(tried.refused.is_some());
            self.learn(job, tried);
        }
        session.observer.event(&Event::DataDone(&DataReport {
            source: job.source_path,
            dest: job.dest_path,
            reasons: &steps.reasons,
            tried: &moving.tried,
            holes: hole_search(&steps),
            moved: moving.moved,
            time: started.elapsed(),
        }));
        result.map_err(|stop| match stop {
            Stop::Cancelled => Broken { error: None },
            Stop::Failed(error) => Broken { error: Some(error) },
        })
    }

    fn facts(&self, job: &DataJob<'_>) -> DataFacts {
        let (source, dest) = (job.source_inode, job.dest_inode);
        let pair = (source.id.device(), dest.id.device());
        let cannot = |engine| self.cannot.contains(&(engine, pair.0, pair.1));
        DataFacts {
            source: source.kind,
            dest: dest.kind,
            size: source.size,
            allocated: source.allocated,
            seekable: has_offsets(&job.source, source.kind) && has_offsets(&job.dest, dest.kind),
            made_up: source.kind == Kind::Regular && is_made_up(&job.source, source),
            clone_is_known_to_fail: cannot(EngineName::Clone),
            copy_range_is_known_to_fail: cannot(EngineName::CopyRange),
            dest_block: dest.block_size,
        }
    }

    /// Remembers refusals that concern the two filesystems and not just these two files.
    fn learn(&mut self, job: &DataJob<'_>, tried: &Tried) {
        let of_filesystems = matches!(
            tried.refused,
            Some(Refusal::Unsupported(Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY | Errno::NOSYS))
        );
        if of_filesystems && matches!(tried.engine, EngineName::Clone | EngineName::CopyRange) {
            let pair = (job.source_inode.id.device(), job.dest_inode.id.device());
            self.cannot.insert((tried.engine, pair.0, pair.1));
        }
    }

    fn engine(&mut self, name: EngineName) -> &mut dyn Engine {
        let (tuning, tally) = (&self.tuning, &self.tally);
        let make = || engine::make_on(Arc::new(tally.clone()), name, tuning);
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
        Moving {
            job,
            session,
            source: side(&job.source, job.source_inode, seekable),
            dest: side(&job.dest, job.dest_inode, dest_seekable),
            steps,
            zeros,
            read_ahead: plan.readahead.filter(|_| seekable).map(ReadAhead::new),
            tried: Vec::with_capacity(2),
            useless: Vec::new(),
            moved: Moved::default(),
        }
    }

    fn run(&mut self, mover: &mut Mover) -> Result<(), Stop> {
        let cloned = match self.steps.engines.first() {
            Some(EngineName::Clone) => self.clone_whole(mover)?,
            _ => None,
        };
        let end = match (cloned, self.steps.ranges) {
            (Some(end), _) => end,
            (None, Ranges::Extents) => self.move_extents(mover)?,
            (None, Ranges::Stream | Ranges::Whole) => self.move_to_end(mover, 0)?,
        };
        if self.job.dest_inode.kind == Kind::Regular && self.moved.holes > 0 {
            self.set_size(end)?;
        }
        Ok(())
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
                let piece = max_job.min(self.session.pace.piece()).min(self.read_ahead(name, at, left));
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
        match self.tried.iter_mut().find(|tried| tried.engine == name) {
            Some(tried) => {
                tried.moved += outcome.moved;
                tried.refused = tried.refused.or(refused);
            }
            None => self.tried.push(Tried { engine: name, moved: outcome.moved, refused }),
        }
        if outcome.moved.total() > 0 {
            self.session.observer.event(&Event::Progress(outcome.moved));
        }
        Ok(outcome)
    }

    fn count_hole(&mut self, len: u64) {
        let holes = Moved { holes: len, ..Moved::default() };
        self.moved += holes;
        self.session.observer.event(&Event::Progress(holes));
    }

    /// A hole at the end is made by the size alone; old contents beyond the end go away.
    fn set_size(&self, size: u64) -> Result<(), Stop> {
        ftruncate(&self.job.dest, size)
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

/// Submits a job and waits for its outcome.
fn complete(engine: &mut dyn Engine, job: Job) -> Result<Outcome, Errno> {
    let mut done = Vec::new();
    let mut job = job;
    loop {
        match engine.submit(job) {
            Submitted::Done(outcome) => return Ok(outcome),
            Submitted::Queued => {
                while done.is_empty() {
                    engine.reap(1, &mut done)?;
                }
                // One job at a time is in flight, so this is its outcome.
                return done.pop().ok_or(Errno::IO);
            }
            Submitted::Full(again) => {
                engine.reap(1, &mut done)?;
                job = again;
            }
        }
    }
}

fn side(fd: &Arc<OwnedFd>, inode: &Inode, seekable: bool) -> Side {
    let (memory, offset) = inode.direct;
    let direct = (memory > 0 && offset > 0).then_some(DirectAlign { memory, offset });
    Side { fd: Arc::clone(fd), seekable, direct }
}

fn hole_search(steps: &Steps) -> HoleSearch {
    match (steps.ranges == Ranges::Extents, steps.find_zeros) {
        (false, false) => HoleSearch::None,
        (true, false) => HoleSearch::Seek,
        (false, true) => HoleSearch::Zeros,
        (true, true) => HoleSearch::SeekAndZeros,
    }
}

/// Holes are looked for in blocks of the destination, within what makes sense.
fn hole_block(block: u32) -> u32 {
    block.clamp(512, 64 << 10).next_power_of_two()
}

fn has_offsets(fd: &OwnedFd, kind: Kind) -> bool {
    match kind {
        Kind::Regular | Kind::BlockDevice => fs::seek(fd, SeekFrom::Current(0)).is_ok(),
        _ => false,
    }
}

/// Filesystems that make up their files while they are read, whose sizes are 0 or one page whatever is in them.
const MADE_UP: [u64; 9] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x6367_7270, // cgroup2
    0x0027_e0eb, // cgroup
    0x6265_6570, // configfs
    0x7363_6673, // securityfs
    0xf97c_ff8c, // selinuxfs
];

fn is_made_up(fd: &OwnedFd, inode: &Inode) -> bool {
    // No statfs for each ordinary file: one that has blocks is no made-up one.
    if inode.allocated > 0 {
        return false;
    }
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)]
    fs::fstatfs(fd).is_ok_and(|stat| MADE_UP.contains(&(stat.f_type as u64)))
}
