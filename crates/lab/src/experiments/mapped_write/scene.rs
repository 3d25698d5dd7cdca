//! What the parts have around them: the wish to stop, how far they are, the files that they make.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use haul_measure::{space, words};
use haul_sys::rustix::fs::OFlags;

/// Progress is said so often at most.
const OFTEN: Duration = Duration::from_millis(200);
/// Bytes that stay free beyond what a part is about to use: room for what the filesystem has to write about it.
const RESERVE: u64 = 1 << 20;

/// All files begin with it.
const PREFIX: &str = "mapped-write.";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    Stopped,
    Why(String),
}

/// Something could not be done to a file.
pub fn cannot<'a, E: Into<std::io::Error>>(what: &'a str, path: &'a Path) -> impl Fn(E) -> Failed + Copy + 'a {
    let message = words::cannot(what, path);
    move |error| Failed::Why(message(error))
}

pub struct Scene {
    stop: Arc<AtomicBool>,
    said: Cell<Option<Instant>>,
    say: Box<dyn Fn(f64)>,
}

impl Scene {
    /// One that stops when it is asked to, and tells `say` how much is done, from 0 to 1.
    pub fn new(stop: Arc<AtomicBool>, say: impl Fn(f64) + 'static) -> Scene {
        Scene { stop, said: Cell::new(None), say: Box::new(say) }
    }

    /// Says how much is done, unless it has just done so.
    pub fn report(&self, done: f64) {
        if self.said.get().is_none_or(|said| said.elapsed() >= OFTEN) {
            self.said.set(Some(Instant::now()));
            (self.say)(done.clamp(0.0, 1.0));
        }
    }

    /// An error if it was asked to stop.
    pub fn go_on(&self) -> Result<(), Failed> {
        if self.stop.load(Ordering::Relaxed) { Err(Failed::Stopped) } else { Ok(()) }
    }

    /// Rests for a while, and less if it is asked to stop.
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

    /// An error if the filesystem has no room for so many bytes: storing to a mapped page would end the process.
    pub fn room_for(&self, place: &Path, bytes: u64) -> Result<(), Failed> {
        let free = space::free(place).map_err(Failed::Why)?;
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

/// Opens a file for reading and writing, and makes it if need be. With O_DSYNC each write(2) to it is on the device when it
/// returns.
pub fn open(path: &Path, flags: OFlags) -> Result<File, Failed> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    // The bits of O_DSYNC are far from the sign.
    options.custom_flags(flags.bits() as i32);
    options.open(path).map_err(cannot("open", path))
}

/// Removes all files that parts make in a directory, and no others.
pub fn empty(place: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(place)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

pub fn file(place: &Path, name: &str) -> PathBuf {
    place.join(format!("{PREFIX}{name}"))
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
