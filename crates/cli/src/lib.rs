//! The command `haul`, which is `cp` or `smartcp` when called by those names: options, messages, progress and the exit
//! status.
//!
//! Everything about copying itself is in haul-copy. This crate is the only one that reads the environment, prints and
//! exits.
#![forbid(unsafe_code)]

pub mod app;
pub mod argmatch;
mod causes;
pub mod compare;
mod data_flags;
pub mod environment;
pub mod exit;
pub mod flags;
pub mod generate;
pub mod getopt;
mod goes_with;
pub mod governor;
pub mod help;
mod image_flags;
pub mod manifest;
pub mod options;
mod output_flags;
pub mod parts;
pub mod persona;
pub mod profile;
pub mod progress;
pub mod punch;
pub mod quote;
pub mod record;
pub mod report;
pub mod run_options;
mod safety_flags;
pub mod screen;
mod shard_flags;
pub mod show;
pub mod size;
pub mod smartcp;
pub mod throttle;
pub mod watch;
pub mod words;
pub mod xattrs;
