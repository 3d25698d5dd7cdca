//! One timed run of a program.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_sys::child;
use haul_sys::process_state::Usage;
use haul_sys::rustix::fs::syncfs;
use haul_sys::rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper,
    waitid, waitpid,
};

use crate::device::Traffic;
use crate::load::Load;
use crate::stop::Stop;
use crate::words;
use crate::workspace::{Workspace, is_guard};

/// How often memory, the clock and the wish to stop are looked at.
const INTERVAL: Duration = Duration::from_millis(10);
/// What is kept of each output.
const KEPT: usize = 1 << 20;
/// How long outputs may stay open when their program has ended: somebody whom nobody can end may hold them.
const DRAIN: Duration = Duration::from_millis(500);
/// Rounds of ending what is left; each may bring up children of what it ended.
const ROUNDS: usize = 100;
/// Others disturb a run if they use more than a twentieth of one core meanwhile.
const DISTURBED: u32 = 20;

/// What one run cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// From before the program starts until it has ended.
    pub returned: Duration,
    /// And until a sync of the destination's filesystem has ended.
    pub durable: Duration,
    /// CPU time in user mode, of the program and its children.
    pub user: Duration,
    /// The same in the kernel on their behalf.
    pub system: Duration,
    /// CPU time of the whole machine until the copy was durable, with write-back and other kernel threads.
    pub machine: Duration,
    /// CPU time of others in user mode, and of other virtual machines.
    pub others: Duration,
    /// Largest resident memory in bytes, with mapped files.
    pub peak_memory: u64,
    /// The same without mapped files, looked at now and then: anonymous and shared memory of all its processes.
    pub own_memory: u64,
    /// Page faults that needed no reading.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Bytes that the program has read and written, if the kernel tells.
    pub moved: Option<Moved>,
    /// Bytes that the source's device read until the copy was durable, if there is a device: of everybody.
    pub device_read: Option<u64>,
    /// Bytes that the destination's device wrote.
    pub device_written: Option<u64>,
}

impl Cost {
    /// Whether others used so much of the machine that the times may be longer for it.
    pub fn is_disturbed(&self) -> bool {
        self.others > self.durable / DISTURBED
    }

    fn add(&mut self, one: &One) {
        self.user += one.ended.user;
        self.system += one.ended.system;
        self.minor_faults += one.ended.minor_faults;
        self.major_faults += one.ended.major_faults;
        // Linux counts the memory of this process in until exec, so what was seen later is better if it is less.
        let floor = Usage::of_process().peak_memory;
        let counted = one.ended.max_rss_kib << 10;
        let peak = if counted > floor || one.watched.peak == 0 { counted } else { one.watched.peak };
        self.peak_memory = self.peak_memory.max(peak);
        self.own_memory = self.own_memory.max(one.watched.own);
    }
}

/// Bytes that a program has moved, as /proc/PID/io counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// What it asked the kernel to read.
    pub read: u64,
    /// What it asked to write.
    pub written: u64,
    /// What came from the device for it, with what the kernel read ahead.
    pub fetched: u64,
}

impl Moved {
    fn of(process: u32) -> Option<Moved> {
        let table = std::fs::read_to_string(format!("/proc/{process}/io")).ok()?;
        let count = |name: &str| table.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok();
        Some(Moved { read: count("rchar:")?, written: count("wchar:")?, fetched: count("read_bytes:")? })
    }
}

/// How a run ended.
#[derive(Debug)]
pub enum Ended {
    /// By itself, well or badly, or by a signal of somebody else.
    Finished(Box<Finished>),
    /// It could not be started; in words.
    NotStarted(String),
    /// It was ended after its time.
    TooLong,
    /// The user wants no more.
    Stopped,
}

/// A run that has ended.
#[derive(Debug)]
pub struct Finished {
    /// How. Of several commands the first one that failed, or the last.
    pub status: ExitStatus,
    /// What it cost.
    pub cost: Cost,
    /// What it wrote to standard output, if that was wanted.
    pub said: String,
    /// What it wrote to standard error.
    pub complaint: String,
}

/// What is to be run, and where.
pub struct Job<'a> {
    /// Run one after another; the time is that of all, and the first that fails ends them. Several short programs are not
    /// watched, since that would cost more than they do: they have no timeout, and what they start is not ended with each.
    pub commands: Vec<Command>,
    /// A directory on the destination's filesystem, which is synced.
    pub place: &'a File,
    /// Folders in /sys of the devices of source and destination, where they have one.
    pub devices: (Option<&'a Path>, Option<&'a Path>),
    /// After so long it is killed.
    pub timeout: Duration,
    /// Whether standard output is wanted; else it goes nowhere.
    pub output: bool,
}

/// What was seen while it ran.
#[derive(Debug, Default)]
struct Watched {
    peak: u64,
    own: u64,
    timed_out: bool,
    stopped: bool,
}

/// Runs a program and measures it. All processes that it has started end with it.
pub fn run(job: Job<'_>, workspace: &Workspace, stop: &Stop) -> Result<Ended, String> {
    let Job { commands, place, devices, timeout, output } = job;
    let is_watched = commands.len() == 1;
    let traffic = || [devices.0.and_then(Traffic::now), devices.1.and_then(Traffic::now)];
    // What leaves its group and loses its parent becomes a child of this process, and can be ended.
    // Where that is forbidden it goes on, as with any other program that measures.
    set_child_subreaper(Some(getpid())).ok();
    let before = (Load::now(), traffic());
    let start = Instant::now();
    let mut cost = Cost::default();
    let mut last = None;
    for mut command in commands {
        let one = match start_one(&mut command, output, is_watched.then_some(workspace)) {
            Err(why) => return Ok(Ended::NotStarted(why)),
            Ok(process) if is_watched => attend(process, timeout, workspace, stop)?,
            Ok(process) => wait_for(process).map_err(|error| format!("cannot wait: {}", words::of(&error)))?,
        };
        cost.add(&one);
        cost.returned = one.returned - start;
        let failed = !one.status.success();
        last = Some(one);
        if failed {
            break;
        }
    }
    if !is_watched {
        end_orphans();
    }
    let one = last.ok_or("nothing is to be run")?;
    if one.watched.stopped || stop.is_stopped() {
        return Ok(Ended::Stopped);
    }
    if one.watched.timed_out {
        return Ok(Ended::TooLong);
    }
    let synced = syncfs(place);
    cost.durable = start.elapsed();
    if one.status.success() {
        synced.map_err(|errno| format!("cannot sync the destination: {}", words::of(&errno.into())))?;
    }
    let (now, load) = (traffic(), Load::now());
    let moved = |of: fn(&Traffic) -> u64, side: usize| Some(of(&now[side]?.since(before.1[side]?)));
    cost.device_read = moved(|traffic| traffic.read, 0);
    cost.device_written = moved(|traffic| traffic.written, 1);
    cost.machine = load.of_all(before.0);
    cost.others = load.of_others(before.0, cost.user);
    cost.moved = one.moved;
    // Only now: to wait for outputs that somebody still holds takes time which is not that of the copy.
    let (said, complaint) = (one.said.map(Output::text), one.complaint.map(Output::text));
    let (said, complaint) = (said.unwrap_or_default(), complaint.unwrap_or_default());
    Ok(Ended::Finished(Box::new(Finished { status: one.status, cost, said, complaint })))
}

/// A process that has ended.
struct One {
    status: ExitStatus,
    ended: child::Ended,
    returned: Instant,
    watched: Watched,
    moved: Option<Moved>,
    said: Option<Output>,
    complaint: Option<Output>,
}

fn start_one(command: &mut Command, output: bool, watched_by: Option<&Workspace>) -> Result<Child, String> {
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    command.stdout(if output { Stdio::piped() } else { Stdio::null() });
    let name = command.get_program().to_string_lossy().into_owned();
    let announced = watched_by.map_or(Ok(()), |workspace| workspace.watch_from_start(command.process_group(0)));
    announced.and_then(|()| command.spawn()).map_err(|error| format!("cannot run {name}: {}", words::of(&error)))
}

/// Waits for a short program.
fn wait_for(mut process: Child) -> io::Result<One> {
    let complaint = rest_of(process.stderr.take())?;
    let said = rest_of(process.stdout.take())?;
    let ended = child::wait(process)?;
    Ok(One {
        status: ExitStatus::from_raw(ended.status),
        ended,
        returned: Instant::now(),
        watched: Watched::default(),
        moved: None,
        said,
        complaint,
    })
}

fn rest_of(pipe: Option<impl Read>) -> io::Result<Option<Output>> {
    let Some(mut pipe) = pipe else { return Ok(None) };
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes)?;
    Ok(Some(Output { kept: Arc::new(Mutex::new(bytes)), over: None }))
}

/// Watches a program until it ends, and names it to the guard meanwhile.
fn attend(process: Child, timeout: Duration, workspace: &Workspace, stop: &Stop) -> Result<One, String> {
    let guarded = workspace.watch(Some(process.id()));
    // Without a guard it ends at once.
    let timeout = if guarded.is_ok() { timeout } else { Duration::ZERO };
    let one = watched(process, timeout, stop).map_err(|error| format!("cannot watch: {}", words::of(&error)))?;
    end_orphans();
    guarded?;
    workspace.watch(None)?;
    Ok(one)
}

fn watched(mut process: Child, timeout: Duration, stop: &Stop) -> io::Result<One> {
    let id = process.id();
    let group = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    let said = process.stdout.take().map(|pipe| Output::of(pipe, false));
    let complaint = process.stderr.take().map(|pipe| Output::of(pipe, true));
    let (end, wait) = channel();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(move || watch(id, group, &wait, timeout, stop));
        // It stays a zombie, so that its number stays its own, until its group is ended.
        let waited = loop {
            match waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Err(haul_sys::Errno::INTR) => {}
                other => break other,
            }
        };
        let returned = Instant::now();
        let moved = Moved::of(id);
        kill_process_group(group, Signal::KILL).ok(); // mostly there is nobody left
        let ended = child::wait(process)?;
        waited?;
        drop(end);
        let watched = watcher.join().unwrap_or_default();
        Ok(One { status: ExitStatus::from_raw(ended.status), ended, returned, watched, moved, said, complaint })
    })
}

/// Ends what a program has started and left behind, as far as it came to this process. Nobody else has children here but for the
/// guards.
fn end_orphans() {
    for _ in 0..ROUNDS {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        let all: Vec<String> = lists.collect();
        let ids = all.iter().flat_map(|list| list.split_whitespace()).filter_map(|id| id.parse::<i32>().ok());
        let is_guard = |id: &i32| u32::try_from(*id).is_ok_and(is_guard);
        let orphans: Vec<Pid> = ids.filter(|id| !is_guard(id)).filter_map(Pid::from_raw).collect();
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
    /// `None` of what was read to its end.
    over: Option<Receiver<()>>,
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
        Output { kept, over: Some(over) }
    }

    fn text(self) -> String {
        if let Some(over) = self.over {
            over.recv_timeout(DRAIN).ok(); // disconnected means that everything was read
        }
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

/// Looks at the memory of a process and its children until it is to end, and ends them if they take too long or the user wants no
/// more.
fn watch(id: u32, group: Pid, end: &Receiver<()>, timeout: Duration, stop: &Stop) -> Watched {
    let mut watched = Watched::default();
    let start = Instant::now();
    loop {
        let mut own = 0;
        let mut all = vec![id];
        while let Some(process) = all.pop() {
            let Some(memory) = memory(process) else { continue };
            watched.peak = watched.peak.max(memory.0);
            own += memory.1;
            let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
            all.extend(children.unwrap_or_default().split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
        watched.own = watched.own.max(own);
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

/// Most resident memory of a process so far, and its anonymous and shared memory now, in bytes.
fn memory(process: u32) -> Option<(u64, u64)> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let field = |name: &str| {
        let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
    };
    Some((field("VmHWM:")?, field("RssAnon:")? + field("RssShmem:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_process_is_reported_with_and_without_files() {
        let (all, own) = memory(std::process::id()).unwrap();
        assert!(own > 0 && own < all, "{own} of {all}");
        assert_eq!(memory(u32::MAX), None);
    }

    #[test]
    fn a_watched_process_is_ended_after_its_time() {
        let mut process = haul_testbed::Command::new("sleep").arg("1000").spawn().unwrap();
        let (end, wait) = channel();
        let id = process.id();
        let group = i32::try_from(id).ok().and_then(Pid::from_raw).unwrap();
        let watched = std::thread::scope(|scope| {
            let watcher = scope.spawn(move || watch(id, group, &wait, Duration::ZERO, &Stop::default()));
            let status = process.wait().unwrap();
            drop(end);
            assert_eq!(status.signal(), Some(9));
            watcher.join().unwrap()
        });
        assert!(watched.timed_out && watched.peak > 0);
    }

    #[test]
    fn a_run_is_disturbed_by_more_than_a_twentieth_of_a_core() {
        let ms = Duration::from_millis;
        let cost = |others| Cost { durable: ms(2000), others: ms(others), ..Cost::default() };
        assert!(cost(101).is_disturbed() && !cost(100).is_disturbed());
    }
}
