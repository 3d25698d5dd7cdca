//! The options for what is shown, for what is done about errors, and for what is done instead of copying.

use super::draft::Flag;
use crate::flags::Argument::Optional;
use crate::flags::Category::Output;
use crate::flags::Effect::{Switch, Word};
use crate::flags::{Information, Mode};
use crate::show::{StatsFormat, When};
use crate::values::{Choice, Origin, Values, own};

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[VERBOSE, DEBUG, EXPLAIN, PROGRESS, STATS, COMPARE, FAIL_FAST, KEEP_GOING, HELP, VERSION];

const VERBOSE: Flag = Flag {
    short: "v",
    long: "verbose",
    help: "name each file as it is copied",
    effect: Switch(|draft| draft.show.verbose = true),
    modes: &[Mode::Compare, Mode::Punch],
    ..Flag::cp(Output)
};

const DEBUG: Flag = Flag {
    long: "debug",
    origin: Origin::LaterCp,
    help: "say how each file was copied, in cp's words; implies -v",
    effect: Switch(|draft| (draft.show.debug, draft.show.verbose) = (true, true)),
    ..Flag::cp(Output)
};

const EXPLAIN: Flag = Flag {
    long: "explain",
    help: "say for each file what was tried, what was used and why",
    effect: Switch(|draft| draft.show.explain = true),
    modes: &[Mode::Punch],
    ..Flag::own(Output)
};

/// The arguments of `--progress`.
const PROGRESSES: &[Choice] = &[
    own("auto", "when standard error is a terminal"),
    own("always", "also when it is not"),
    own("never", "not at all"),
];

const PROGRESS: Flag = Flag {
    long: "progress",
    argument: Optional("WHEN"),
    values: Values::One(PROGRESSES),
    help: "when to show a progress bar, after one second",
    details: "Called as haul the default is auto, called as cp it is never; without WHEN, auto is meant.",
    effect: Word("auto", |draft, word| {
        draft.show.progress = match word {
            "always" => When::Always,
            "never" => When::Never,
            _ => When::Auto,
        }
    }),
    ..Flag::own(Output)
};

/// The arguments of `--stats`.
const FORMATS: &[Choice] = &[own("text", "for people"), own("json", "one versioned record for programs")];

const STATS: Flag = Flag {
    long: "stats",
    argument: Optional("FORMAT"),
    values: Values::One(FORMATS),
    help: "print totals on standard error at the end",
    details: "Without FORMAT, text is meant. With json, each error is a record of its own, too, when it happens. The fields \
              are described in docs/stats.md.",
    effect: Word("text", |draft, word| {
        draft.show.stats = Some(if word == "json" { StatsFormat::Json } else { StatsFormat::Text });
    }),
    ..Flag::own(Output)
};

const COMPARE: Flag = Flag {
    long: "compare",
    help: "write nothing; report how DEST differs from SOURCE",
    details: "The operands and options are those of the copy: haul compares what -a or --preserve would keep, with -r \
              alone names, kinds, contents and the targets of links. Each difference is a line on standard output, in \
              an order that does not depend on the number of threads. An entry that only DEST has is a difference, \
              too. haul does not compare times of access, inode flags and project IDs. A copy that is the source \
              itself, by a hard or a symbolic link, is a difference; with -l it must be a hard link. The exit status \
              is 1 if anything differs, and 2 if haul cannot look at something. Goes with -a, -d, -l, -p, -r, -t, -v, \
              -x, -H, -L, -P, -T, --preserve, --no-preserve, --attributes-only and --jobs.",
    effect: Switch(|draft| draft.modes.push(Mode::Compare)),
    modes: &[Mode::Compare],
    ..Flag::own(Output)
};

const FAIL_FAST: Flag = Flag {
    long: "fail-fast",
    help: "stop at the first error",
    details: "What was copied before stays, and no half file does. Without it, or with --keep-going after it, haul \
              copies the other files.",
    effect: Switch(|draft| draft.plan.fail_fast = true),
    ..Flag::own(Output)
};

const KEEP_GOING: Flag = Flag {
    long: "keep-going",
    help: "copy the other files after an error; this is the default",
    details: "Called as haul, it prints the first 20 errors of one cause, or all with -v, and after more than 20 \
              errors a table of the causes. Called as cp, it prints all errors and nothing else.",
    effect: Switch(|draft| draft.plan.fail_fast = false),
    ..Flag::own(Output)
};

const HELP: Flag = Flag {
    long: "help",
    help: "print this text and exit",
    effect: Switch(|draft| draft.information = Some(Information::Help)),
    ..Flag::cp(Output)
};

const VERSION: Flag = Flag {
    long: "version",
    help: "print the version and exit",
    effect: Switch(|draft| draft.information = Some(Information::Version)),
    ..Flag::cp(Output)
};
