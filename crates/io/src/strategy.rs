//! Chooses how the data of one file is moved: a pure function of facts and options, without input, output, clock or
//! globals.
//!
//! [`choose`] gives [`Steps`]: engines in order, ranges, what becomes of zeros, workers, and the reasons in words,
//! which `--explain` and the tests read. `large` decides whether a copy goes to the device. `prefer` is the only place
//! where a profile changes steps.

mod facts;
mod large;
mod prefer;
mod steps;
mod tiny;

use std::time::Duration;

use haul_sys::inode::Kind;

use crate::engine::{DIRECT_BUFFER, EngineName, PageCache, Role};
use crate::facts::{Filesystem, Surroundings};

use crate::options::{CacheUse, DataOptions, EngineChoice, Preallocate, Reflink, Sparse};

pub use self::facts::SMALL;
use self::facts::is_cold;
pub use self::facts::{DataFacts, Demands, WORTH_ASKING};
pub(crate) use self::large::ALLOCATED_FIRST;
use self::large::can_be_allocated_first;
pub(crate) use self::large::leaves_the_cache;
pub use self::large::{Large, goes_to_device};
pub use self::steps::{HoleSearch, Ranges, Steps, Workers};
pub use self::tiny::MOST as MOST_TINY;

/// Files of at least this size are read ahead: smaller ones come with the first window of the kernel's own.
pub(crate) const READ_AHEAD: u64 = 128 << 10;

/// How long a server may take to copy what one call asks for, 128 MiB at most. The client of NFS 4.2 waits for the server to call
/// back, and before Linux 6.14 for ever if that gets lost with a connection.
const PATIENCE: Duration = Duration::from_secs(120);

/// Chooses.
pub fn choose(facts: &DataFacts, options: &DataOptions) -> Steps {
    let mut steps = Steps {
        engines: Vec::with_capacity(3),
        passed_over: Vec::new(),
        strict: false,
        at_once_if_cached: false,
        ranges: Ranges::Whole,
        find_zeros: false,
        workers: Workers::ONE,
        tuning: prefer::tuning(options, None),
        profile: None,
        preallocate: false,
        read_ahead: false,
        forget_source: false,
        send_dest: false,
        reasons: Vec::with_capacity(6),
    };
    choose_ranges(facts, options, &mut steps);
    if options.reflink == Reflink::Always {
        steps.engines.push(EngineName::Clone);
        steps.strict = true;
        steps.reasons.push("--reflink=always: extents are shared or the copy fails");
        return steps;
    }
    match options.engine {
        EngineChoice::Only(name) => choose_forced(name, options, &mut steps),
        EngineChoice::Auto => {
            choose_freely(facts, options, &mut steps);
            prefer::engine(facts, options, &mut steps);
        }
    }
    if facts.one_server && steps.engines.contains(&EngineName::CopyRange) {
        steps.tuning.patience = Some(PATIENCE);
    }
    if steps.ranges != Ranges::Stream && !steps.strict {
        choose_around(facts, options, &mut steps);
        choose_space(facts, options, &mut steps);
    }
    steps
}

fn choose_forced(name: EngineName, options: &DataOptions, steps: &mut Steps) {
    let caps = name.caps();
    if caps.may_share_or_keep_holes() && (options.reflink == Reflink::Never || options.sparse == Sparse::Never) {
        steps.engines.push(EngineName::ReadWrite);
        steps.reasons.push("the engine asked for could share extents or keep holes, which another option forbids");
        return;
    }
    steps.engines.push(name);
    steps.reasons.push("--engine: this one goes first");
    steps.strict = caps.role == Role::Dummy;
    if !caps.takes_everything() {
        steps.engines.push(EngineName::ReadWrite);
    }
}

fn choose_ranges(facts: &DataFacts, options: &DataOptions, steps: &mut Steps) {
    let can_have_holes = facts.dest == Kind::Regular;
    if options.sparse == Sparse::Always && can_have_holes {
        steps.find_zeros = true;
        steps.reasons.push("--sparse=always: blocks of zeros become holes");
    }
    if !facts.seekable || facts.pseudo_file {
        steps.ranges = Ranges::Stream;
        steps.reasons.push("the source has no offsets or no true size: it is read until it ends");
        return;
    }
    if facts.source == Kind::Regular
        && can_have_holes
        && options.sparse != Sparse::Never
        && facts.allocated < facts.size
    {
        steps.ranges = Ranges::Extents;
        steps.reasons.push("less is allocated than the size: the holes are looked for");
    }
}

fn choose_freely(facts: &DataFacts, options: &DataOptions, steps: &mut Steps) {
    let copies_bytes = facts.source == Kind::Regular && matches!(facts.dest, Kind::Regular | Kind::BlockDevice);
    if steps.ranges == Ranges::Stream || !copies_bytes || facts.size == 0 {
        steps.engines.push(EngineName::ReadWrite);
        return;
    }
    if facts.read_elsewhere {
        steps.engines.push(EngineName::ReadWrite);
        steps.tuning.buffer_size = steps.tuning.buffer_size.or(Some(FROM_ELSEWHERE));
        steps.reasons.push("several processes read the source together, and pass it on");
        return;
    }
    let may_share = facts.dest == Kind::Regular
        && !steps.find_zeros
        && options.sparse != Sparse::Never
        && options.reflink != Reflink::Never;
    if facts.dest == Kind::BlockDevice {
        steps.reasons.push("a device shares no extents");
    } else if steps.find_zeros {
        steps.reasons.push("only an engine that sees the bytes finds zeros");
    } else if options.sparse == Sparse::Never {
        steps.reasons.push("--sparse=never: sharing extents or copying inside the kernel could keep holes");
    } else if options.reflink == Reflink::Never {
        steps.reasons.push("--reflink=never: copying inside the kernel could share extents");
    } else if facts.clone_is_known_to_fail {
        steps.passed_over.push(EngineName::Clone);
        steps.reasons.push("these filesystems do not share extents");
    } else {
        // Also where the device numbers differ: the subvolumes of a btrfs have different ones.
        steps.engines.push(EngineName::Clone);
        steps.at_once_if_cached = steps.ranges == Ranges::Whole
            && tiny::is_read_and_written_sooner(facts.size, facts.dest_on, facts.demands.durable);
        steps.reasons.push(match steps.at_once_if_cached {
            true => "tiny: what is in the page cache is written sooner than its extents are shared",
            false => "sharing extents is tried first",
        });
    }
    if may_share && facts.size >= SMALL && facts.one_server && !facts.copy_range_is_known_to_fail {
        // Also of what is sparse there, or compressed, which looks the same from here.
        steps.engines.extend([EngineName::CopyRange, EngineName::ReadWrite]);
        steps.reasons.push("both sides are on one server, which is asked to copy");
        return;
    }
    push_past_the_cache(facts, options, steps);
    let buffered = !steps.engines.iter().any(is_direct);
    if may_share && steps.ranges == Ranges::Extents {
        steps.reasons.push("sparse: read and write beat copy_file_range on many small extents");
    } else if may_share && facts.size < SMALL {
        steps.reasons.push("small: one read and one write are the quickest");
    } else if may_share && facts.copy_range_is_known_to_fail {
        steps.passed_over.push(EngineName::CopyRange);
    } else if may_share && buffered && can_be_allocated_first(facts, options, steps) {
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
fn push_past_the_cache(facts: &DataFacts, options: &DataOptions, steps: &mut Steps) {
    let Some(around) = &facts.around else { return };
    let large = Large::of(facts, around, options, steps);
    if !goes_to_device(&large, options.cache) {
        if large.would_go(options.cache) {
            steps.reasons.push("this filesystem takes it into the page cache quicker than a device would");
        }
        return;
    }
    steps.reasons.push(match options.cache {
        CacheUse::Drop => "--cache=drop: the copy goes to the device",
        _ => "large for the free memory: the copy goes to the device and not into the page cache",
    });
    if !facts.direct_dest {
        steps.reasons.push("no direct I/O at the destination");
        return;
    }
    if facts.demands.reads_again && (is_cold(facts) || steps.find_zeros || facts.demands.verified_in_cache) {
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

fn is_direct(name: &EngineName) -> bool {
    name.caps().page_cache == PageCache::Bypassed
}

/// Buffer in bytes for files that go to XFS through the page cache, which takes each write as one folio, if it can get one
/// (4 GiB: 0.49 (0.48-0.61) s with 128 KiB, 0.45 (0.38-0.50) with 256, with 1 MiB 0.48 (0.44-1.07): larger ones do not stay
/// in the processor's cache, and the kernel may have to look for memory).
const TO_XFS: usize = 256 << 10;

/// Buffer in bytes for what other processes have read: each is a question to one of them.
pub const FROM_ELSEWHERE: usize = 1 << 20;

/// What concerns all engines: workers, reading ahead, and what stays in the page cache.
fn choose_around(facts: &DataFacts, options: &DataOptions, steps: &mut Steps) {
    // Whoever names an engine wants to see that engine, and says himself whether to read ahead of it.
    let plain = facts.source == Kind::Regular
        && steps.ranges == Ranges::Whole
        && options.engine == EngineChoice::Auto
        && !facts.read_elsewhere;
    let Some(around) = &facts.around else {
        // Not asked whether it is cold: to say so of pages that are there costs little.
        let is_medium = facts.size >= READ_AHEAD && facts.size < WORTH_ASKING;
        steps.read_ahead = plain && is_medium && !is_copied_by_server(facts, steps);
        return;
    };
    if facts.source != Kind::Regular {
        return;
    }
    steps.read_ahead = plain && is_cold(facts) && !is_copied_by_server(facts, steps);
    let to_device = goes_to_device(&Large::of(facts, around, options, steps), options.cache);
    // What this process reads of a source that others read, too, they will ask for.
    steps.forget_source = to_device && !facts.read_elsewhere && around.cached.is_some_and(|cached| cached < facts.size);
    let drop = options.cache == CacheUse::Drop || (to_device && (facts.demands.reads_again || facts.read_elsewhere));
    steps.send_dest = drop && facts.dest == Kind::Regular;
    steps.workers = workers(facts, around, steps);
    steps.workers = prefer::workers(facts, around, steps);
    if facts.demands.reads_again {
        // Who reads behind them takes a processor, too.
        let most = steps.workers.most.min(around.cores.saturating_sub(1).max(1));
        steps.workers = Workers { start: steps.workers.start.min(most), most };
    }
}

/// Whether the space is allocated before it is written.
fn choose_space(facts: &DataFacts, options: &DataOptions, steps: &mut Steps) {
    let dense = steps.ranges == Ranges::Whole && !steps.find_zeros && facts.dest == Kind::Regular;
    if !dense || facts.size == 0 {
        return;
    }
    let direct = steps.engines.iter().any(is_direct);
    // By name: which engines gain by it is for the strategy to say, and no property of theirs.
    let buffered =
        matches!(steps.first_mover(), Some(EngineName::ReadWrite | EngineName::CopyRange | EngineName::Splice));
    let why = match options.preallocate {
        Preallocate::Never => return,
        Preallocate::Always => "--preallocate: the space is allocated first",
        Preallocate::Auto if direct && steps.workers.most > 1 => {
            "the space is allocated first, so that direct writes need not wait for each other"
        }
        Preallocate::Auto if buffered && can_be_allocated_first(facts, options, steps) => {
            "the space is allocated first, so that ext4 need not set it aside page by page"
        }
        Preallocate::Auto => return,
    };
    steps.preallocate = true;
    steps.reasons.push(why);
}

/// Whether a server is asked to copy. What is read ahead of that here goes over the network for nothing.
fn is_copied_by_server(facts: &DataFacts, steps: &Steps) -> bool {
    steps.first_mover() == Some(EngineName::CopyRange) && facts.one_server
}

/// How many workers, by the engine that comes first after a clone.
fn workers(facts: &DataFacts, around: &Surroundings, steps: &mut Steps) -> Workers {
    if around.rotational == Some(true) {
        steps.reasons.push("one worker: the heads of the disk move");
        return Workers::ONE;
    }
    if is_copied_by_server(facts, steps) {
        // The client of NFS holds the inode of the destination until the server has the copy on its disk (COPY, then COMMIT).
        steps.reasons.push("one worker: a server copies one range of a file at a time");
        return Workers::ONE;
    }
    // By name: how many are worth while is for the strategy to say, and no property of an engine.
    let (start, most) = match steps.first_mover() {
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
        // Each waits for an answer of another process most of the time.
        Some(EngineName::ReadWrite) if facts.read_elsewhere => (4, 8),
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
