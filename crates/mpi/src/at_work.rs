//! The file at a destination that says which jobs are at work there, so that no two of them write one copy.
//!
//! It has a line of JSON for each job, in the order in which they came. Byte 0 is locked while the file is read or
//! changed, and byte [`FIRST`] + N as long as the job of line N runs: the lock of a job that died is gone, on whatever
//! machine it ran, where the filesystem shows locks to all machines. The last job removes the file.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use haul_copy::plan::{Destination, Plan};
use haul_sys::range_lock;
use haul_sys::rustix::fs::{AtFlags, CWD, OFlags, Timespec, Timestamps, utimensat};
use haul_sys::rustix::io::Errno;
use haul_sys::rustix::process::geteuid;
use serde::{Deserialize, Serialize};

/// The name of the file.
const NAME: &str = ".haul-mpi-jobs";
/// Where the bytes begin that jobs lock: behind every line that there will be.
const FIRST: u64 = 1 << 40;

/// Where copies get their names.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// The directory that the file is in.
    dir: PathBuf,
    /// What is copied there.
    names: Vec<OsString>,
}

/// What a job says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    names: Vec<Vec<u8>>,
    host: String,
    process: u32,
    /// Seconds since 1970, by the clock of that machine.
    begun: u64,
    /// A file that it makes in the directory for a short time.
    probe: String,
}

/// A job that is at work, until this is dropped.
#[derive(Debug)]
pub struct AtWork {
    place: Place,
    file: File,
    /// By which it knows its own line.
    probe: String,
}

impl Place {
    /// Where this plan copies to, of which the destination is settled; `None` if nobody knows.
    pub fn of(plan: &Plan, destination: &Destination) -> Option<Place> {
        match destination {
            Destination::Directory(dir) => {
                let name = |source: &OsString| match plan.parents {
                    true => source.clone(),
                    false => Path::new(source).file_name().unwrap_or(OsStr::new(".")).to_owned(),
                };
                // Of "a/." it is the directory itself that is copied to.
                let names =
                    plan.sources.iter().map(|source| if ends_in_dot(source) { ".".into() } else { name(source) });
                Some(Place { dir: dir.into(), names: names.collect() })
            }
            Destination::Exactly(path) => {
                let path = Path::new(path);
                let parent = match path.parent() {
                    Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
                    Some(parent) => parent,
                    None => path,
                };
                let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
                let (below, above) = (device(path), device(parent));
                // What is above a mounted filesystem need not be one directory of all machines.
                match path.file_name() {
                    Some(name) if below.is_none() || below == above => {
                        Some(Place { dir: parent.to_owned(), names: vec![name.to_owned()] })
                    }
                    _ => Some(Place { dir: path.to_owned(), names: vec![".".into()] }),
                }
            }
            Destination::Guess(_) => None,
        }
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn ends_in_dot(source: &OsStr) -> bool {
    let bytes = source.as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    bytes[..end] == *b"." || bytes[..end].ends_with(b"/.")
}

impl Line {
    /// Of this process.
    pub fn new(place: &Place, host: &str, probe: String) -> Line {
        let names = place.names.iter().map(|name| name.clone().into_vec()).collect();
        Line { names, host: host.to_owned(), process: std::process::id(), begun: now(), probe }
    }
}

impl AtWork {
    /// Begins to be at work. `None` where no such file can be: there is no such directory, nothing can be written in it,
    /// the filesystem has no locks, or the file is somebody else's.
    ///
    /// # Errors
    /// When another job writes the same copy: a message for the user.
    pub fn begin(place: Place, line: &Line) -> Result<Option<AtWork>, String> {
        loop {
            let Some(file) = open(&place.dir) else { return Ok(None) };
            if !locked(&file) {
                return Ok(None);
            }
            // The last job may have removed it meanwhile.
            if is_at(&file, &place.dir) {
                return enter(place, file, line);
            }
        }
    }
}

/// With byte 0 locked.
fn enter(place: Place, mut file: File, line: &Line) -> Result<Option<AtWork>, String> {
    let Some(lines) = read(&mut file) else { return Ok(None) };
    let living: Vec<bool> = (FIRST..).zip(&lines).map(|(byte, _)| is_locked(&file, byte)).collect();
    for (other, lives) in lines.iter().zip(&living) {
        if *lives && let Some(name) = other.names.iter().find(|name| line.names.contains(name)) {
            let path = place.dir.join(OsStr::from_bytes(name));
            return Err(format!(
                "another job of haul-mpi copies to '{}': process {} on {}, for {} min; nothing was written; wait until it \
                 has ended",
                path.display(),
                other.process,
                other.host,
                now().saturating_sub(other.begun) / 60
            ));
        }
        if !lives && is_probe(&other.probe) {
            // It is there only if that job was killed in the moment in which it needed it.
            keeping_times(&place.dir, || fs::remove_file(place.dir.join(&other.probe))).ok();
        }
    }
    let mut count = lines.len();
    if !living.contains(&true) {
        count = 0;
        if file.set_len(0).is_err() {
            return Ok(None);
        }
    }
    let text = serde_json::to_string(line).unwrap_or_default() + "\n";
    let written = file.seek(SeekFrom::End(0)).and_then(|_| file.write_all(text.as_bytes()));
    let mine = range_lock::try_lock(file.as_fd(), FIRST + count as u64, 1);
    range_lock::unlock(file.as_fd(), 0, 1).ok();
    Ok((written.is_ok() && mine == Ok(true)).then(|| AtWork { place, file, probe: line.probe.clone() }))
}

impl Drop for AtWork {
    /// Other jobs are told by the lock, which ends with the file. The last one removes it; one that cannot leaves it, as does one
    /// that finds what it has copied there: a file of this name can be among the sources.
    fn drop(&mut self) {
        if !locked(&self.file) || !is_at(&self.file, &self.place.dir) {
            return;
        }
        let Some(lines) = read(&mut self.file) else { return };
        if !lines.iter().any(|line| line.probe == self.probe) {
            return;
        }
        let mut others = (FIRST..).zip(&lines).filter(|(byte, _)| is_locked(&self.file, *byte));
        if others.next().is_none() {
            keeping_times(&self.place.dir, || fs::remove_file(self.place.dir.join(NAME))).ok();
        }
    }
}

/// Opens or makes it. `None` if it is nothing that this user has made for this.
fn open(dir: &Path) -> Option<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let mut options = OpenOptions::new();
    // As std has it, O_NOFOLLOW and O_NONBLOCK fit an int.
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags as i32);
    let file = keeping_times(dir, || options.open(dir.join(NAME))).ok()?;
    let found = file.metadata().ok()?;
    (found.is_file() && found.nlink() <= 1 && found.uid() == geteuid().as_raw()).then_some(file)
}

/// Waits until nobody reads or changes it; `false` where there are no locks.
fn locked(file: &File) -> bool {
    loop {
        match range_lock::lock(file.as_fd(), 0, 1) {
            Ok(()) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Whether somebody else has this byte.
fn is_locked(file: &File, byte: u64) -> bool {
    match range_lock::try_lock(file.as_fd(), byte, 1) {
        Ok(true) => {
            range_lock::unlock(file.as_fd(), byte, 1).ok();
            false
        }
        Ok(false) => true,
        Err(_) => false,
    }
}

fn is_at(file: &File, dir: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(dir.join(NAME))) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// `None` if a line is none that haul-mpi has written. A last line without an end is what a kill has left of one, and goes.
fn read(file: &mut File) -> Option<Vec<Line>> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.read_to_string(&mut text).ok()?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let rest = text.split_off(whole);
    if !rest.is_empty() {
        let is_ours = rest.starts_with(START) || START.starts_with(&rest);
        is_ours.then(|| file.set_len(whole as u64).ok()).flatten()?;
    }
    text.lines().map(|line| serde_json::from_str(line).ok()).collect()
}

/// How each line begins.
const START: &str = "{\"names\":";

/// Names that [`probe`] makes.
fn is_probe(name: &str) -> bool {
    name.strip_prefix(PROBE)
        .is_some_and(|secret| secret.len() == 32 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

const PROBE: &str = ".haul-mpi-";

/// The name of a file that only one job makes, by a secret of 32 hexadecimal digits.
pub fn probe(secret: &str) -> String {
    format!("{PROBE}{secret}")
}

/// Changes what is in a directory, whose times stay as if nothing had been there. A user who may not set times may still
/// copy.
///
/// # Errors
/// What the change says.
pub fn keeping_times<T>(dir: &Path, change: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
    let before = fs::metadata(dir).ok();
    let changed = change();
    if let Some(before) = before {
        let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
        let times = Timestamps {
            last_access: time(before.atime(), before.atime_nsec()),
            last_modification: time(before.mtime(), before.mtime_nsec()),
        };
        utimensat(CWD, dir, &times, AtFlags::empty()).ok();
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_testbed::temp_dir;

    fn place(dir: &Path, name: &str) -> Place {
        Place { dir: dir.to_owned(), names: vec![name.into()] }
    }

    fn begin(dir: &Path, name: &str) -> Result<Option<AtWork>, String> {
        let place = place(dir, name);
        let line = Line::new(&place, "host", probe(&"0".repeat(32)));
        AtWork::begin(place, &line)
    }

    #[test]
    fn a_copy_has_one_job_and_the_last_job_leaves_nothing() {
        let dir = temp_dir();
        let before = fs::metadata(dir.path()).unwrap().modified().unwrap();
        let one = begin(dir.path(), "run7").unwrap().expect("there are locks");
        let why = begin(dir.path(), "run7").unwrap_err();
        let words = format!("run7': process {} on host, for 0 min", std::process::id());
        assert!(why.contains(&words), "{why}");
        let other = begin(dir.path(), "run8").unwrap().expect("another copy");
        drop(one);
        let again = begin(dir.path(), "run7").unwrap().expect("the first has ended");
        assert!(begin(dir.path(), "run8").is_err(), "the second is at work");
        drop((other, again));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(fs::metadata(dir.path()).unwrap().modified().unwrap(), before);
    }

    #[test]
    fn what_killed_jobs_have_left_goes() {
        let dir = temp_dir();
        let probe = probe(&"a".repeat(32));
        let dead =
            Line { names: vec![b"run7".to_vec()], host: "gone".into(), process: 1, begun: 0, probe: probe.clone() };
        let cut = "{\"names\":[[1";
        fs::write(dir.path().join(NAME), serde_json::to_string(&dead).unwrap() + "\n" + cut).unwrap();
        fs::write(dir.path().join(probe), "secret").unwrap();
        let job = begin(dir.path(), "run7").unwrap().expect("nobody is at work");
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [NAME]);
        drop(job);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_of_this_name_that_was_copied_stays() {
        let dir = temp_dir();
        let job = begin(dir.path(), ".").unwrap().expect("there are locks");
        let line = Line::new(&place(dir.path(), "a"), "elsewhere", probe(&"b".repeat(32)));
        let copied = serde_json::to_string(&line).unwrap() + "\n";
        fs::write(dir.path().join(NAME), &copied).unwrap();
        drop(job);
        assert_eq!(fs::read_to_string(dir.path().join(NAME)).unwrap(), copied);
    }

    #[test]
    fn a_file_that_is_somebody_elses_stays_as_it_is() {
        for contents in ["a poem\n", "{\"names\":1}\n", "x"] {
            let dir = temp_dir();
            fs::write(dir.path().join(NAME), contents).unwrap();
            assert!(begin(dir.path(), "run7").unwrap().is_none(), "{contents}");
            assert_eq!(fs::read_to_string(dir.path().join(NAME)).unwrap(), contents);
        }
        let dir = temp_dir();
        std::os::unix::fs::symlink("elsewhere", dir.path().join(NAME)).unwrap();
        assert!(begin(dir.path(), "run7").unwrap().is_none() && !dir.path().join("elsewhere").exists());
        assert!(begin(&dir.path().join("nowhere"), "run7").unwrap().is_none());
    }

    #[test]
    fn a_place_is_the_directory_and_the_names_that_are_made_in_it() {
        let dir = temp_dir();
        let (root, there) = (dir.path(), dir.path().join("there"));
        fs::create_dir(&there).unwrap();
        let plan = |sources: &[&str]| Plan { sources: sources.iter().map(Into::into).collect(), ..Plan::default() };
        let into = Destination::Directory(there.clone().into());
        for (sources, names) in [(&["a/b", "c/"][..], &["b", "c"][..]), (&["a/.", "."], &[".", "."]), (&["/"], &["."])]
        {
            let place = Place::of(&plan(sources), &into).unwrap();
            assert_eq!(
                (place.dir, place.names),
                (there.clone(), names.iter().map(Into::into).collect()),
                "{sources:?}"
            );
        }
        let parents = Plan { parents: true, ..plan(&["a/b"]) };
        assert_eq!(Place::of(&parents, &into).unwrap().names, ["a/b"]);
        let exactly = |path: &Path| Place::of(&plan(&["a"]), &Destination::Exactly(path.into())).unwrap();
        assert_eq!(exactly(&there), place(root, "there"));
        assert_eq!(exactly(&root.join("new/")), place(root, "new"));
        assert_eq!(exactly(Path::new("new")), place(Path::new("."), "new"));
        assert_eq!(exactly(Path::new("/proc")), place(Path::new("/proc"), "."), "the root of another filesystem");
        assert_eq!(Place::of(&plan(&["a"]), &Destination::Guess("x".into())), None);
    }
}
