//! One timed run of a program.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_measure::words;
use haul_sys::child;
use haul_sys::process_state::Usage;
use haul_sys::rustix::fs::syncfs;
use haul_sys::rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper,
    waitid, waitpid,
};

use super::device::Traffic;
use super::load::Load;
use super::stop::Stop;
use super::workspace::Workspace;
use crate::results::Run;

/// How often memory, the clock and the wish to stop are looked at.
const INTERVAL: Duration = Duration::from_millis(10);
/// What is kept of each output.
const KEPT: usize = 1 << 20;
/// How long outputs may stay open when their program has ended: somebody whom nobody can end may hold them.
const DRAIN: Duration = Duration::from_millis(500);
/// Rounds of ending what is left; each may bring up children of what it ended.
const ROUNDS: usize = 100;

/// How a run ended.
#[derive(Debug)]
pub enum Ended {
    /// The program was content: what it cost, and what it wrote to standard output.
    Well(Box<Run>, String),
    /// It could not be started, failed, or was killed: its exit status, if it has one, and what happened in words.
    Badly(Option<i32>, String),
    /// It was ended after its time; in words.
    TooLong(String),
    /// The user wants no more.
    Stopped,
}

/// What is to be run, and where.
pub struct Job<'a> {
    /// The program. Its outputs are taken.
    pub command: Command,
    /// A directory on the destination's filesystem, which is synced.
    pub place: &'a File,
    /// Folders in /sys of the devices of source and destination, where they have one.
    pub devices: (Option<&'a Path>, Option<&'a Path>),
    /// After so long it is killed.
    pub timeout: Duration,
}

/// What was seen while it ran.
#[derive(Default)]
struct Watched {
    peak: u64,
    timed_out: bool,
    stopped: bool,
}

/// Runs a program and measures it. All processes that it has started end with it.
///
/// # Errors
/// When the machinery fails.
pub fn run(job: Job<'_>, workspace: &Workspace, stop: &Stop) -> Result<Ended, String> {
    let Job { mut command, place, devices, timeout } = job;
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let traffic = || [devices.0.and_then(Traffic::now), devices.1.and_then(Traffic::now)];
    // What leaves its group and loses its parent becomes a child of this process, and can be ended.
    // Where that is forbidden it goes on, as with any other program that measures.
    set_child_subreaper(Some(getpid())).ok();
    let before = (Load::now(), traffic());
    let start = Instant::now();
    let process = match command.spawn() {
        Ok(process) => process,
        Err(error) => return Ok(Ended::Badly(None, format!("cannot run {name}: {}", words::of(&error)))),
    };
    let watched = workspace.watch(Some(process.id()));
    let timeout_now = if watched.is_ok() { timeout } else { Duration::ZERO };
    let one = attend(process, timeout_now, stop, start).map_err(|error| format!("{name}: {}", words::of(&error)))?;
    end_orphans(workspace.guard_id());
    watched?;
    workspace.watch(None)?;
    if one.watched.stopped || stop.is_stopped() {
        return Ok(Ended::Stopped);
    }
    let status = ExitStatus::from_raw(one.ended.status);
    if one.watched.timed_out {
        return Ok(Ended::TooLong(format!("over {} s", timeout.as_secs())));
    }
    if !status.success() {
        let last = one.complaint.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let why = format!("{status}{}{last}", if last.is_empty() { "" } else { ": " });
        return Ok(Ended::Badly(status.code(), why));
    }
    syncfs(place).map_err(|errno| format!("cannot sync the destination: {}", words::of(&errno.into())))?;
    let durable = start.elapsed();
    let now = traffic();
    let moved = |of: fn(&Traffic) -> u64, side: usize| Some(of(&now[side]?.since(before.1[side]?)));
    // Linux counts the memory of this process in until exec, so what was seen later is better if it is less.
    let floor = Usage::of_process().peak_memory;
    let counted = one.ended.max_rss_kib << 10;
    let run = Run {
        returned: one.returned.as_secs_f64(),
        durable: durable.as_secs_f64(),
        user: one.ended.user.as_secs_f64(),
        system: one.ended.system.as_secs_f64(),
        peak_memory: if counted > floor || one.watched.peak == 0 { counted } else { one.watched.peak },
        minor_faults: one.ended.minor_faults,
        major_faults: one.ended.major_faults,
        device_read: moved(|traffic| traffic.read, 0),
        device_written: moved(|traffic| traffic.written, 1),
        other_load: Load::now().of_others(before.0, one.ended.user),
        ..Run::default()
    };
    Ok(Ended::Well(Box::new(run), one.said))
}

/// A process that has ended.
struct One {
    ended: child::Ended,
    returned: Duration,
    watched: Watched,
    said: String,
    complaint: String,
}

fn attend(mut process: Child, timeout: Duration, stop: &Stop, start: Instant) -> io::Result<One> {
    let id = process.id();
    let group = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    let said = process.stdout.take().map(|pipe| Output::of(pipe, false));
    let complaint = process.stderr.take().map(|pipe| Output::of(pipe, true));
    let (told, wait) = channel();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(move || watch(id, group, &wait, timeout, stop));
        // It stays a zombie, so that its number stays its own, until its group is ended.
        let waited = loop {
            match waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Err(haul_sys::Errno::INTR) => {}
                other => break other,
            }
        };
        let returned = start.elapsed();
        kill_process_group(group, Signal::KILL).ok(); // mostly there is nobody left
        let ended = child::wait(process)?;
        waited?;
        drop(told);
        let watched = watcher.join().unwrap_or_default();
        let text = |output: Option<Output>| output.map(Output::text).unwrap_or_default();
        Ok(One { ended, returned, watched, said: text(said), complaint: text(complaint) })
    })
}

/// Ends what a program has started and left behind, as far as it came to this process. Nobody else has children here but for the
/// guard.
fn end_orphans(guard: u32) {
    for _ in 0..ROUNDS {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        let all: Vec<String> = lists.collect();
        let ids = all.iter().flat_map(|list| list.split_whitespace()).filter_map(|id| id.parse::<i32>().ok());
        let orphans: Vec<Pid> = ids.filter(|id| u32::try_from(*id) != Ok(guard)).filter_map(Pid::from_raw).collect();
        if orphans.is_empty() {
            return;
        }
        for orphan in orphans {
            kill_process(orphan, Signal::KILL).ok(); // it may have just ended
            waitpid(Some(orphan), WaitOptions::empty()).ok(); // it was killed, so this is short
        }
    }
}

/// What a program writes, read by a thread that nobody has to wait for: whoever holds the other end may outlive the program.
struct Output {
    kept: Arc<Mutex<Vec<u8>>>,
    over: Receiver<()>,
}

impl Output {
    /// Keeps the beginning, or the end if `last`.
    fn of(mut pipe: impl Read + Send + 'static, last: bool) -> Output {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (done, over) = channel::<()>();
        let mine = Arc::clone(&kept);
        std::thread::spawn(move || {
            let _until_the_end = done;
            let mut buffer = vec![0; 64 << 10];
            loop {
                match pipe.read(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Ok(0) | Err(_) => return,
                    Ok(count) => keep(&mut mine.lock().unwrap_or_else(PoisonError::into_inner), &buffer[..count], last),
                }
            }
        });
        Output { kept, over }
    }

    fn text(self) -> String {
        // Disconnected means that everything was read.
        self.over.recv_timeout(DRAIN).ok();
        String::from_utf8_lossy(&self.kept.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

fn keep(kept: &mut Vec<u8>, more: &[u8], last: bool) {
    if !last {
        kept.extend_from_slice(&more[..more.len().min(KEPT.saturating_sub(kept.len()))]);
        return;
    }
    kept.extend_from_slice(more);
    if kept.len() > 2 * KEPT {
        kept.drain(..kept.len() - KEPT);
    }
}

/// Looks at the memory of a process and its children until told to end, and ends them if they take too long or the user wants no
/// more.
fn watch(id: u32, group: Pid, end: &Receiver<()>, timeout: Duration, stop: &Stop) -> Watched {
    let mut watched = Watched::default();
    let start = Instant::now();
    loop {
        let mut all = vec![id];
        while let Some(process) = all.pop() {
            let Some(memory) = peak_memory(process) else { continue };
            watched.peak = watched.peak.max(memory);
            let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
            all.extend(children.unwrap_or_default().split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
        let late = start.elapsed() > timeout;
        if (late || stop.is_stopped()) && !watched.timed_out && !watched.stopped {
            watched.stopped = stop.is_stopped();
            watched.timed_out = !watched.stopped;
            kill_process_group(group, Signal::KILL).ok(); // it may have just ended
        }
        if end.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
            return watched;
        }
    }
}

/// Most resident memory of a process so far, in bytes.
fn peak_memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let rest = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    rest.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}
