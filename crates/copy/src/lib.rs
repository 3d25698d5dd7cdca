//! The library of haul: everything that a copy is made of, and nothing that a terminal or a process needs.
//!
//! ```no_run
//! use haul_copy::{Context, Copy};
//!
//! let copy = Copy::new("photos", "/mnt/backup/photos").archive().build()?;
//! copy.run(&Context::default())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! * **Knows** filesystems, metadata, engines, plans, trees, threads and the messages between processes. The
//!   [`Context`] says who follows a copy, stops it or slows it down.
//! * **Must not know** options, terminals, MPI or its host process: it does not print, exit or read the environment,
//!   and it changes neither umask nor the working directory, and of signals only SIGURG, to limit how long it waits for a
//!   server that copies by itself.
//!
//! A front end that offers everything fills a [`plan::Plan`] and passes it to [`run::run`] with a [`run::Session`].
//! ARCHITECTURE.md has the modules and their order.
//!
//! # Copies that a program divides by itself
//!
//! Each of these steps can be called alone:
//!
//! 1. [`run::list`] walks the sources and gives a [`list::FileList`], which can be saved and loaded;
//! 2. [`list::split`] says what each part is, by bytes and by entries;
//! 3. [`run::run`] with such a list and a [`list::Shard`] in the plan copies one part: in any order, at the same time,
//!    again after it was interrupted; the part that comes last finishes the directories;
//! 4. summaries add up (`+=`), and their counters with them;
//! 5. [`compare::compare`] says how the copy differs from the source.
//!
//! These are not phases of a tree (make all directories, copy all files, finish all directories). Each phase would wait
//! for the slowest process, all directories of a tree of 10^9 files would be open to the owner only until the end, and
//! a list would be needed where there is none. A part makes the directories that it needs, and the last part of a
//! directory finishes it. `tests/steps.rs` calls the steps as such a program would.
//!
//! Where processes can talk to each other, [`run::run_together`] needs none of these lists: it divides while it copies.
#![forbid(unsafe_code)]

mod attributes;
pub mod compare;
mod context;
mod decide;
pub mod events;
mod file;
pub mod filter;
mod finish;
mod front;
pub mod images;
pub mod journal;
pub mod list;
mod peers;
pub mod plan;
mod publish;
mod recorded_progress;
mod report;
pub mod run;
mod schedule;
mod shards;
mod sources;
pub mod stats;
mod tree;
mod work;

pub use decide::Wanted;
pub use front::{Conflict, Context, Copy, Failed, Prepared};
pub use haul_fs::error::{Error, ErrorKind};
pub(crate) use haul_fs::links;
pub use haul_fs::{error, meta, offline, walk};
pub use haul_io::control::Cancel;
pub use haul_io::pace::{Limit, Pace};
pub use run::Summary;
