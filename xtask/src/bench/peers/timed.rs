//! One timed run of a program.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use haul_measure::workspace::Workspace;
use haul_sys::child;
use haul_sys::process_state::Usage;
use haul_sys::rustix::fs::syncfs;
use haul_sys::rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::super::machine::Load;
use super::record::Sample;
use crate::shell::Result;

/// How often memory is looked at.
const INTERVAL: Duration = Duration::from_millis(10);

/// How a run ended.
#[derive(Debug)]
pub enum Ended {
    /// The program was content; what it cost, and what it wrote to standard output if that was wanted.
    Well(Sample, String),
    /// It was not, or took too long.
    Badly(String),
}

/// What is to be run.
pub struct Job<'a> {
    /// Run one after another; the time is that of all.
    pub commands: Vec<Command>,
    /// A directory on the destination's filesystem.
    pub place: &'a File,
    /// After so long it is ended.
    pub timeout: Duration,
    /// Whether standard output is wanted.
    pub output: bool,
}

/// The most memory that was seen, and whether the program had to be ended.
#[derive(Default)]
struct Watched {
    peak_kib: u64,
    own_kib: u64,
    timed_out: bool,
}

/// Runs the commands and measures them together.
///
/// # Errors
/// When the machinery fails.
pub fn run(job: Job<'_>, workspace: &Workspace) -> Result<Ended> {
    let (mut user, mut system) = (Duration::ZERO, Duration::ZERO);
    let (mut rss, mut own) = (0, 0);
    let mut said = String::new();
    let many = job.commands.len() > 1;
    let before = Load::now()?;
    let start = Instant::now();
    for mut command in job.commands {
        command.stdout(if job.output { Stdio::piped() } else { Stdio::null() }).stderr(Stdio::piped()).process_group(0);
        // Five hundred short programs are not watched: that would cost more than they do.
        let one = one(&mut command, (!many).then_some(job.timeout), workspace)?;
        if let Some(why) = one.why {
            return Ok(Ended::Badly(why));
        }
        user += one.ended.user;
        system += one.ended.system;
        // Linux counts the memory of this process in until exec, so what was seen later is better if it is less.
        let floor = Usage::of_process().peak_memory / 1024;
        rss = rss.max(match one.ended.max_rss_kib {
            counted if counted > floor || one.watched.peak_kib == 0 => counted,
            _ => one.watched.peak_kib,
        });
        own = own.max(one.watched.own_kib);
        said = one.said;
    }
    let returned = start.elapsed();
    syncfs(job.place).map_err(|error| format!("syncfs: {error}"))?;
    let durable = start.elapsed();
    let load = Load::now()?.since(before);
    Ok(Ended::Well(
        Sample {
            returned: returned.as_secs_f64(),
            durable: durable.as_secs_f64(),
            user: user.as_secs_f64(),
            system: system.as_secs_f64(),
            machine: load.busy.as_secs_f64(),
            rss_kib: rss,
            own_kib: own,
            allocated_kib: None,
            disturbed: load.disturbs(user, durable),
        },
        said,
    ))
}

/// One command of a run.
struct One {
    ended: child::Ended,
    watched: Watched,
    said: String,
    why: Option<String>,
}

fn one(command: &mut Command, timeout: Option<Duration>, workspace: &Workspace) -> Result<One> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut process = command.spawn().map_err(|error| format!("cannot run {name}: {error}"))?;
    let id = process.id();
    if timeout.is_some() {
        workspace.watch(Some(id))?;
    }
    let (told, wait) = channel();
    let (ended, watched, said, complaint) = std::thread::scope(|scope| -> Result<_> {
        let watcher = timeout.map(|timeout| scope.spawn(move || watch(id, &wait, timeout)));
        let (said, complaint) =
            outputs(&mut process).map_err(|error| format!("cannot read what {name} says: {error}"))?;
        let ended = child::wait(process).map_err(|error| format!("cannot wait for {name}: {error}"))?;
        drop(told);
        let watched = watcher.map(|watcher| watcher.join().unwrap_or_default()).unwrap_or_default();
        Ok((ended, watched, said, complaint))
    })?;
    if timeout.is_some() {
        workspace.watch(None)?;
    }
    let status = ExitStatus::from_raw(ended.status);
    let why = match (watched.timed_out, status.success()) {
        (true, _) => Some(format!("over {} s", timeout.unwrap_or_default().as_secs())),
        (false, false) => Some(format!("{status}: {}", complaint.lines().next().unwrap_or_default())),
        (false, true) => None,
    };
    Ok(One { ended, watched, said, why })
}

/// Both outputs to their ends, which come when the program and its children end. At most one of them is long.
fn outputs(process: &mut Child) -> io::Result<(String, String)> {
    let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
    let read = |pipe: &mut dyn Read| -> io::Result<String> {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    std::thread::scope(|scope| {
        let said = stdout.map(|mut pipe| scope.spawn(move || read(&mut pipe)));
        let complaint = stderr.map_or_else(|| Ok(String::new()), |mut pipe| read(&mut pipe));
        let said = said.map_or_else(
            || Ok(String::new()),
            |reader| reader.join().unwrap_or_else(|_| Err(io::Error::other("the reader panicked"))),
        );
        Ok((said?, complaint?))
    })
}

/// Looks at the memory of a process and its children until told to end, and ends the process if it takes too long.
fn watch(id: u32, end: &Receiver<()>, timeout: Duration) -> Watched {
    let mut watched = Watched::default();
    let handle = i32::try_from(id).ok().and_then(Pid::from_raw).and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
    let start = Instant::now();
    loop {
        let mut own = 0;
        let mut all = vec![id];
        while let Some(process) = all.pop() {
            let Some(memory) = memory(process) else { continue };
            own += memory.1;
            watched.peak_kib = watched.peak_kib.max(memory.0);
            let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
            all.extend(children.unwrap_or_default().split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
        watched.own_kib = watched.own_kib.max(own);
        if start.elapsed() > timeout && !watched.timed_out {
            watched.timed_out = true;
            if let Some(handle) = &handle {
                // If it has just ended there is nothing to end.
                pidfd_send_signal(handle, Signal::KILL).unwrap_or_default();
            }
        }
        if end.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
            return watched;
        }
    }
}

/// Most resident memory so far and anonymous and shared memory now, in KiB.
fn memory(process: u32) -> Option<(u64, u64)> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    Some((field(&status, "VmHWM:")?, field(&status, "RssAnon:")? + field(&status, "RssShmem:")?))
}

fn field(status: &str, name: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_process_is_told_with_and_without_files() {
        let (all, own) = memory(std::process::id()).unwrap();
        assert!(own > 0 && own < all, "{own} of {all}");
        assert_eq!(memory(u32::MAX), None);
    }

    #[test]
    fn a_watched_process_is_ended_after_its_time() {
        let mut process = crate::shell::command("sleep").arg("1000").spawn().unwrap();
        let (told, wait) = channel();
        let id = process.id();
        let watched = std::thread::scope(|scope| {
            let watcher = scope.spawn(move || watch(id, &wait, Duration::ZERO));
            let status = process.wait().unwrap();
            drop(told);
            assert_eq!(status.signal(), Some(9));
            watcher.join().unwrap()
        });
        assert!(watched.timed_out && watched.peak_kib > 0);
    }
}
