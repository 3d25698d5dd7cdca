//! The options for what happens to existing files: which are replaced, and of which backups are made.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use haul_copy::plan::{Backup, Overwrite};

use super::draft::{Clobber, Draft, Flag, Update};
use crate::argmatch::choose;
use crate::complaint::{Complaint, misuse};
use crate::flags::Argument::{Optional, Required};
use crate::flags::Category::Destination;
use crate::flags::Effect::{Switch, Value, Word};
use crate::quote::Quoter;
use crate::values::{Choice, Origin, Values, either, of_cp};

/// In the order of the documentation.
pub const FLAGS: &[Flag] =
    &[INTERACTIVE, NO_CLOBBER, UPDATE, REMOVE_DESTINATION, BACKUP, SUFFIX, KEEP_DIRECTORY_SYMLINK];

const INTERACTIVE: Flag = Flag {
    short: "i",
    long: "interactive",
    help: "ask before a file is replaced; overrides an earlier -n",
    details: "A file that is not to be replaced makes the exit status 1. haul does not ask about what --update=none \
              protects.",
    effect: Switch(|draft| draft.existing.clobber = Some(Clobber::Ask)),
    ..Flag::cp(Destination)
};

const NO_CLOBBER: Flag = Flag {
    short: "n",
    long: "no-clobber",
    help: "replace no file, silently; overrides -u and an earlier -i",
    details: "The same as --update=none, but that a later -i overrides it.",
    effect: Switch(|draft| draft.existing.clobber = Some(Clobber::Never)),
    ..Flag::cp(Destination)
};

/// The arguments of `--update`, in the order of GNU's messages.
const UPDATES: &[Choice] = &[
    of_cp("all", "replace every existing file"),
    of_cp("none", "replace no existing file"),
    of_cp("none-fail", "replace no existing file, and fail if there is one"),
    of_cp("older", "replace existing files that are older than their source"),
];

const UPDATE: Flag = Flag {
    short: "u",
    long: "update",
    argument: Optional("UPDATE"),
    values: Values::One(UPDATES),
    help: "replace only files older than SOURCE, or as UPDATE says",
    details: "Without UPDATE, and always as -u, older is meant. Times are compared to the nanosecond.",
    effect: Word("older", |draft, word| {
        draft.existing.update = match word {
            "none" => Update::None,
            "none-fail" => Update::NoneFail,
            "all" => Update::All,
            _ => Update::Older,
        }
    }),
    settle: settle_overwriting,
    ..Flag::cp(Destination)
};

fn settle_overwriting(draft: &mut Draft, _: &Quoter) -> Result<(), Complaint> {
    (draft.plan.overwrite, draft.plan.only_newer) = draft.existing.settled();
    if draft.backups && matches!(draft.plan.overwrite, Overwrite::Skip | Overwrite::Refuse) {
        return Err(misuse("--backup is mutually exclusive with -n or --update=none-fail"));
    }
    Ok(())
}

const REMOVE_DESTINATION: Flag = Flag {
    long: "remove-destination",
    help: "remove each existing file before the copy is made",
    details: "In contrast to -f, which tries to open it first.",
    effect: Switch(|draft| draft.plan.remove_destination = true),
    ..Flag::cp(Destination)
};

/// The arguments of `--backup`, in the order of GNU's messages.
const BACKUPS: &[Choice] = &[
    either("none", "off", "make no backups, even if --backup is given"),
    either("simple", "never", "always make simple backups"),
    either("existing", "nil", "numbered if numbered backups exist already, else simple"),
    either("numbered", "t", "always make numbered backups"),
];

const BACKUP: Flag = Flag {
    short: "b",
    long: "backup",
    argument: Optional("CONTROL"),
    values: Values::One(BACKUPS),
    help: "keep each replaced file under another name",
    details: "Without CONTROL the environment variable VERSION_CONTROL decides, and without that, existing. With -f, \
              and with SOURCE and DEST the same name of a regular file, haul makes a backup of it.",
    // The word is looked up when all options are read, as cp does.
    effect: Value(|draft, given| {
        draft.backups = true;
        draft.backup_control = given.owned().or(draft.backup_control.take());
        Ok(())
    }),
    settle: settle_backup,
    ..Flag::cp(Destination)
};

fn settle_backup(draft: &mut Draft, quoter: &Quoter) -> Result<(), Complaint> {
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

const SUFFIX: Flag = Flag {
    short: "S",
    long: "suffix",
    argument: Required("SUFFIX"),
    help: "end of the name of simple backups; implies --backup",
    details: "Without it SIMPLE_BACKUP_SUFFIX, and without that a tilde. haul ignores a suffix with a directory in it.",
    effect: Value(|draft, given| {
        draft.backups = true;
        draft.backup_suffix = given.owned();
        Ok(())
    }),
    ..Flag::cp(Destination)
};

/// Whether a backup suffix names no directory: then it is heeded. Slashes at its end do no harm.
fn is_suffix(suffix: &[u8]) -> bool {
    let end = suffix.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    end > 0 && !suffix[..end].contains(&b'/')
}

const KEEP_DIRECTORY_SYMLINK: Flag = Flag {
    long: "keep-directory-symlink",
    origin: Origin::LaterCp,
    help: "copy into directories that existing symbolic links lead to",
    details: "Without it haul neither replaces a symbolic link by a directory nor follows it, when recursive.",
    effect: Switch(|draft| draft.plan.keep_directory_symlink = true),
    ..Flag::cp(Destination)
};
