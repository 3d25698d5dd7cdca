//! The options for how bytes are moved, of disk images too, and how fast.

use haul_copy::plan::{
    CacheUse, CloneTree, EngineChoice, EngineName, Preallocate, Reflink, SmartCopy, Sparse, Writeback,
};

use super::draft::{Draft, Flag};
use crate::complaint::{Complaint, misuse};
use crate::flags::Argument::{Optional, Required};
use crate::flags::Category::Data;
use crate::flags::Effect::{Switch, Value, Word};
use crate::flags::Mode;
use crate::run_options::Profiles;
use crate::throttle::{Priority, parse_limit};
use crate::values::{Choice, Values, of_cp, own};

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[
    Flag {
        long: "reflink",
        argument: Optional("WHEN"),
        // In the order of GNU's messages.
        values: Values::One(&[
            of_cp("auto", "share extents where the filesystem can"),
            of_cp("always", "fail where extents cannot be shared"),
            of_cp("never", "make a copy of every byte"),
        ]),
        help: "when to share extents with the source; auto by default",
        details: "Without WHEN, always is meant. The filesystem copies shared extents when either file changes. Two \
                  files that share extents are lost together if the medium fails there.",
        effect: Word("always", |draft, word| {
            draft.plan.data.reflink = match word {
                "always" => Reflink::Always,
                "never" => Reflink::Never,
                _ => Reflink::Auto,
            }
        }),
        ..Flag::cp(Data)
    },
    Flag {
        long: "clone-tree",
        argument: Optional("WHEN"),
        values: Values::One(&[
            own("never", "copy trees entry by entry"),
            own("auto", "make a snapshot where that has all that the copy would have"),
            own("always", "fail where none can be made of a tree"),
        ]),
        help: "copy a subvolume of btrfs as a snapshot; never by default",
        details: "Without WHEN, always is meant. With -a, a source that is a whole subvolume can be copied to a new name \
                  on its filesystem in one step, whatever its size. haul does that if it is to copy all of it, no other \
                  subvolume and no mounted filesystem is in it, and you own it or are root. The snapshot is of one \
                  moment, it can be written to, and it is on the device when haul ends. Unlike a copy it is a subvolume \
                  itself, has the inode flags (chattr(1)) of the source, and what you may not read is in it, too. haul \
                  counts it as one tree, and not what is in it.",
        effect: Word("always", |draft, word| {
            draft.plan.clone_tree = match word {
                "auto" => CloneTree::Auto,
                "never" => CloneTree::Never,
                _ => CloneTree::Always,
            }
        }),
        ..Flag::own(Data)
    },
    Flag {
        long: "sparse",
        argument: Required("WHEN"),
        // In the order of GNU's messages.
        values: Values::One(&[
            of_cp("never", "make no holes"),
            of_cp("auto", "make holes where the source has them"),
            of_cp("always", "make holes also where the source has runs of zeros"),
        ]),
        help: "when to make holes; auto by default",
        effect: Word("auto", |draft, word| {
            draft.plan.data.sparse = match word {
                "always" => Sparse::Always,
                "never" => Sparse::Never,
                _ => Sparse::Auto,
            }
        }),
        ..Flag::cp(Data)
    },
    Flag {
        long: "smart",
        argument: Optional("WHEN"),
        values: Values::One(&[
            own("off", "copy every byte"),
            own("auto", "skip what is proven free, where that is possible"),
            own("require", "fail where nothing can be proven, or the image is in use"),
        ]),
        help: "copy disk images without their guests' free space; off by default",
        details: "Without WHEN, auto is meant. The option applies to a file or block device that holds partitions or a \
                  filesystem. haul does not read what the filesystems' own maps prove free. That reads as zeros in the \
                  copy, so the copy has not the same bytes as the source: checksums of the whole files differ, and \
                  deleted files cannot be recovered from the copy. Leave it off for forensic copies. haul copies whole \
                  what is damaged, encrypted or unknown, and what was not unmounted if its journal cannot be followed; \
                  --explain and --stats=json say which part and why. If \
                  a program writes to the image during the copy, or uses it when the copy is done, haul copies what it \
                  skipped after all. With auto, files below 1 MiB, images that are in use, and images with nothing \
                  free are copied as without this option. A container (qcow2, VMDK, VHDX, VDI, VHD, by its name and \
                  its contents) stays the same container with the same tables: what holds nothing but free bytes of \
                  its disk becomes holes of the copy. haul looks at one of several files of a VMDK (disk-f001.vmdk) by \
                  the descriptor beside it (disk.vmdk). Compressed data stays, and a container with internal snapshots \
                  is copied whole. With require, haul fails and does not copy an image that is in use, of which it can \
                  map nothing, or of which it refuses a part. With --sparse=never haul writes zeros for what is free. \
                  --engine, --readahead and --preallocate do not apply to these copies, --buffer-size applies up to 16M, \
                  and no extents are shared.",
        effect: Word("auto", |draft, word| {
            draft.plan.saved_machines = (draft.environment.saved_machines)();
            draft.plan.smart = match word {
                "auto" => SmartCopy::Auto,
                "require" => SmartCopy::Require,
                _ => SmartCopy::Off,
            };
        }),
        modes: &[Mode::Punch],
        ..Flag::own(Data)
    },
    Flag {
        long: "punch",
        help: "with --smart: free the unused space of the images named, in place",
        details: "haul copies nothing; all operands are images. What the filesystems' own maps prove free becomes \
                  holes of the image file, as --smart would skip it in a copy. This cannot be undone. Of a container \
                  (qcow2, VMDK, VHDX, VDI, VHD) in one file, haul deallocates what holds nothing but free bytes of its \
                  disk; the tables stay. The image must be a regular file that no other process has open, on a \
                  filesystem with leases (not NFS or FUSE). A process that opens it meanwhile waits, and haul stops. \
                  haul does not touch parts that were not unmounted, are damaged or unknown; with \
                  --smart=require they are an error, and haul touches nothing. Of the other options only -v, --explain and --smart go with it.",
        effect: Switch(|draft| draft.modes.push(Mode::Punch)),
        modes: &[Mode::Punch],
        ..Flag::own(Data)
    },
    Flag {
        long: "snapshot",
        help: "with --smart: images are frozen snapshots, even if in use",
        details: "Without this option an image counts as in use if QEMU, VMware or a loop device has it as a disk, if \
                  it is mounted, locked, or open for writing, if the memory of a suspended machine lies beside it \
                  (saved by libvirt, QEMU, VMware, VirtualBox or Xen) or in a managed save of libvirt that names it, or \
                  if another disk there goes on from it (the overlay of a snapshot, a differencing disk). Do not give \
                  this option for an image from which another disk or a suspended machine goes on. Only root sees the \
                  managed saves of the system's libvirt. A user who may not take leases on the file (not its owner, without privileges) sees only the user's own writers. haul \
                  notices writes during the copy with this option, too.",
        effect: Switch(|draft| draft.plan.snapshot = true),
        ..Flag::own(Data)
    },
    Flag {
        long: "engine",
        argument: Required("NAME"),
        values: Values::One(ENGINES),
        help: "move bytes this way wherever it is possible",
        details: "Where the engine refuses (a clone on a filesystem that cannot, a pipe by offsets), read-write goes \
                  on from the byte where it stopped; --explain says so. To share extents or fail, use \
                  --reflink=always.",
        effect: Word("auto", |draft, word| draft.plan.data.engine = word.parse().unwrap_or(EngineChoice::Auto)),
        ..Flag::own(Data)
    },
    Flag {
        long: "buffer-size",
        argument: Required("SIZE"),
        help: "size of a read or write buffer in bytes",
        details: "K, M and G (or KiB, MiB, GiB) after the number multiply it by powers of 1024; KB, MB and GB by \
                  powers of 1000. At most 1G. haul uses the size as it is, with three exceptions: direct I/O and \
                  mappings round it up to pages, a pipe (splice) holds no more than /proc/sys/fs/pipe-max-size without \
                  privilege, and --limit, --verify and --resume move smaller pieces. Several threads at one file have \
                  a buffer each.",
        effect: Value(|draft, given| {
            draft.plan.data.buffer_size = Some(given.number(LARGEST)?);
            Ok(())
        }),
        ..Flag::own(Data)
    },
    Flag {
        long: "cache",
        argument: Required("WHEN"),
        values: Values::One(&[
            own("auto", "large copies go to the device, others stay in memory"),
            own("keep", "every copy stays in memory, as with cp"),
            own("drop", "every copy goes to the device and leaves the memory"),
        ]),
        help: "whether copies stay in the page cache; auto by default",
        details: "A copy that stays in memory is quick to read next, but the kernel writes it to the device later, and \
                  it pushes other files out of memory. A copy that goes to the device (by direct I/O, where the \
                  filesystem has it) is there when haul ends, costs little CPU time and leaves the memory to others, \
                  but reading it next means reading the device. With auto, a file goes to the device in three cases: \
                  it has at least 2 GiB without holes, it has more than an eighth of the memory that is available (a \
                  control group's limit counts), or the copies of this run fill half of that memory. To a block device, every file of 32 MiB and more does. A file below 32 \
                  MiB never does. On disks with heads the limit is a quarter of the memory and no fixed size; it is a \
                  fifth for files in memory that go to XFS, or from another filesystem to ext4. What such a copy reads \
                  stays in memory only if it was there before. With drop, files below 4 MiB stay in memory all the \
                  same, and of disk images (--smart) runs of less than 256 KiB. No WHEN makes a copy durable: that \
                  takes a sync.",
        effect: Word("auto", |draft, word| {
            draft.plan.data.cache = match word {
                "keep" => CacheUse::Keep,
                "drop" => CacheUse::Drop,
                _ => CacheUse::Auto,
            }
        }),
        ..Flag::own(Data)
    },
    Flag {
        long: "writeback",
        argument: Required("WHEN"),
        values: Values::One(&[
            own("auto", "at once, where the device is slow"),
            own("kernel", "when the kernel likes, as with cp"),
        ]),
        help: "when to write dirty pages back; auto by default",
        details: "Called as cp the default is kernel. The kernel lets programs fill a fifth of the available memory with dirty pages. Where the device is \
                  slow, such as a USB stick, the copy seems to be done long before umount(8) or a sync is. With auto, \
                  once 64 MiB or a file of that size are copied to a block device, haul times how quickly it writes 8 \
                  MiB of it, and again 8 MiB after each further GiB. If that is less than 100 MB/s, haul begins write-back of all further data as soon as it is \
                  copied, and waits while the device has more to write than it does in 1.5 s. That is no sync: for \
                  durable copies use --durable. Only files of 1 MiB and more show how quick a device is. Network \
                  filesystems and FUSE write each file at its close in any case.",
        effect: Word("auto", |draft, word| {
            draft.plan.data.writeback = if word == "kernel" { Writeback::Kernel } else { Writeback::Auto };
        }),
        ..Flag::own(Data)
    },
    Flag {
        long: "preallocate",
        argument: Optional("WHEN"),
        values: Values::One(&[
            own("auto", "where it lets several writes go on at once, or ext4 is quicker"),
            own("always", "for every file without holes"),
            own("never", "for no file"),
        ]),
        help: "when to allocate a file's space before writing it",
        details: "Without this option auto is meant, without WHEN, always. With auto haul allocates the space where \
                  several workers write to the device at the same time. It also does so on ext4 for new files of 1 MiB \
                  and more that stay in memory, which takes two thirds to half of the time. io-uring, linux-aio and \
                  posix-aio allocate what they write to the device. With never haul allocates nothing before it \
                  writes. Where the filesystem cannot allocate, or has too little space, haul copies the file without. \
                  Until such a file is whole it is one byte shorter than its source.",
        effect: Word("always", |draft, word| {
            draft.plan.data.preallocate = match word {
                "always" => Preallocate::Always,
                "never" => Preallocate::Never,
                _ => Preallocate::Auto,
            }
        }),
        ..Flag::own(Data)
    },
    Flag {
        short: "j",
        long: "jobs",
        argument: Required("N"),
        help: "copy at most N files at the same time",
        details: "Without this option haul finds the number while copying: it starts with the number of processors (at \
                  least 8 where a server has the files, as with NFS) and rises as long as that makes the copy faster. Messages come in the order of one thread whatever N is. \
                  Without -r files are copied one after another, whatever N is. \
                  One thread copies trees with -L, and of what is at the destination already that in which the order of \
                  the names could matter.",
        effect: Value(|draft, given| {
            draft.plan.jobs = Some(given.number(65536)?);
            Ok(())
        }),
        modes: &[Mode::Compare],
        ..Flag::own(Data)
    },
    Flag {
        long: "profile",
        argument: Required("FILE"),
        values: Values::File,
        help: "use measured settings from FILE; none disables profiles",
        details: "A profile says which engine, buffer, depth and numbers of workers and files at a time were measured \
                  to be faster for files of some size on some storage. haul-lab tune makes one. It counts only for \
                  copies within a storage that it names (the filesystem and the disk below it must be the same). It \
                  changes only how bytes are moved: not what is kept, shared, verified, durable or left in memory. On \
                  Lustre it may also say how new files are striped (docs/profiles.md). \
                  Other engines follow one that refuses. --engine, --buffer-size and --jobs come first. Without this \
                  option haul reads $XDG_CONFIG_HOME/haul/profile (~/.config/haul/profile if that is not set) and then \
                  /etc/haul/profile. Called as cp it reads neither, nor for one file below 64 KiB between local disks that \
                  it copies without a walk, a question, a sync or a word (-r, -i, --durable, --verify, -v, --progress and \
                  the like). haul ignores a profile with a warning if it is \
                  damaged, is of another version, or could have been written by others. The file must be root's or the \
                  user's own, and neither it nor its directory may be writable by the group or by others (but for \
                  directories with the sticky bit). With FILE all that is an error, the last for root only. ./none is \
                  a file of that name.",
        effect: Value(|draft, given| {
            draft.run.profiles = Profiles::of_argument(given.text());
            Ok(())
        }),
        ..Flag::own(Data)
    },
    Flag {
        long: "readahead",
        argument: Optional("SIZE"),
        help: "have the source read this far ahead of the copy",
        details: "Without SIZE, 8M; at most 1G. Use it for disks that need more than one request at a time during \
                  writes. Without the option haul finds out whether 8M are worth it for cold files. It does nothing \
                  for shared extents, direct I/O, FIFOs and the like.",
        effect: Value(|draft, given| {
            let size = if given.value.is_some() { given.number(LARGEST)? as u64 } else { USUAL_READAHEAD };
            draft.plan.data.readahead = Some(size);
            Ok(())
        }),
        ..Flag::own(Data)
    },
    Flag {
        long: "limit",
        argument: Required("RATE[,IOPS]"),
        help: "move at most RATE bytes, in at most IOPS operations, a second",
        details: "RATE is a size as for --buffer-size, or a fraction like 1.5G; 0 or none is no limit. All threads \
                  share both limits. An operation is a request for data to the kernel (a read, a write, a copy inside \
                  it), or a file, directory or link that is made. Shared extents count as one operation and no bytes, \
                  holes as no bytes.",
        effect: Value(|draft, given| {
            draft.run.throttling.limit = given.parsed(parse_limit)?;
            Ok(())
        }),
        ..Flag::own(Data)
    },
    Flag {
        long: "yield",
        help: "go slower while other programs have to wait",
        details: "Twice a second the copy pauses for a twentieth of a second. haul halves the rate, down to 1 MiB and \
                  10 operations a second, if other programs wait for input or output during the pause, or waited for a \
                  processor before it, in more than 10% of the time. Below 5% it raises the rate by a tenth each time. \
                  haul reads the kernel's pressure-stall figures; where there are none, the copy runs at idle priority \
                  instead, unless --priority is given.",
        effect: Switch(|draft| draft.run.throttling.yields = true),
        ..Flag::own(Data)
    },
    Flag {
        long: "control",
        argument: Required("FILE"),
        values: Values::File,
        help: "change --limit and --yield while copying by writing to FILE",
        details: "The words limit=RATE[,IOPS], yield=on and yield=off in FILE take effect when the copy begins, within \
                  a second after FILE has changed, and at once on SIGUSR2. What FILE does not name stays as it was. \
                  Comments go from # to the end of a line. If FILE has any other word in it, haul warns and changes \
                  nothing. FILE need not exist; at most 4 KiB of it are read. Without this option haul ignores SIGUSR2, unless it was called as cp.",
        effect: Value(|draft, given| {
            draft.run.throttling.control = given.path();
            Ok(())
        }),
        ..Flag::own(Data)
    },
    Flag {
        long: "priority",
        argument: Required("N"),
        help: "nice value of the copy, from -20 (first) to 19, or idle",
        details: "The I/O priority goes with it: level (N + 20) / 5 of the best-effort class. With idle the copy gets \
                  what no other program wants, of processors (nice value 19) and of devices (idle class). I/O \
                  priorities need a scheduler that heeds them, bfq or mq-deadline. If N takes privileges that are \
                  missing, haul copies nothing.",
        effect: Value(|draft, given| {
            let priority = given.text().to_str().and_then(Priority::parse);
            let wanted = ": a number from -20 to 19, or idle, is wanted";
            draft.run.throttling.priority = Some(priority.ok_or_else(|| given.invalid(wanted))?);
            Ok(())
        }),
        ..Flag::own(Data)
    },
];

pub fn settle_reflink(draft: &mut Draft) -> Result<(), Complaint> {
    let plan = &mut draft.plan;
    if plan.data.reflink == Reflink::Always && plan.data.sparse != Sparse::Auto {
        return Err(misuse("--reflink can be used only with --sparse=auto"));
    }
    if plan.data.sparse == Sparse::Never {
        // Shared extents may have holes.
        plan.data.reflink = Reflink::Never;
    }
    if plan.data.reflink == Reflink::Always && plan.smart != SmartCopy::Off {
        return Err(misuse("cannot combine --reflink=always and --smart"));
    }
    Ok(())
}

pub fn settle_snapshot(draft: &mut Draft) -> Result<(), Complaint> {
    if draft.plan.snapshot && draft.plan.smart == SmartCopy::Off {
        return Err(misuse("--snapshot has a meaning only with --smart"));
    }
    Ok(())
}

/// The largest buffer, and the farthest read-ahead, in bytes.
const LARGEST: u64 = 1 << 30;

/// How far `--readahead` without SIZE is ahead, in bytes.
const USUAL_READAHEAD: u64 = 8 << 20;

/// The arguments of `--engine`.
const ENGINES: &[Choice] = &{
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
