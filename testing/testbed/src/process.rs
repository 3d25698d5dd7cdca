//! Other programs, as every test starts them.
//!
//! [`Command`] and [`Child`] are used like those of the standard library and differ from them in this:
//!
//! * **Each process has a deadline.** When it is over, the process is killed with its process group and all that descends
//!   from it, and whoever waits for it panics with the command and what it has written. `HAUL_PATIENCE=4` multiplies all
//!   deadlines by four, for a slow machine.
//! * **A process does not outlive its test.** Dropping a [`Child`] kills it in the same way, and the kernel kills it when the
//!   thread that started it ends.
//! * Signals have their default actions and none is blocked, whatever the test inherited.
//! * Standard input is empty unless the test sets it.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, ChildStderr, ChildStdin, ChildStdout, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, pidfd_send_signal, waitid,
};

/// The deadline of a process whose test sets no other: far longer than any takes that does not hang.
pub const DEADLINE: Duration = Duration::from_secs(300);

/// The deadline of a process that builds a program.
pub const BUILD: Duration = Duration::from_secs(3600);

/// The deadline of a process that serves a whole test and ends with it.
pub const WHOLE_TEST: Duration = Duration::from_secs(24 * 3600);

/// How long a process may take to end once it was killed.
const GRACE: Duration = Duration::from_secs(20);

/// How much of what a process has written is in a message.
const SHOWN: usize = 8 << 10;

/// A program to start. See the [module](self).
pub struct Command {
    inner: process::Command,
    deadline: Duration,
    /// Which of the standard streams the test has set.
    set: [bool; 3],
}

/// What is as in the standard library.
macro_rules! as_in_std {
    ($($doc:literal $name:ident($($value:ident: $type:ty),*);)*) => {
        impl Command {
            $(
                #[doc = $doc]
                pub fn $name(&mut self, $($value: $type),*) -> &mut Command {
                    self.inner.$name($($value),*);
                    self
                }
            )*
        }
    };
}

as_in_std! {
    "Adds an argument." arg(arg: impl AsRef<OsStr>);
    "Adds arguments." args(args: impl IntoIterator<Item = impl AsRef<OsStr>>);
    "Sets the name by which it is called." arg0(name: impl AsRef<OsStr>);
    "Sets a variable of its environment." env(name: impl AsRef<OsStr>, value: impl AsRef<OsStr>);
    "Sets variables of its environment."
    envs(all: impl IntoIterator<Item = (impl AsRef<OsStr>, impl AsRef<OsStr>)>);
    "Takes a variable out of its environment." env_remove(name: impl AsRef<OsStr>);
    "Empties its environment." env_clear();
    "Sets its working directory." current_dir(dir: impl AsRef<Path>);
    "Sets its user." uid(id: u32);
    "Sets its group." gid(id: u32);
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Command {
    /// A program, by its path or its name.
    pub fn new(program: impl AsRef<OsStr>) -> Command {
        let mut inner = process::Command::new(program);
        // A group of its own, so that the deadline can end all of it.
        haul_sys::for_tests::start_fresh(inner.process_group(0));
        Command { inner, deadline: DEADLINE, set: [false; 3] }
    }

    /// How long it may run, instead of [`DEADLINE`].
    pub fn deadline(&mut self, deadline: Duration) -> &mut Command {
        self.deadline = deadline;
        self
    }

    /// Sets its standard input; empty otherwise.
    pub fn stdin(&mut self, stream: impl Into<Stdio>) -> &mut Command {
        self.set[0] = true;
        self.inner.stdin(stream);
        self
    }

    /// Sets its standard output; otherwise that of the test, or what [`Command::output`] returns.
    pub fn stdout(&mut self, stream: impl Into<Stdio>) -> &mut Command {
        self.set[1] = true;
        self.inner.stdout(stream);
        self
    }

    /// Sets its standard error; otherwise that of the test, or what [`Command::output`] returns.
    pub fn stderr(&mut self, stream: impl Into<Stdio>) -> &mut Command {
        self.set[2] = true;
        self.inner.stderr(stream);
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.start(Stdio::inherit)
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// If it cannot be started.
    ///
    /// # Panics
    /// If it does not end by its deadline.
    #[track_caller]
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.start(Stdio::inherit)?.wait()
    }

    /// Runs it to its end and returns what it wrote.
    ///
    /// # Errors
    /// If it cannot be started.
    ///
    /// # Panics
    /// If it does not end by its deadline.
    #[track_caller]
    pub fn output(&mut self) -> io::Result<Output> {
        self.start(Stdio::piped)?.wait_with_output()
    }

    fn start(&mut self, otherwise: fn() -> Stdio) -> io::Result<Child> {
        let [stdin, stdout, stderr] = self.set;
        if !stdin {
            self.inner.stdin(Stdio::null());
        }
        if !stdout {
            self.inner.stdout(otherwise());
        }
        if !stderr {
            self.inner.stderr(otherwise());
        }
        let deadline = self.deadline * patience();
        Child::watched(self.inner.spawn()?, format!("{:?}", self.inner), deadline)
    }
}

/// By what deadlines are multiplied.
fn patience() -> u32 {
    static PATIENCE: OnceLock<u32> = OnceLock::new();
    *PATIENCE.get_or_init(|| match std::env::var("HAUL_PATIENCE") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("HAUL_PATIENCE is no whole number: {text}")),
        Err(_) => 1,
    })
}

/// A process. Dropped, it is killed with all that it started. See the [module](self).
pub struct Child {
    /// Where its standard input comes from, if it was piped.
    pub stdin: Option<ChildStdin>,
    /// Where its standard output goes, if it was piped.
    pub stdout: Option<ChildStdout>,
    /// Where its standard error goes, if it was piped.
    pub stderr: Option<ChildStderr>,
    process: process::Child,
    watch: Arc<Watch>,
    /// The thread that watches it, which ends when the sender is dropped.
    watcher: Option<(Sender<()>, JoinHandle<()>)>,
    /// Until when it must have ended, killed or not.
    gone_by: Instant,
}

/// Its number, and what does not reap it.
impl Deref for Child {
    type Target = process::Child;

    fn deref(&self) -> &process::Child {
        &self.process
    }
}

/// What a child and the thread that watches it both know.
struct Watch {
    command: String,
    pid: Pid,
    deadline: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Its number may be another process's by now.
    reaped: bool,
    /// Where in the kernel it was when it was killed at its deadline.
    overdue: Option<String>,
}

impl Child {
    fn watched(mut process: process::Child, command: String, deadline: Duration) -> io::Result<Child> {
        let pid = Pid::from_child(&process);
        let (stdin, stdout, stderr) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (sender, receiver) = mpsc::channel();
        let watch = Arc::new(Watch { command, pid, deadline, state: Mutex::default() });
        let gone_by = Instant::now() + deadline + GRACE;
        let mut child = Child { stdin, stdout, stderr, process, watch, watcher: None, gone_by };
        let watch = Arc::clone(&child.watch);
        let watcher = thread::Builder::new().stack_size(128 << 10).spawn(move || watch.until_deadline(&receiver))?;
        child.watcher = Some((sender, watcher));
        Ok(child)
    }

    /// Waits for its end. Standard input is closed before.
    ///
    /// # Errors
    /// If the kernel cannot tell.
    ///
    /// # Panics
    /// If it does not end by its deadline.
    #[track_caller]
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        self.await_end()?;
        let status = self.reap()?;
        self.assert_in_time("");
        Ok(status)
    }

    /// Waits for its end and returns what it wrote into its pipes. Standard input is closed before.
    ///
    /// # Errors
    /// If the kernel cannot tell.
    ///
    /// # Panics
    /// If it, or something that it started and that holds the other end of a pipe, does not end by its deadline.
    #[track_caller]
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let pipes = [self.stdout.take().map(OwnedFd::from), self.stderr.take().map(OwnedFd::from)];
        let [stdout, stderr] = read_all(pipes, self.gone_by)?;
        self.await_end()?;
        let status = self.reap()?;
        let shown = |bytes: &[u8]| String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(SHOWN)..]).into_owned();
        self.assert_in_time(&format!("\nstandard output:\n{}\nstandard error:\n{}", shown(&stdout), shown(&stderr)));
        Ok(Output { status, stdout, stderr })
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// If the kernel cannot tell.
    ///
    /// # Panics
    /// If it was killed at its deadline.
    #[track_caller]
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = {
            let mut state = self.watch.state();
            let status = self.process.try_wait()?;
            state.reaped |= status.is_some();
            status
        };
        if status.is_some() {
            self.unwatch();
            self.assert_in_time("");
        }
        Ok(status)
    }

    /// Kills it, and only it.
    ///
    /// # Errors
    /// If that is not allowed.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.kill()
    }

    /// Waits until it can be reaped.
    #[track_caller]
    fn await_end(&self) -> io::Result<()> {
        if self.watch.state().reaped {
            return Ok(());
        }
        let handle = pidfd_open(self.watch.pid, PidfdFlags::empty())?;
        let ended = ready(&mut [PollFd::new(&handle, PollFlags::IN)], self.gone_by)?;
        assert!(ended, "{}: it was killed at its deadline and is still there", self.watch.command);
        Ok(())
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        let status = {
            let mut state = self.watch.state();
            let status = self.process.wait()?;
            state.reaped = true;
            status
        };
        self.unwatch();
        Ok(status)
    }

    /// Waits for the watching thread, which shares the namespaces of the test and would keep them.
    fn unwatch(&mut self) {
        if let Some((sender, watcher)) = self.watcher.take() {
            drop(sender);
            // It does not panic.
            watcher.join().unwrap_or_default();
        }
    }

    #[track_caller]
    fn assert_in_time(&self, wrote: &str) {
        if let Some(stack) = self.watch.state().overdue.take() {
            panic!("{}{stack}{wrote}", self.watch.overdue());
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.watch.state().reaped {
            return;
        }
        self.watch.kill_all();
        self.gone_by = Instant::now() + GRACE;
        // Best effort: what cannot be killed is left to the machine.
        let gone = pidfd_open(self.watch.pid, PidfdFlags::empty())
            .map_err(io::Error::from)
            .and_then(|handle| ready(&mut [PollFd::new(&handle, PollFlags::IN)], self.gone_by));
        if gone.is_ok_and(|gone| gone) {
            self.reap().map(drop).unwrap_or_default();
        }
        if !thread::panicking() {
            self.assert_in_time("");
        }
    }
}

impl Watch {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn overdue(&self) -> String {
        let seconds = self.deadline.as_secs_f64();
        format!(
            "{} did not end within {seconds} s and was killed (HAUL_PATIENCE=N multiplies deadlines)\n",
            self.command
        )
    }

    /// Kills it at its deadline, unless it is reaped before.
    fn until_deadline(&self, watched: &Receiver<()>) {
        if watched.recv_timeout(self.deadline) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let mut state = self.state();
        // What has ended in time and was not asked for is nobody's fault.
        if state.reaped || !self.is_alive() {
            return;
        }
        state.overdue = Some(fs::read_to_string(format!("/proc/{}/stack", self.pid)).unwrap_or_default());
        self.kill_all();
        drop(state);
        // A test that hangs for another reason now should say at least this. Where nobody reads it, it is in the panic.
        write!(io::stderr(), "{}", self.overdue()).unwrap_or_default();
    }

    /// Whether it, or something that it started, still runs. It must not be reaped.
    fn is_alive(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let ended = waitid(WaitId::Pid(self.pid), options).is_ok_and(|status| status.is_some());
        !ended || !self.others().is_empty()
    }

    /// Kills it, its process group and all that descends from it. It must not be reaped.
    fn kill_all(&self) {
        let others = self.others();
        // It is there until it is reaped, and the group with it.
        kill_process_group(self.pid, Signal::KILL).unwrap_or_default();
        for other in others {
            // By a handle, after which the same process must still be there: numbers are used again.
            let Ok(handle) = pidfd_open(other.pid, PidfdFlags::empty()) else { continue };
            if Process::read(other.pid).is_some_and(|now| now.start == other.start) {
                // It may have just ended.
                pidfd_send_signal(&handle, Signal::KILL).unwrap_or_default();
            }
        }
    }

    /// The other processes of its group, and those that descend from it or from one of the group; no zombies.
    fn others(&self) -> Vec<Process> {
        let names = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let mut rest: Vec<Process> =
            names.filter_map(|name| Process::read(Pid::from_raw(name.parse().ok()?)?)).collect();
        let (mut known, mut found) = (vec![self.pid], Vec::new());
        loop {
            let (more, others): (Vec<Process>, Vec<Process>) = rest.into_iter().partition(|process| {
                process.group == Some(self.pid) || process.parent.is_some_and(|parent| known.contains(&parent))
            });
            if more.is_empty() {
                return found;
            }
            rest = others;
            known.extend(more.iter().map(|process| process.pid));
            found.extend(more.into_iter().filter(|process| process.pid != self.pid && !process.is_zombie));
        }
    }
}

/// A process, by what /proc says of it.
struct Process {
    pid: Pid,
    parent: Option<Pid>,
    group: Option<Pid>,
    is_zombie: bool,
    /// When it was started, in ticks since the machine was: no two of one number have the same.
    start: u64,
}

impl Process {
    /// `None` if there is none of that number.
    fn read(pid: Pid) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may hold any character.
        let mut words = stat.rsplit_once(')')?.1.split_whitespace();
        let is_zombie = matches!(words.next()?, "Z" | "X");
        let mut number = || words.next()?.parse::<i32>().ok();
        let (parent, group) = (Pid::from_raw(number()?), Pid::from_raw(number()?));
        let start = words.nth(16)?.parse().ok()?;
        Some(Process { pid, parent, group, is_zombie, start })
    }
}

/// What comes out of pipes until all writers have closed them, or until this moment.
fn read_all(mut pipes: [Option<OwnedFd>; 2], until: Instant) -> io::Result<[Vec<u8>; 2]> {
    let mut contents = [Vec::new(), Vec::new()];
    let mut buffer = vec![0; 64 << 10];
    while pipes.iter().any(Option::is_some) {
        let open: Vec<usize> = (0..2).filter(|&at| pipes[at].is_some()).collect();
        let mut waiting: Vec<PollFd<'_>> =
            pipes.iter().flatten().map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)).collect();
        if !ready(&mut waiting, until)? {
            break;
        }
        let ready: Vec<usize> = open
            .into_iter()
            .zip(&waiting)
            .filter(|(_, polled)| !polled.revents().is_empty())
            .map(|(at, _)| at)
            .collect();
        for at in ready {
            let Some(pipe) = &pipes[at] else { continue };
            match rustix::io::read(pipe, &mut buffer[..]) {
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
                Ok(0) => pipes[at] = None,
                Ok(count) => contents[at].extend_from_slice(&buffer[..count]),
            }
        }
    }
    Ok(contents)
}

/// Waits until one of them is ready; `false` if none is at this moment.
fn ready(waiting: &mut [PollFd<'_>], until: Instant) -> io::Result<bool> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(waiting, Some(&left)) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(count) => return Ok(count > 0),
        }
    }
}
