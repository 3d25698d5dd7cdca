//! One part of the experiment, in a process of its own: a store to a mapped page for which the filesystem has no room, or
//! which somebody has cut off, ends the process by SIGBUS. The parent makes an error message of that (see [`super::child`]).
//!
//! The child gets a [`Task`] and says [`Message`]s, one line of JSON each. It removes its files at its end, and it ends early
//! when its standard input does: then its parent is gone, or has enough.

use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use haul_measure::words;
use haul_sys::rustix::fs::{OFlags, statvfs};
use serde::{Deserialize, Serialize};

use super::{grid, msync, stall, under};

/// Progress is said so often at most.
const OFTEN: Duration = Duration::from_millis(200);
/// Bytes that stay free beyond what a part is about to use: room for what the filesystem has to write about it.
const RESERVE: u64 = 1 << 20;

/// All files begin with it.
const PREFIX: &str = "mapped-write.";

/// What a child is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// [`msync`].
    Msync(msync::Settings),
    /// [`grid`].
    Grid(grid::Settings),
    /// [`under`].
    Under(under::Settings),
    /// [`stall`].
    Stall(stall::Settings),
}

/// What it found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// [`msync`].
    Msync(msync::Measured),
    /// [`grid`].
    Grid(grid::Measured),
    /// [`under`].
    Under(under::Measured),
    /// [`stall`].
    Stall(stall::Measured),
}

/// What it says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// So much of it is done, from 0 to 1.
    Progress(f64),
    /// All of it.
    Done(Box<Answer>),
    /// It cannot go on, and why.
    Failed(String),
    /// It was asked to stop, and has.
    Stopped,
}

/// Why a part ends without figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// It was asked to.
    Stopped,
    /// Why, for people.
    Why(String),
}

impl Failed {
    /// Something could not be done to a file.
    pub fn of(what: &str, path: &Path, error: &std::io::Error) -> Failed {
        Failed::Why(format!("cannot {what} {}: {}", words::quoted(path), words::of(error)))
    }
}

/// What a part has around it.
pub struct Scene {
    stop: Arc<AtomicBool>,
    said: Cell<Option<Instant>>,
    say: Box<dyn Fn(&Message)>,
}

impl Scene {
    /// One that stops when it is asked to, and says what it says to `say`.
    pub fn new(stop: Arc<AtomicBool>, say: impl Fn(&Message) + 'static) -> Scene {
        Scene { stop, said: Cell::new(None), say: Box::new(say) }
    }

    /// Says how much is done, unless it has just done so.
    pub fn report(&self, done: f64) {
        if self.said.get().is_none_or(|said| said.elapsed() >= OFTEN) {
            self.said.set(Some(Instant::now()));
            (self.say)(&Message::Progress(done.clamp(0.0, 1.0)));
        }
    }

    /// # Errors
    /// If it was asked to stop.
    pub fn go_on(&self) -> Result<(), Failed> {
        if self.stop.load(Ordering::Relaxed) { Err(Failed::Stopped) } else { Ok(()) }
    }

    /// Rests for a while, and less if it is asked to stop.
    ///
    /// # Errors
    /// If it was asked to stop.
    pub fn rest(&self, time: Duration) -> Result<(), Failed> {
        let end = Instant::now() + time;
        loop {
            self.go_on()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(OFTEN));
        }
    }

    /// # Errors
    /// If the filesystem has no room for so many bytes: storing to a mapped page would end the process.
    pub fn room_for(&self, place: &Path, bytes: u64) -> Result<(), Failed> {
        let free = free_bytes(place).map_err(|error| Failed::of("look at", place, &error))?;
        if free >= bytes.saturating_add(RESERVE) {
            return Ok(());
        }
        let (free, wanted) = (words::bytes(free), words::bytes(bytes));
        Err(Failed::Why(format!(
            "no space left below {}: {free} are free, and {wanted} are to be written",
            words::quoted(place)
        )))
    }
}

/// Bytes that may be written.
///
/// # Errors
/// What statvfs(3) says.
pub fn free_bytes(place: &Path) -> std::io::Result<u64> {
    let free = statvfs(place)?;
    Ok(free.f_bavail.saturating_mul(free.f_frsize))
}

/// Opens a file for reading and writing, and makes it if need be.
pub(super) fn open(path: &Path) -> Result<File, Failed> {
    open_with(path, OFlags::empty())
}

/// The same with O_DSYNC: each write(2) to it is on the device when it returns.
pub(super) fn open_dsync(path: &Path) -> Result<File, Failed> {
    open_with(path, OFlags::DSYNC)
}

fn open_with(path: &Path, flags: OFlags) -> Result<File, Failed> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    // The bits of O_DSYNC are far from the sign.
    options.custom_flags(flags.bits() as i32);
    options.open(path).map_err(|error| Failed::of("open", path, &error))
}

fn work(task: &Task, place: &Path, scene: &Scene) -> Result<Answer, Failed> {
    match task {
        Task::Msync(settings) => msync::run(settings, place, scene).map(Answer::Msync),
        Task::Grid(settings) => grid::run(settings, place, scene).map(Answer::Grid),
        Task::Under(settings) => under::run(settings, place, scene).map(Answer::Under),
        Task::Stall(settings) => stall::run(settings, place, scene).map(Answer::Stall),
    }
}

/// Does a task in this process, and removes its files below `place`. It says what it says to `say`, and its end last.
pub fn play(task: &Task, place: &Path, stop: Arc<AtomicBool>, say: impl Fn(&Message) + Clone + 'static) {
    let worked = work(task, place, &Scene::new(stop, say.clone()));
    let removed = empty(place).map_err(|error| Failed::of("remove the files below", place, &error));
    say(&match worked.and_then(|answer| removed.map(|()| answer)) {
        Ok(answer) => Message::Done(Box::new(answer)),
        Err(Failed::Stopped) => Message::Stopped,
        Err(Failed::Why(why)) => Message::Failed(why),
    });
}

/// Removes all files that parts make in a directory, and no others.
///
/// # Errors
/// Those of reading and removing.
pub fn empty(place: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(place)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// A file of a part.
pub(super) fn file(place: &Path, name: &str) -> PathBuf {
    place.join(format!("{PREFIX}{name}"))
}

/// The process of a part, `haul-lab mapped-write-part TASK PLACE`.
///
/// # Errors
/// If it was not started by [`super::child`].
pub fn main(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> Result<(), String> {
    let (task, place) = (arguments.next(), arguments.next());
    let task = task.as_ref().and_then(|task| serde_json::from_str(task.to_str()?).ok());
    let (Some(task), Some(place), None) = (task, place.map(PathBuf::from), arguments.next()) else {
        return Err("'mapped-write-part' is for haul-lab itself".to_owned());
    };
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    std::thread::spawn(move || {
        // An end or an error: there is nobody any more.
        std::io::stdin().read_to_end(&mut Vec::new()).map(drop).unwrap_or_default();
        asked.store(true, Ordering::Relaxed);
    });
    let ending = Arc::clone(&stop);
    play(&task, &place, stop, move |message| {
        let line = serde_json::to_string(message).map(|line| line + "\n");
        let mut out = std::io::stdout().lock();
        let said = line.is_ok_and(|line| out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_ok());
        if !said {
            ending.store(true, Ordering::Relaxed);
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_parts_are_removed() {
        let place = std::env::temp_dir().join(format!("haul-lab-part-{}", std::process::id()));
        std::fs::create_dir(&place).unwrap();
        for name in ["precious", "mapped-write", "mapped-write.under"] {
            std::fs::write(place.join(name), name).unwrap();
        }
        std::fs::write(file(&place, "stall.0"), "x").unwrap();
        empty(&place).unwrap();
        let mut left: Vec<_> = std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["mapped-write", "precious"]);
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn who_rests_hears_that_it_is_to_stop() {
        let scene = Scene::new(Arc::new(AtomicBool::new(true)), |_| {});
        assert_eq!(scene.rest(Duration::from_secs(86_400)), Err(Failed::Stopped));
        assert!(scene.room_for(&std::env::temp_dir(), u64::MAX).is_err_and(|failed| failed != Failed::Stopped));
    }
}
