//! What surrounds the runs of every benchmark: the folder that it works in, and the state of memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_measure::own::Own;
use haul_measure::process::Ended;
use haul_measure::workspace::{self, Kind, Workspace};
use haul_measure::{cache, memory};

use crate::shell::{self, Result};

/// The folders in which benchmarks work. What is mounted in them goes with them.
const FOLDER: Kind = Kind { prefix: "haul-bench-", mounts: true };

/// A new folder in `directory`, which goes with everything that is mounted in it when this process ends, however it ends.
pub fn workspace(directory: &Path) -> Result<Workspace> {
    Workspace::make(&Own::running()?, directory, FOLDER)
}

/// The process that removes such a folder.
pub fn guard(args: &[String]) -> Result {
    let [folder] = args else { return Err("the guard wants a folder".into()) };
    workspace::guard(std::io::stdin().lock(), Path::new(folder), FOLDER)
}

/// Drops all caches of the machine before a cold run.
pub fn drop_caches() -> Result {
    if cache::drop_all() { Ok(()) } else { Err("cold runs need root, to drop the caches of the machine".into()) }
}

/// Touches memory before a timed run.
pub fn warm_memory(bytes: u64) -> Result {
    if memory::warm(&Own::running()?, bytes)? { Ok(()) } else { Err("cannot touch memory".into()) }
}

/// Why a program has not copied: in words, the first that it said itself.
pub fn failure(ended: Ended, timeout: Duration) -> Result<String> {
    match ended {
        Ended::Finished(one) => Ok(format!("{}: {}", one.status, one.complaint.lines().next().unwrap_or_default())),
        Ended::NotStarted(why) => Err(why),
        Ended::TooLong => Ok(format!("over {} s", timeout.as_secs())),
        Ended::Stopped => Ok("stopped".into()),
    }
}

/// The haul to measure, built if none is given.
pub fn haul(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(haul) = given {
        return Ok(haul.to_owned());
    }
    shell::run(shell::cargo().args(["build", "--quiet", "--release", "--package", "haul-cli", "--bin", "haul"]))?;
    Ok(shell::target().join("release/haul"))
}
