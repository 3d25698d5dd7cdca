//! Where the run of one tool keeps its things, and what it builds and runs there.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::tool::Tool;
use crate::shell::{self, Result};

/// Notes which functions were executed, in a file for each process that ends of itself.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=1 \
     -Cllvm-args=-sanitizer-coverage-trace-pc-guard";

/// The crates whose tests run: the one with unsafe code, and those that call it from several threads.
const CRATES: [&str; 6] = ["haul-sys", "haul-fs", "haul-io", "haul-image", "haul-cluster", "haul-copy"];

const SUPPRESSIONS: &str = "xtask/src/sanitize/suppressions";

/// Where the run of one tool keeps its things.
pub struct Place {
    pub tool: Tool,
    host: String,
    pub dir: PathBuf,
    pub scratch: PathBuf,
}

impl Place {
    pub fn new(tool: Tool, host: &str, scratch: &Path) -> Result<Place> {
        let place = Place {
            tool,
            host: host.to_owned(),
            dir: shell::target().join("sanitize").join(tool.name()),
            scratch: scratch.to_owned(),
        };
        for dir in [place.reports(), place.coverage()] {
            // What an earlier run found is not what this one finds.
            shell::remove(&dir)?;
            shell::make_dir(&dir)?;
        }
        Ok(place)
    }

    pub fn reports(&self) -> PathBuf {
        self.dir.join("reports")
    }

    pub fn coverage(&self) -> PathBuf {
        self.dir.join("coverage")
    }

    fn build(&self) -> PathBuf {
        self.dir.join("build")
    }

    pub fn programs(&self) -> PathBuf {
        self.build().join(&self.host).join("debug")
    }

    pub fn tests(&self, arguments: &[&str]) -> Command {
        let mut cargo = self.cargo("test");
        cargo
            .arg("--no-fail-fast")
            .args(CRATES.iter().flat_map(|name| ["--package", name]))
            .args(arguments)
            .env("TMPDIR", &self.scratch);
        self.options(&mut cargo);
        cargo
    }

    pub fn program(&self) -> Command {
        let mut cargo = self.cargo("build");
        cargo.args(["--package", "haul-cli", "--bin", "haul"]);
        cargo
    }

    fn cargo(&self, task: &str) -> Command {
        let mut cargo = shell::nightly("cargo");
        match self.tool {
            Tool::Miri => cargo.arg("miri"),
            Tool::Address | Tool::Thread => &mut cargo,
        };
        cargo.args([task, "--locked", "--target", &self.host]).env("CARGO_TARGET_DIR", self.build());
        // The reports name lines; more would only make the builds longer.
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
        match self.tool {
            Tool::Address => cargo.env("RUSTFLAGS", format!("-Zsanitizer=address {COVERAGE}")),
            // It must see the locks and threads of the standard library, or it takes what they order for races.
            Tool::Thread => cargo.arg("-Zbuild-std").env("RUSTFLAGS", format!("-Zsanitizer=thread {COVERAGE}")),
            // Rustix makes system calls by inline assembly otherwise, of which Miri knows nothing.
            Tool::Miri => cargo.env("RUSTFLAGS", "--cfg rustix_use_libc"),
        };
        cargo
    }

    /// The options of the tool itself, for programs that were built for it.
    pub fn options(&self, command: &mut Command) {
        let list = |name: &str| shell::root().join(SUPPRESSIONS).join(name).display().to_string();
        let common = format!(
            "log_path={}:coverage=1:coverage_dir={}",
            self.reports().join("report").display(),
            self.coverage().display()
        );
        match self.tool {
            Tool::Address => {
                let checks = "detect_leaks=1:strict_string_checks=1:check_initialization_order=1";
                // A test asks for more memory than there can be, and wants to be refused.
                let refused = "allocator_may_return_null=1";
                // Each fork of a test copies the tables of all memory that waits here, 256 MiB by default.
                let waiting = "quarantine_size_mb=16";
                command.env("ASAN_OPTIONS", format!("{common}:{checks}:{refused}:{waiting}"));
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
