//! Tests that run, and what their runners say of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::leftovers::Scratch;
use crate::shell::{self, Result};

/// Runs tests with a directory for their files, and says how they went.
///
/// # Errors
/// When one failed, none ran, or, in CI, one skipped.
pub fn judged(command: &mut Command, scratch: &Scratch) -> Result<String> {
    let skip_log = shell::target().join(format!("skips-{}.log", std::process::id()));
    fs::write(&skip_log, "").map_err(|error| format!("cannot write {}: {error}", skip_log.display()))?;
    command.env("HAUL_SKIP_LOG", &skip_log).env("TMPDIR", scratch.path());
    let counts = Counts::of(command);
    // Unreadable after a test removed it: then the skips are unknown, which must not look like none.
    let skips = fs::read_to_string(&skip_log).map_err(shell::at(&skip_log));
    // The counts have been taken from it; a left log is only litter.
    fs::remove_file(&skip_log).unwrap_or_default();
    counts.and_then(|counts| counts.judge(&skips?))
}

/// How tests went that ended well, by what their runners and they themselves have printed.
///
/// # Errors
/// When none ran.
pub fn judge_log(text: &str) -> Result<String> {
    let mut counts = Counts::default();
    text.lines().for_each(|line| counts.read(line));
    let skips: String =
        text.lines().filter(|line| line.starts_with("SKIPPED: ")).map(|line| format!("{line}\n")).collect();
    counts.judge(&skips)
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub ignored: u64,
    pub failures: Vec<Failure>,
    /// How cargo itself ended, if not well.
    pub trouble: Option<String>,
    /// Whose output the lines are that follow: a place in `failures`.
    explaining: Option<usize>,
}

/// A test that failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Failure {
    name: String,
    /// The first lines of what it printed.
    printed: Vec<String>,
}

/// How many lines of what a failed test printed stand in the summary: enough for a panic and what it compares.
const LINES_OF_FAILURE: usize = 12;

impl Counts {
    /// Runs the tests, shows their output and reads it.
    pub fn of(command: &mut Command) -> Result<Counts> {
        let name = shell::line(command);
        let mut child =
            command.stdout(Stdio::piped()).spawn().map_err(|error| format!("cannot run {name}: {error}"))?;
        let mut counts = Counts::default();
        if let Some(out) = child.stdout.take() {
            for line in BufReader::new(out).split(b'\n') {
                let line = line.map_err(|error| format!("cannot read from {name}: {error}"))?;
                let line = String::from_utf8_lossy(&line);
                println!("{line}");
                counts.read(&line);
            }
        }
        let status = child.wait().map_err(|error| format!("cannot wait for {name}: {error}"))?;
        counts.trouble = (!status.success()).then(|| format!("{name}: {status}"));
        Ok(counts)
    }

    fn read(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            for part in result.split([';', '.']) {
                let mut words = part.split_whitespace();
                let (Some(number), Some(what)) = (words.next(), words.next()) else { continue };
                let Ok(number) = number.parse::<u64>() else { continue };
                match what {
                    "passed" => self.passed += number,
                    "failed" => self.failed += number,
                    "ignored" => self.ignored += number,
                    _ => {}
                }
            }
        } else if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.failures.push(Failure { name: name.to_owned(), printed: Vec::new() });
        } else {
            self.explain(line);
        }
    }

    /// Keeps what failed tests have printed, which their runner shows one by one under a heading.
    fn explain(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.explaining = self.failures.iter().rposition(|failure| failure.name == name);
        } else if line == "failures:" {
            self.explaining = None;
        } else if let Some(at) = self.explaining {
            let printed = &mut self.failures[at].printed;
            if printed.len() < LINES_OF_FAILURE && !line.trim().is_empty() {
                printed.push(line.to_owned());
            }
        }
    }

    /// Prints the totals and says whether they are good enough.
    fn judge(&self, skips: &str) -> Result<String> {
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        for line in skips.lines().filter(|line| !line.trim().is_empty()) {
            *reasons.entry(line).or_default() += 1;
        }
        let skipped: u64 = reasons.values().sum::<u64>() + self.ignored;
        // Lines are "SKIPPED: TEST: REASON".
        let tests: BTreeSet<&str> = reasons.keys().filter_map(|line| line.split(": ").nth(1)).collect();
        println!();
        for (reason, times) in &reasons {
            println!("skipped {times} x: {reason}");
        }
        for Failure { name, .. } in &self.failures {
            println!("failed: {name}");
        }
        // A test that skips, or skips a part, returns normally and the runner counts it as passed; here it is not.
        let passed = self.passed.saturating_sub(tests.len() as u64);
        let totals = format!("{passed} passed, {} failed, {skipped} skipped", self.failed);
        println!("tests: {totals}");
        if self.failed > 0 {
            Err(totals + &self.failures.iter().map(Failure::to_string).collect::<String>())
        } else if let Some(trouble) = &self.trouble {
            Err(format!("{totals}, but {trouble}"))
        } else if self.passed == 0 {
            Err(format!("{totals}: no test ran"))
        } else if skipped > 0 && shell::in_ci() {
            Err(format!("{totals}, and in CI nothing may be skipped"))
        } else {
            Ok(totals)
        }
    }
}

/// Lines for below the totals: of a log that is long, often only the end is kept, and that is where the summary stands.
impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "\n        failed: {}", self.name)?;
        self.printed.iter().try_for_each(|line| write!(to, "\n            {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(lines: &[&str]) -> Counts {
        let mut counts = Counts::default();
        lines.iter().for_each(|line| counts.read(line));
        counts
    }

    #[test]
    fn results_of_all_runners_are_added() {
        let counts = counts(&[
            "test a::b ... ok",
            "test c ... FAILED",
            "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.50s",
        ]);
        assert_eq!((counts.passed, counts.failed, counts.ignored), (7, 1, 2));
        assert_eq!(counts.failures.iter().map(|failure| &*failure.name).collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn a_failure_is_a_failure() {
        assert!(counts(&["test result: FAILED. 3 passed; 1 failed; 0 ignored"]).judge("").is_err());
    }

    #[test]
    fn the_verdict_names_the_tests_that_failed_and_what_they_printed() {
        let why = counts(&[
            "test a ... ok",
            "test c::d ... FAILED",
            "test e ... FAILED",
            "",
            "failures:",
            "",
            "---- c::d stdout ----",
            "",
            "thread 'c::d' panicked at x.rs:1:2:",
            "not equal",
            "",
            "---- e stdout ----",
            "",
            "thread 'e' panicked at x.rs:3:4:",
            "",
            "failures:",
            "    c::d",
            "    e",
            "",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored",
        ])
        .judge("");
        let lines = [
            "1 passed, 2 failed, 0 skipped",
            "        failed: c::d",
            "            thread 'c::d' panicked at x.rs:1:2:",
            "            not equal",
            "        failed: e",
            "            thread 'e' panicked at x.rs:3:4:",
        ];
        assert_eq!(why, Err(lines.join("\n")));
    }

    #[test]
    fn a_skip_is_not_counted_as_passed() {
        let skips = "SKIPPED: one: no btrfs\nSKIPPED: one: no XFS\nSKIPPED: two: no btrfs\n";
        let judged = counts(&["test result: ok. 3 passed; 0 failed; 0 ignored"]).judge(skips);
        let text = judged.unwrap_or_else(|why| why);
        assert!(text.starts_with("1 passed, 0 failed, 3 skipped"), "{text}");
    }

    #[test]
    fn running_nothing_is_a_failure() {
        assert!(counts(&[]).judge("").is_err());
    }

    #[test]
    fn a_runner_that_dies_is_a_failure() {
        let mut counts = counts(&["test result: ok. 3 passed; 0 failed; 0 ignored"]);
        counts.trouble = Some("cargo test: signal 6".into());
        assert!(counts.judge("").is_err());
    }
}
