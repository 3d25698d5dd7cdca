//! The command `haul`, which is `cp` or `smartcp` when called by those names.
//!
//! * **Knows** what each command does from its first step to its last, and what only one of them has: the options of
//!   `smartcp`, batch systems, the control file.
//! * **Must not know** how anything is copied, which is haul-copy's. What options of haul mean, and how a run is shown,
//!   is in haul-frontend, which `haul-mpi` uses, too.
//!
//! Layers, from the bottom to the top. A file imports only from layers below it:
//!
//! 1. beside and around a run: `brief`, `governor`, [`shards`], `punch`
//! 2. the commands: [`smartcp`]; [`app`], which is `haul` and `cp`
//! 3. [`generate`], which makes the man pages and completions
#![forbid(unsafe_code)]

pub mod app;
mod brief;
pub mod generate;
mod governor;
mod punch;
pub mod shards;
pub mod smartcp;
