//! What the tests of crashes share: a tree that is copied over an older one, the moment of the crash, and the judge.
#![allow(dead_code)]

pub mod judge;
pub mod moment;
pub mod scene;

use std::env;
use std::io::Write;

use haul_testbed::Command;

/// A number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// Prints one line of figures, of a test that passes too.
pub fn report(line: &str) {
    // Straight to the descriptor: the test harness swallows what a passing test prints with `println!`.
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).expect("standard error is gone");
}

/// Whether the program under test has this long option; a counted skip if not.
pub fn haul_knows(option: &str) -> bool {
    let help = Command::new(env!("CARGO_BIN_EXE_haul")).arg("--help").output().expect("haul can be run");
    let known = String::from_utf8_lossy(&help.stdout).contains(option);
    if !known {
        haul_testbed::skip(format!("haul has no {option}"));
    }
    known
}
