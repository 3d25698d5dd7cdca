//! The options of `haul` for the way that bytes go.

use crate::flags::Argument::{Optional, Required};
use crate::flags::Category::Data;
use crate::flags::{Choice, Flag, Id, Origin, Values, own};

/// The arguments of `--engine`.
pub(crate) const ENGINES: &[Choice] = &[
    own("auto", "the one that fits the files and filesystems best"),
    own("reference", "one small buffer, nothing clever: the one that the others are compared with"),
    own("read-write", "read and write with a buffer of any size"),
    own("copy-range", "copy_file_range, inside the kernel or the file server"),
    own("clone", "share extents with FICLONE and FICLONERANGE"),
    own("splice", "splice through a pipe"),
    own("mapped", "write straight from 8 MiB mappings of the source"),
    own("mapped-direct", "O_DIRECT writes straight from mappings of the source"),
    own("direct", "O_DIRECT, past the page cache, where the sides allow it"),
    own("io-uring", "io_uring: many requests at a time, O_DIRECT where the sides allow it"),
    own("linux-aio", "io_submit: the same with O_DIRECT only, also where io_uring is forbidden"),
    own("posix-aio", "aio_read and aio_write: the same by threads of the C library"),
    own("dontcache", "read and write that leave nothing in the page cache (RWF_DONTCACHE, Linux 6.14)"),
    own("null", "move nothing: measures the overhead of the rest"),
];

/// The arguments of `--cache`.
const CACHES: &[Choice] = &[
    own("auto", "large copies go to the device, others stay in memory"),
    own("keep", "every copy stays in memory, as with cp"),
    own("drop", "every copy goes to the device and leaves the memory"),
];

/// The arguments of `--preallocate`.
const PREALLOCATIONS: &[Choice] = &[
    own("auto", "where it lets several writes go on at once, or ext4 is quicker"),
    own("always", "for every file without holes"),
    own("never", "for no file"),
];

/// `--engine`
pub(crate) const ENGINE: Flag = Flag {
    long: "engine",
    argument: Required("NAME"),
    values: Values::One(ENGINES),
    origin: Origin::Haul,
    help: "move bytes this way wherever it is possible",
    details: "What the engine refuses (a clone on a filesystem that cannot, a pipe by offsets) goes on with read-write \
              from the byte where it stopped; --explain says so. To share extents or fail, use --reflink=always.",
    ..Flag::new(Id::Engine, Data)
};

/// `--cache`
pub(crate) const CACHE: Flag = Flag {
    long: "cache",
    argument: Required("WHEN"),
    values: Values::One(CACHES),
    origin: Origin::Haul,
    help: "whether copies stay in the page cache; auto by default",
    details: "A copy that stays in memory is quick to read next, is written to the device later by the kernel, and \
              pushes other files out of memory. A copy that goes to the device (by direct I/O, where the filesystem has \
              it) is there when haul ends, costs little processor time and leaves the memory to others; reading it \
              next means reading the device. With auto, a file goes to the device if it has at least 2 GiB without \
              holes, or more than an eighth of the memory that is available (a control group's limit counts), or if \
              the copies of this run fill half of that memory; never one below 32 MiB. On disks with heads it is a \
              quarter of the memory and no fixed size, and a fifth for files in memory that go to XFS, or from another \
              filesystem to ext4. What such a \
              copy reads that was not in memory does not stay there; what was, stays. With drop, files below 4 MiB \
              are left in memory all the same, and of disk images (--smart) runs of less than 256 KiB. None of this makes a copy durable: that takes a sync.",
    ..Flag::new(Id::Cache, Data)
};

/// `--preallocate`
pub(crate) const PREALLOCATE: Flag = Flag {
    long: "preallocate",
    argument: Optional("WHEN"),
    values: Values::One(PREALLOCATIONS),
    origin: Origin::Haul,
    help: "when to allocate a file's space before writing it",
    details: "Without this option auto is meant, without WHEN, always. With auto the space is allocated where several \
              write to the device at the same time, and on ext4 for new files of 1 MiB and more that stay in memory, \
              which are written in two thirds to half of the time then; io-uring, linux-aio and posix-aio allocate what they \
              write to the device. With never nothing is allocated before it is written. Where the filesystem cannot, or has too little \
              space, the file is copied without. Until it is whole such a file is one byte shorter than its source.",
    ..Flag::new(Id::Preallocate, Data)
};

/// `--profile`
pub(crate) const PROFILE: Flag = Flag {
    long: "profile",
    argument: Required("FILE"),
    values: Values::File,
    origin: Origin::Haul,
    help: "take measured settings from FILE; none takes them from nowhere",
    details: "A profile says which engine, buffer, depth and numbers of workers and files at a time were measured to be \
              faster for files of some size on some storage; haul-lab tune makes one. It counts only for copies within a storage \
              that it names (the filesystem and the disk below it must be the same), and changes only how bytes are \
              moved: not what is kept, shared, verified, durable or left in memory, and an engine that refuses is followed by \
              others. --engine, --buffer-size and --jobs come first. Without this option haul reads \
              $XDG_CONFIG_HOME/haul/profile (~/.config/haul/profile if that is not set) and then /etc/haul/profile; called as \
              cp it reads neither. Those that are damaged, or of another version, are ignored with a warning; so are those that \
              others could have written: the file must be root's or the user's own, and neither it nor its directory may be \
              writable by the group or by others (but for directories with the sticky bit). With FILE all that is an error, the last \
              for root only. ./none is a file of that name.",
    ..Flag::new(Id::Profile, Data)
};
