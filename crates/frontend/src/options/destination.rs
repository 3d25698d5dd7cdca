//! The options for where copies go, what the operands mean with them, and what happens to existing files.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_copy::plan::{Backup, Destination, LinkMode, Overwrite, Update};

use super::draft::{Draft, Flag};
use crate::complaint::{Complaint, fatal, misuse};
use crate::flags::Argument::{Optional, Required};
use crate::flags::Effect::{Switch, Value, Word};
use crate::flags::{Category, Mode};
use crate::given::choose;
use crate::quote::Quoter;
use crate::values::{Choice, Origin, Values, either, of_cp, own};

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[
    Flag {
        short: "t",
        long: "target-directory",
        argument: Required("DIRECTORY"),
        values: Values::Directory,
        help: "copy each SOURCE into DIRECTORY",
        effect: Value(|draft, given| {
            if draft.target_directory.is_some() {
                return Err(fatal("multiple target directories specified"));
            }
            draft.target_directory = given.owned();
            Ok(())
        }),
        modes: &[Mode::Compare],
        ..Flag::cp(Category::Destination)
    },
    Flag {
        short: "T",
        long: "no-target-directory",
        help: "take DEST for the name of the copy, even if it is a directory",
        effect: Switch(|draft| draft.no_target_directory = true),
        modes: &[Mode::Compare],
        ..Flag::cp(Category::Destination)
    },
    Flag {
        short: "f",
        long: "force",
        help: "remove a destination that cannot be opened, and try again",
        details: "Has no effect with -n. With -l and -s haul replaces an existing destination.",
        effect: Switch(|draft| draft.plan.force = true),
        ..Flag::cp(Category::Destination)
    },
    Flag {
        short: "i",
        long: "interactive",
        help: "ask before a file is replaced; overrides an earlier -n",
        details: "A file that is not to be replaced makes the exit status 1. haul does not ask about what \
                  --update=none protects.",
        effect: Switch(|draft| draft.clobber = Some(Overwrite::Ask)),
        ..Flag::cp(Category::Destination)
    },
    Flag {
        short: "n",
        long: "no-clobber",
        help: "replace no file, silently; overrides -u and an earlier -i",
        details: "The same as --update=none, but that a later -i overrides it.",
        effect: Switch(|draft| draft.clobber = Some(Overwrite::Skip)),
        ..Flag::cp(Category::Destination)
    },
    Flag {
        short: "u",
        long: "update",
        argument: Optional("UPDATE"),
        // In the order of GNU's messages.
        values: Values::One(&[
            of_cp("all", "replace every existing file"),
            of_cp("none", "replace no existing file"),
            of_cp("none-fail", "replace no existing file, and fail if there is one"),
            of_cp("older", "replace existing files that are older than their source"),
            own("changed", "replace existing files of another size or time of modification than their source"),
            own("content", "replace existing files whose bytes differ from those of their source"),
        ]),
        help: "replace only files older than SOURCE, or as UPDATE says",
        details: "Without UPDATE, and always as -u, older is meant. Times are compared to the nanosecond; those that \
                  are kept (-p, -a), as precisely as the filesystem of the copy stores them. With --delete, what is of \
                  another type than its source is replaced whatever its time is. With changed and \
                  content, a file that is like its source keeps its contents; haul sets only the attributes that it \
                  is to keep (-p, -a) and that differ. changed compares times in the same way; unless they are kept, \
                  it copies everything again. content reads both files if their sizes are the same. Symbolic links \
                  are compared by their texts, and other special files by type and device. After a crash of the \
                  machine use content: the size and time of a file may have reached the disk before its bytes. \
                  Neither word is possible with -l or -s.",
        effect: Word("older", |draft, word| {
            draft.update_given = true;
            (draft.plan.overwrite, draft.plan.update) = match word {
                "none" => (Overwrite::Skip, Update::All),
                "none-fail" => (Overwrite::Refuse, Update::All),
                "all" => (Overwrite::Replace, Update::All),
                "changed" => (Overwrite::Replace, Update::Changed),
                "content" => (Overwrite::Replace, Update::Content),
                _ => (Overwrite::Replace, Update::Older),
            }
        }),
        ..Flag::cp(Category::Destination)
    },
    Flag {
        long: "remove-destination",
        help: "remove each existing file before the copy is made",
        details: "In contrast to -f, which tries to open it first.",
        effect: Switch(|draft| draft.plan.remove_destination = true),
        ..Flag::cp(Category::Destination)
    },
    Flag {
        short: "b",
        long: "backup",
        argument: Optional("CONTROL"),
        values: Values::One(BACKUPS),
        help: "keep each replaced file under another name",
        details: "Without CONTROL the environment variable VERSION_CONTROL decides, and without that, existing. With \
                  -f, and with SOURCE and DEST the same name of a regular file, haul makes a backup of it.",
        // The word is looked up when all options are read, as cp does.
        effect: Value(|draft, given| {
            draft.backups = true;
            draft.backup_control = given.owned().or(draft.backup_control.take());
            Ok(())
        }),
        ..Flag::cp(Category::Destination)
    },
    Flag {
        short: "S",
        long: "suffix",
        argument: Required("SUFFIX"),
        help: "end of the name of simple backups; implies --backup",
        details: "Without it SIMPLE_BACKUP_SUFFIX, and without that a tilde. haul ignores a suffix with a directory in \
                  it.",
        effect: Value(|draft, given| {
            draft.backups = true;
            draft.backup_suffix = given.owned();
            Ok(())
        }),
        ..Flag::cp(Category::Destination)
    },
    Flag {
        long: "keep-directory-symlink",
        origin: Origin::LaterCp,
        help: "copy into directories that existing symbolic links lead to",
        details: "Without it haul neither replaces a symbolic link by a directory nor follows it, when recursive.",
        effect: Switch(|draft| draft.plan.keep_directory_symlink = true),
        ..Flag::cp(Category::Destination)
    },
    Flag {
        short: "l",
        long: "link",
        help: "make hard links to the sources instead of copies",
        effect: Switch(|draft| draft.hard_links = true),
        modes: &[Mode::Compare],
        ..Flag::cp(Category::Destination)
    },
    Flag {
        short: "s",
        long: "symbolic-link",
        help: "make symbolic links to the sources instead of copies",
        details: "Each SOURCE must be absolute, unless the links are made in the current directory.",
        effect: Switch(|draft| draft.symbolic_links = true),
        ..Flag::cp(Category::Destination)
    },
];

/// Takes the operands for sources and destination.
///
/// # Errors
/// There are too few or too many of them.
pub fn set_operands(draft: &mut Draft, mut operands: Vec<OsString>, quoter: &Quoter) -> Result<(), Complaint> {
    let about =
        |text: &str, operand: &OsStr| misuse([text.as_bytes(), b" ", &quoter.always(operand.as_bytes())].concat());
    match operands.as_slice() {
        [] => return Err(misuse("missing file operand")),
        [only] if draft.target_directory.is_none() => {
            return Err(about("missing destination file operand after", only));
        }
        _ if draft.no_target_directory && draft.target_directory.is_some() => {
            return Err(fatal("cannot combine --target-directory (-t) and --no-target-directory (-T)"));
        }
        [_, _, extra, ..] if draft.no_target_directory => return Err(about("extra operand", extra)),
        _ => {}
    }
    draft.plan.destination = match draft.target_directory.take() {
        Some(directory) => Destination::Directory(directory),
        None => {
            // There are two operands at least, else the complaint above.
            let last = operands.pop().unwrap_or_default();
            if draft.no_target_directory { Destination::Exactly(last) } else { Destination::Guess(last) }
        }
    };
    draft.plan.sources = operands;
    Ok(())
}

/// What DEST means to a command that is run again (`--resume`, `--shard`, `--failures`) or removes something (`--delete`): the
/// same each time, whatever has come to be there.
/// One that can only be a directory is one to copy into, as with `-t`.
///
/// # Errors
/// It could be both.
pub fn settle_repeated(draft: &mut Draft, quoter: &Quoter) -> Result<(), Complaint> {
    let lists_failures = draft.run.failures.is_some();
    let Some(path) = draft.plan.ambiguous_if(lists_failures) else { return Ok(()) };
    if names_directory(path) {
        draft.plan.destination = Destination::Directory(path.to_owned());
        return Ok(());
    }
    let option = match () {
        () if draft.plan.resume => "--resume",
        () if draft.plan.shard.is_some() => "--shard",
        () if draft.plan.delete.is_some() => "--delete",
        () => "--failures",
    };
    let before = format!("with {option} the destination must not mean two things: add -T to copy to ");
    let dest = quoter.always(path.as_bytes());
    let into = quoter.always(&[path.as_bytes(), b"/"].concat());
    Err(misuse([before.as_bytes(), &dest, b" itself, or write ", &into, b" to copy into it"].concat()))
}

/// Whether a path leads to a directory or to nothing.
fn names_directory(path: &OsStr) -> bool {
    matches!(path.as_bytes().rsplit(|byte| *byte == b'/').next(), Some(b"" | b"." | b".."))
}

/// `-i` and `-n` override each other, `--update` overrides itself, and neither touches the other: so a file that
/// `--update=none` protects stays protected whatever stands around it.
pub fn settle_overwriting(draft: &mut Draft) -> Result<(), Complaint> {
    let plan = &mut draft.plan;
    if draft.mirrors && !draft.update_given {
        plan.update = Update::Changed;
    }
    if matches!(plan.update, Update::Changed | Update::Content) && (draft.hard_links || draft.symbolic_links) {
        return Err(misuse("--update=changed and --update=content compare copies, so -l and -s are not possible"));
    }
    match draft.clobber {
        Some(Overwrite::Skip) => (plan.overwrite, plan.update) = (Overwrite::Skip, Update::All),
        Some(ask) if plan.overwrite == Overwrite::Replace => plan.overwrite = ask,
        _ => {}
    }
    if draft.backups && matches!(plan.overwrite, Overwrite::Skip | Overwrite::Refuse) {
        return Err(misuse("--backup is mutually exclusive with -n or --update=none-fail"));
    }
    Ok(())
}

/// The arguments of `--backup`, in the order of GNU's messages.
const BACKUPS: &[Choice] = &[
    either("none", "off", "make no backups, even if --backup is given"),
    either("simple", "never", "always make simple backups"),
    either("existing", "nil", "numbered if numbered backups exist already, else simple"),
    either("numbered", "t", "always make numbered backups"),
];

pub fn settle_backup(draft: &mut Draft, quoter: &Quoter) -> Result<(), Complaint> {
    draft.plan.backup = backup(draft, quoter)?;
    if let Some(suffix) = draft.backup_suffix.take().filter(|suffix| is_suffix(suffix.as_bytes())) {
        draft.plan.backup_suffix = suffix;
    }
    Ok(())
}

fn backup(draft: &Draft, quoter: &Quoter) -> Result<Backup, Complaint> {
    if !draft.backups {
        return Ok(Backup::None);
    }
    let given = |word: &Option<OsString>| word.clone().filter(|word| !word.is_empty());
    let choice = |context, word: OsString| choose(context, &word, BACKUPS, quoter, false).map_err(misuse);
    let word = match (given(&draft.backup_control), given(&draft.environment.version_control)) {
        (Some(word), _) => choice("backup type", word)?.name,
        (None, Some(word)) => choice("$VERSION_CONTROL", word)?.name,
        (None, None) => "existing",
    };
    Ok(match word {
        "none" => Backup::None,
        "simple" => Backup::Simple,
        "numbered" => Backup::Numbered,
        _ => Backup::Existing,
    })
}

/// Whether a backup suffix names no directory: then it is heeded. Slashes at its end do no harm.
fn is_suffix(suffix: &[u8]) -> bool {
    let end = suffix.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    end > 0 && !suffix[..end].contains(&b'/')
}

pub fn settle_links(draft: &mut Draft) -> Result<(), Complaint> {
    draft.plan.link = match (draft.hard_links, draft.symbolic_links) {
        (true, true) => return Err(misuse("cannot make both hard and symbolic links")),
        (true, false) => LinkMode::Hard,
        (false, true) => LinkMode::Symbolic,
        (false, false) => LinkMode::Copy,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_ends_in_a_slash_or_dots_is_a_directory() {
        for path in ["d/", "d//", "/", ".", "..", "d/.", "d/..", "./"] {
            assert!(names_directory(OsStr::new(path)), "{path}");
        }
        for path in ["d", "d/e", "d.", "d/...", ".d", "d/.e"] {
            assert!(!names_directory(OsStr::new(path)), "{path}");
        }
    }
}
