//! What the page cache holds of a source when the clock starts.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use haul_sys::page_cache;
use haul_sys::rustix::fs::sync;
use haul_sys::rustix::param::page_size;
use serde::{Deserialize, Serialize};

use crate::own::Own;
use crate::programs;
use crate::words::{self, quoted};

/// The name of the part of this program that brings files into memory.
pub const PART: &str = "read-files";

const BUFFER: usize = 1 << 20;
/// That read at the same time.
const THREADS: usize = 2;
const DROP: &str = "/proc/sys/vm/drop_caches";

/// How much of a file is to be in the page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Temperature {
    /// Everything is in memory.
    #[default]
    Warm,
    /// Nothing is.
    Cold,
}

impl Temperature {
    /// The word in names and parameters.
    pub fn as_str(self) -> &'static str {
        match self {
            Temperature::Warm => "warm",
            Temperature::Cold => "cold",
        }
    }
}

/// A state that was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Everything is in memory.
    Warm,
    /// Nothing is: all caches of the machine were dropped.
    Dropped,
    /// Nothing is: the files were evicted one by one, and the kernel says that they are gone. Names and inodes may be in memory.
    Evicted,
    /// It could not be found out.
    #[default]
    Unknown,
}

/// Brings the contents of a file, or of the files below a directory, into that state, and says which it is in then.
pub fn prepare(source: &Path, temperature: Temperature) -> Result<State, String> {
    match temperature {
        Temperature::Warm => {
            let files = below(source, false)?;
            read_all(&files)?;
            Ok(if is_warm(&files) { State::Warm } else { State::Unknown })
        }
        Temperature::Cold => {
            drop_and_look(drop_all, || Ok(is_cold(&below(source, false)?)))?.map_or_else(|| evict_all(source), Ok)
        }
    }
}

/// Drops all caches, and says whether that has worked; `None` if it is not allowed. The look brings names and inodes back, which is
/// why they are dropped once more after it.
fn drop_and_look(
    mut drop: impl FnMut() -> bool,
    look: impl FnOnce() -> Result<bool, String>,
) -> Result<Option<State>, String> {
    if !drop() {
        return Ok(None);
    }
    let gone = look()?;
    Ok(Some(if drop() && gone { State::Dropped } else { State::Unknown }))
}

/// A part of the pages that is as good as all of them.
const NEARLY_ALL: f64 = 0.99;

fn is_warm(files: &[PathBuf]) -> bool {
    let is_empty = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|file| file.len() == 0);
    files.iter().all(is_empty) || cached_share(files).is_some_and(|share| share >= NEARLY_ALL)
}

fn is_cold(files: &[PathBuf]) -> bool {
    cached_share(files).is_some_and(|share| share <= 1.0 - NEARLY_ALL)
}

/// How much of the files is in the page cache, from 0 to 1; `None` where the kernel does not say. Files without contents are as warm
/// or as cold as anybody wants.
fn cached_share(files: &[PathBuf]) -> Option<f64> {
    let page = page_size() as u64;
    let (mut all, mut cached) = (0, 0);
    for path in files {
        let file = File::open(path).ok()?;
        let size = file.metadata().ok()?.len();
        all += size.div_ceil(page);
        cached += page_cache::cached_pages(file.as_fd(), 0, size).ok()?;
    }
    Some(if all == 0 { 0.0 } else { cached as f64 / all as f64 })
}

/// Lets the page cache forget a file, or the files below a directory, and looks whether it has.
pub fn evict_all(source: &Path) -> Result<State, String> {
    let files = below(source, false)?;
    for path in &files {
        evict(path).map_err(words::cannot("read", path))?;
    }
    Ok(if is_cold(&files) { State::Evicted } else { State::Unknown })
}

/// Lets the page cache forget what it can of these files; for copies that were looked at and would only fill the memory.
pub fn forget(path: &Path) {
    // What cannot be forgotten is pushed out by others in the end.
    for path in below(path, false).unwrap_or_default() {
        evict(&path).ok();
    }
}

/// The regular files at and below a path, or with `all` everything.
fn below(root: &Path, all: bool) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    gather(root, all, &mut found).map_err(words::cannot("read", root))?;
    Ok(found)
}

fn gather(path: &Path, all: bool, into: &mut Vec<PathBuf>) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if all || kind.is_file() {
        into.push(path.to_path_buf());
    }
    if kind.is_dir() {
        for entry in fs::read_dir(path)? {
            gather(&entry?.path(), all, into)?;
        }
    }
    Ok(())
}

/// Brings everything below a path into memory, names and targets of symbolic links as well, by a process of its own: the names
/// of a large tree would be counted to every program that this one starts later.
pub fn read_apart(own: &Own, root: &Path) -> Result<(), String> {
    programs::run(own.part(PART).arg(root).stdin(Stdio::null()))
}

/// The process.
pub fn read(root: &Path) -> Result<(), String> {
    read_all(&below(root, true)?)
}

/// Reads them by several threads.
fn read_all(paths: &[PathBuf]) -> Result<(), String> {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    let work = || {
        let mut buffer = vec![0; BUFFER];
        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = read_one(path, &mut buffer) {
                let why = format!("cannot read {}: {}", quoted(path), words::of(&error));
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(paths.len()) {
            scope.spawn(work);
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

fn read_one(path: &Path, buffer: &mut [u8]) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if kind.is_symlink() {
        fs::read_link(path)?;
    }
    if !kind.is_file() {
        return Ok(());
    }
    let mut file = File::open(path)?;
    loop {
        match file.read(buffer) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Drops all clean caches of the machine, names and inodes as well; `false` if this process may not.
pub fn drop_all() -> bool {
    let Ok(mut file) = fs::OpenOptions::new().write(true).open(DROP) else { return false };
    // What is dirty stays.
    sync();
    file.write_all(b"3\n").is_ok()
}

fn evict(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    file.sync_data().ok(); // a file that cannot be synced has nothing dirty, or says so below
    Ok(page_cache::forget(file.as_fd(), 0, size)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cached(path: &Path) -> u64 {
        let file = File::open(path).unwrap();
        page_cache::cached_pages(file.as_fd(), 0, file.metadata().unwrap().len()).unwrap()
    }

    #[test]
    fn caches_are_dropped_again_after_the_look() {
        let said = std::cell::RefCell::new(Vec::new());
        let say = |what, answer| {
            said.borrow_mut().push(what);
            answer
        };
        let state = |gone| drop_and_look(|| say("drop", true), || Ok(say("look", gone))).unwrap();
        assert_eq!((state(true), state(false)), (Some(State::Dropped), Some(State::Unknown)));
        assert_eq!(said.take(), ["drop", "look", "drop"].repeat(2));
        assert_eq!(drop_and_look(|| false, || panic!("nothing was dropped")), Ok(None));
    }

    #[test]
    fn a_tree_is_in_memory_when_it_is_warm_and_not_when_it_is_cold() {
        let dir = haul_testbed::temp_dir();
        fs::create_dir(dir.path().join("below")).unwrap();
        let file = dir.path().join("below/file");
        fs::write(&file, vec![7; 300 << 10]).unwrap();
        if prepare(dir.path(), Temperature::Cold).unwrap() == State::Unknown {
            return haul_testbed::skip("the temporary directory is on a filesystem that is memory itself");
        }
        assert_eq!(cached(&file), 0);
        assert_eq!(prepare(dir.path(), Temperature::Warm).unwrap(), State::Warm);
        assert_eq!(cached(&file), 75);
        forget(dir.path());
        assert_eq!(cached(&file), 0);
        read(dir.path()).unwrap();
        assert_eq!(cached(&file), 75);
    }
}
