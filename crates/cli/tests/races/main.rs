//! Somebody swaps names in source and destination, as fast as the machine allows, while root copies with haul; and the
//! rights of a file at every moment of its copy.
//!
//! `HAUL_SWAPS` is the number of swaps for each set of options, `HAUL_SWAPS_SEED` chooses others, `HAUL_RIGHTS=all` looks at
//! the rights before every call. `HAUL_UNDER_TEST` names another program to judge.
#![forbid(unsafe_code)]

mod attack;
mod outside;
mod rights;
mod scene;
mod swaps;

use std::env;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use haul_testbed::Command;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Nothing here takes longer unless it hangs.
const LIMIT: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// The program under test.
fn haul() -> PathBuf {
    env::var_os("HAUL_UNDER_TEST").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_haul")), PathBuf::from)
}

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// Runs a command to its end. What it says goes to the file.
fn run(mut command: Command, dir: &Path, said: &Path) -> ExitStatus {
    let said = File::create(said).expect("messages can be written");
    command.current_dir(dir).env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    // Messages name the program by its first word.
    let mut child = command.arg0("haul").spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).expect("the child is there");
    if poll(&mut [PollFd::new(&handle.as_fd(), PollFlags::IN)], Some(&LIMIT)).expect("poll works") == 0 {
        let at = fs::read_to_string(format!("/proc/{}/stack", child.id())).unwrap_or_default();
        child.kill().expect("the child is ours");
        child.wait().expect("the child is ours");
        panic!("{command:?} hangs: {at}");
    }
    child.wait().expect("the child is ours")
}

/// Whether it ended by itself, well or with errors that it reported.
fn ended(status: ExitStatus) -> bool {
    status.signal().is_none() && matches!(status.code(), Some(0 | 1))
}
