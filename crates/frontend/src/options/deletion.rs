//! The options for what goes from the destination since the source does not have it.

use haul_copy::plan::Delete;

use super::draft::{Draft, Flag};
use crate::complaint::{Complaint, misuse};
use crate::flags::Argument::{Optional, Required};
use crate::flags::Category::Destination;
use crate::flags::Effect::{Switch, Value, Word};
use crate::values::{Values, own};

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[
    Flag {
        long: "delete",
        argument: Optional("WHEN"),
        values: Values::One(&[
            own("safe", "not where the directory of the source is empty"),
            own("force", "also where it is empty"),
        ]),
        help: "remove from directories of the copy what SOURCE lacks",
        details: "Without WHEN, safe is meant: an empty directory may be one whose filesystem is not mounted, so \
                  haul removes nothing from its copy, and that is an error. It needs -r, and a DEST that means one \
                  thing: -T, -t, or a slash at its end. haul looks through each directory when its contents are \
                  copied; with --atomic, and with options that imply it, through all of them when everything is \
                  copied, and only if nothing failed: a run that is interrupted before that has removed nothing. \
                  After an error of the copy it removes nothing more. Of a directory that is named with -t haul \
                  removes nothing but what is in the copies there. It removes nothing from the copy of a directory \
                  that it could not read, nothing on a filesystem where upper and lower case may be alike, which is \
                  an error, nothing behind a symbolic link, nothing on which something is mounted, and nothing that \
                  --exclude or --exclude-caches excludes. What --max-size, --min-size and --newer-than leave out \
                  stays as long as the source has it. Where a directory of the source and a file of the copy have \
                  one name, or the other way round, haul removes what is in the way with all that is in it, once it \
                  has opened the source; with --atomic, and with options that imply it, that is an error. A symbolic \
                  link, FIFO or device that stands where a file goes is replaced, not written to. With -x it removes \
                  nothing from mounted directories of the copy. -v names what is removed, and --dry-run what would be. It does not go with \
                  several SOURCEs, -L, --move, --files-from, --list, --list-out, --shard, --parents, --backup, \
                  --link, --symbolic-link, --attributes-only, --keep-directory-symlink, --compare, -i, \
                  -n, --update=none and --update=none-fail.",
        effect: Word("safe", |draft, word| deletion(draft).force = word == "force"),
        ..Flag::own(Destination)
    },
    Flag {
        long: "delete-excluded",
        help: "with --delete: remove what is excluded, too",
        details: "That is what a pattern of --exclude or --exclude-from matches, whether the source has it or not, and \
                  with --exclude-caches what is in a cache.",
        effect: Switch(|draft| draft.delete_excluded = true),
        ..Flag::own(Destination)
    },
    Flag {
        long: "max-delete",
        argument: Required("N"),
        help: "with --delete: remove at most N entries",
        details: "Each file and each directory counts. If there are more, the others stay, and haul says how many, which \
                  is an error. With 0 it only says how many there are.",
        effect: Value(|draft, given| {
            let digits = given.text().to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let number = digits.and_then(|digits| digits.parse().ok());
            draft.max_delete = Some(number.ok_or_else(|| given.invalid(": a number from 0 on is wanted"))?);
            Ok(())
        }),
        ..Flag::own(Destination)
    },
    Flag {
        long: "mirror",
        help: "make DEST like SOURCE: -aT --update=changed --delete",
        details: "Files that are up to date are not copied, and what SOURCE does not have any more is removed. Another \
                  --update, and --delete=force, can be given beside it.",
        effect: Switch(|draft| {
            draft.archive();
            draft.mirrors = true;
            draft.no_target_directory = true;
            deletion(draft);
        }),
        ..Flag::own(Destination)
    },
];

fn deletion(draft: &mut Draft) -> &mut Delete {
    draft.plan.delete.get_or_insert_default()
}

/// What `--delete` does not go with, and what goes only with it.
///
/// # Errors
/// The first of them.
pub fn settle_deletion(draft: &mut Draft) -> Result<(), Complaint> {
    let (excluded, most) = (draft.delete_excluded, draft.max_delete);
    let Some(delete) = &mut draft.plan.delete else {
        return match (excluded, most) {
            (true, _) => Err(misuse("--delete-excluded has a meaning only with --delete")),
            (_, Some(_)) => Err(misuse("--max-delete has a meaning only with --delete")),
            _ => Ok(()),
        };
    };
    (delete.excluded, delete.most) = (excluded, most);
    let lists = [
        (draft.run.list_out.is_some(), "--list-out, which copies nothing"),
        (draft.run.list.is_some(), "--list: a list does not say what is gone"),
    ];
    let of_lists = lists.iter().find(|(given, _)| *given).map(|(_, what)| *what);
    refuse(of_lists.or(draft.plan.against_deletion()))
}

/// The same once the operands are known.
///
/// # Errors
/// There are several sources.
pub fn settle_operands(draft: &Draft) -> Result<(), Complaint> {
    refuse(draft.plan.against_deletion())
}

fn refuse(what: Option<&str>) -> Result<(), Complaint> {
    match what {
        Some(what) => Err(misuse(format!("--delete does not go with {what}"))),
        None => Ok(()),
    }
}
