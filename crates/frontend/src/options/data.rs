//! The options for how bytes are moved.

use haul_copy::plan::{CacheUse, EngineChoice, EngineName, Preallocate};

use super::draft::Flag;
use crate::flags::Argument::{Optional, Required};
use crate::flags::Category::Data;
use crate::flags::Effect::{Value, Word};
use crate::flags::Mode;
use crate::run_options::Profiles;
use crate::values::{Choice, Values, own};

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[ENGINE, BUFFER_SIZE, CACHE, PREALLOCATE, JOBS, PROFILE, READAHEAD];

/// The largest buffer, and the farthest read-ahead, in bytes.
const LARGEST: u64 = 1 << 30;

/// How far `--readahead` without SIZE is ahead, in bytes.
const USUAL_READAHEAD: u64 = 8 << 20;

/// The arguments of `--engine`.
const ENGINES: &[Choice] = &ALL_ENGINES;

const ALL_ENGINES: [Choice; 1 + EngineName::ALL.len()] = {
    const AUTO: Choice = own("auto", "the one that fits the files and filesystems best");
    let mut all = [AUTO; 1 + EngineName::ALL.len()];
    let mut at = 0;
    while at < EngineName::ALL.len() {
        let engine = EngineName::ALL[at];
        at += 1;
        all[at] = own(engine.as_str(), engine.about());
    }
    all
};

const ENGINE: Flag = Flag {
    long: "engine",
    argument: Required("NAME"),
    values: Values::One(ENGINES),
    help: "move bytes this way wherever it is possible",
    details: "Where the engine refuses (a clone on a filesystem that cannot, a pipe by offsets), read-write goes on \
              from the byte where it stopped; --explain says so. To share extents or fail, use --reflink=always.",
    effect: Word("auto", |draft, word| draft.plan.data.engine = word.parse().unwrap_or(EngineChoice::Auto)),
    ..Flag::own(Data)
};

const BUFFER_SIZE: Flag = Flag {
    long: "buffer-size",
    argument: Required("SIZE"),
    help: "size of a read or write buffer in bytes",
    details: "K, M and G (or KiB, MiB, GiB) after the number multiply it by powers of 1024; KB, MB and GB by powers of \
              1000. At most 1G. haul uses the size as it is, with three exceptions: direct I/O and mappings round it \
              up to pages, a pipe (splice) holds no more than /proc/sys/fs/pipe-max-size without privilege, and \
              --limit, --verify and --resume move smaller pieces. Several threads at one file have a buffer each.",
    effect: Value(|draft, given| {
        draft.plan.data.buffer_size = Some(given.number(LARGEST)?);
        Ok(())
    }),
    ..Flag::own(Data)
};

/// The arguments of `--cache`.
const CACHES: &[Choice] = &[
    own("auto", "large copies go to the device, others stay in memory"),
    own("keep", "every copy stays in memory, as with cp"),
    own("drop", "every copy goes to the device and leaves the memory"),
];

const CACHE: Flag = Flag {
    long: "cache",
    argument: Required("WHEN"),
    values: Values::One(CACHES),
    help: "whether copies stay in the page cache; auto by default",
    details: "A copy that stays in memory is quick to read next, but the kernel writes it to the device later, and it \
              pushes other files out of memory. A copy that goes to the device (by direct I/O, where the filesystem \
              has it) is there when haul ends, costs little CPU time and leaves the memory to others, but reading it \
              next means reading the device. With auto, a file goes to the device in three cases: it has at least 2 \
              GiB without holes, it has more than an eighth of the memory that is available (a control group's limit \
              counts), or the copies of this run fill half of that memory. A file below 32 MiB never does. On disks \
              with heads the limit is a quarter of the memory and no fixed size; it is a fifth for files in memory \
              that go to XFS, or from another filesystem to ext4. What such a copy reads stays in memory only if it \
              was there before. With drop, files below 4 MiB stay in memory all the same, and of disk images (--smart) \
              runs of less than 256 KiB. No WHEN makes a copy durable: that takes a sync.",
    effect: Word("auto", |draft, word| {
        draft.plan.data.cache = match word {
            "keep" => CacheUse::Keep,
            "drop" => CacheUse::Drop,
            _ => CacheUse::Auto,
        }
    }),
    ..Flag::own(Data)
};

/// The arguments of `--preallocate`.
const PREALLOCATIONS: &[Choice] = &[
    own("auto", "where it lets several writes go on at once, or ext4 is quicker"),
    own("always", "for every file without holes"),
    own("never", "for no file"),
];

const PREALLOCATE: Flag = Flag {
    long: "preallocate",
    argument: Optional("WHEN"),
    values: Values::One(PREALLOCATIONS),
    help: "when to allocate a file's space before writing it",
    details: "Without this option auto is meant, without WHEN, always. With auto haul allocates the space where \
              several workers write to the device at the same time. It also does so on ext4 for new files of 1 MiB and \
              more that stay in memory, which takes two thirds to half of the time. io-uring, linux-aio and posix-aio \
              allocate what they write to the device. With never haul allocates nothing before it writes. Where the \
              filesystem cannot allocate, or has too little space, haul copies the file without. Until such a file is \
              whole it is one byte shorter than its source.",
    effect: Word("always", |draft, word| {
        draft.plan.data.preallocate = match word {
            "always" => Preallocate::Always,
            "never" => Preallocate::Never,
            _ => Preallocate::Auto,
        }
    }),
    ..Flag::own(Data)
};

const JOBS: Flag = Flag {
    long: "jobs",
    argument: Required("N"),
    help: "copy at most N files at the same time",
    details: "Without this option haul finds the number while copying: it starts with the number of processors and \
              rises as long as that makes the copy faster. Messages come in the order of one thread whatever N is. One \
              thread copies over what is at the destination already, and trees with -L.",
    effect: Value(|draft, given| {
        draft.plan.jobs = Some(given.number(65536)?);
        Ok(())
    }),
    modes: &[Mode::Compare],
    ..Flag::own(Data)
};

const PROFILE: Flag = Flag {
    long: "profile",
    argument: Required("FILE"),
    values: Values::File,
    help: "use measured settings from FILE; none disables profiles",
    details: "A profile says which engine, buffer, depth and numbers of workers and files at a time were measured to \
              be faster for files of some size on some storage. haul-lab tune makes one. It counts only for copies \
              within a storage that it names (the filesystem and the disk below it must be the same). It changes only \
              how bytes are moved: not what is kept, shared, verified, durable or left in memory. Other engines follow \
              one that refuses. --engine, --buffer-size and --jobs come first. Without this option haul reads \
              $XDG_CONFIG_HOME/haul/profile (~/.config/haul/profile if that is not set) and then /etc/haul/profile; \
              called as cp it reads neither. haul ignores a profile with a warning if it is damaged, is of another \
              version, or could have been written by others. The file must be root's or the user's own, and neither it \
              nor its directory may be writable by the group or by others (but for directories with the sticky bit). \
              With FILE all that is an error, the last for root only. ./none is a file of that name.",
    effect: Value(|draft, given| {
        draft.run.profiles = Profiles::of_argument(given.text());
        Ok(())
    }),
    ..Flag::own(Data)
};

const READAHEAD: Flag = Flag {
    long: "readahead",
    argument: Optional("SIZE"),
    help: "have the source read this far ahead of the copy",
    details: "Without SIZE, 8M; at most 1G. Use it for disks that need more than one request at a time during writes. \
              Without the option haul finds out whether 8M are worth it for cold files. It does nothing for shared \
              extents, direct I/O, FIFOs and the like.",
    effect: Value(|draft, given| {
        let size = if given.value.is_some() { given.number(LARGEST)? as u64 } else { USUAL_READAHEAD };
        draft.plan.data.readahead = Some(size);
        Ok(())
    }),
    ..Flag::own(Data)
};

#[cfg(test)]
mod tests {
    use haul_copy::plan::EngineName;

    use super::*;

    #[test]
    fn every_engine_can_be_chosen() {
        let names: Vec<&str> = ENGINES.iter().map(|choice| choice.name).collect();
        let engines = std::iter::once("auto").chain(EngineName::ALL.iter().map(|engine| engine.as_str()));
        assert_eq!(names, engines.collect::<Vec<_>>());
    }
}
