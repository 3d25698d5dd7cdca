//! The options for what is shown, for what is done about errors, and for what is done instead of copying.

use super::draft::{Draft, Flag};
use crate::complaint::{Complaint, misuse};
use crate::flags::Argument::{Optional, Required};
use crate::flags::Category::Output;
use crate::flags::Effect::{Print, Switch, Value, Word};
use crate::flags::{Information, Mode};
use crate::show::{StatsFormat, When};
use crate::values::{Origin, Values, own};

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[
    Flag {
        short: "v",
        long: "verbose",
        help: "name each file as it is copied",
        details: "Where --update=changed or --update=content has found that the destination differs, the line says in what.",
        effect: Switch(|draft| draft.show.verbose = true),
        modes: &[Mode::Compare, Mode::Punch],
        ..Flag::cp(Output)
    },
    Flag {
        short: "q",
        long: "quiet",
        help: "show no progress, no summary and no hints",
        details: "Errors stay, and so do warnings that a copy may not be what it should be. Hints say how to go on, what \
                  takes long, and what was given twice. What -v, --debug, --explain and --stats print was asked for, \
                  and stays; so does the bar, if --progress=always comes after this option.",
        effect: Switch(|draft| (draft.show.quiet, draft.show.progress) = (true, When::Never)),
        ..Flag::own(Output)
    },
    Flag {
        long: "debug",
        origin: Origin::LaterCp,
        help: "say how each file was copied, in cp's words; implies -v",
        effect: Switch(|draft| (draft.show.debug, draft.show.verbose) = (true, true)),
        ..Flag::cp(Output)
    },
    Flag {
        long: "explain",
        help: "say for each file what was tried, what was used and why",
        effect: Switch(|draft| draft.show.explain = true),
        modes: &[Mode::Punch],
        ..Flag::own(Output)
    },
    Flag {
        long: "progress",
        argument: Optional("WHEN"),
        values: Values::One(&[
            own("auto", "when standard error is a terminal"),
            own("always", "also when it is not"),
            own("never", "not at all"),
        ]),
        help: "when to show a progress bar, after one second",
        details: "Called as haul the default is auto, called as cp it is never; without WHEN, auto is meant. The bar says \
                  what haul is doing (scanning, copying, syncing, verifying, deleting), what is done of what there is, \
                  the rate and the time left. On a narrow terminal fields are left out, the time left last. Bytes count as done \
                  when they are as asked for: with --durable when they are on the device, with --verify when they were \
                  compared; the bar shows what is only copied as = before that. With --resume, what earlier runs have \
                  copied counts from the start. Where the bar may be shown, one line at the end says what was copied, how \
                  fast, what was shared, cloned, renamed, skipped, excluded or deleted, and how many errors there were, \
                  unless --stats says more; called as cp, haul prints no such line. The copy waits neither for a \
                  terminal that was stopped (Ctrl-S) nor for a reader that has stopped, to show the bar or that line.",
        effect: Word("auto", |draft, word| {
            draft.show.progress = match word {
                "always" => When::Always,
                "never" => When::Never,
                _ => When::Auto,
            }
        }),
        ..Flag::own(Output)
    },
    Flag {
        long: "stats",
        argument: Optional("FORMAT"),
        values: Values::One(&[own("text", "for people"), own("json", "one versioned record for programs")]),
        help: "print totals on standard error at the end",
        details: "Without FORMAT, text is meant. With json, each error is a record of its own, too, when it happens. \
                  The fields are described in docs/stats.md.",
        effect: Word("text", |draft, word| {
            draft.show.stats = Some(if word == "json" { StatsFormat::Json } else { StatsFormat::Text });
        }),
        ..Flag::own(Output)
    },
    Flag {
        long: "failures",
        argument: Required("FILE"),
        values: Values::File,
        help: "write the names that failed to FILE, for --files-from",
        details: "One SOURCE is wanted, and the names are below it, one in each line, or with a zero byte behind each with \
                  -0; a name may be there twice. haul -a -r --files-from=FILE with the same operands copies these again \
                  and nothing else, so DEST must mean one thing: -T, -t, or a slash at its end. What is about no entry, such as a journal that cannot be written, is a dot, which \
                  stands for all of SOURCE, and so is SOURCE itself. What was not begun, since a signal or \
                  --fail-fast stopped the copy, is not in FILE. FILE gets its name when the copy has ended, and is empty if nothing failed. \
                  Without -0 it is not written, which is an error, if a name that failed has a line break in it. haul \
                  does not copy it if it is in the source, and never replaces a file there. It does not go with \
                  -L, --parents, --move, --list, --list-out, --compare and --dry-run.",
        effect: Value(|draft, given| {
            draft.run.failures = given.path();
            Ok(())
        }),
        ..Flag::own(Output)
    },
    Flag {
        long: "json",
        help: "print each event as a line of JSON on standard output, for programs",
        details: "One line for the start, each entry, each error and warning, the progress every second, and the end; \
                  nothing else is printed on standard output. Messages for people go to standard error as ever, but \
                  there is no bar and no summary line, unless --progress=always asks for them. The fields are described \
                  in docs/json.md. It does not go with -v, --debug, --explain, --list-out, \
                  --shard=status, --compare and --punch, and haul-mpi refuses it.",
        effect: Switch(|draft| draft.show.json = true),
        ..Flag::own(Output)
    },
    Flag {
        long: "compare",
        help: "write nothing; report how DEST differs from SOURCE",
        details: "The operands and options are those of the copy: haul compares what -a or --preserve would keep, with \
                  -r alone names, kinds, contents and the targets of links. Each difference is a line on standard \
                  output, in an order that does not depend on the number of threads. An entry that only DEST has is a \
                  difference, too. haul does not compare times of access, inode flags and project IDs, nor, with -L and \
                  -H, whether what several symbolic links lead to is one file of the copy, too. A copy that is \
                  the source itself, by a hard or a symbolic link, is a difference; with -l it must be a hard link. \
                  The exit status is 1 if anything differs, and 2 if haul cannot look at something. Goes with -a, -d, \
                  -l, -p, -r, -t, -v, -x, -H, -L, -P, -T, --preserve, --no-preserve, --attributes-only, --jobs, and what chooses \
                  entries: --exclude, --include, --exclude-from, --exclude-caches, --max-size, --min-size, --newer-than, \
                  --files-from, -0, --skip-offline and --open-noatime.",
        effect: Switch(|draft| draft.modes.push(Mode::Compare)),
        modes: &[Mode::Compare],
        ..Flag::own(Output)
    },
    Flag {
        long: "dry-run",
        help: "write nothing; say what would be done about each entry, and why",
        details: "haul looks at source and destination as the copy does, and prints a line for each entry on standard \
                  output: copy, replace, link, symlink, rename, clone tree, make directory, set attributes, delete, delete directory, skip, or ask \
                  with -i, which asks nobody here. With --move the sources of what is copied, or found the same, would go then; those of what is skipped \
                  as existing or not older stay. Where something stands at the destination, the line gives the reason: older, size differs, and so \
                  on. The last line has the totals. What the copy would refuse is an error, and so is what the user \
                  may not read or write; other errors are not foreseen, nor that something cannot be removed. The exit status is 1 if there is an error. \
                  With -v haul also names directories that it would only enter. It does not say which attributes of \
                  existing directories would be set, nor does it foresee what the copy of one entry changes \
                  for a later one, as where a destination has several names. --update=content reads both files. \
                  haul keeps the names of source files with several hard links in memory. --durable, --verify, --checksum, \
                  --digests and --jobs have no effect, and --smart none on the sizes, since what is free in an image is known \
                  when it is read. With --resume haul names the files that an earlier run has finished, and does not say how much it would \
                  take over of one that is not whole. With --json each line is an event. It does not go with --shard and \
                  --list-out, and haul-mpi refuses it.",
        effect: Switch(|draft| draft.plan.dry_run = true),
        ..Flag::own(Output)
    },
    Flag {
        long: "fail-fast",
        help: "stop at the first error",
        details: "What was copied before stays, and no half file does. Without it, or with --keep-going after it, haul \
                  copies the other files.",
        effect: Switch(|draft| draft.plan.fail_fast = true),
        ..Flag::own(Output)
    },
    Flag {
        long: "keep-going",
        help: "copy the other files after an error; this is the default",
        details: "Called as haul, it prints the first 20 errors of one cause, or all with -v, and after more than 20 \
                  errors a table of the causes. Called as cp, it prints all errors and nothing else.",
        effect: Switch(|draft| draft.plan.fail_fast = false),
        ..Flag::own(Output)
    },
    Flag { long: "help", help: "print this text and exit", effect: Print(Information::Help), ..Flag::cp(Output) },
    Flag {
        long: "version",
        help: "print the version and exit",
        effect: Print(Information::Version),
        ..Flag::cp(Output)
    },
];

/// What prints on standard output by itself does not go with `--json`.
pub fn settle_json(draft: &mut Draft) -> Result<(), Complaint> {
    if !draft.show.json {
        return Ok(());
    }
    let (show, run) = (&draft.show, &draft.run);
    let others = [
        (show.debug, "--debug"),
        (show.verbose, "-v"),
        (show.explain, "--explain"),
        (run.list_out.is_some(), "--list-out"),
        (run.shard_status, "--shard=status"),
    ];
    if let Some((_, option)) = others.into_iter().find(|(given, _)| *given) {
        return Err(misuse(format!("--json does not go with {option}: its lines are all that is printed")));
    }
    if draft.show.progress == When::Auto {
        draft.show.progress = When::Never;
    }
    Ok(())
}

/// What cannot be foreseen.
pub fn settle_dry_run(draft: &Draft) -> Result<(), Complaint> {
    let list_out = draft.run.list_out.is_some().then_some("--list-out, which copies nothing either");
    match draft.plan.against_dry_run().or(list_out).filter(|_| draft.plan.dry_run) {
        Some(what) => Err(misuse(format!("--dry-run does not go with {what}"))),
        None => Ok(()),
    }
}
