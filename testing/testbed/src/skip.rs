//! Visible, counted skips.

use std::fs::OpenOptions;
use std::io::Write;

/// Says that a test, or a part of it, cannot run on this machine.
///
/// The words go to standard error, and as one line to the end of the file that the environment variable
/// `HAUL_SKIP_LOG` names, so that a run can count them.
///
/// # Panics
/// If the environment variable `CI` is `true`: there everything must run.
pub fn skip(reason: impl AsRef<str>) {
    let thread = std::thread::current();
    let line = format!("SKIPPED: {}: {}\n", thread.name().unwrap_or("?"), reason.as_ref());
    // Straight to the descriptor: the test harness swallows what a passing test prints with `eprintln!`.
    std::io::stderr().write_all(line.as_bytes()).expect("standard error is gone");
    if let Some(log) = std::env::var_os("HAUL_SKIP_LOG") {
        let mut log = OpenOptions::new().append(true).create(true).open(log).expect("cannot open HAUL_SKIP_LOG");
        log.write_all(line.as_bytes()).expect("cannot write HAUL_SKIP_LOG");
    }
    let ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!ci, "nothing may be skipped where CI=true: {}", reason.as_ref());
}
