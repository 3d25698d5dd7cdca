//! The experiments, one room each: what is measured, and how it is shown.
//!
//! Conventions that the rooms and their views share. Sizes in parameters are bytes, in decimal.
//!
//! | section | group of cases | competitors | parameters |
//! |---|---|---|---|
//! | `mapped-copy` | `1000 MB, cold` | `cp`; `mapped`, `read-write` at a buffer size, and buffered or direct: `mapped 8 MiB`, `read-write 8 MiB, direct`; base `mapped 8 MiB` | `size`, `engine`, `buffer`, `io` (buffered, direct), `state` (cold, warm) |
//! | `in-kernel` | `512 MB` | `cp` (base), `read-write`, `copy-range`, `splice`, `clone` | `size`, `engine` |
//! | `mapped-write` | no cases: details `msync`, `grid`, `stall`, `facts`, `verdict` | | |
//! | `async-tree` | `500 MB in 64 files` | `cp` (base), `cp, priority`; `posix-aio`, `linux-aio`, `io-uring`, `auto`, each also `, readahead`, `, preallocate`, `, priority` | `size`, `files`, `engine`, `variant` (plain, readahead, preallocate, priority) |
//! | `sparse-image` | `image of 8 GiB` | `smart read, sparse output`, `smart read, plain output`, `full read, sparse output`, `full read, plain output` (base), `cp` | `size`, `smart`, `sparse` (yes, no) |
//! | `compare` | the source's name | the command, or `haul` (base) | |
//! | `probe` | no cases: details by place | | |
//! | `tune` | by size class | settings by name; base `defaults` | `class`, `settings` |
//!
//! What haul's runs tell ([`crate::results::Run::told`]): `seconds.walk`, `.data`, `.metadata`, `.sync`, of images also `.read`,
//! `.write`, `.scan`, `.wait-read` and `.wait-write`; `bytes.total`, `.written`, `.holes`, `.shared`, `.offloaded`,
//! `.read-skipped`, `.write-skipped`, `.zeros`.

pub mod mapped_write;
