//! One timed copy by haul's library outside of a group: for searches that decide from run to run who runs next.

use std::path::Path;
use std::time::Duration;

use haul_measure::cache::{self, Wanted};
use haul_measure::process::{self, Job};
use haul_measure::{memory, space, words, workspace};

use super::ended::Ended;
use super::state::{DIRECTORY, Halt, Session};
use crate::measure::one_copy;
use crate::measure::verify::verify;
use crate::results::{Cache, Run};

#[derive(Debug, Clone, PartialEq)]
pub enum Timed {
    /// It is right: what it cost, and whether the source was cached.
    Right(Box<Run>, Cache),
    Wrong(String),
    Failed(String),
}

/// Copies, compares and removes the copy. `bytes` is the size of the source; after `timeout` it is ended.
pub fn time_copy(
    session: &mut Session,
    settings: &one_copy::Settings,
    source: &Path,
    state: Wanted,
    (bytes, timeout): (u64, Duration),
) -> Result<Timed, Halt> {
    let failed = |what: &str, error: std::io::Error| format!("cannot {what}: {}", words::of(&error));
    space::check(session.workspace.path(), bytes, "a copy")?;
    session.copies += 1;
    let dest = session.workspace.path().join(format!("copy-{}", session.copies));
    let place = session.synced_workspace()?;
    memory::warm(&session.own, bytes.saturating_mul(2))?;
    let cached = match state {
        Wanted::Warm => cache::prepare(source, state)?,
        // Only these files, and not all that the machine has in memory: a search makes many runs.
        Wanted::Cold => cache::evict_all(source)?,
    };
    // The program itself is to be in memory.
    cache::prepare(session.own.path(), Wanted::Warm)?;
    session.halt_if_stopped()?;
    let mut command = session.own.part(one_copy::PART);
    command.args(settings.arguments(source, &dest));
    let device = session.devices.get(DIRECTORY).map(std::path::PathBuf::as_path);
    let job = Job { commands: vec![command], place: &place, devices: (device, device), timeout, output: true };
    let timed = match Ended::of(process::run(job, &session.workspace, &session.stop)?, timeout) {
        Ended::Stopped => return Err(Halt::Stopped),
        Ended::TooLong(why) | Ended::Badly(_, why) => Timed::Failed(why),
        Ended::Well(mut run, said) => {
            run.reported =
                serde_json::from_str(&said).map_err(|error| format!("a copy reported no figures: {error}"))?;
            let verdict = verify(source, &dest, false, &session.stop);
            session.halt_if_stopped()?;
            verdict.wrong.map_or(Timed::Right(run, cached.into()), Timed::Wrong)
        }
    };
    workspace::remove(&dest).map_err(|error| failed("remove a copy", error))?;
    Ok(timed)
}
