//! Moves the data of one open file: gathers the facts, and runs the steps that the strategy chose for them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use haul_sys::Errno;
use haul_sys::inode::{DeviceNumber, Inode, Kind};
use haul_sys::kernel::{Kernel, Linux};

use crate::engine::calls::again;
use crate::engine::{EngineName, Refusal};
use crate::facts::{Filesystem, Surroundings};
use crate::moved::Moved;
use crate::probe::{self, Probe};
use parking_lot::RwLock;

use super::engines::Engines;
use super::job::Transfer;
use super::moving::Moving;
use super::pseudo_file::{has_offsets, is_pseudo_file};
use super::readahead::Trial;
use super::report::{Cause, PartReport, Report, Stop, Tried};
use super::sides::direct_align;
use super::small::Small;
use super::unwritten::{Device, PIECE, Scattered, Sending, Unwritten};
use crate::control::{Cancel, Control};
use crate::options::{DataOptions, Writeback};
use crate::profile::{PlaceEntry, Preference, SizeClass};
use crate::strategy::{self, ALLOCATED_FIRST, DataFacts, Demands, MOST_TINY, READ_AHEAD, Steps, WORTH_ASKING};

/// What all movers of a run find out, for each other.
#[derive(Debug, Default)]
pub struct Shared {
    /// What filesystem pairs cannot do.
    cannot: RwLock<BTreeMap<(EngineName, DeviceNumber, DeviceNumber), Refusal>>,
    /// What was asked about storage and memory.
    pub probe: Probe,
    /// Whether cold files are read ahead on request.
    ahead: Arc<Trial>,
    unwritten: Unwritten,
}

impl Shared {
    /// Waits, at the end of a run, until slow devices have but little left to write.
    ///
    /// # Errors
    /// The first one of data that such a device did not take.
    pub fn settle_unwritten(&self, cancel: &Cancel) -> Result<(), Errno> {
        self.unwritten.settle(&|| cancel.is_cancelled()).map_or(Ok(()), Err)
    }

    /// How a file that no mover writes goes to its device, about so many bytes of it, if somebody has to see to that.
    pub fn scattered(
        &self,
        (dest, inode): (&Arc<OwnedFd>, &Inode),
        bytes: u64,
        options: &DataOptions,
        cancel: &Cancel,
    ) -> Option<Scattered> {
        if options.writeback == Writeback::Kernel || inode.kind != Kind::Regular {
            return None;
        }
        let device = self.unwritten.device(inode.id.device(), dest.as_fd())?;
        Some(Scattered::new(Arc::new(Sending::new(device, dest, (0, bytes), cancel))))
    }
}

/// Moves data; owns the engines. One for each thread that copies files, all with the same memory.
#[derive(Default)]
pub struct Mover {
    engines: Engines,
    shared: Arc<Shared>,
    /// What was chosen last without questions, and for what.
    chosen: Option<(DataFacts, Arc<Steps>)>,
    /// Which place of the profile two devices are.
    places: Places,
    /// The filesystem that was asked last what it is.
    asked: Option<(DeviceNumber, Filesystem)>,
    /// Whether these two were on one server, which were asked last.
    one_server: Option<([DeviceNumber; 2], bool)>,
    /// For small files, once there was one.
    small: Small,
    /// Bytes of copies that went through the page cache, since somebody asked.
    left_in_cache: u64,
    /// The device that was written to last.
    written_to: Option<(DeviceNumber, Option<Arc<Device>>)>,
}

/// Pairs of devices, and which place of a profile both of them are.
#[derive(Default)]
pub struct Places(BTreeMap<(DeviceNumber, DeviceNumber), Option<usize>>);

impl Places {
    /// What a profile says of the storage that both sides are on. It was measured from a storage to itself, and says nothing of
    /// copies from one to another.
    pub fn find<'p, 'f>(
        &mut self,
        options: &'p DataOptions,
        devices: (DeviceNumber, DeviceNumber),
        sides: impl FnOnce() -> Option<[BorrowedFd<'f>; 2]>,
    ) -> Option<&'p PlaceEntry> {
        let profile = options.profile.as_deref().filter(|profile| !profile.places.is_empty())?;
        let index = match self.0.get(&devices) {
            Some(known) => *known,
            None => {
                // Without them it is not known, and may be asked again.
                let [source, dest] = sides()?.map(probe::place);
                let place = source.filter(|source| dest.as_ref() == Some(source));
                let index = place.and_then(|place| profile.places.iter().position(|entry| entry.place == place));
                self.0.insert(devices, index);
                index
            }
        };
        index.and_then(|index| profile.places.get(index))
    }
}

impl Mover {
    /// One that shares what is found out with the others of the run.
    pub fn new(shared: Arc<Shared>) -> Mover {
        Mover { shared, ..Mover::default() }
    }

    /// How many files the profile wants copied at the same time in such a tree.
    pub fn jobs_of_profile<'f>(
        &mut self,
        options: &DataOptions,
        [source, dest]: [DeviceNumber; 2],
        sides: impl FnOnce() -> Option<[BorrowedFd<'f>; 2]>,
    ) -> Option<usize> {
        self.places.find(options, (source, dest), sides)?.jobs()
    }

    /// Bytes of copies that went through the page cache since this was asked last.
    pub fn take_left_in_cache(&mut self) -> u64 {
        std::mem::take(&mut self.left_in_cache)
    }

    /// What the profile says of a file.
    fn preferred(&mut self, job: &Transfer<'_>, options: &DataOptions) -> Preference {
        let elsewhere = job.elsewhere.is_some();
        if elsewhere
            || options.profile.is_none()
            || job.source_inode.kind != Kind::Regular
            || job.dest_inode.kind != Kind::Regular
        {
            return Preference::default();
        }
        let devices = (job.source_inode.id.device(), job.dest_inode.id.device());
        let sides = || Some([job.source.as_fd(), job.dest.as_fd()]);
        let place = self.places.find(options, devices, sides);
        place.map(|place| place.preference(SizeClass::of(job.source_inode.size))).unwrap_or_default()
    }

    /// [`strategy::choose`] by what needs no questions, which is the same for most files of a tree.
    fn choose_quickly(&mut self, facts: &DataFacts, options: &DataOptions) -> Arc<Steps> {
        let facts = facts.in_kind();
        match &self.chosen {
            Some((same, steps)) if *same == facts => Arc::clone(steps),
            _ => {
                let steps = Arc::new(strategy::choose(&facts, options));
                self.chosen = Some((facts, Arc::clone(&steps)));
                steps
            }
        }
    }

    /// What is known of a file without questions, what was chosen by that, and whether it is a small file that is moved in one
    /// go.
    fn look(
        &mut self,
        job: &Transfer<'_>,
        options: &DataOptions,
        control: Control<'_>,
    ) -> (DataFacts, Arc<Steps>, bool) {
        let preferred = self.preferred(job, options);
        let quick = DataFacts { preferred, ..self.facts(job, false) };
        let steps = self.choose_quickly(&quick, options);
        let small = options.readahead.is_none() && self.small.may_move(job, (&quick, &steps), control);
        (quick, steps, small)
    }

    /// Whether a file is written over the old contents of its destination in one go, and cut to its size afterwards: nothing is
    /// lost by that before the new bytes are there, and the blocks stay where they are. A file that was truncated first would
    /// get new ones and be written back at its close (ext4, XFS), which takes most of the time of a small file.
    pub fn overwrites(&mut self, job: &Transfer<'_>, options: &DataOptions, control: Control<'_>) -> bool {
        job.dest_inode.size > 0 && self.look(job, options, control).2
    }

    /// Moves the data.
    pub fn move_data(&mut self, job: &Transfer<'_>, options: &DataOptions, control: Control<'_>) -> Report {
        let (quick, steps, small) = self.look(job, options, control);
        let preferred = quick.preferred;
        let started = Instant::now();
        let truncating = |steps, errno| {
            let stop = Stop::Failed(Cause::Truncating(errno));
            Report::nothing(steps, started.elapsed(), Some(stop))
        };
        if small {
            match self.small.moves(job) {
                Ok(false) => {}
                Ok(true) => {
                    if let Some(sending) = self.sending(job, options, control) {
                        sending.small(job.source_inode.size);
                    }
                    return self.report_small(job, steps, control, started);
                }
                Err(errno) => return truncating(steps, errno),
            }
        } else if job.overwrites
            && let Err(errno) = again(|| Linux.set_size(job.dest.as_fd(), 0))
        {
            // It is not as it was when it was looked at.
            return truncating(steps, errno);
        }
        let large = probe::is_worth_it(job.source_inode, job.dest_inode, WORTH_ASKING);
        if large {
            self.shared.probe.begin();
        }
        let mut refused = Vec::new();
        if let Some(name) = steps.cloning_first().filter(|_| large) {
            // Sharing extents takes a millisecond, and the questions about a large file some fifty.
            let mut attempt = Moving::new(job, control, &quick, &steps, options, (&self.shared.ahead, None));
            let cloned = attempt.clone_whole(&mut self.engines, name).and_then(|end| match end {
                Some(end) => attempt.complete(end).map(Some),
                None => Ok(None),
            });
            match cloned {
                Ok(None) => refused = std::mem::take(&mut attempt.tried),
                Ok(Some(())) => return self.conclude(attempt, options, Ok(()), large, started),
                Err(stop) => return self.conclude(attempt, options, Err(stop), large, started),
            }
        }
        for tried in &refused {
            self.learn(job, tried);
        }
        if !large {
            let sending = self.sending(job, options, control);
            let mut moving = Moving::new(job, control, &quick, &steps, options, (&self.shared.ahead, sending));
            let result = moving.run(&mut self.engines);
            return self.conclude(moving, options, result, large, started);
        }
        let facts = DataFacts { preferred, ..self.facts(job, large) };
        let steps = Arc::new(strategy::choose(&facts, options));
        let sending = self.sending(job, options, control);
        let mut moving = Moving::new(job, control, &facts, &steps, options, (&self.shared.ahead, sending));
        moving.useless.extend(refused.iter().map(|tried| tried.engine));
        moving.tried = refused;
        let result = moving.run(&mut self.engines);
        self.conclude(moving, options, result, large, started)
    }

    /// Moves a part of a file (offset and length) for another process, which reports on the file.
    pub fn move_part(
        &mut self,
        job: &Transfer<'_>,
        options: &DataOptions,
        control: Control<'_>,
        (offset, len): (u64, u64),
    ) -> PartReport {
        let started = Instant::now();
        self.shared.probe.begin();
        let preferred = self.preferred(job, options);
        let facts = DataFacts { preferred, ..self.facts(job, true) };
        let steps = Arc::new(strategy::choose(&facts, options));
        // The file's other parts come from elsewhere.
        let mut moving = Moving::new(job, control, &facts, &steps, options, (&self.shared.ahead, None));
        let reached = moving.run_part(offset, len);
        let closed = moving.close();
        self.shared.probe.end(moving.moved.total(), moving.left_in_cache());
        let reached = if closed.is_ok() { reached } else { 0 };
        PartReport { reached, tried: moving.tried, moved: moving.moved, time: started.elapsed() }
    }

    /// How a file goes to its device, if somebody has to see to that: a small one only where the device is known to be slow.
    fn sending(&mut self, job: &Transfer<'_>, options: &DataOptions, control: Control<'_>) -> Option<Sending> {
        let is_large = job.source_inode.size >= PIECE;
        let kernel = options.writeback == Writeback::Kernel || job.dest_inode.kind != Kind::Regular;
        if kernel || !(is_large || self.shared.unwritten.is_asked_of_all()) {
            return None;
        }
        let number = job.dest_inode.id.device();
        let device = match &self.written_to {
            Some((same, device)) if *same == number => device,
            _ => &self.written_to.insert((number, self.shared.unwritten.device(number, job.dest.as_fd()))).1,
        };
        let device = device.as_ref()?;
        let counts = is_large || device.counts_all();
        counts.then(|| Sending::new(Arc::clone(device), &job.dest, (job.start, job.source_inode.size), control.cancel))
    }

    /// A small file was moved.
    fn report_small(
        &mut self,
        job: &Transfer<'_>,
        steps: Arc<Steps>,
        control: Control<'_>,
        started: Instant,
    ) -> Report {
        let size = job.source_inode.size;
        let moved = Moved { written: size, ..Moved::default() };
        self.left_in_cache += size;
        if size > 0 {
            control.progress.moved(moved);
        }
        let tried = vec![Tried { engine: EngineName::ReadWrite, moved, refused: None }];
        Report { tried, own: moved, moved, ..Report::nothing(steps, started.elapsed(), None) }
    }

    /// Closes what the file was moved with, and learns from it.
    fn conclude(
        &mut self,
        mut moving: Moving<'_>,
        options: &DataOptions,
        result: Result<(), Stop>,
        large: bool,
        started: Instant,
    ) -> Report {
        let (job, control, steps) = (moving.job, moving.control, moving.steps);
        if result.is_err() {
            moving.cut();
        }
        let result = result.and(moving.close());
        self.left_in_cache += moving.left_in_cache();
        if large {
            self.shared.probe.end(moving.moved.total(), moving.left_in_cache());
        }
        for tried in &moving.tried {
            self.learn(job, tried);
        }
        let tried = std::mem::take(&mut moving.tried);
        let mut known = if control.progress.wants_all() { self.known_refusals(job, steps) } else { Vec::new() };
        known.retain(|known| tried.iter().all(|tried| tried.engine != known.engine));
        let devices = (job.source_inode.id.device(), job.dest_inode.id.device());
        let place = if steps.profile.is_some() { self.places.find(options, devices, || None) } else { None };
        Report {
            steps: Arc::clone(steps),
            profile_origin: place.map(|place| place.origin.clone()),
            known,
            tried,
            own: moving.moved,
            moved: moving.moved_by_all(),
            workers: moving.workers,
            time: started.elapsed(),
            stopped: result.err(),
        }
    }

    fn facts(&mut self, job: &Transfer<'_>, large: bool) -> DataFacts {
        let (source, dest) = (job.source_inode, job.dest_inode);
        let pair = (source.id.device(), dest.id.device());
        let cannot = {
            // Held for a moment only: what is asked below can take its time on some filesystems.
            let known = self.shared.cannot.read();
            [EngineName::Clone, EngineName::CopyRange].map(|engine| known.contains_key(&(engine, pair.0, pair.1)))
        };
        let sides = ((&*job.source, source), (&*job.dest, dest));
        let around = large.then(|| {
            let probe = &self.shared.probe;
            probe.look((job.source.as_fd(), source), (job.dest.as_fd(), dest))
        });
        let (dest_on, one_server) = (self.dest_on(job, cannot[0]), self.are_on_one_server(job));
        let read_elsewhere = job.elsewhere.is_some();
        let sides = facts_of_sides(sides, cannot, (dest_on, around));
        DataFacts { demands: job.demands, read_elsewhere, one_server, ..sides }
    }

    /// What the destination is on, where something depends on that.
    fn dest_on(&mut self, job: &Transfer<'_>, cannot_clone: bool) -> Filesystem {
        let (size, device) = (job.source_inode.size, job.dest_inode.id.device());
        let is_allocated = size >= ALLOCATED_FIRST && device.major != 0;
        let may_be_tiny = (1..=MOST_TINY).contains(&size) && !cannot_clone;
        if !is_allocated && !may_be_tiny {
            return Filesystem::Other;
        }
        match self.asked {
            Some((same, on)) if same == device => on,
            _ => {
                let on = probe::filesystem_of(job.dest.as_fd());
                self.asked = Some((device, on));
                on
            }
        }
    }

    /// Whether one server has both sides. A filesystem of the network has to ask it: for files that are worth it, and each thread
    /// once.
    fn are_on_one_server(&mut self, job: &Transfer<'_>) -> bool {
        let devices = [job.source_inode.id.device(), job.dest_inode.id.device()];
        if job.source_inode.size < READ_AHEAD || devices.iter().any(|device| device.major != 0) {
            return false;
        }
        match self.one_server {
            Some((same, known)) if same == devices => known,
            _ => {
                let found = probe::are_on_one_server(job.source.as_fd(), job.dest.as_fd());
                self.one_server = Some((devices, found));
                found
            }
        }
    }

    /// What engines would have said that were not asked again. Each thread learns for itself when it needs not ask, and
    /// what is reported must not depend on that.
    fn known_refusals(&self, job: &Transfer<'_>, steps: &Steps) -> Vec<Tried> {
        let pair = (job.source_inode.id.device(), job.dest_inode.id.device());
        let known = self.shared.cannot.read();
        let refused = |engine: &EngineName| {
            let refusal = known.get(&(*engine, pair.0, pair.1))?;
            Some(Tried { engine: *engine, moved: Moved::default(), refused: Some(*refusal) })
        };
        steps.passed_over.iter().filter_map(refused).collect()
    }

    /// Remembers refusals that concern the two filesystems and not just these two files.
    fn learn(&mut self, job: &Transfer<'_>, tried: &Tried) {
        let Some(refusal) = tried.refused else { return };
        // What a server has not answered once is not asked of it again: each time takes as long.
        let of_filesystems = matches!(
            refusal,
            Refusal::NoAnswer | Refusal::Unsupported(Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY | Errno::NOSYS)
        );
        if of_filesystems && matches!(tried.engine, EngineName::Clone | EngineName::CopyRange) {
            let pair = (job.source_inode.id.device(), job.dest_inode.id.device());
            let mut known = self.shared.cannot.write();
            known.insert((tried.engine, pair.0, pair.1), refusal);
        }
    }
}

/// What a copy between two open files would be chosen by, if nothing is known of the two filesystems yet. `dest` is as a copy
/// opens it; the plan's profile is left out.
///
/// # Errors
/// As statx(2).
pub fn facts_of(source: &OwnedFd, dest: &OwnedFd) -> Result<DataFacts, Errno> {
    let inodes = (Inode::of(source.as_fd())?, Inode::of(dest.as_fd())?);
    let around = Probe::default().look((source.as_fd(), &inodes.0), (dest.as_fd(), &inodes.1));
    let dest_on = probe::filesystem_of(dest.as_fd());
    let one_server = probe::are_on_one_server(source.as_fd(), dest.as_fd());
    let sides = facts_of_sides(((source, &inodes.0), (dest, &inodes.1)), [false, false], (dest_on, Some(around)));
    Ok(DataFacts { one_server, ..sides })
}

/// `cannot`: the filesystems are known not to clone, and not to copy inside the kernel.
fn facts_of_sides(
    ((source_fd, source), (dest_fd, dest)): ((&OwnedFd, &Inode), (&OwnedFd, &Inode)),
    cannot: [bool; 2],
    (dest_on, around): (Filesystem, Option<Surroundings>),
) -> DataFacts {
    DataFacts {
        source: source.kind,
        dest: dest.kind,
        size: source.size,
        allocated: source.allocated,
        seekable: has_offsets(source_fd, source) && has_offsets(dest_fd, dest),
        pseudo_file: source.kind == Kind::Regular && is_pseudo_file(source_fd, source),
        clone_is_known_to_fail: cannot[0],
        copy_range_is_known_to_fail: cannot[1],
        dest_block: dest.block_size,
        direct_source: direct_align(source).is_some(),
        direct_dest: direct_align(dest).is_some(),
        local_disk: source.id.device().major != 0,
        one_server: false,
        dest_on,
        replaces: dest.size > 0,
        read_elsewhere: false,
        around,
        demands: Demands::NONE,
        preferred: Preference::default(),
    }
}

#[cfg(test)]
#[path = "mover_tests.rs"]
mod tests;
