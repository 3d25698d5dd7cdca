//! `cargo xtask bench`: times haul against other programs, by the rules that keep one from being fooled.
//!
//! * every copy is compared with its source;
//! * memory is touched right before each timed run, since a virtual machine gives free pages back to its host;
//! * the order of the programs rotates, and each run has a new destination, removed at the end of the place;
//! * durable time is a figure of its own; other load on the machine is counted and marked.

mod images;
pub mod limit;
pub mod machine;
pub mod measure;
pub mod peers;
pub mod place;
pub mod report;
mod single_file;

use std::path::Path;
use std::time::Duration;

use haul_measure::own::Own;
use haul_measure::process::Ended;
use haul_measure::workspace::{self, Kind, Workspace};
use haul_measure::{cache, memory, values};

use crate::shell::Result;

/// Runs the benchmark named by the first argument.
///
/// # Errors
/// When there is no such benchmark, or a copy failed or was wrong.
pub fn run(args: &[String]) -> Result {
    match args.split_first().map(|(name, rest)| (name.as_str(), rest)) {
        Some(("single-file", rest)) => single_file::run(&Options::parse(rest)?),
        Some(("peers", rest)) => peers::run(rest),
        Some(("images", rest)) => images::run(rest),
        Some((other, _)) => Err(format!("no benchmark {other:?}; there are: single-file, peers, images")),
        None => Err("which benchmark? There are: single-file, peers, images".into()),
    }
}

/// The folders in which benchmarks work. What is mounted in them goes with them.
const FOLDER: Kind = Kind { prefix: "haul-bench-", mounts: true };

/// A new folder in `directory`, which goes with everything that is mounted in it when this process ends, however it ends.
///
/// # Errors
/// When it cannot be made.
pub fn workspace(directory: &Path) -> Result<Workspace> {
    Workspace::make(&Own::running()?, directory, FOLDER)
}

/// The process that removes such a folder.
///
/// # Errors
/// When it cannot be removed.
pub fn guard(args: &[String]) -> Result {
    let [folder] = args else { return Err("the guard wants a folder".into()) };
    workspace::guard(std::io::stdin().lock(), Path::new(folder), FOLDER)
}

/// Drops all caches of the machine before a cold run.
///
/// # Errors
/// When this process may not.
pub fn drop_caches() -> Result {
    if cache::drop_all() { Ok(()) } else { Err("cold runs need root, to drop the caches of the machine".into()) }
}

/// Touches memory before a timed run.
///
/// # Errors
/// When that is not possible.
pub fn warm_memory(bytes: u64) -> Result {
    if memory::warm(&Own::running()?, bytes)? { Ok(()) } else { Err("cannot touch memory".into()) }
}

/// Why a program has not copied: in words, the first that it said itself.
///
/// # Errors
/// When it could not be started.
pub fn failure(ended: Ended, timeout: Duration) -> Result<String> {
    match ended {
        Ended::Finished(one) => Ok(format!("{}: {}", one.status, one.complaint.lines().next().unwrap_or_default())),
        Ended::NotStarted(why) => Err(why),
        Ended::TooLong => Ok(format!("over {} s", timeout.as_secs())),
        Ended::Stopped => Ok("stopped".into()),
    }
}

/// What all benchmarks take.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a file.
    pub size: u64,
    /// Timed runs of each program at each place.
    pub runs: usize,
    /// Engines of haul to time beside its own choice.
    pub engines: Vec<String>,
    /// Places by name; empty for all.
    pub places: Vec<String>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Options> {
        let mut options = Options { size: 1 << 30, runs: 5, engines: Vec::new(), places: Vec::new() };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None => (arg.as_str(), args.next().cloned().ok_or(format!("{arg} needs a value"))?),
            };
            let list = || value.split(',').map(str::to_owned).collect();
            match name {
                "--size" => options.size = values::size(&value)?,
                "--runs" => options.runs = value.parse().map_err(|_| format!("{value:?} is no number of runs"))?,
                "--engine" => options.engines = list(),
                "--place" => options.places = list(),
                other => return Err(format!("unknown option {other:?}; there are --size, --runs, --engine, --place")),
            }
        }
        if options.runs == 0 {
            return Err("there is nothing to measure in 0 runs".into());
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options> {
        Options::parse(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_taken_with_and_without_equals_sign() {
        let options = parse(&["--size", "64M", "--runs=3", "--engine=mapped,direct"]).unwrap();
        assert_eq!((options.size, options.runs), (64 << 20, 3));
        assert_eq!(options.engines, ["mapped", "direct"]);
    }

    #[test]
    fn nonsense_is_refused() {
        for args in [
            &["--size", "x"][..],
            &["--size"],
            &["--size=0"],
            &["--runs", "0"],
            &["--size", "99999999999G"],
            &["--what=1"],
        ] {
            assert!(parse(args).is_err(), "{args:?}");
        }
    }
}
