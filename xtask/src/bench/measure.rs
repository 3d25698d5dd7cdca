//! One timed run.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use haul_measure::cache::{self, Temperature};
use haul_measure::process::{self, Cost, Ended, Job};
use haul_measure::stop::Stop;
use haul_measure::workspace::Workspace;
use haul_sys::rustix::fs::syncfs;

use super::compare;
use super::surroundings::{failure, warm_memory};
use crate::shell::{self, Result};

/// A program with its arguments, to which source and destination are added.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its name in the tables.
    pub name: String,
    /// The words of the command.
    pub words: Vec<OsString>,
}

/// How a run ended.
#[derive(Debug)]
pub enum Run {
    /// The copy is right.
    Measured(Cost),
    /// The program said that it will not or cannot; its first words.
    Refused(String),
}

/// Copies `source` to `dest` with one program and measures it; then compares the two.
///
/// # Errors
/// When the machinery fails, or the copy differs from the source although the program was content.
pub fn run(program: &Program, source: &Path, dest: &Path, workspace: &Workspace) -> Result<Run> {
    let place = dest.parent().unwrap_or(dest);
    let place = File::open(place).map_err(shell::at(place))?;
    let size = fs::metadata(source).map_err(shell::at(source))?.len();
    // The destination's pages and as much again, then the source, which must be in memory as well.
    warm_memory(size.saturating_mul(2))?;
    cache::prepare(source, Temperature::Warm)?;
    syncfs(&place).map_err(|error| format!("syncfs: {error}"))?;

    let mut words = program.words.iter();
    let mut command = shell::command(words.next().ok_or("a program without a name")?);
    command.args(words).arg(source).arg(dest);
    let (commands, timeout) = (vec![command], Duration::MAX);
    let job = Job { commands, place: &place, devices: (None, None), timeout, output: false };
    let cost = match process::run(job, workspace, &Stop::default())? {
        Ended::Finished(finished) if finished.status.success() => finished.cost,
        other => return Ok(Run::Refused(failure(other, timeout)?)),
    };
    if !dest.exists() {
        return Err(format!("{} said that all is well, but there is no {}", program.name, dest.display()));
    }
    if let Some(why) = compare::apart(source, dest, false)?.sentence() {
        return Err(format!("{} made a WRONG COPY of {}: {why}", program.name, dest.display()));
    }
    Ok(Run::Measured(cost))
}
