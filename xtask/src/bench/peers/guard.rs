//! Cleans up behind the benchmark, however it ends: a process of its own that waits for the end of a pipe.
//!
//! The pipe ends when the benchmark does, by itself, by Ctrl-C, by a failure or by SIGKILL. The guard has a process
//! group of its own, so Ctrl-C does not end it as well.

use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use haul_sys::rustix::fd::OwnedFd;
use haul_sys::rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::shell::{self, Result};
use haul_measure::leftovers;

/// How long a program that lost its benchmark may go on writing.
const PATIENCE: Duration = Duration::from_secs(10);

/// The benchmark's end of the pipe.
pub struct Guard {
    process: Child,
    pipe: Mutex<ChildStdin>,
}

impl Guard {
    /// Removes `dir`, what is mounted below it and its loop devices when this process ends.
    ///
    /// # Errors
    /// When the guard cannot be started.
    pub fn over(dir: &Path) -> Result<Guard> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = shell::command(program);
        command.arg("peers-guard").arg(dir).stdin(Stdio::piped()).process_group(0);
        let mut process = command.spawn().map_err(|error| format!("cannot start the guard: {error}"))?;
        let pipe = process.stdin.take().ok_or("the guard has no pipe")?;
        Ok(Guard { process, pipe: Mutex::new(pipe) })
    }

    /// Tells of a program that must not outlive the benchmark, or with `None` that it has ended.
    ///
    /// # Errors
    /// When the guard is gone.
    pub fn watch(&self, process: Option<u32>) -> Result {
        let line = process.map_or_else(|| "ended\n".to_owned(), |id| format!("{id}\n"));
        // A thread that panicked here has at worst left half a line, which the guard takes for an end.
        let mut pipe = self.pipe.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        pipe.write_all(line.as_bytes()).map_err(|error| format!("the guard is gone: {error}"))
    }

    /// Lets it clean up and waits for that.
    ///
    /// # Errors
    /// When something resists.
    pub fn finish(self) -> Result {
        let Guard { mut process, pipe } = self;
        drop(pipe);
        let status = process.wait().map_err(|error| format!("cannot wait for the guard: {error}"))?;
        if status.success() { Ok(()) } else { Err("temporary files are left, see above".into()) }
    }
}

/// The process.
///
/// # Errors
/// When the directory cannot be removed.
pub fn process(args: &[String]) -> Result {
    let [dir] = args else { return Err("peers-guard wants a directory".into()) };
    serve(std::io::stdin().lock(), Path::new(dir))
}

fn serve(pipe: impl BufRead, dir: &Path) -> Result {
    let mut watched: Option<OwnedFd> = None;
    for line in pipe.lines() {
        // An unreadable pipe is as good as an ended one.
        let Ok(line) = line else { break };
        let id = line.parse().ok().and_then(Pid::from_raw);
        // None too if it has ended already.
        watched = id.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
    }
    if let Some(program) = watched {
        // It may have ended by itself or by the same Ctrl-C.
        pidfd_send_signal(program, Signal::KILL).unwrap_or_default();
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        // Others of the benchmark's processes may still be making files in it.
        match leftovers::free(dir) {
            Ok(()) if !dir.exists() => return Ok(()),
            Err(why) if Instant::now() > deadline => return Err(why),
            _ => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_and_its_files_go_when_the_pipe_ends() {
        let dir = std::env::temp_dir().join(format!("haul-xtask-guard-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("deep/er")).unwrap();
        let mut program = shell::command("sleep").arg("1000").spawn().unwrap();
        serve(format!("1 no number\n{}\n", program.id()).as_bytes(), &dir).unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&program.wait().unwrap()), Some(9));
        assert!(!dir.exists());
    }

    #[test]
    fn a_program_that_has_ended_is_left_alone() {
        let dir = std::env::temp_dir().join(format!("haul-xtask-ended-{}", std::process::id()));
        let mut program = shell::command("sleep").arg("1000").spawn().unwrap();
        serve(format!("{}\nended\n", program.id()).as_bytes(), &dir).unwrap();
        let running = program.try_wait().unwrap().is_none();
        program.kill().unwrap();
        program.wait().unwrap();
        assert!(running);
    }
}
