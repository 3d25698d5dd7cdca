//! One timed copy by haul's library outside of a group: for searches that decide from run to run who runs next.

use std::path::Path;
use std::time::Duration;

use haul_measure::cache::{self, Wanted};
use haul_measure::process::{self, Job};
use haul_measure::{memory, space, words, workspace};

use super::ended::Ended;
use super::{DIRECTORY, Halt, Session};
use crate::measure::one_copy;
use crate::measure::verify::verify;
use crate::results::{Cache, Run};

/// How a copy went.
#[derive(Debug, Clone, PartialEq)]
pub enum Timed {
    /// It is right: what it cost, and whether the source was cached.
    Right(Box<Run>, Cache),
    /// It is not, and why.
    Wrong(String),
    /// There is none, and why.
    Failed(String),
}

impl Session {
    /// Copies, compares and removes the copy. `bytes` is the size of the source; after `timeout` it is ended.
    ///
    /// # Errors
    /// When the machinery fails, or the user wants no more.
    pub fn time_copy(
        &mut self,
        settings: &one_copy::Settings,
        source: &Path,
        state: Wanted,
        (bytes, timeout): (u64, Duration),
    ) -> Result<Timed, Halt> {
        let failed = |what: &str, error: std::io::Error| format!("cannot {what}: {}", words::of(&error));
        space::check(self.workspace.path(), bytes, "a copy")?;
        self.copies += 1;
        let dest = self.workspace.path().join(format!("copy-{}", self.copies));
        let place = self.opened_workspace()?;
        haul_sys::rustix::fs::syncfs(&place).map_err(|errno| failed("sync the destination", errno.into()))?;
        memory::warm(&self.own, bytes.saturating_mul(2))?;
        let cached = match state {
            Wanted::Warm => cache::prepare(source, state)?,
            // Only these files, and not all that the machine has in memory: a search makes many runs.
            Wanted::Cold => cache::evict_all(source)?,
        };
        // The program itself is to be in memory.
        cache::prepare(self.own.path(), Wanted::Warm)?;
        self.halt_if_stopped()?;
        let mut command = self.own.part(one_copy::PART);
        command.args(settings.arguments()).arg(source).arg(&dest);
        let device = self.devices.get(DIRECTORY).map(std::path::PathBuf::as_path);
        let job = Job { commands: vec![command], place: &place, devices: (device, device), timeout, output: true };
        let timed = match Ended::of(process::run(job, &self.workspace, &self.stop)?, timeout) {
            Ended::Stopped => return Err(Halt::Stopped),
            Ended::TooLong(why) | Ended::Badly(_, why) => Timed::Failed(why),
            Ended::Well(mut run, said) => {
                run.reported =
                    serde_json::from_str(&said).map_err(|error| format!("a copy reported no figures: {error}"))?;
                let verdict = verify(source, &dest, false, &self.stop);
                self.halt_if_stopped()?;
                verdict.wrong.map_or(Timed::Right(run, cached.into()), Timed::Wrong)
            }
        };
        workspace::remove(&dest).map_err(|error| failed("remove a copy", error))?;
        Ok(timed)
    }

    /// After so long a competitor is killed.
    pub fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// Why it ends, if the user wants no more.
    pub(super) fn halt_if_stopped(&self) -> Result<(), Halt> {
        if self.stop.is_stopped() { Err(Halt::Stopped) } else { Ok(()) }
    }
}
