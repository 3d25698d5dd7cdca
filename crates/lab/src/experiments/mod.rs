//! The experiments, one room each: what is measured, and how it is shown.
//!
//! Conventions that the modules and their views share. Sizes in parameters are bytes, written as decimal numbers.
//!
//! | section | group of cases | competitors | parameters |
//! |---|---|---|---|
//! | `mapped-copy` | `1000 MiB, cold` | `cp`; `mapped`, `read-write` at a buffer size, and buffered or direct: `mapped 8 MiB, direct output`, `mapped 8 MiB, private mapping`, `mapped 8 MiB, beside a reader`, `read-write 8 MiB, direct`; `haul (auto)`; base `mapped 8 MiB` | `size`, `engine`, `buffer`, `io` (buffered, private mapping, beside a reader, direct output, direct), `state` (cold, warm) |
//! | `in-kernel` | `512 MiB` | `read-write` (base), `copy-range`, `splice`; `cp`, `clone`, `haul (auto)`; detail `samples`: seconds in the kernel by tool and by what it does | `size`, `engine` |
//! | `mapped-write` | no cases: details `msync`, `grid`, `stall`, `facts`, `verdict` | | |
//! | `async-tree` | `500 MiB in 64 files` | `cp` (base), `cp, priority`; `posix-aio`, `linux-aio`, `io-uring`, `haul (auto)` (engine `auto`), each also `, readahead`, `, preallocate`, `, priority` | `size`, `files`, `engine`, `variant` (plain, readahead, preallocate, priority) |
//! | `sparse-image` | `image of 8 GiB` | `smart read, sparse output`, `smart read, plain output`, `full read, sparse output`, `full read, plain output` (base), `smart read, sparse output, by queues`, `cp` | `size`, `smart`, `sparse`, `queued` (yes, no) |
//! | `compare` | the source's name | the command, or `haul` (base) | |
//! | `probe` | no cases: details `filesystem`, `device`, `machine`, `works`, `choices` | | |
//! | `tune` | `files of 64 KiB to 4 MiB, cached and cold`, and the same with `, fresh files` | settings by name; base `defaults` | `class`, `settings` |
//!
//! What haul's runs report ([`crate::results::Run::reported`]): `seconds.walk`, `.data`, `.metadata`, `.sync`, and of images `.all`,
//! `.open`, `.map`, `.data`, `.read`, `.write`, `.scan`, waits for the queues as `.read-enqueue`, `.read-dequeue`, `.write-enqueue`,
//! `.write-dequeue`, and `.workers`, the number of parallel workers times their time; `bytes.total`, `.written`, `.holes`, `.shared`,
//! `.offloaded`, `files.by-profile`, and of images `bytes.total`, `.copied`, `.read`, `.read-skipped`, `.write-skipped`, `.zeros`, `.free`,
//! and `workers`. On NFS, whoever copies: `nfs.` and each of [`haul_measure::nfs::COUNTERS`].

pub(crate) mod async_tree;
pub(crate) mod compare;
pub(crate) mod in_kernel;
pub(crate) mod mapped_copy;
pub mod mapped_write;
pub(crate) mod probe;
pub(crate) mod reproduce;
pub(crate) mod sparse_image;
pub(crate) mod tune;

use crate::session::How;

/// Bytes of a MiB, the unit of the sizes in names.
pub(crate) const MIB: u64 = 1 << 20;

/// The system's cp, with these options. What is asked is what moving bytes costs, so it is not to share extents on its own.
pub(crate) fn cp(options: &[&str]) -> How {
    let words = ["cp", "--reflink=never"].into_iter().chain(options.iter().copied()).chain(["{source}", "{dest}"]);
    How::Words(words.map(str::to_owned).collect())
}

/// A copy by haul's library as it chooses by itself.
pub(crate) const AUTO: &str = "haul (auto)";

/// A size in a name: in MiB, so that names sort and compare as the published ones do.
pub(crate) fn mib(bytes: u64) -> String {
    match bytes % MIB {
        0 => format!("{} MiB", bytes / MIB),
        _ => haul_measure::words::exactly(bytes),
    }
}
