//! The options of smartcp: what they are called, what they do to its [`Draft`], and what a command line asks for with them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use haul_copy::plan::CacheUse;
use haul_frontend::complaint::{Complaint, misuse};
use haul_frontend::flags::Argument::Required;
use haul_frontend::flags::Category::{Data, Output};
use haul_frontend::flags::Effect::{Print, Switch, Value, Word};
use haul_frontend::flags::{Flag, Information, Table};
use haul_frontend::getopt::Parser;
use haul_frontend::given::Given;
use haul_frontend::quote::Quoter;
use haul_frontend::size::parse_size;
use haul_frontend::values::{Choice, Values, own};
use haul_image::{Format, LARGEST_BUFFER, Mode, Options, Smart};

/// What to copy, and what to show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// For the copies.
    pub options: Options,
    /// What the sources are taken for.
    pub format: Format,
    /// Containers are copied as containers, and not as the disks that they hold.
    pub keep: bool,
    /// What may be skipped beyond free space.
    pub guests: haul_guest::fs::Options,
    /// How often an image is copied again that somebody wrote to meanwhile.
    pub retries: u32,
    /// `-v`.
    pub verbose: bool,
    /// `-g`.
    pub debug: bool,
    /// `-T json`.
    pub json: bool,
    /// At least one.
    pub sources: Vec<OsString>,
    /// A file, or a directory.
    pub dest: OsString,
}

/// A request while the options are read.
#[derive(Default)]
pub struct Draft {
    /// What it comes to.
    request: Request,
    /// `--use-smartread=no`
    reads_all: bool,
    /// `--snapshot`
    snapshot: bool,
    /// `--read-only`
    read_only: bool,
    /// `--write-only`
    write_only: bool,
}

/// As often haul copies a file again that has changed.
const RETRIES: u32 = 3;

/// All options, in the order of the documentation within their categories.
pub static FLAGS: Table<Draft> = Table(&[&[
    Flag {
        short: "S",
        long: "use-smartread",
        argument: Required("WORD"),
        values: Values::One(YES_OR_NO),
        help: "do not read what the guests do not use; yes by default",
        details: "What the allocation maps of the guests' own filesystems prove free is not read, and reads as zeros \
                  in the copy. Holes of the image are not read either. With no, every byte is read.",
        effect: Word("yes", |draft, word| draft.reads_all = word == "no"),
        ..Flag::own(Data)
    },
    Flag {
        long: "format",
        argument: Required("WORD"),
        values: Values::One(&[
            own("auto", "a container if both its name and its contents say so"),
            own("raw", "a raw disk, whatever it looks like"),
            own("container", "the container that its contents say, whatever its name"),
        ]),
        help: "what the sources are taken for; auto by default",
        details: "Containers are qcow2, VMDK, VHDX, VDI and VHD. A guest can write anything to its raw disk, also what \
                  a container begins with. So with auto smartcp copies byte for byte a file that looks like a \
                  container and has another name. It also copies byte for byte, with a warning, a container that \
                  depends on another disk, is damaged or not closed. Of a VMDK in several files name the descriptor, \
                  which is a small text file. The files that it names must be beside it, and their names plain ones \
                  without a directory. smartcp follows symbolic links there, with a warning. It copies one of those \
                  files by itself (disk-f001.vmdk) byte for byte.",
        effect: Word("auto", |draft, word| {
            draft.request.format = match word {
                "raw" => Format::Raw,
                "container" => Format::Container,
                _ => Format::Auto,
            }
        }),
        ..Flag::own(Data)
    },
    Flag {
        long: "container",
        argument: Required("WORD"),
        values: Values::One(&[
            own("raw", "the disk in a container is copied, as a raw image"),
            own("keep", "the container is copied as it is, without the bytes that only free space is in"),
        ]),
        help: "copy a container's disk, or keep the container; raw by default",
        details: "With raw, the copy is a raw image; in a directory it is named like the container with .raw at the \
                  end. smartcp does not read what the container does not hold. With keep, the copy is the same \
                  container, with the same tables at the same offsets. What holds nothing but free bytes of the disk \
                  is not read, and is a hole in the copy that reads as zeros. Compressed data stays as it is, and a \
                  container with internal snapshots or bitmaps is kept whole. A disk in several files can be kept only \
                  in a directory, where they get their own names, the descriptor last; those names must end in .vmdk.",
        effect: Word("raw", |draft, word| draft.request.keep = word == "keep"),
        ..Flag::own(Data)
    },
    Flag {
        long: "page-files",
        argument: Required("WORD"),
        values: Values::One(&[own("keep", "they are data like any other"), own("drop", "what is in them is not read")]),
        help: "keep or drop what is in Windows' page files; keep by default",
        details: "With drop, smartcp does not read pagefile.sys and swapfile.sys in the root directory of an NTFS, and \
                  they read as zeros in the copy. The files keep their sizes and extents, and Windows writes them anew \
                  when it starts. Nothing is lost but what memory left behind in them, which may be evidence. As with \
                  free space, smartcp drops it only from a filesystem that was closed, and never while Windows is \
                  hibernated.",
        effect: Word("keep", |draft, word| draft.request.guests.drop_page_files = word == "drop"),
        ..Flag::own(Data)
    },
    Flag {
        long: "snapshot",
        help: "the image is a frozen snapshot, even if in use",
        details: "Without this option smartcp copies an image whole that is in use: one that QEMU, VMware or a loop \
                  device has as a disk, or that is mounted, locked, or open for writing, or from which a suspended machine or another \
                  disk goes on (the overlay of a snapshot). Do not give this option for such an image. Only root sees \
                  the managed saves of the system's libvirt.",
        effect: Switch(|draft| draft.snapshot = true),
        ..Flag::own(Data)
    },
    Flag {
        long: "if-changed",
        argument: Required("WHAT"),
        values: Values::One(&[
            own("retry", "copy it again, up to three times; then the copy fails"),
            own("warn", "warn, keep the copy, and exit with 3"),
            own("fail", "the copy fails"),
        ]),
        help: "what to do if an image changes during the copy; warn by default",
        details: "A copy of an image that changes may be of no single moment. With warn the copy stays, and the exit \
                  status is 3. smartcp removes a copy that fails, or names it if it was written over an old file. It \
                  does not copy containers again: with retry their copies fail.",
        effect: Word("warn", |draft, word| {
            draft.request.options.fail_if_written = word != "warn";
            draft.request.retries = if word == "retry" { RETRIES } else { 0 };
        }),
        ..Flag::own(Data)
    },
    Flag {
        short: "s",
        long: "sparse",
        argument: Required("WHEN"),
        values: Values::One(&[
            own("always", "free space, holes and blocks of zeros are not written, and read as zeros"),
            own("never", "zeros are written"),
        ]),
        help: "whether to skip zeros; always by default",
        details: "On a block device whose driver cannot make zeros without writing, smartcp writes them in any case.",
        effect: Word("always", |draft, word| draft.request.options.sparse = word == "always"),
        ..Flag::own(Data)
    },
    Flag {
        long: "zero-scan",
        argument: Required("WORD"),
        values: Values::One(YES_OR_NO),
        help: "look for blocks of zeros in what is read; yes by default",
        details: "A block has 4096 bytes.",
        effect: Word("yes", |draft, word| draft.request.options.zero_scan = word == "yes"),
        ..Flag::own(Data)
    },
    Flag {
        long: "md5",
        help: "print the MD5 of what the copy holds, as md5sum does",
        details: "Free space counts as zeros, so it is the sum of DESTINATION and not of SOURCE. smartcp computes it \
                  while copying, on a processor of its own if there is one. That may be slower than the disks.",
        effect: Switch(|draft| draft.request.options.md5 = true),
        ..Flag::own(Data)
    },
    Flag {
        long: "buffer-size",
        argument: Required("SIZE"),
        help: "read and write so many bytes at once; 131072 by default",
        details: "A number of bytes, or with K or M of 1024 or 1024*1024 bytes; at most 16M. What auto of --direct-io \
                  sends to the device has a size of its own.",
        effect: Value(|draft, given| {
            draft.request.options.buffer_size = buffer_size(given)?;
            Ok(())
        }),
        ..Flag::own(Data)
    },
    Flag {
        long: "direct-io",
        argument: Required("WORD"),
        values: Values::One(&[
            own("auto", "what is large for the memory that is free goes to the device directly"),
            own("yes", "do, on both sides"),
            own("no", "do not"),
        ]),
        help: "go past the page cache; auto by default",
        details: "With auto, a copy of 2 GiB or more, or of more than an eighth of the memory that is available, is \
                  written to the device directly, in requests of up to 8 MiB, and so is on the device sooner and \
                  leaves the memory to others; so is one of 32 MiB or more to a block device. What of SOURCE is not in \
                  memory is read in the same way. Runs of less than 256 KiB, and zeros that are written, go through \
                  the page cache; so does everything with --md5 and where one side is measured, and where the kernel \
                  does not say what direct I/O needs (before Linux 6.1, btrfs, pages of more than 4 KiB). On disks \
                  with heads it takes more than a quarter of the memory, and from memory to XFS more than a fifth. \
                  With yes, both sides go past the page cache, whatever the size, in requests of the buffer's size, \
                  where the filesystems can do that and what is asked for is aligned.",
        effect: Word("auto", |draft, word| {
            draft.request.options.direct = word == "yes";
            draft.request.options.cache = if word == "no" { CacheUse::Keep } else { CacheUse::Auto };
        }),
        ..Flag::own(Data)
    },
    Flag {
        long: "read-only",
        help: "only read and scan, to measure that",
        details: "DESTINATION is neither opened nor made. The figures are those of a copy.",
        effect: Switch(|draft| draft.read_only = true),
        ..Flag::own(Data)
    },
    Flag {
        long: "write-only",
        help: "only write, to measure that",
        details: "smartcp reads nothing of SOURCE but the allocation maps, and writes test data without zeros wherever \
                  a copy would read. DESTINATION must not exist, and is no copy; remove it afterwards.",
        effect: Switch(|draft| draft.write_only = true),
        ..Flag::own(Data)
    },
    Flag {
        short: "v",
        long: "verbose",
        help: "show options, progress every second and statistics",
        effect: Switch(|draft| draft.request.verbose = true),
        ..Flag::own(Output)
    },
    Flag {
        short: "g",
        long: "debug",
        help: "show what was found in the image too; only with -v",
        effect: Switch(|draft| draft.request.debug = true),
        ..Flag::own(Output)
    },
    Flag {
        short: "T",
        long: "stats-output",
        argument: Required("FORMAT"),
        values: Values::One(&[
            own("json", "a line of JSON at the beginning, every second and at the end"),
            own("none", "nothing but what -v shows"),
        ]),
        help: "statistics for programs; none by default",
        details: "They go to standard output, and what -v shows then goes to standard error. The section STATISTICS \
                  describes them.",
        effect: Word("json", |draft, word| draft.request.json = word == "json"),
        ..Flag::own(Output)
    },
    Flag {
        short: "h",
        long: "help",
        help: "print this text and exit",
        effect: Print(Information::Help),
        ..Flag::own(Output)
    },
    Flag {
        long: "version",
        help: "print the version and exit",
        effect: Print(Information::Version),
        ..Flag::own(Output)
    },
]]);

const YES_OR_NO: &[Choice] = &[own("yes", "do"), own("no", "do not")];

fn buffer_size(given: &Given<'_>) -> Result<usize, Complaint> {
    let size = parse_size(given.text().as_bytes()).and_then(|size| usize::try_from(size).ok());
    size.filter(|size| (1..=LARGEST_BUFFER).contains(size)).ok_or_else(|| {
        let text = given.quoter.text(given.text().as_bytes());
        misuse([&b"invalid buffer size "[..], &text, b": it must be from 1 to 16M"].concat())
    })
}

/// What options mean together, whatever their order, once all are read.
fn settle(draft: &mut Draft) -> Result<(), Complaint> {
    let options = &mut draft.request.options;
    options.smart = match (draft.reads_all, draft.snapshot) {
        (true, true) => return Err(misuse("--snapshot has no meaning with --use-smartread=no")),
        (true, false) => Smart::Off,
        (false, false) => Smart::Auto,
        (false, true) => Smart::Snapshot,
    };
    if draft.request.guests.drop_page_files && draft.reads_all {
        return Err(misuse("--page-files=drop has no meaning with --use-smartread=no"));
    }
    options.mode = match (draft.read_only, draft.write_only) {
        (true, true) => return Err(misuse("cannot combine --read-only and --write-only")),
        (true, false) => Mode::ReadOnly,
        (false, true) => Mode::WriteOnly,
        (false, false) => Mode::Copy,
    };
    if draft.write_only && options.md5 {
        return Err(misuse("cannot combine --write-only and --md5"));
    }
    if draft.request.debug && !draft.request.verbose {
        return Err(misuse("-g (--debug) is possible only with -v (--verbose)"));
    }
    Ok(())
}

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// Copies.
    Copy(Box<Request>),
    /// `--help` and `--version`.
    Print(Information),
}

/// Reads a command line (without the program's name).
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    posix: bool,
    quoter: &Quoter,
) -> Result<Invocation, Complaint> {
    let mut parser = Parser::new(arguments, posix, &FLAGS);
    let mut draft = Draft::default();
    while let Some(found) = parser.next_option().map_err(misuse)? {
        if let Print(information) = found.flag.effect {
            return Ok(Invocation::Print(information));
        }
        found.flag.apply(&mut draft, found.value.as_deref(), quoter, true)?;
    }
    settle(&mut draft)?;
    let mut request = draft.request;
    let mut operands = parser.into_operands();
    request.dest = operands.pop().ok_or_else(|| misuse("missing file operand"))?;
    if operands.is_empty() {
        let dest = quoter.always(request.dest.as_bytes());
        return Err(misuse([&b"missing destination file operand after "[..], &dest].concat()));
    }
    request.sources = operands;
    Ok(Invocation::Copy(Box::new(request)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_once_and_effects_fit_arguments() {
        haul_frontend::flags::check(&FLAGS);
    }
}
