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
pub mod complaint;
pub mod environment;
pub mod exit;
pub mod flags;
pub mod generate;
pub mod getopt;
pub mod given;
pub mod governor;
pub mod help;
pub mod launcher;
pub mod manifest;
pub mod options;
pub mod parts;
pub mod persona;
pub mod profile;
pub mod progress;
pub mod punch;
pub mod quote;
pub mod record;
pub mod report;
pub mod run_options;
pub mod screen;
pub mod show;
pub mod size;
pub mod smartcp;
pub mod throttle;
pub mod values;
pub mod watch;
pub mod words;
pub mod xattrs;
