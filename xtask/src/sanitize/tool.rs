//! The tools: what each runs, and what a finding looks like.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Address,
    Thread,
    Miri,
}

/// The arguments of cargo that choose the tests of a part.
type Part = (&'static str, &'static [&'static str]);

const UNITS: Part = ("unit tests", &["--lib"]);
/// Every suite. The examples, which `tests/examples.rs` runs, are programs that cargo does not build with these flags; under strace
/// leaks cannot be looked for (`tests/host.rs`). After a panic, directories that wait for parts which nobody will do hold one another, and are never freed: the
/// program ends then, but the test that lets threads panic does not, and its leaks have no name to suppress them by.
const SUITES: Part = (
    "suites",
    &[
        "--test",
        "*",
        "--",
        "--skip",
        "a_panic_in_any_thread_ends_the_run",
        "--skip",
        "the_example_copies_a_tree",
        "--skip",
        "each_copy_is_read_again",
        "--skip",
        "a_copy_that_ends_well_is_not_resumed",
        "--skip",
        "large_files_that_exist_stay",
        "--skip",
        "a_run_changes_neither_umask",
        "--skip",
        "without_proc_the_umask",
    ],
);
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
