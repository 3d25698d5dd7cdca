//! Runs of the command: as it is, watched, and with a fault.

use std::fmt;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use haul_testbed::{Child, Command};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// Nothing here takes longer unless it hangs.
const LIMIT: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// One call that fails.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Its name.
    pub name: String,
    /// Which one of this name, counted from the start of each thread; the first is 1.
    pub occurrence: u32,
    /// What it fails with.
    pub errno: &'static str,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:error={}:when={}", self.name, self.errno, self.occurrence)
    }
}

/// How a run ended.
pub struct Ran {
    /// `None`: it had to be killed.
    status: Option<ExitStatus>,
    /// What it said.
    pub stderr: String,
}

impl Ran {
    /// Exit status 0.
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Exit status 1, as documented for a run in which something went wrong.
    pub fn failed(&self) -> bool {
        self.status.is_some_and(|status| status.code() == Some(1))
    }

    /// It did not end by itself.
    pub fn hung(&self) -> bool {
        self.status.is_none()
    }

    /// Status and words, for messages.
    pub fn text(&self) -> String {
        let ended = match self.status {
            None => "did not end".to_owned(),
            Some(status) => match status.signal() {
                Some(signal) => format!("died by signal {signal}"),
                None => status.to_string(),
            },
        };
        format!("{ended}, said {:?}", self.stderr)
    }
}

/// Runs the command.
pub fn plain(dir: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(HAUL);
    command.args(arguments);
    run(command, dir)
}

/// Runs the command and writes all its calls to `log`.
pub fn observe(dir: &Path, arguments: &[&str], log: &Path) -> Ran {
    traced(dir, arguments, &[], log)
}

/// Runs the command with a fault; only calls of that name are in `log`.
pub fn inject(dir: &Path, arguments: &[&str], fault: &Fault, log: &Path) -> Ran {
    let (only, what) = (format!("trace={}", fault.name), format!("inject={fault}"));
    traced(dir, arguments, &["--seccomp-bpf", "-e", &only, "-e", &what], log)
}

/// How many calls of the last run did not reach the kernel.
pub fn injected(log: &Path) -> usize {
    fs::read_to_string(log).expect("the tracer has written").matches("(INJECTED)").count()
}

fn traced(dir: &Path, arguments: &[&str], options: &[&str], log: &Path) -> Ran {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "signal=none", "-o"]).arg(log).args(options).arg(HAUL).args(arguments);
    run(command, dir)
}

fn run(mut command: Command, dir: &Path) -> Ran {
    let said = rustix::fs::memfd_create("said", rustix::fs::MemfdFlags::CLOEXEC).expect("memory for messages");
    let said = File::from(said);
    let to = said.try_clone().expect("a descriptor");
    command.current_dir(dir).env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null()).stderr(to);
    let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    // Closes the other descriptor for the messages.
    drop(command);
    let status = wait(child);
    let bytes = read_all(&said);
    Ran { status, stderr: String::from_utf8_lossy(&bytes).into_owned() }
}

fn read_all(file: &File) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let len = file.metadata().expect("it is open").len();
    let mut bytes = vec![0; usize::try_from(len).expect("messages fit in memory")];
    file.read_exact_at(&mut bytes, 0).expect("messages can be read");
    bytes
}

/// Waits for the end; `None` if it did not come.
fn wait(mut child: Child) -> Option<ExitStatus> {
    let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).expect("the child is there");
    let ended = poll(&mut [PollFd::new(&handle.as_fd(), PollFlags::IN)], Some(&LIMIT)).expect("poll works") > 0;
    if !ended {
        kill_process_group(Pid::from_child(&child), Signal::KILL).expect("the child is there");
    }
    let status = child.wait().expect("the child is ours");
    ended.then_some(status)
}
