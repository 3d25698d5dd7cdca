//! The options of `haul` for what it tells, and for what it does about errors.

use crate::flags::Argument::Optional;
use crate::flags::Category::Output;
use crate::flags::{Choice, Flag, Id, Origin, Values, own};

/// The arguments of `--progress`.
const PROGRESSES: &[Choice] = &[
    own("auto", "when standard error is a terminal"),
    own("always", "also when it is not"),
    own("never", "not at all"),
];

/// The arguments of `--stats`.
const FORMATS: &[Choice] = &[own("text", "for people"), own("json", "one versioned record for programs")];

/// `--explain`
pub(crate) const EXPLAIN: Flag = Flag {
    long: "explain",
    origin: Origin::Haul,
    help: "say for each file what was tried, what was used and why",
    ..Flag::new(Id::Explain, Output)
};

/// `--progress`
pub(crate) const PROGRESS: Flag = Flag {
    long: "progress",
    argument: Optional("WHEN"),
    values: Values::One(PROGRESSES),
    origin: Origin::Haul,
    help: "when to show a progress bar, after one second",
    details: "Called as haul the default is auto, called as cp it is never; without WHEN, auto is meant.",
    ..Flag::new(Id::Progress, Output)
};

/// `--stats`
pub(crate) const STATS: Flag = Flag {
    long: "stats",
    argument: Optional("FORMAT"),
    values: Values::One(FORMATS),
    origin: Origin::Haul,
    help: "print totals on standard error at the end",
    details: "Without FORMAT, text is meant. With json, each error is a record of its own, too, when it happens. The fields \
              are described in docs/stats.md.",
    ..Flag::new(Id::Stats, Output)
};

/// `--compare`
pub(crate) const COMPARE: Flag = Flag {
    long: "compare",
    origin: Origin::Haul,
    help: "write nothing; tell how DEST differs from SOURCE",
    details: "The operands and options are those of the copy: what -a or --preserve would keep is compared, with -r alone \
              names, kinds, contents and the targets of links. Each difference is a line on standard output, in an \
              order that does not depend on the number of threads; what only DEST has is one, too. Times of access are not \
              compared, nor are inode flags and project IDs. A copy that is the source itself, by a hard \
              or a symbolic link, is no copy; with -l it must be a hard link. The exit status is 1 if anything differs, and 2 \
              if anything cannot be looked at. Goes with -a, -d, -l, -p, -r, -t, -v, -x, -H, -L, -P, -T, --preserve, --no-preserve, --attributes-only and \
              --jobs.",
    ..Flag::new(Id::Compare, Output)
};

/// `--fail-fast`
pub(crate) const FAIL_FAST: Flag = Flag {
    long: "fail-fast",
    origin: Origin::Haul,
    help: "stop at the first error",
    details: "What was copied before stays, and no half file does. Without it, or with --keep-going after it, the other files \
              are still copied.",
    ..Flag::new(Id::FailFast, Output)
};

/// `--keep-going`
pub(crate) const KEEP_GOING: Flag = Flag {
    long: "keep-going",
    origin: Origin::Haul,
    help: "copy the other files after an error; this is the default",
    details: "Called as haul, of one cause the first 20 errors are printed, or all with -v, and after more than 20 errors a \
              table of the causes. Called as cp, all are printed and nothing else.",
    ..Flag::new(Id::KeepGoing, Output)
};
