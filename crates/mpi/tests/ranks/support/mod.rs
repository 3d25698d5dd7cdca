//! What the tests of haul-mpi share.

pub mod hosts;
pub mod job;
pub mod slurm;
pub mod tree;

use std::path::{Path, PathBuf};

use haul_testbed::Command;
use haul_testbed::process::BUILD;

pub use job::{Job, Mpi, Outcome, Part};

/// How many ranks everything is tried with.
pub const RANKS: [usize; 4] = [1, 2, 4, 7];

/// A number from the environment.
///
/// # Panics
/// If it is none.
pub fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")),
        Err(_) => default,
    }
}

/// Where chance comes from: `HAUL_MPI_SEED` chooses other trees, ranks and moments. What fails says which it was.
pub fn chance(salt: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed((number("HAUL_MPI_SEED", 1) << 16) + salt)
}

/// A program of the workspace, which is built beside haul-mpi; cargo builds it where it is missing.
fn beside(program: &Path, name: &str, package: &str, what: &str) -> PathBuf {
    let path = program.with_file_name(name);
    if !path.exists() {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        let last = Path::new(name).file_name().expect("a name");
        command.deadline(BUILD).args(["build", "--quiet", "--package", package, what]).arg(last);
        let status = command.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo can be run");
        assert!(status.success() && path.exists(), "cargo did not build {}", path.display());
    }
    path
}

/// The command haul.
pub fn haul() -> PathBuf {
    beside(Path::new(env!("CARGO_BIN_EXE_haul-mpi")), "haul", "haul-cli", "--bin")
}

/// The example `groups`, built with this implementation of MPI.
pub fn groups(mpi: Mpi) -> PathBuf {
    beside(&mpi.program(), "examples/groups", "haul-mpi", "--example")
}

/// Runs haul, one process, and wants it to succeed.
#[track_caller]
pub fn haul_copies(directory: &Path, args: &[&str]) {
    let mut command = Command::new(haul());
    let done = command.args(args).current_dir(directory).env("LC_ALL", "C").output().expect("haul can be run");
    assert!(done.status.success(), "haul {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// What one rank did, from the table of `--stats`.
#[derive(Debug)]
pub struct Row {
    pub host: String,
    pub files: usize,
    pub chunks: usize,
}

/// The table of `--stats`, by rank.
///
/// # Panics
/// If there is none.
#[track_caller]
pub fn rows(done: &Outcome) -> Vec<Row> {
    let mut lines = done.stderr.lines().chain(done.stdout.lines());
    let head = lines.find(|line| line.trim_start().starts_with("rank ")).unwrap_or_else(|| panic!("no table: {done}"));
    let at = |name: &str| head.split_whitespace().position(|word| word == name).expect("the table has this column");
    // Bytes have a unit, a word of its own.
    let (host, files, chunks) = (at("host"), at("files"), at("chunks") + 1);
    let mut rows = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first().and_then(|word| word.parse().ok()) != Some(rows.len()) {
            break;
        }
        let number = |at: usize| words[at].parse().expect("a number");
        rows.push(Row { host: words[host].to_owned(), files: number(files), chunks: number(chunks) });
    }
    rows
}
