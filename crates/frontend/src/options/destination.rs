//! The options for where copies go, and what the operands mean with them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_copy::plan::Destination;

use super::draft::{Draft, Flag};
use crate::complaint::{Complaint, fatal, misuse};
use crate::flags::Argument::Required;
use crate::flags::Category;
use crate::flags::Effect::{Switch, Value};
use crate::flags::Mode;
use crate::quote::Quoter;
use crate::values::Values;

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[TARGET_DIRECTORY, NO_TARGET_DIRECTORY, FORCE];

const TARGET_DIRECTORY: Flag = Flag {
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
};

const NO_TARGET_DIRECTORY: Flag = Flag {
    short: "T",
    long: "no-target-directory",
    help: "take DEST for the name of the copy, even if it is a directory",
    effect: Switch(|draft| draft.no_target_directory = true),
    modes: &[Mode::Compare],
    ..Flag::cp(Category::Destination)
};

const FORCE: Flag = Flag {
    short: "f",
    long: "force",
    help: "remove a destination that cannot be opened, and try again",
    details: "Has no effect with -n. With -l and -s haul replaces an existing destination.",
    effect: Switch(|draft| draft.plan.force = true),
    ..Flag::cp(Category::Destination)
};

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

/// What DEST means to a command that is run again (`--resume`, `--shard`): the same each time, whatever has come to be there.
/// One that can only be a directory is one to copy into, as with `-t`.
///
/// # Errors
/// It could be both.
pub fn settle_repeated(draft: &mut Draft, quoter: &Quoter) -> Result<(), Complaint> {
    let Some(path) = draft.plan.ambiguous_destination() else { return Ok(()) };
    if names_directory(path) {
        draft.plan.destination = Destination::Directory(path.to_owned());
        return Ok(());
    }
    let option = if draft.plan.resume { "--resume" } else { "--shard" };
    let before = format!("with {option} the destination must not mean two things: add -T to copy to ");
    let dest = quoter.always(path.as_bytes());
    let into = quoter.always(&[path.as_bytes(), b"/"].concat());
    Err(misuse([before.as_bytes(), &dest, b" itself, or write ", &into, b" to copy into it"].concat()))
}

/// Whether a path leads to a directory or to nothing.
fn names_directory(path: &OsStr) -> bool {
    matches!(path.as_bytes().rsplit(|byte| *byte == b'/').next(), Some(b"" | b"." | b".."))
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
