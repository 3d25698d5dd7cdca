//! What `--help` says.

/// Of the program.
pub const ALL: &str = "\
Usage: haul-lab TASK [OPTION]... OPERAND...
Measure copies on your own storage, and see what they are made of.

Experiments, each below a folder of its own in DIR, which is removed:
  mapped-copy DIR   does an mmap-based cp lose to big-buffer read and write?
  in-kernel DIR     what does copy_file_range save?
  mapped-write DIR  does writing through mmap stall here?
  async-tree DIR    does asynchronous I/O beat cp -r?
  sparse-image DIR  what do skipped reads and writes of disk images save?
  reproduce DIR     all five, scaled to a budget of time and space

Other tasks:
  compare --source S --dest DIR [--with NAME,...] [-- CMD...]
                    is another tool faster than haul here, is its copy right?
  probe DIR         what can this filesystem do, and what would haul choose?
  tune DIR          which settings win here? writes a profile for haul
  report FILE...    show results again: HTML, Markdown, CSV, terminal
  map IMAGE         what the guests of a disk image use, without copying it

      --help        show this help, or that of a task, and exit
      --version     show the version and exit

Every copy that is timed is compared with its source; a wrong one has no rank.
";

/// What all measuring tasks take.
macro_rules! common {
    () => {
        "
      --runs=N          timed runs of each competitor (default: 3)
      --timeout=TIME    end a competitor that takes longer (default: 10m)
      --time=TIME       begin no run after so long; the rest is skipped
      --output=FOLDER   for results and report (default: a new folder in the
                        current directory); the same command with a folder that
                        was interrupted goes on with it
      --help            show this help and exit

Sizes may end in K, M, G or T (units of 1024), times in s, m or h.
Competitors take turns in rotated order, every copy is compared with its source,
and everything that is made in DIR is removed.
"
    };
}

const MAPPED_COPY: &str = concat!(
    "\
Usage: haul-lab mapped-copy [OPTION]... DIR
Does an mmap-based copy lose to one with big buffers? Copies one file in DIR by
mapping it and by read and write, through the page cache and past it, cold and
warm, beside the system's cp.

      --size=SIZE       of the file (default: 1000M)
      --buffers=SIZE,...
                        of buffers and segments, beside 8M (default: 128K,1M)
      --states=cold,warm
                        of the source (default: both)",
    common!()
);

const IN_KERNEL: &str = concat!(
    "\
Usage: haul-lab in-kernel [OPTION]... DIR
What does copy_file_range save? Copies files of random data in DIR by read and
write, copy_file_range, splice and, where extents can be shared, by cloning,
beside the system's cp.

      --sizes=SIZE,...  of the files (default: 512M,1024M,1536M,2048M)
      --cold            drop the source from memory before each run",
    common!()
);

const MAPPED_WRITE: &str = "\
Usage: haul-lab mapped-write [OPTION]... DIR
Does writing through mmap stall here? Syncs small mapped files page by page,
writes and reads mapped files of many sizes, stores to pages that are being
written back, and lets many mapped files grow until a store has to wait.
Reports what stores waited for, and what that means.

      --rounds=N        rounds of page by page (default: 100)
      --files=N         files that grow side by side (default: 50)
      --space=SIZE      that files take at most (default: 2G; never over half of
                        what is free)
      --time=TIME       for everything (default: 75s)
      --output=FOLDER   for results and report (default: a new folder in the
                        current directory)
      --help            show this help and exit

Sizes may end in K, M, G or T (units of 1024), times in s, m or h.
";

const ASYNC_TREE: &str = concat!(
    "\
Usage: haul-lab async-tree [OPTION]... DIR
Does asynchronous I/O beat cp -r? Copies trees in DIR by POSIX AIO, Linux AIO,
io_uring and haul's own choice, cold, each plain, with readahead, with
preallocation and with raised priority, beside cp -r.

      --totals=SIZE,... of all files together (default: 100M,500M,1000M,2000M)
      --files=N,...     numbers of files (default: 32,64,128,256)
      --variants=NAME,...
                        of plain, readahead, preallocate, priority (default:
                        all)",
    common!()
);

const SPARSE_IMAGE: &str = concat!(
    "\
Usage: haul-lab sparse-image [OPTION]... DIR
What do skipped reads and writes save? Copies a disk image to DIR with and
without reading what its guest does not use, and with and without writing zeros,
beside the system's cp. The image is made for it: a partition with ext4, half of
it in use, a quarter zeros, the rest deleted files.

      --size=SIZE       of the image that is made (default: 8G)
      --image=FILE      copy this raw image instead",
    common!()
);

const COMPARE: &str = concat!(
    "\
Usage: haul-lab compare --source=S --dest=DIR [OPTION]... [-- CMD...]
Is another tool faster than haul here, and is its copy right? CMD is one command
in words with {source} and {dest} among them, or several lines for a shell, each
a word of its own with both places in it. {dest} does not exist beforehand.

      --source=S        what is copied: a file or a tree of yours, only read
      --dest=DIR        where copies are made, and removed
      --with=NAME,...   programs that are known: cp, rsync, dd, tar, xcp, cpz,
                        fcp, rclone, qemu-img
      --archive         all metadata is kept, and compared
      --cold            drop the source from memory before each run",
    common!()
);

const REPRODUCE: &str = "\
Usage: haul-lab reproduce [OPTION]... DIR
All five experiments, unattended, and one report.

      --budget=TIME     for everything (default: 10m, at least 1m)
      --space=SIZE      written at a time (default: 8G, at least 512M)
      --timeout=TIME    end a competitor that takes longer (default: 10m)
      --output=FOLDER   for results and report (default: a new folder in the
                        current directory); the same command with a folder that
                        was interrupted goes on with it
      --help            show this help and exit

Sizes may end in K, M, G or T (units of 1024), times in s, m or h.
";

const TUNE: &str = "\
Usage: haul-lab tune [OPTION]... DIR
Which settings win here? Tries engines, buffers, depths, workers and numbers of
files at a time against haul's own choice, on files of several sizes in DIR,
cached and cold. What wins is tried again on fresh files; what wins there, too,
goes into a profile that haul reads (see --profile of haul).

      --time=TIME       for everything (default: 5m); no run begins afterwards
      --space=SIZE      of sources and copies at a time (default: 6G)
      --files=SIZE,...  only files of these sizes: tiny (below 64 KiB), small
                        (to 4 MiB), medium (to 32 MiB), large (to 2 GiB), huge
      --profile=FILE    write this one (default: haul/profile in
                        $XDG_CONFIG_HOME or ~/.config); what it says of other
                        storages stays
      --dry-run         write no profile
      --timeout=TIME    end a copy that takes longer (default: 10m)
      --output=FOLDER   results and report go there (default: a new folder in
                        the current directory)
      --help            show this help and exit

What counts is the time until a copy is on its device, pair by pair with haul's
own choice. Every copy is compared with its source, and everything that is made
in DIR is removed. A search that was interrupted begins anew.
";

const PROBE: &str = "\
Usage: haul-lab probe [OPTION]... DIR
What can this filesystem and its device do, and what would haul choose there?
Asks the kernel, tries the rest in a folder in DIR that is removed, and shows
the engines for files of several sizes, cached and cold, with the reasons.

      --json            the results as JSON
      --help            show this help and exit
";

const MAP: &str = "\
Usage: haul-lab map [OPTION]... IMAGE
Show what the guests of a disk image use, without copying it.

What to show:
      --json            the report by region as one line of JSON, and no strips
      --svg=FILE        draw the strips into FILE, too
      --width=N         columns of a strip (default: the terminal's, or 80)

How to look:
      --scan            read all that is used, and find the zeros
      --snapshot        the image is a frozen snapshot; do not warn that it is
                        in use

      --help            show this help and exit

A strip shows where bytes of each kind are: used, free (proven by the guest's
own allocation map), zero (with --scan), hole (not stored in the image file),
opaque (stored, and not understood). Colours need a terminal, and no NO_COLOR.
";

/// Of a task.
pub fn of(task: &str) -> Option<&'static str> {
    Some(match task {
        "mapped-copy" => MAPPED_COPY,
        "in-kernel" => IN_KERNEL,
        "mapped-write" => MAPPED_WRITE,
        "async-tree" => ASYNC_TREE,
        "sparse-image" => SPARSE_IMAGE,
        "compare" => COMPARE,
        "reproduce" => REPRODUCE,
        "map" => MAP,
        "report" => crate::report::command::HELP,
        "probe" => PROBE,
        "tune" => TUNE,
        _ => return None,
    })
}
