//! The tools: how each builds, what it runs, and what a finding looks like.

use std::process::Command;

use super::Place;
use crate::shell;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Address,
    Thread,
    Miri,
}

/// Notes which functions were executed, in a file for each process that ends of itself.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=1 \
     -Cllvm-args=-sanitizer-coverage-trace-pc-guard";

/// The crates whose tests run: the one with unsafe code, and the one that calls it from several threads.
const CRATES: [&str; 4] = ["--package", "haul-sys", "--package", "haul-copy"];

const SUPPRESSIONS: &str = "xtask/src/sanitize/suppressions";

/// The arguments of cargo that choose the tests of a part.
type Part = (&'static str, &'static [&'static str]);

const UNITS: Part = ("unit tests", &["--lib"]);
/// Every suite. After a panic, directories that wait for parts which nobody will do hold one another, and are never freed: the
/// program ends then, but the test that lets threads panic does not, and its leaks have no name to suppress them by.
const SUITES: Part = ("suites", &["--test", "*", "--", "--skip", "a_panic_in_any_thread_ends_the_run"]);
/// Those with several threads.
const PARALLEL: Part = (
    "parallel",
    &["--test", "parallel", "--test", "asynchronous", "--test", "engines", "--test", "large", "--test", "pace"],
);
/// What makes no system call that Miri does not know: of the kernel it has mmap(2) and little more that haul needs.
const PURE: Part =
    ("unit tests", &["--lib", "--", "queue::slots", "tuner", "engine::shape", "meta::rules", "pace::backoff"]);

impl Tool {
    pub const ALL: [Tool; 3] = [Tool::Address, Tool::Thread, Tool::Miri];
    /// Those that run where none is named. ThreadSanitizer is not among them: with a standard library of its own it takes the
    /// longest to build, and what it says of memory that the kernel shares (io_uring) has not been judged yet.
    pub const USUAL: [Tool; 2] = [Tool::Address, Tool::Miri];

    pub fn named(name: &str) -> Option<Tool> {
        Tool::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Tool::Address => "address",
            Tool::Thread => "thread",
            Tool::Miri => "miri",
        }
    }

    /// What it runs by `cargo test`.
    pub fn parts(self) -> &'static [Part] {
        match self {
            Tool::Address => &[UNITS, SUITES],
            Tool::Thread => &[UNITS, PARALLEL],
            Tool::Miri => &[PURE],
        }
    }

    /// Builds tests and runs them.
    pub fn tests(self, place: &Place, arguments: &[&str]) -> Command {
        let mut cargo = self.cargo(place, "test");
        cargo.arg("--no-fail-fast").args(CRATES).args(arguments).env("TMPDIR", &place.scratch);
        self.options(place, &mut cargo);
        cargo
    }

    /// Builds `haul`.
    pub fn program(self, place: &Place) -> Command {
        let mut cargo = self.cargo(place, "build");
        cargo.args(["--package", "haul", "--bin", "haul"]);
        cargo
    }

    fn cargo(self, place: &Place, task: &str) -> Command {
        let mut cargo = shell::nightly("cargo");
        match self {
            Tool::Miri => cargo.arg("miri"),
            Tool::Address | Tool::Thread => &mut cargo,
        };
        cargo.args([task, "--locked", "--target", &place.host]).env("CARGO_TARGET_DIR", place.build());
        // The reports name lines; more would only make the builds longer.
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
        match self {
            Tool::Address => cargo.env("RUSTFLAGS", format!("-Zsanitizer=address {COVERAGE}")),
            // It must see the locks and threads of the standard library, or it takes what they order for races.
            Tool::Thread => cargo.arg("-Zbuild-std").env("RUSTFLAGS", format!("-Zsanitizer=thread {COVERAGE}")),
            // Rustix makes system calls by inline assembly otherwise, of which Miri knows nothing.
            Tool::Miri => cargo.env("RUSTFLAGS", "--cfg rustix_use_libc"),
        };
        cargo
    }

    /// What the tool itself is told, for programs that were built for it.
    pub fn options(self, place: &Place, command: &mut Command) {
        let list = |name: &str| shell::root().join(SUPPRESSIONS).join(name).display().to_string();
        let common = format!(
            "log_path={}:coverage=1:coverage_dir={}",
            place.reports().join("report").display(),
            place.coverage().display()
        );
        match self {
            Tool::Address => {
                let checks = "detect_leaks=1:strict_string_checks=1:check_initialization_order=1";
                command.env("ASAN_OPTIONS", format!("{common}:{checks}"));
                command.env("LSAN_OPTIONS", format!("suppressions={}:print_suppressions=0", list("leaks")));
            }
            Tool::Thread => {
                command.env("TSAN_OPTIONS", format!("{common}:suppressions={}:print_suppressions=0", list("races")));
            }
            // Some tests look at the clock and start threads; nothing of the machine is changed.
            Tool::Miri => {
                command.env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-strict-provenance");
            }
        }
    }
}

/// How many findings a report has.
pub fn findings_in(report: &str) -> u64 {
    let marks =
        ["ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer", "FATAL: ThreadSanitizer"];
    report.lines().filter(|line| marks.iter().any(|mark| line.contains(mark))).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_known_by_their_names() {
        for tool in Tool::ALL {
            assert_eq!(Tool::named(tool.name()), Some(tool));
        }
        assert_eq!(Tool::named("memory"), None);
    }

    #[test]
    fn a_report_without_a_finding_is_none() {
        assert_eq!(findings_in("SanitizerCoverage: /x/a.1.sancov: 28 PCs written\n"), 0);
        let text = "WARNING: ThreadSanitizer: data race (pid=1)\n  Write\nSUMMARY: ThreadSanitizer: data race\n\
                    ==7==ERROR: AddressSanitizer: heap-use-after-free\n==7==ERROR: LeakSanitizer: detected memory leaks\n";
        assert_eq!(findings_in(text), 3);
    }
}
