//! Chooses how the data of one file is moved: a pure function of facts and plan, without input, output, clock or globals.

mod large;
mod prefer;
mod tiny;

use crate::engine::{DIRECT_BUFFER, Tuning};
use crate::events::HoleSearch;
use crate::facts::{Filesystem, Kind, Surroundings};
use crate::plan::profile::{Preference, Setting, SizeClass};
use crate::plan::{CacheUse, EngineChoice, EngineName, Plan, Preallocate, Reflink, Sparse, Verify};

pub(crate) use self::large::{ALLOCATED_FIRST, Large, goes_to_device};
use self::large::{can_be_allocated_first, is_half_cold};
pub(crate) use self::tiny::MOST as MOST_TINY;

/// What is known about the two open files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataFacts {
    /// What the source is.
    pub source: Kind,
    /// What the destination is.
    pub dest: Kind,
    /// Size of the source in bytes as stat gave it.
    pub size: u64,
    /// Bytes allocated to the source.
    pub allocated: u64,
    /// Both sides have offsets.
    pub seekable: bool,
    /// The source is on a filesystem that makes its contents up while they are read (/proc, /sys): its size means nothing.
    pub pseudo_file: bool,
    /// An earlier file of this filesystem pair could not be cloned, since the filesystems cannot.
    pub clone_is_known_to_fail: bool,
    /// An earlier file of this filesystem pair could not be copied inside the kernel.
    pub copy_range_is_known_to_fail: bool,
    /// Preferred size of a request of the destination in bytes, which on disks is the block size: smaller holes are no use.
    pub dest_block: u32,
    /// The kernel says what O_DIRECT demands of the source.
    pub direct_source: bool,
    /// The kernel says what O_DIRECT demands of the destination.
    pub direct_dest: bool,
    /// The source's filesystem has a device of its own here. Otherwise it may be one of the network, whose server copies by
    /// itself when the kernel is asked to.
    pub local_disk: bool,
    /// What the destination is on. Not asked, and other, where nothing depends on it.
    pub dest_on: Filesystem,
    /// The destination held something before this copy.
    pub replaces: bool,
    /// What is asked only for files of at least [`WORTH_ASKING`] bytes.
    pub around: Option<Surroundings>,
    /// What the user's profile says of files of this size, if it knows the storage.
    pub preferred: Preference,
}

/// Which bytes to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranges {
    /// In order until the source ends, since there are no offsets or the size is not known.
    Stream,
    /// All of them.
    Whole,
    /// The extents that SEEK_DATA and SEEK_HOLE find.
    Extents,
}

/// How to move the data of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    /// Engines in the order in which they are tried. Each goes on where the one before refused.
    pub engines: Vec<EngineName>,
    /// Engines that would have been tried before them, but are known to refuse.
    pub passed_over: Vec<EngineName>,
    /// Nothing else may be tried: a refusal of the last engine fails the file.
    pub strict: bool,
    /// One read and one write come before the engines, if the source is in the page cache.
    pub at_once_if_cached: bool,
    /// Which bytes to ask for.
    pub ranges: Ranges,
    /// Blocks of zeros become holes.
    pub find_zeros: bool,
    /// How many work at the file.
    pub workers: Workers,
    /// What the engines are made with.
    pub tuning: Tuning,
    /// What a profile has changed of all this.
    pub profile: Option<Setting>,
    /// The space is allocated before it is written.
    pub preallocate: bool,
    /// The source is read ahead in whole pieces: window by window, as the kernel does it for whom reads in order, a cold file
    /// never keeps the device busy.
    pub read_ahead: bool,
    /// Pages of the source that the copy brings into the page cache are forgotten behind it.
    pub forget_source: bool,
    /// Pages of the destination are sent to the device and forgotten behind the copy, where an engine leaves any.
    pub send_dest: bool,
    /// Why, for `--explain`.
    pub reasons: Vec<&'static str>,
}

impl Steps {
    /// How holes are looked for, in the words of the report.
    pub fn hole_search(&self) -> HoleSearch {
        match (self.ranges == Ranges::Extents, self.find_zeros) {
            (false, false) => HoleSearch::None,
            (true, false) => HoleSearch::Seek,
            (false, true) => HoleSearch::Zeros,
            (true, true) => HoleSearch::SeekAndZeros,
        }
    }
}

/// How many workers move the ranges of one file, each with an engine of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workers {
    /// To begin with.
    pub start: usize,
    /// At most. With 1 the file is moved in order.
    pub most: usize,
}

impl Workers {
    /// One after the other.
    pub const ONE: Workers = Workers { start: 1, most: 1 };
}

/// Files below this size are copied before the questions about them are answered.
pub const WORTH_ASKING: u64 = SizeClass::Medium.least();

/// Files of at least this size are read ahead: smaller ones come with the first window of the kernel's own.
const READ_AHEAD: u64 = 128 << 10;

/// Below this size one read and one write are quicker than setting up an in-kernel copy (measured: 100,000 files of
/// 1 to 16 KiB took 1.2 times as long with copy_file_range).
pub(crate) const SMALL: u64 = SizeClass::Small.least();

impl DataFacts {
    /// Facts that lead to the same choice and are the same for most small files, for which it is made only once.
    #[must_use]
    pub fn in_kind(self) -> DataFacts {
        let dense_and_small = (1..SMALL).contains(&self.size) && self.allocated >= self.size && self.around.is_none();
        let size = if tiny::is_tiny(&self) { 1 } else { SMALL - 1 };
        if dense_and_small { DataFacts { size, allocated: size, ..self } } else { self }
    }
}

/// Chooses.
pub fn choose(facts: &DataFacts, plan: &Plan) -> Steps {
    let mut steps = Steps {
        engines: Vec::with_capacity(3),
        passed_over: Vec::new(),
        strict: false,
        at_once_if_cached: false,
        ranges: Ranges::Whole,
        find_zeros: false,
        workers: Workers::ONE,
        tuning: prefer::tuning(plan, None),
        profile: None,
        preallocate: false,
        read_ahead: false,
        forget_source: false,
        send_dest: false,
        reasons: Vec::with_capacity(6),
    };
    choose_ranges(facts, plan, &mut steps);
    if plan.reflink == Reflink::Always {
        steps.engines.push(EngineName::Clone);
        steps.strict = true;
        steps.reasons.push("--reflink=always: extents are shared or the copy fails");
        return steps;
    }
    match plan.engine {
        EngineChoice::Only(name) => choose_forced(name, plan, &mut steps),
        EngineChoice::Auto => {
            choose_freely(facts, plan, &mut steps);
            prefer::engine(facts, plan, &mut steps);
        }
    }
    if steps.ranges != Ranges::Stream && !steps.strict {
        choose_around(facts, plan, &mut steps);
        choose_space(facts, plan, &mut steps);
    }
    steps
}

fn choose_forced(name: EngineName, plan: &Plan, steps: &mut Steps) {
    let may_share_or_keep_holes = matches!(name, EngineName::Clone | EngineName::CopyRange);
    if may_share_or_keep_holes && (plan.reflink == Reflink::Never || plan.sparse == Sparse::Never) {
        steps.engines.push(EngineName::ReadWrite);
        steps.reasons.push("the engine asked for could share extents or keep holes, which another option forbids");
        return;
    }
    steps.engines.push(name);
    steps.reasons.push("--engine: this one goes first");
    match name {
        EngineName::Null => steps.strict = true,
        EngineName::ReadWrite | EngineName::Reference => {}
        _ => steps.engines.push(EngineName::ReadWrite),
    }
}

fn choose_ranges(facts: &DataFacts, plan: &Plan, steps: &mut Steps) {
    let can_have_holes = facts.dest == Kind::Regular;
    if plan.sparse == Sparse::Always && can_have_holes {
        steps.find_zeros = true;
        steps.reasons.push("--sparse=always: blocks of zeros become holes");
    }
    if !facts.seekable || facts.pseudo_file {
        steps.ranges = Ranges::Stream;
        steps.reasons.push("the source has no offsets or no true size: it is read until it ends");
        return;
    }
    if facts.source == Kind::Regular && can_have_holes && plan.sparse != Sparse::Never && facts.allocated < facts.size {
        steps.ranges = Ranges::Extents;
        steps.reasons.push("less is allocated than the size: the holes are looked for");
    }
}

fn choose_freely(facts: &DataFacts, plan: &Plan, steps: &mut Steps) {
    let copies_bytes = facts.source == Kind::Regular && matches!(facts.dest, Kind::Regular | Kind::BlockDevice);
    if steps.ranges == Ranges::Stream || !copies_bytes || facts.size == 0 {
        steps.engines.push(EngineName::ReadWrite);
        return;
    }
    let may_share = facts.dest == Kind::Regular
        && !steps.find_zeros
        && plan.sparse != Sparse::Never
        && plan.reflink != Reflink::Never;
    if facts.dest == Kind::BlockDevice {
        steps.reasons.push("a device shares no extents");
    } else if steps.find_zeros {
        steps.reasons.push("only an engine that sees the bytes finds zeros");
    } else if plan.sparse == Sparse::Never {
        steps.reasons.push("--sparse=never: sharing extents or copying inside the kernel could keep holes");
    } else if plan.reflink == Reflink::Never {
        steps.reasons.push("--reflink=never: copying inside the kernel could share extents");
    } else if facts.clone_is_known_to_fail {
        steps.passed_over.push(EngineName::Clone);
        steps.reasons.push("these filesystems do not share extents");
    } else {
        // Also where the device numbers differ: the subvolumes of a btrfs have different ones.
        steps.engines.push(EngineName::Clone);
        steps.at_once_if_cached = steps.ranges == Ranges::Whole && tiny::is_read_and_written_sooner(facts, plan);
        steps.reasons.push(match steps.at_once_if_cached {
            true => "tiny: what is in the page cache is written sooner than its extents are shared",
            false => "sharing extents is tried first",
        });
    }
    push_past_the_cache(facts, plan, steps);
    let past_the_cache = |name: &EngineName| matches!(name, EngineName::Direct | EngineName::MappedDirect);
    let buffered = !steps.engines.iter().any(past_the_cache);
    if may_share && steps.ranges == Ranges::Extents {
        steps.reasons.push("sparse: read and write beat copy_file_range on many small extents");
    } else if may_share && facts.size < SMALL {
        steps.reasons.push("small: one read and one write are the quickest");
    } else if may_share && facts.copy_range_is_known_to_fail {
        steps.passed_over.push(EngineName::CopyRange);
    } else if may_share && buffered && can_be_allocated_first(facts, plan, steps) {
        steps.reasons.push("read and write beat copy_file_range on ext4 where the space is allocated first");
    } else if may_share && !(is_cold(facts) && facts.local_disk) {
        steps.engines.push(EngineName::CopyRange);
        steps.reasons.push("through the page cache, the kernel copies without a detour through this process");
    }
    steps.engines.push(EngineName::ReadWrite);
    if buffered && facts.around.is_some() && facts.dest_on == Filesystem::Xfs {
        steps.tuning.buffer_size = steps.tuning.buffer_size.or(Some(TO_XFS));
    }
}

/// The engines that leave the page cache alone, for files that are not to stay there.
fn push_past_the_cache(facts: &DataFacts, plan: &Plan, steps: &mut Steps) {
    let Some(around) = &facts.around else { return };
    let large = Large::of(facts, around, plan, steps);
    if !goes_to_device(&large, plan.cache) {
        if large.would_go(plan.cache) {
            steps.reasons.push("this filesystem takes it into the page cache quicker than a device would");
        }
        return;
    }
    steps.reasons.push(match plan.cache {
        CacheUse::Drop => "--cache=drop: the copy goes to the device",
        _ => "large for the free memory: the copy goes to the device and not into the page cache",
    });
    if !facts.direct_dest {
        steps.reasons.push("no direct I/O at the destination");
        return;
    }
    if plan.reads_again() && (is_cold(facts) || steps.find_zeros || plan.verify == Verify::Read) {
        steps.reasons.push("what is read again behind the copy goes through the page cache, and leaves it then");
        return;
    }
    if is_cold(facts) || steps.find_zeros {
        steps.engines.push(EngineName::Direct);
        steps.reasons.push("direct I/O: the source is not in the page cache, or its bytes must be seen");
    } else {
        steps.engines.push(EngineName::MappedDirect);
        steps.reasons.push("the source is in the page cache: the device takes it straight from there");
    }
    steps.engines.push(EngineName::Dontcache);
}

/// Less than half of the source is in the page cache.
fn is_cold(facts: &DataFacts) -> bool {
    facts.around.is_some_and(|around| is_half_cold(&around, facts.size.min(facts.allocated)))
}

/// Buffer in bytes for files that go to XFS through the page cache, which takes each write as one folio, if it can get one
/// (4 GiB: 0.49 (0.48-0.61) s with 128 KiB, 0.45 (0.38-0.50) with 256, with 1 MiB 0.48 (0.44-1.07): larger ones do not stay
/// in the processor's cache, and the kernel may have to look for memory).
const TO_XFS: usize = 256 << 10;

/// What concerns all engines: workers, reading ahead, and what stays in the page cache.
fn choose_around(facts: &DataFacts, plan: &Plan, steps: &mut Steps) {
    // Whoever names an engine wants to see that engine, and says himself whether to read ahead of it.
    let plain = facts.source == Kind::Regular && steps.ranges == Ranges::Whole && plan.engine == EngineChoice::Auto;
    let Some(around) = &facts.around else {
        // Not asked whether it is cold: to say so of pages that are there costs little.
        steps.read_ahead = plain && facts.size >= READ_AHEAD && facts.size < WORTH_ASKING;
        return;
    };
    if facts.source != Kind::Regular {
        return;
    }
    steps.read_ahead = plain && is_cold(facts);
    let to_device = goes_to_device(&Large::of(facts, around, plan, steps), plan.cache);
    steps.forget_source = to_device && around.cached.is_some_and(|cached| cached < facts.size);
    let drop = plan.cache == CacheUse::Drop || (to_device && plan.reads_again());
    steps.send_dest = drop && facts.dest == Kind::Regular;
    steps.workers = workers(facts, around, steps);
    steps.workers = prefer::workers(facts, around, steps);
    if plan.reads_again() {
        // Who reads behind them takes a processor, too.
        let most = steps.workers.most.min(around.cores.saturating_sub(1).max(1));
        steps.workers = Workers { start: steps.workers.start.min(most), most };
    }
}

/// Whether the space is allocated before it is written.
fn choose_space(facts: &DataFacts, plan: &Plan, steps: &mut Steps) {
    let dense = steps.ranges == Ranges::Whole && !steps.find_zeros && facts.dest == Kind::Regular;
    if !dense || facts.size == 0 {
        return;
    }
    let direct = steps.engines.iter().any(|name| matches!(name, EngineName::Direct | EngineName::MappedDirect));
    let first = steps.engines.iter().find(|name| **name != EngineName::Clone);
    let buffered = matches!(first, Some(EngineName::ReadWrite | EngineName::CopyRange | EngineName::Splice));
    let why = match plan.preallocate {
        Preallocate::Never => return,
        Preallocate::Always => "--preallocate: the space is allocated first",
        Preallocate::Auto if direct && steps.workers.most > 1 => {
            "the space is allocated first, so that direct writes need not wait for each other"
        }
        Preallocate::Auto if buffered && can_be_allocated_first(facts, plan, steps) => {
            "the space is allocated first, so that ext4 need not set it aside page by page"
        }
        Preallocate::Auto => return,
    };
    steps.preallocate = true;
    steps.reasons.push(why);
}

/// How many workers, by the engine that comes first after a clone.
fn workers(facts: &DataFacts, around: &Surroundings, steps: &mut Steps) -> Workers {
    if around.rotational == Some(true) {
        steps.reasons.push("one worker: the heads of the disk move");
        return Workers::ONE;
    }
    let first = steps.engines.iter().find(|name| **name != EngineName::Clone);
    let (start, most) = match first {
        Some(EngineName::MappedDirect) => (2, 4),
        Some(EngineName::Direct) => {
            // Each has a buffer, and the page cache that this leaves alone is no use where memory is short.
            let memory = around.memory.map_or(4, |memory| memory / 8 / DIRECT_BUFFER as u64);
            let fit = usize::try_from(memory.clamp(1, 4)).unwrap_or(1);
            (fit, fit)
        }
        // Each waits for the device while it reads an extent, and the kernel does not read ahead across holes (1 GiB cold in
        // 64 KiB extents: 2 workers 2.2 s, 4 1.4, 8 1.2, 16 1.0). One more or fewer makes no difference that could be seen
        // while copying, so it begins with all of them.
        Some(EngineName::ReadWrite) if steps.ranges == Ranges::Extents && is_cold(facts) => (16, 16),
        Some(EngineName::ReadWrite | EngineName::Dontcache | EngineName::Mapped) => (2, around.cores.clamp(2, 4)),
        Some(EngineName::CopyRange) => (around.cores.min(2), around.cores.clamp(1, 4)),
        // The reference is one, and the others see to it themselves.
        _ => return Workers::ONE,
    };
    // Other large files are being copied at the same time.
    let share = |count: usize| (count / around.at_once.max(1)).max(1);
    let enough = usize::try_from(facts.size / WORTH_ASKING).unwrap_or(usize::MAX).max(1);
    Workers { start: share(start).min(enough), most: share(most).min(enough) }
}

#[cfg(test)]
mod tests;
