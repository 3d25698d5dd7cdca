//! The options of smartcp as data: its parser, `--help`, man page and completions read this table.

use crate::flags::Argument::Required;
use crate::flags::Category::{Data, Output};
use crate::flags::{Category, Choice, Flag, Id, Origin, Values, own};

const YES_OR_NO: &[Choice] = &[own("yes", "do"), own("no", "do not")];

const DIRECT: &[Choice] = &[
    own("auto", "what is large for the memory that is free goes to the device directly"),
    own("yes", "do, on both sides"),
    own("no", "do not"),
];

const SPARSENESS: &[Choice] = &[
    own("always", "free space, holes and blocks of zeros are not written, and read as zeros"),
    own("never", "zeros are written"),
];

const FORMATS: &[Choice] = &[
    own("auto", "a container if both its name and its contents say so"),
    own("raw", "a raw disk, whatever it looks like"),
    own("container", "the container that its contents say, whatever its name"),
];

const CONTAINERS: &[Choice] = &[
    own("raw", "the disk in a container is copied, as a raw image"),
    own("keep", "the container is copied as it is, without the bytes that only free space is in"),
];

const PAGE_FILES: &[Choice] =
    &[own("keep", "they are data like any other"), own("drop", "what is in them is not read")];

const CHANGES: &[Choice] = &[
    own("retry", "copy it again, up to three times; then the copy fails"),
    own("warn", "say so, keep the copy, and end with 3"),
    own("fail", "the copy fails"),
];

const STATS: &[Choice] =
    &[own("json", "a line of JSON every second and one at the end"), own("none", "nothing but what -v shows")];

const fn flag(id: Id, category: Category) -> Flag {
    Flag { origin: Origin::Haul, ..Flag::new(id, category) }
}

/// All options, in the order of the documentation within their categories.
pub const FLAGS: &[Flag] = &[
    Flag {
        short: "S",
        long: "use-smartread",
        argument: Required("WORD"),
        values: Values::One(YES_OR_NO),
        help: "do not read what the guests do not use; yes by default",
        details: "What the allocation maps of the guests' own filesystems prove free is not read, and reads as zeros in the \
                  copy. Holes of the image are not read either. With no, every byte is read.",
        ..flag(Id::UseSmartRead, Data)
    },
    Flag {
        long: "format",
        argument: Required("WORD"),
        values: Values::One(FORMATS),
        help: "what the sources are taken for; auto by default",
        details: "Containers are qcow2, VMDK, VHDX, VDI and VHD. A guest can write anything to its raw disk, what a container \
                  begins with as well: so with auto a file that looks like a container and has another name is copied byte \
                  for byte, and so is a container that depends on another disk, is damaged or not closed (with a \
                  warning). Of a VMDK in several files name the descriptor, which is a small text file; the files that \
                  it names must be beside it, and their names plain ones without a directory. Symbolic links there are \
                  followed, with a warning. One of those files by itself (disk-f001.vmdk) is copied byte for byte.",
        ..flag(Id::Format, Data)
    },
    Flag {
        long: "container",
        argument: Required("WORD"),
        values: Values::One(CONTAINERS),
        help: "copy a container's disk, or keep the container; raw by default",
        details: "With raw, the copy is a raw image; in a directory it is named like the container with .raw at the end. What \
                  the container does not hold is not read. With keep, the copy is the same container, with the same tables at \
                  the same places; what holds nothing but free bytes of the disk is not read, is a hole in the copy, and \
                  reads as zeros. What is compressed stays as it is, and a container with internal snapshots or \
                  bitmaps is kept whole. A disk in several files can be kept only in a directory, where they get their \
                  own names, the descriptor last; those names must end in .vmdk.",
        ..flag(Id::Container, Data)
    },
    Flag {
        long: "page-files",
        argument: Required("WORD"),
        values: Values::One(PAGE_FILES),
        help: "keep or drop what is in Windows' page files; keep by default",
        details: "With drop, what is in pagefile.sys and swapfile.sys in the root directory of an NTFS is not read and reads as zeros \
                  in the copy; the files keep their sizes and places. Windows writes them anew when it starts. Nothing else \
                  is lost by it but what memory left behind in them, which may be evidence. Like free space, it is dropped \
                  only of a filesystem that was closed, and never while Windows is hibernated.",
        ..flag(Id::PageFiles, Data)
    },
    Flag {
        long: "snapshot",
        help: "the image is a frozen snapshot, whoever has it open",
        details: "Without this option an image that is in use is copied whole: one that QEMU, VMware or a loop device has as a \
                  disk, that is mounted, locked, or open for writing.",
        ..flag(Id::Snapshot, Data)
    },
    Flag {
        long: "if-changed",
        argument: Required("WHAT"),
        values: Values::One(CHANGES),
        help: "what to do if an image is written to meanwhile; warn by default",
        details: "What is copied then may be of no single moment. With warn the copy stays, and the exit status is 3. A copy that \
                  fails is removed, or named if it was written over an old file. Containers are not copied again: with retry their copies fail.",
        ..flag(Id::IfChanged, Data)
    },
    Flag {
        short: "s",
        long: "sparse",
        argument: Required("WHEN"),
        values: Values::One(SPARSENESS),
        help: "whether zeros are left out; always by default",
        details: "On a block device whose driver cannot make zeros without writing, they are written in any case.",
        ..flag(Id::Sparse, Data)
    },
    Flag {
        long: "zero-scan",
        argument: Required("WORD"),
        values: Values::One(YES_OR_NO),
        help: "look for blocks of zeros in what is read; yes by default",
        details: "A block has 4096 bytes.",
        ..flag(Id::ZeroScan, Data)
    },
    Flag {
        long: "md5",
        help: "print the MD5 of what the copy holds, as md5sum does",
        details: "Free space counts as zeros, so it is the sum of DESTINATION and not of SOURCE. It is computed while \
                  copying, by a processor of its own if there is one, and may be slower than the disks.",
        ..flag(Id::Md5, Data)
    },
    Flag {
        long: "buffer-size",
        argument: Required("SIZE"),
        help: "read and write so many bytes at once; 131072 by default",
        details: "A number of bytes, or with K or M of 1024 or 1024*1024 bytes; at most 16M. What auto of --direct-io sends to \
                  the device has a size of its own.",
        ..flag(Id::BufferSize, Data)
    },
    Flag {
        long: "direct-io",
        argument: Required("WORD"),
        values: Values::One(DIRECT),
        help: "go past the page cache; auto by default",
        details: "With auto, a copy of 2 GiB or more, or of more than an eighth of the memory that is available, is written \
                  to the device directly, in requests of up to 8 MiB, and so is on the device sooner and leaves the memory \
                  to others; so is one of 32 MiB or more to a block device. What of SOURCE is not in memory is read \
                  in the same way. Runs of less than 256 KiB, and zeros that are written, go through the page cache; so \
                  does everything with --md5 and where one side is measured, and where the kernel does not say what direct \
                  I/O needs (before Linux 6.1, btrfs, pages of more than 4 KiB). On disks with heads it takes more than a \
                  quarter of the memory, and from memory to XFS more than a fifth. With yes, both sides go past the \
                  page cache, whatever the size, in requests of the buffer's size, where the filesystems can do that and \
                  what is asked for is aligned.",
        ..flag(Id::DirectIo, Data)
    },
    Flag {
        long: "read-only",
        help: "only read and scan, to measure that",
        details: "DESTINATION is neither opened nor made. The figures are those of a copy.",
        ..flag(Id::ReadOnly, Data)
    },
    Flag {
        long: "write-only",
        help: "only write, to measure that",
        details: "Nothing of SOURCE is read but the allocation maps. Test data without zeros is written wherever a copy would \
                  read. DESTINATION must not exist, and is no copy; remove it afterwards.",
        ..flag(Id::WriteOnly, Data)
    },
    Flag {
        short: "v",
        long: "verbose",
        help: "show options, progress every second and statistics",
        ..flag(Id::Verbose, Output)
    },
    Flag {
        short: "g",
        long: "debug",
        help: "show what was found in the image too; only with -v",
        ..flag(Id::Debug, Output)
    },
    Flag {
        short: "T",
        long: "stats-output",
        argument: Required("FORMAT"),
        values: Values::One(STATS),
        help: "statistics for programs; none by default",
        details: "They go to standard output, and what -v shows then goes to standard error. The section STATISTICS describes \
                  them.",
        ..flag(Id::StatsOutput, Output)
    },
    Flag { short: "h", long: "help", help: "print this text and exit", ..flag(Id::Help, Output) },
    Flag { long: "version", help: "print the version and exit", ..flag(Id::Version, Output) },
];
