//! The options for what is copied.

use haul_copy::plan::Dereference;

use super::draft::{Draft, Flag};
use crate::complaint::Complaint;
use crate::flags::Category::Source;
use crate::flags::Effect::Switch;
use crate::flags::Mode;
use crate::quote::Quoter;

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[
    RECURSIVE,
    NO_DEREFERENCE,
    DEREFERENCE,
    DEREFERENCE_OPERANDS,
    COPY_CONTENTS,
    ONE_FILE_SYSTEM,
    PARENTS,
    STRIP_TRAILING_SLASHES,
];

const RECURSIVE: Flag = Flag {
    short: "Rr",
    long: "recursive",
    help: "copy directories and everything below them",
    details: "Unless -H or -L says otherwise, symbolic links are then copied as links, and devices, FIFOs and \
              sockets are made anew.",
    effect: Switch(|draft| draft.plan.recursive = true),
    modes: &[Mode::Compare],
    ..Flag::cp(Source)
};

const NO_DEREFERENCE: Flag = Flag {
    short: "P",
    long: "no-dereference",
    help: "copy symbolic links as links",
    details: "The default with -R.",
    effect: Switch(|draft| draft.dereference = Some(Dereference::Never)),
    modes: &[Mode::Compare],
    ..Flag::cp(Source)
};

const DEREFERENCE: Flag = Flag {
    short: "L",
    long: "dereference",
    help: "copy what symbolic links lead to",
    details: "The default without -R, and with -l.",
    effect: Switch(|draft| draft.dereference = Some(Dereference::Always)),
    modes: &[Mode::Compare],
    settle: settle_dereference,
    ..Flag::cp(Source)
};

fn settle_dereference(draft: &mut Draft, _: &Quoter) -> Result<(), Complaint> {
    let as_links = draft.plan.recursive && !draft.hard_links;
    let default = if as_links { Dereference::Never } else { Dereference::Always };
    draft.plan.dereference = draft.dereference.unwrap_or(default);
    Ok(())
}

const DEREFERENCE_OPERANDS: Flag = Flag {
    short: "H",
    help: "follow symbolic links named as SOURCE, and only those",
    effect: Switch(|draft| draft.dereference = Some(Dereference::Operands)),
    modes: &[Mode::Compare],
    ..Flag::cp(Source)
};

const COPY_CONTENTS: Flag = Flag {
    long: "copy-contents",
    help: "read FIFOs and devices when recursive, do not make nodes",
    details: "A FIFO that nobody writes to blocks the copy. Some devices never end.",
    effect: Switch(|draft| draft.plan.copy_contents = true),
    ..Flag::cp(Source)
};

const ONE_FILE_SYSTEM: Flag = Flag {
    short: "x",
    long: "one-file-system",
    help: "do not enter directories on other filesystems",
    details: "A mount point becomes an empty directory of the copy.",
    effect: Switch(|draft| draft.plan.one_file_system = true),
    modes: &[Mode::Compare],
    ..Flag::cp(Source)
};

const PARENTS: Flag = Flag {
    long: "parents",
    former: "path",
    help: "append the whole path of SOURCE to DIRECTORY",
    details: "haul makes the directories that are missing on the way. The destination must be a directory.",
    effect: Switch(|draft| draft.plan.parents = true),
    ..Flag::cp(Source)
};

const STRIP_TRAILING_SLASHES: Flag = Flag {
    long: "strip-trailing-slashes",
    help: "remove slashes from the end of each SOURCE",
    details: "A symbolic link to a directory then counts as a link even with a slash after its name.",
    effect: Switch(|draft| draft.plan.strip_trailing_slashes = true),
    ..Flag::cp(Source)
};
