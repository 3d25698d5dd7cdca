//! Chooses how the data of one file is moved: a pure function of facts and plan, without input, output, clock or globals.

use crate::facts::Kind;
use crate::plan::{EngineChoice, EngineName, Plan, Reflink, Sparse};

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
    pub made_up: bool,
    /// An earlier file of this filesystem pair could not be cloned, since the filesystems cannot.
    pub clone_is_known_to_fail: bool,
    /// An earlier file of this filesystem pair could not be copied inside the kernel.
    pub copy_range_is_known_to_fail: bool,
    /// Preferred size of a request of the destination in bytes, which on disks is the block size: smaller holes are no use.
    pub dest_block: u32,
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
    /// Nothing else may be tried: a refusal of the last engine fails the file.
    pub strict: bool,
    /// Which bytes to ask for.
    pub ranges: Ranges,
    /// Blocks of zeros become holes.
    pub find_zeros: bool,
    /// Why, for `--explain`.
    pub reasons: Vec<&'static str>,
}

/// Below this size one read and one write are quicker than setting up an in-kernel copy (measured: 100,000 files of
/// 1 to 16 KiB took 1.2 times as long with copy_file_range).
const SMALL: u64 = 64 << 10;

/// Chooses.
pub fn choose(facts: &DataFacts, plan: &Plan) -> Steps {
    let mut steps = Steps {
        engines: Vec::with_capacity(3),
        strict: false,
        ranges: Ranges::Whole,
        find_zeros: false,
        reasons: Vec::with_capacity(4),
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
        EngineChoice::Auto => choose_freely(facts, plan, &mut steps),
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
    if !facts.seekable || facts.made_up {
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
    let regular = facts.source == Kind::Regular && facts.dest == Kind::Regular;
    if steps.ranges == Ranges::Stream || !regular || facts.size == 0 {
        steps.engines.push(EngineName::ReadWrite);
        return;
    }
    if steps.find_zeros {
        steps.engines.push(EngineName::ReadWrite);
        steps.reasons.push("only an engine that sees the bytes finds zeros");
        return;
    }
    if plan.sparse == Sparse::Never {
        steps.engines.push(EngineName::ReadWrite);
        steps.reasons.push("--sparse=never: sharing extents or copying inside the kernel could keep holes");
        return;
    }
    if plan.reflink == Reflink::Never {
        steps.engines.push(EngineName::ReadWrite);
        steps.reasons.push("--reflink=never: copying inside the kernel could share extents");
        return;
    }
    if facts.clone_is_known_to_fail {
        steps.reasons.push("these filesystems do not share extents");
    } else {
        // Also where the device numbers differ: the subvolumes of a btrfs have different ones.
        steps.engines.push(EngineName::Clone);
        steps.reasons.push("sharing extents is tried first");
    }
    if steps.ranges == Ranges::Extents {
        steps.reasons.push("sparse: read and write beat copy_file_range on many small extents");
    } else if facts.size < SMALL {
        steps.reasons.push("small: one read and one write are the quickest");
    } else if !facts.copy_range_is_known_to_fail {
        steps.engines.push(EngineName::CopyRange);
        steps.reasons.push("the kernel copies without a detour through this process");
    }
    steps.engines.push(EngineName::ReadWrite);
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: DataFacts = DataFacts {
        source: Kind::Regular,
        dest: Kind::Regular,
        size: 1 << 30,
        allocated: 1 << 30,
        seekable: true,
        made_up: false,
        clone_is_known_to_fail: false,
        copy_range_is_known_to_fail: false,
        dest_block: 4096,
    };

    fn engines(facts: DataFacts, plan: &Plan) -> Vec<EngineName> {
        choose(&facts, plan).engines
    }

    #[test]
    fn a_large_file_is_cloned_or_copied_by_the_kernel() {
        use EngineName::{Clone, CopyRange, ReadWrite};
        let plan = Plan::default();
        assert_eq!(engines(FILE, &plan), [Clone, CopyRange, ReadWrite]);
        assert_eq!(engines(DataFacts { clone_is_known_to_fail: true, ..FILE }, &plan), [CopyRange, ReadWrite]);
        let nothing = DataFacts { clone_is_known_to_fail: true, copy_range_is_known_to_fail: true, ..FILE };
        assert_eq!(engines(nothing, &plan), [ReadWrite]);
    }

    #[test]
    fn every_choice_that_is_not_strict_ends_with_an_engine_that_can_do_everything() {
        for name in EngineName::ALL {
            let steps = choose(&FILE, &Plan { engine: EngineChoice::Only(name), ..Plan::default() });
            let last = steps.engines.last().copied();
            assert_eq!(steps.engines.first(), Some(&name));
            assert!(steps.strict || matches!(last, Some(EngineName::ReadWrite | EngineName::Reference)), "{name}");
        }
    }

    #[test]
    fn reflink_always_tries_nothing_else() {
        let steps = choose(&FILE, &Plan { reflink: Reflink::Always, ..Plan::default() });
        assert_eq!((steps.engines, steps.strict), (vec![EngineName::Clone], true));
    }

    #[test]
    fn reflink_never_and_sparse_never_stay_away_from_engines_that_share_or_keep_holes() {
        for plan in
            [Plan { reflink: Reflink::Never, ..Plan::default() }, Plan { sparse: Sparse::Never, ..Plan::default() }]
        {
            assert_eq!(engines(FILE, &plan), [EngineName::ReadWrite]);
        }
        let sparse = DataFacts { allocated: 0, ..FILE };
        assert_eq!(choose(&sparse, &Plan { sparse: Sparse::Never, ..Plan::default() }).ranges, Ranges::Whole);
    }

    #[test]
    fn an_engine_asked_for_does_not_override_what_must_not_be() {
        for name in [EngineName::Clone, EngineName::CopyRange] {
            let asked = Plan { engine: EngineChoice::Only(name), ..Plan::default() };
            assert_eq!(engines(FILE, &Plan { reflink: Reflink::Never, ..asked.clone() }), [EngineName::ReadWrite]);
            assert_eq!(engines(FILE, &Plan { sparse: Sparse::Never, ..asked }), [EngineName::ReadWrite]);
        }
    }

    #[test]
    fn zeros_of_a_stream_become_holes_too() {
        let facts = DataFacts { source: Kind::Fifo, seekable: false, ..FILE };
        let steps = choose(&facts, &Plan { sparse: Sparse::Always, ..Plan::default() });
        assert_eq!((steps.ranges, steps.find_zeros), (Ranges::Stream, true));
    }

    #[test]
    fn a_size_that_lies_is_not_trusted() {
        let steps = choose(&DataFacts { made_up: true, size: 4096, ..FILE }, &Plan::default());
        assert_eq!((steps.ranges, steps.engines), (Ranges::Stream, vec![EngineName::ReadWrite]));
        let steps = choose(&DataFacts { seekable: false, ..FILE }, &Plan::default());
        assert_eq!(steps.ranges, Ranges::Stream);
    }

    #[test]
    fn holes_are_not_made_in_a_device() {
        let facts = DataFacts { dest: Kind::BlockDevice, allocated: 0, ..FILE };
        let steps = choose(&facts, &Plan { sparse: Sparse::Always, ..Plan::default() });
        assert_eq!((steps.ranges, steps.find_zeros), (Ranges::Whole, false));
    }
}
