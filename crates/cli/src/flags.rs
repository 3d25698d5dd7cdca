//! Every option as data: the parser, `--help`, the man page and the completions of the shells all read this table.

use crate::data_flags;
use crate::image_flags;
use crate::output_flags;
use crate::safety_flags;
use crate::shard_flags;

/// What an option is, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each stands for the option of its name, which the table describes")]
pub enum Id {
    Archive,
    Atomic,
    AttributesOnly,
    Backup,
    BufferSize,
    Cache,
    Checksum,
    Compare,
    Context,
    Control,
    CopyContents,
    Debug,
    Dereference,
    DereferenceOperands,
    DirectIo,
    Durable,
    Engine,
    Explain,
    FailFast,
    Force,
    Format,
    FromManifest,
    /// `--container`
    Container,
    PageFiles,
    Help,
    IfChanged,
    Interactive,
    Job,
    Jobs,
    KeepDirectorySymlink,
    KeepGoing,
    Limit,
    Link,
    Manifest,
    ManifestOut,
    Md5,
    NoClobber,
    NoDereference,
    NoDereferenceKeepLinks,
    NoPreserve,
    NoTargetDirectory,
    OneFileSystem,
    Parents,
    Preallocate,
    Preserve,
    Priority,
    Profile,
    Progress,
    Punch,
    ReadOnly,
    Readahead,
    Recursive,
    Reflink,
    RemoveDestination,
    Resume,
    Shard,
    Smart,
    Snapshot,
    Sparse,
    Stats,
    StatsOutput,
    StripTrailingSlashes,
    Suffix,
    SymbolicLink,
    TargetDirectory,
    Update,
    UseSmartRead,
    Verbose,
    Verify,
    Version,
    WriteOnly,
    Yield,
    ZeroScan,
}

/// Whether an option takes an argument, and what that is called in the documentation.
///
/// As in GNU cp, the short form takes one only where it is required: `-b` is `--backup` without CONTROL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// It takes none.
    None,
    /// `--option=ARG`, `--option ARG`, `-oARG` or `-o ARG`.
    Required(&'static str),
    /// `--option` or `--option=ARG`.
    Optional(&'static str),
}

/// Since when cp has an option. An abbreviation is looked up in the oldest generation that knows it, so that new
/// options never take a shorthand away from a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// GNU cp 9.1 and older.
    Cp,
    /// GNU cp 9.2 to 9.10.
    LaterCp,
    /// haul only.
    Haul,
}

/// The headings of `--help` and the man page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// What is copied.
    Source,
    /// Where to, and what happens to what is there.
    Destination,
    /// What the copies keep of the originals.
    Attributes,
    /// How bytes are moved.
    Data,
    /// What is certain of the copy.
    Safety,
    /// What the user sees.
    Output,
}

impl Category {
    /// In the order of the documentation.
    pub const ALL: [Category; 6] = [
        Category::Source,
        Category::Destination,
        Category::Attributes,
        Category::Data,
        Category::Safety,
        Category::Output,
    ];

    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Category::Source => "What to copy",
            Category::Destination => "Where to, and what happens to existing files",
            Category::Attributes => "What the copies keep",
            Category::Data => "How bytes are moved",
            Category::Safety => "What is certain of the copy",
            Category::Output => "What is shown",
        }
    }
}

/// One of the words that an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The word.
    pub name: &'static str,
    /// Another word for the same.
    pub synonym: Option<&'static str>,
    /// What it means.
    pub help: &'static str,
    /// Words that cp does not know are neither abbreviated nor listed in its messages.
    pub origin: Origin,
}

/// What an argument may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Anything.
    Any,
    /// The name of a directory.
    Directory,
    /// The name of a file.
    File,
    /// One of these words.
    One(&'static [Choice]),
    /// A list of these words with commas between them.
    List(&'static [Choice]),
}

impl Values {
    /// The words, if there are any.
    pub fn choices(self) -> &'static [Choice] {
        match self {
            Values::One(choices) | Values::List(choices) => choices,
            Values::Any | Values::Directory | Values::File => &[],
        }
    }
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    /// What it is.
    pub id: Id,
    /// Letters after one dash; the first is the one in the documentation.
    pub short: &'static str,
    /// Name after two dashes; empty if it has none.
    pub long: &'static str,
    /// Whether it takes an argument.
    pub argument: Argument,
    /// What the argument may be.
    pub values: Values,
    /// Since when cp has it.
    pub origin: Origin,
    /// Its heading in the documentation.
    pub category: Category,
    /// One line for `--help` and completions.
    pub help: &'static str,
    /// Sentences for the man page.
    pub details: &'static str,
}

const fn choice(name: &'static str, help: &'static str) -> Choice {
    Choice { name, synonym: None, help, origin: Origin::Cp }
}

const fn either(name: &'static str, synonym: &'static str, help: &'static str) -> Choice {
    Choice { name, synonym: Some(synonym), help, origin: Origin::Cp }
}

pub(crate) const fn own(name: &'static str, help: &'static str) -> Choice {
    Choice { name, synonym: None, help, origin: Origin::Haul }
}

/// The arguments of `--backup`, in the order of GNU's messages.
pub const BACKUPS: &[Choice] = &[
    either("none", "off", "make no backups, even if --backup is given"),
    either("simple", "never", "always make simple backups"),
    either("existing", "nil", "numbered if numbered backups exist already, else simple"),
    either("numbered", "t", "always make numbered backups"),
];

/// The arguments of `--preserve` and `--no-preserve`, in the order of GNU's messages.
pub const ATTRIBUTES: &[Choice] = &[
    choice("mode", "permission bits and access control lists"),
    choice("timestamps", "access and modification times, to the nanosecond"),
    choice("ownership", "user and group"),
    choice("links", "hard links between the files copied"),
    choice("context", "SELinux security context"),
    choice("xattr", "extended attributes of all namespaces"),
    choice("all", "all of the above"),
    own("flags", "inode flags as chattr sets them (not part of all)"),
    own("project", "project ID, for project quotas (not part of all)"),
];

/// The arguments of `--reflink`, in the order of GNU's messages.
pub const REFLINKS: &[Choice] = &[
    choice("auto", "share extents where the filesystem can"),
    choice("always", "fail where extents cannot be shared"),
    choice("never", "make a copy of every byte"),
];

/// The arguments of `--sparse`, in the order of GNU's messages.
pub const SPARSES: &[Choice] = &[
    choice("never", "make no holes"),
    choice("auto", "make holes where the source has them"),
    choice("always", "make holes also where the source has runs of zeros"),
];

/// The arguments of `--update`, in the order of GNU's messages.
pub const UPDATES: &[Choice] = &[
    choice("all", "replace every existing file"),
    choice("none", "replace no existing file"),
    choice("none-fail", "replace no existing file, and fail if there is one"),
    choice("older", "replace existing files that are older than their source"),
];

/// The long names of GNU cp 9.1 in the order in which its messages list them. `path` is an old name of `parents` that
/// is no longer documented.
pub const CP_ORDER: [&str; 29] = [
    "archive",
    "attributes-only",
    "backup",
    "copy-contents",
    "dereference",
    "force",
    "interactive",
    "link",
    "no-clobber",
    "no-dereference",
    "no-preserve",
    "no-target-directory",
    "one-file-system",
    "parents",
    "path",
    "preserve",
    "recursive",
    "remove-destination",
    "sparse",
    "reflink",
    "strip-trailing-slashes",
    "suffix",
    "symbolic-link",
    "target-directory",
    "update",
    "verbose",
    "context",
    "help",
    "version",
];

/// The option of a name in full, hidden ones included.
pub fn by_long_name(table: &'static [Flag], name: &str) -> Option<&'static Flag> {
    let name = if name == "path" { "parents" } else { name };
    table.iter().find(|flag| !flag.long.is_empty() && flag.long == name)
}

/// The option of a letter.
pub fn by_letter(table: &'static [Flag], letter: u8) -> Option<&'static Flag> {
    table.iter().find(|flag| flag.short.bytes().any(|own| own == letter))
}

/// The option of an identity. Every identity has one, which a test makes sure of.
pub fn by_id(id: Id) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.id == id)
}

impl Flag {
    /// An option of cp, without argument, that `..` can change.
    pub(crate) const fn new(id: Id, category: Category) -> Flag {
        Flag {
            id,
            short: "",
            long: "",
            argument: Argument::None,
            values: Values::Any,
            origin: Origin::Cp,
            category,
            help: "",
            details: "",
        }
    }
}

use Argument::{Optional, Required};
use Category::{Attributes, Data, Destination, Output, Source};

/// All options, in the order of the documentation within their categories.
pub const FLAGS: &[Flag] = &[
    Flag {
        short: "Rr",
        long: "recursive",
        help: "copy directories and everything below them",
        details: "Unless -H or -L says otherwise, symbolic links are then copied as links, and devices, FIFOs and \
                  sockets are made anew.",
        ..Flag::new(Id::Recursive, Source)
    },
    Flag {
        short: "P",
        long: "no-dereference",
        help: "copy symbolic links as links",
        details: "The default with -R.",
        ..Flag::new(Id::NoDereference, Source)
    },
    Flag {
        short: "L",
        long: "dereference",
        help: "copy what symbolic links lead to",
        details: "The default without -R, and with -l.",
        ..Flag::new(Id::Dereference, Source)
    },
    Flag {
        short: "H",
        help: "follow symbolic links named as SOURCE, and only those",
        ..Flag::new(Id::DereferenceOperands, Source)
    },
    Flag {
        long: "copy-contents",
        help: "read FIFOs and devices when recursive, do not make nodes",
        details: "A FIFO that nobody writes to blocks the copy, and some devices never end.",
        ..Flag::new(Id::CopyContents, Source)
    },
    Flag {
        short: "x",
        long: "one-file-system",
        help: "do not enter directories on other filesystems",
        details: "The directory that is the mount point is made, but stays empty.",
        ..Flag::new(Id::OneFileSystem, Source)
    },
    Flag {
        long: "parents",
        help: "append the whole path of SOURCE to DIRECTORY",
        details: "Directories that are missing on the way are made. The destination must be a directory.",
        ..Flag::new(Id::Parents, Source)
    },
    Flag {
        long: "strip-trailing-slashes",
        help: "remove slashes from the end of each SOURCE",
        details: "So a symbolic link to a directory is a link even if a slash was typed after its name.",
        ..Flag::new(Id::StripTrailingSlashes, Source)
    },
    shard_flags::MANIFEST_OUT,
    shard_flags::FROM_MANIFEST,
    shard_flags::SHARD,
    shard_flags::JOB,
    Flag {
        short: "t",
        long: "target-directory",
        argument: Required("DIRECTORY"),
        values: Values::Directory,
        help: "copy each SOURCE into DIRECTORY",
        ..Flag::new(Id::TargetDirectory, Destination)
    },
    Flag {
        short: "T",
        long: "no-target-directory",
        help: "take DEST for the name of the copy, even if it is a directory",
        ..Flag::new(Id::NoTargetDirectory, Destination)
    },
    Flag {
        short: "f",
        long: "force",
        help: "remove a destination that cannot be opened, and try again",
        details: "Has no effect with -n. With -l and -s an existing destination is replaced.",
        ..Flag::new(Id::Force, Destination)
    },
    Flag {
        short: "i",
        long: "interactive",
        help: "ask before a file is replaced; overrides an earlier -n",
        details: "A file that is not to be replaced makes the exit status 1. What --update=none protects is not asked about.",
        ..Flag::new(Id::Interactive, Destination)
    },
    Flag {
        short: "n",
        long: "no-clobber",
        help: "replace no file, silently; overrides -u and an earlier -i",
        details: "The same as --update=none, but that a later -i overrides it.",
        ..Flag::new(Id::NoClobber, Destination)
    },
    Flag {
        short: "u",
        long: "update",
        argument: Optional("UPDATE"),
        values: Values::One(UPDATES),
        help: "replace only files older than SOURCE, or as UPDATE says",
        details: "Without UPDATE, and always as -u, older is meant. Times are compared to the nanosecond.",
        ..Flag::new(Id::Update, Destination)
    },
    Flag {
        long: "remove-destination",
        help: "remove each existing file before the copy is made",
        details: "In contrast to -f, which tries to open it first.",
        ..Flag::new(Id::RemoveDestination, Destination)
    },
    Flag {
        short: "b",
        long: "backup",
        argument: Optional("CONTROL"),
        values: Values::One(BACKUPS),
        help: "keep each replaced file under another name",
        details: "Without CONTROL the environment variable VERSION_CONTROL decides, and without that, existing. \
                  With -f, and with SOURCE and DEST the same name of a regular file, a backup of it is made.",
        ..Flag::new(Id::Backup, Destination)
    },
    Flag {
        short: "S",
        long: "suffix",
        argument: Required("SUFFIX"),
        help: "end of the name of simple backups; implies --backup",
        details: "Without it SIMPLE_BACKUP_SUFFIX, and without that a tilde. A suffix with a directory in it is ignored.",
        ..Flag::new(Id::Suffix, Destination)
    },
    Flag {
        long: "keep-directory-symlink",
        origin: Origin::LaterCp,
        help: "copy into directories that existing symbolic links lead to",
        details: "Without it a symbolic link is never replaced by a directory, nor followed, when recursive.",
        ..Flag::new(Id::KeepDirectorySymlink, Destination)
    },
    Flag {
        short: "l",
        long: "link",
        help: "make hard links to the sources instead of copies",
        ..Flag::new(Id::Link, Destination)
    },
    Flag {
        short: "s",
        long: "symbolic-link",
        help: "make symbolic links to the sources instead of copies",
        details: "Each SOURCE must be absolute, unless the links are made in the current directory.",
        ..Flag::new(Id::SymbolicLink, Destination)
    },
    Flag {
        short: "a",
        long: "archive",
        help: "same as -dR --preserve=all",
        details: "Extended attributes that the destination cannot hold are left out without a word.",
        ..Flag::new(Id::Archive, Attributes)
    },
    Flag {
        short: "d",
        help: "same as --no-dereference --preserve=links",
        ..Flag::new(Id::NoDereferenceKeepLinks, Attributes)
    },
    Flag {
        short: "p",
        long: "preserve",
        argument: Optional("LIST"),
        values: Values::List(ATTRIBUTES),
        help: "keep these attributes; mode,ownership,timestamps by default",
        details: "What cannot be kept although it was asked for by name makes the command fail, after the copy was made.",
        ..Flag::new(Id::Preserve, Attributes)
    },
    Flag {
        long: "no-preserve",
        argument: Required("LIST"),
        values: Values::List(ATTRIBUTES),
        help: "do not keep these attributes",
        details: "Without mode, copies get the permissions of any new file.",
        ..Flag::new(Id::NoPreserve, Attributes)
    },
    Flag {
        long: "attributes-only",
        help: "keep attributes, but leave the data of DEST as it is",
        ..Flag::new(Id::AttributesOnly, Attributes)
    },
    Flag {
        short: "Z",
        long: "context",
        argument: Optional("CTX"),
        help: "set the security context to the default, or to CTX",
        details: "The default is that of the destination's place. Ignored without SELinux or SMACK.",
        ..Flag::new(Id::Context, Attributes)
    },
    Flag {
        long: "reflink",
        argument: Optional("WHEN"),
        values: Values::One(REFLINKS),
        help: "when to share extents with the source; auto by default",
        details: "Without WHEN, always is meant. Shared extents are copied when either file is changed. Two files that \
                  share extents are lost together if the medium fails there.",
        ..Flag::new(Id::Reflink, Data)
    },
    Flag {
        long: "sparse",
        argument: Required("WHEN"),
        values: Values::One(SPARSES),
        help: "when to make holes; auto by default",
        ..Flag::new(Id::Sparse, Data)
    },
    image_flags::SMART,
    image_flags::PUNCH,
    image_flags::SNAPSHOT,
    data_flags::ENGINE,
    Flag {
        long: "buffer-size",
        argument: Required("SIZE"),
        origin: Origin::Haul,
        help: "size of a read or write buffer in bytes",
        details: "K, M and G (or KiB, MiB, GiB) after the number multiply it by powers of 1024; KB, MB and GB by \
                  powers of 1000. At most 1G. The size is used as it is; direct I/O and mappings round it up to pages, a \
                  pipe (splice) holds no more than /proc/sys/fs/pipe-max-size without privilege, and --limit, --verify and \
                  --resume move smaller pieces. Several threads at one file have a buffer each.",
        ..Flag::new(Id::BufferSize, Data)
    },
    data_flags::CACHE,
    data_flags::PREALLOCATE,
    Flag {
        long: "jobs",
        argument: Required("N"),
        origin: Origin::Haul,
        help: "copy at most N files at the same time",
        details: "Without this option the number is found while copying: it starts with the number of processors and \
                  rises as long as that makes the copy faster. Messages come in the order of one thread whatever N is. \
                  What stands at the destination already, and trees copied with -L, are dealt with by one thread.",
        ..Flag::new(Id::Jobs, Data)
    },
    data_flags::PROFILE,
    Flag {
        long: "readahead",
        argument: Optional("SIZE"),
        origin: Origin::Haul,
        help: "have the source read this far ahead of the copy",
        details: "Without SIZE, 8M; at most 1G. For disks that need more than one request at a time while bytes are being \
                  written. Without the option haul finds out whether 8M are worth it for cold files. It does nothing \
                  for shared extents, direct I/O, FIFOs and the like.",
        ..Flag::new(Id::Readahead, Data)
    },
    Flag {
        long: "limit",
        argument: Required("RATE[,IOPS]"),
        origin: Origin::Haul,
        help: "move at most RATE bytes, in at most IOPS operations, a second",
        details: "RATE is a size as for --buffer-size, or a fraction like 1.5G; 0 or none is no limit. All threads share \
                  both. An operation is a request for data to the kernel (a read, a write, a copy inside it), or a file, \
                  directory or link that is made. Shared extents count as one operation and no bytes, holes as no bytes.",
        ..Flag::new(Id::Limit, Data)
    },
    Flag {
        long: "yield",
        origin: Origin::Haul,
        help: "go slower while other programs have to wait",
        details: "Twice a second the copy pauses for a twentieth of a second. If others wait for input or output then, or \
                  waited for a processor before, in more than 10% of the time, the rate is halved, down to 1 MiB and 10 \
                  operations a second; below 5% it rises by a tenth each time. It takes the kernel's pressure-stall \
                  figures; where there are none, the copy runs at idle priority instead, unless --priority is given.",
        ..Flag::new(Id::Yield, Data)
    },
    Flag {
        long: "control",
        argument: Required("FILE"),
        values: Values::File,
        origin: Origin::Haul,
        help: "change --limit and --yield while copying by writing to FILE",
        details: "The words limit=RATE[,IOPS], yield=on and yield=off in FILE take effect when the copy begins, within a \
                  second after FILE has changed, and at once on SIGUSR2. What it does not name stays as it was; so does \
                  everything, with a warning, if it has any other word in it, but for comments from # to the end of a line. \
                  FILE need not exist. Without this option haul ignores SIGUSR2, unless it was called as cp.",
        ..Flag::new(Id::Control, Data)
    },
    Flag {
        long: "priority",
        argument: Required("N"),
        origin: Origin::Haul,
        help: "nice value of the copy, from -20 (first) to 19, or idle",
        details: "The I/O priority goes with it: level (N + 20) / 5 of the best-effort class. With idle the copy gets what \
                  nobody else wants, of processors (nice value 19) and of devices (idle class). I/O priorities need a \
                  scheduler that heeds them, bfq or mq-deadline. If N takes privileges that are missing, nothing is copied.",
        ..Flag::new(Id::Priority, Data)
    },
    safety_flags::DURABLE,
    safety_flags::ATOMIC,
    safety_flags::VERIFY,
    safety_flags::CHECKSUM,
    safety_flags::MANIFEST,
    safety_flags::IF_CHANGED,
    safety_flags::RESUME,
    Flag { short: "v", long: "verbose", help: "name each file as it is copied", ..Flag::new(Id::Verbose, Output) },
    Flag {
        long: "debug",
        origin: Origin::LaterCp,
        help: "say how each file was copied, in cp's words; implies -v",
        ..Flag::new(Id::Debug, Output)
    },
    output_flags::EXPLAIN,
    output_flags::PROGRESS,
    output_flags::STATS,
    output_flags::COMPARE,
    output_flags::FAIL_FAST,
    output_flags::KEEP_GOING,
    Flag { long: "help", help: "print this text and exit", ..Flag::new(Id::Help, Output) },
    Flag { long: "version", help: "print the version and exit", ..Flag::new(Id::Version, Output) },
];

#[cfg(test)]
#[path = "flags_tests.rs"]
mod tests;
