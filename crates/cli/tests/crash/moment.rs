//! When a copy is interrupted.
//!
//! Here waiting is not a way to hope for something but the experiment itself: a crash comes at any time, so the moments are
//! random parts of the time that an undisturbed run takes. What is asserted holds at every moment, so that a machine that
//! is slower than it was does no harm; it moves some moments only. Half of the time is spent where nothing has its
//! final name yet. So there are also moments right after one certain name appeared, which is when a wrong order of
//! operations shows, and right after the end, which is when promises of completeness begin.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use haul_testbed::guest::Noise;
use haul_testbed::{Child, Command};

use super::scene::new_names;

/// No copy here takes so long, unless it hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// A moment in the life of a process that copies.
#[derive(Debug, Clone)]
pub enum Moment {
    /// So long after its start.
    After(Duration),
    /// So long after this name appeared below the destination.
    AtName(PathBuf, Duration),
    /// When it has ended.
    AtEnd,
}

impl Moment {
    /// A random one, for a run that takes about so long. One in eight comes after the end, three in eight at a name.
    pub fn random(noise: &mut Noise, length: Duration) -> Moment {
        let limit = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        match noise.below(8) {
            0 => Moment::AtEnd,
            1..=3 => {
                let mut names = new_names();
                let name = names.swap_remove(usize::try_from(noise.below(names.len() as u64)).expect("it is small"));
                Moment::AtName(name, Duration::from_micros(noise.below(limit / 4)))
            }
            _ => Moment::After(Duration::from_micros(noise.below(limit + limit / 8))),
        }
    }

    /// Waits for it, or for the end of the process.
    pub fn wait(&self, child: &mut Child, dest: &Path) {
        match self {
            Moment::After(time) => thread::sleep(*time),
            Moment::AtName(name, more) => {
                let name = dest.join(name);
                let mut ended = false;
                while !ended && name.symlink_metadata().is_err() {
                    ended = child.try_wait().expect("the child is ours").is_some();
                    thread::yield_now();
                }
                if !ended {
                    thread::sleep(*more);
                }
            }
            Moment::AtEnd => drop(end(child)),
        }
    }
}

/// How a process ended.
///
/// # Panics
/// If it does not end.
pub fn end(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            return status;
        }
        if start.elapsed() > LIMIT {
            child.kill().expect("the child is ours");
            panic!("it hangs");
        }
        // It ends by itself; this is only how often one looks.
        thread::sleep(Duration::from_micros(100));
    }
}

/// How long an undisturbed run of a command takes: the median of three times. `run` is given a function that runs it, and
/// does before and after what must be done.
pub fn length(mut run: impl FnMut(&mut dyn FnMut(&mut Command) -> ExitStatus)) -> Duration {
    let mut times = Vec::new();
    for _ in 0..3 {
        run(&mut |command| {
            let start = Instant::now();
            let status = command.status().expect("it can be run");
            times.push(start.elapsed());
            status
        });
    }
    times.sort();
    times[times.len() / 2]
}
