//! Trees made by somebody who means harm: names that command terminals, files that are no files, sizes beyond all bounds,
//! entries that vanish.
//!
//! `HAUL_HOSTILE_ROUNDS` is how often a tree vanishes while it is copied, `HAUL_HOSTILE_SEED` chooses other rounds.
#![forbid(unsafe_code)]

mod nodes;
mod sparse;
mod terminal;
mod vanish;

use std::env;
use std::path::Path;
use std::process::{Output, Stdio};

use haul_testbed::Command;

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// The command, to be run in this directory by its own name.
fn haul(dir: &Path) -> Command {
    let mut command = Command::new(HAUL);
    command.arg0("haul").current_dir(dir).env("LC_ALL", "C").stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
