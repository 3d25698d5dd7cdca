//! One timed copy: what is made ready for it, and how it ended.

use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_measure::cache::{self, Temperature};
use haul_measure::process::{self, Job};
use haul_measure::{memory, nfs, space, words, workspace};

use super::competitor::How;
use super::state::{Halt, SOURCE, Session};
use crate::measure::verify::verify;
use crate::results::{Cache, Outcome, Run};

#[derive(Debug)]
pub(super) enum Ended {
    /// The program was content: what it cost, with what haul reports of itself.
    Well(Box<Run>),
    /// It could not be started, failed, or was killed: its exit status, if it has one, and what happened in words.
    Badly(Option<i32>, String),
    /// It was ended after its time; in words.
    TooLong(String),
    Stopped,
}

impl Ended {
    /// In words, where the time was `timeout`. Our own copies say what is to be reported.
    fn of(ended: process::Ended, own: bool, timeout: Duration) -> Result<Ended, String> {
        Ok(match ended {
            process::Ended::Stopped => Ended::Stopped,
            process::Ended::TooLong => Ended::TooLong(format!("over {} s", timeout.as_secs())),
            process::Ended::NotStarted(why) => Ended::Badly(None, why),
            process::Ended::Finished(one) if one.status.success() => {
                let mut run = Run::from(&one.cost);
                if own {
                    let said = serde_json::from_str(&one.said);
                    run.reported = said.map_err(|error| format!("a copy reported no figures: {error}"))?;
                }
                Ended::Well(Box::new(run))
            }
            process::Ended::Finished(one) => {
                let last = one.complaint.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                let why = format!("{}{}{last}", one.status, if last.is_empty() { "" } else { ": " });
                Ended::Badly(one.status.code(), why)
            }
        })
    }
}

/// One timed copy, for which memory, source and program are made ready. `prepare` says in which state it leaves the source.
pub(super) fn time(
    session: &mut Session,
    how: &How,
    (source, bytes, dest): (&Path, u64, &Path),
    prepare: impl FnOnce() -> Result<Cache, String>,
    timeout: Duration,
) -> Result<(Ended, Cache), Halt> {
    let place = session.synced_workspace()?;
    let touched = memory::warm(&session.own, bytes.saturating_mul(2));
    session.halt_if_stopped()?;
    touched?;
    let state = prepare()?;
    how.load(&session.own);
    session.halt_if_stopped()?;
    let device = |name: &str| session.devices.get(name).map(PathBuf::as_path);
    let is_users = session.results.environment.places.contains_key(SOURCE);
    let from = if is_users { SOURCE } else { session.place_of(source) };
    let job = Job {
        commands: vec![how.command(&session.own, source, dest)],
        place: &place,
        devices: (device(from), device(session.at)),
        timeout,
        output: true,
    };
    let before = nfs::counters(session.folder());
    let ended = process::run(job, &session.workspace, &session.stop)?;
    let mut ended = Ended::of(ended, matches!(how, How::Own(_)), timeout)?;
    if let (Ended::Well(run), Some(before), Some(after)) = (&mut ended, before, nfs::counters(session.folder())) {
        run.reported.extend(nfs::COUNTERS.map(|name| (format!("nfs.{name}"), after[name] - before[name])));
    }
    Ok((ended, state))
}

/// Copies, compares and removes the copy, for searches that decide from run to run who runs next. `bytes` is the size of the
/// source; after `timeout` it is ended. Of a right copy it says what it cost, and whether the source was cached.
pub fn time_copy(
    session: &mut Session,
    how: &How,
    source: &Path,
    state: Temperature,
    (bytes, timeout): (u64, Duration),
) -> Result<Result<(Run, Cache), Outcome>, Halt> {
    space::check(session.workspace.path(), bytes, "a copy")?;
    session.copies += 1;
    let dest = session.workspace.path().join(format!("copy-{}", session.copies));
    let prepare = || match state {
        Temperature::Warm => cache::prepare(source, state),
        // Only these files, and not all that the machine has in memory: a search makes many runs.
        Temperature::Cold => cache::evict_all(source),
    };
    let (ended, cached) = time(session, how, (source, bytes, &dest), prepare, timeout)?;
    let timed = match ended {
        Ended::Stopped => return Err(Halt::Stopped),
        Ended::TooLong(why) | Ended::Badly(_, why) => Err(Outcome::Failed(why)),
        Ended::Well(run) => {
            let wrong = verify(source, &dest, false, &session.stop);
            session.halt_if_stopped()?;
            wrong.map_or(Ok((*run, cached)), |why| Err(Outcome::Wrong(why)))
        }
    };
    workspace::remove(&dest).map_err(|error| format!("cannot remove a copy: {}", words::of(&error)))?;
    Ok(timed)
}
