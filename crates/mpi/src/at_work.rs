//! The file at a destination that says which jobs are at work there, so that no two of them write one copy.
//!
//! It has a line of JSON for each job, in the order in which they came, with a digest of each name that the job copies to: a command
//! line may have hundreds of thousands. Byte 0 is locked while the file is read or
//! changed, and byte [`FIRST`] + N as long as the job of line N runs: the lock of a job that died is gone, on whatever
//! machine it ran, as soon as the filesystem knows. The last job removes the file. Its name has the number of the directory, so
//! that one that was copied with a tree is none.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use haul_copy::plan::{Destination, Plan};
use haul_sys::inode::{FileId, Inode};
use haul_sys::range_lock;
use haul_sys::rustix::io::Errno;
use haul_sys::rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::directory::Directory;

/// How the name of the file begins.
const NAME: &str = ".haul-mpi-jobs-";
/// Where the bytes begin that jobs lock: behind every line that there will be.
const FIRST: u64 = 1 << 40;
/// Most lines, and most bytes, that are believed, and written. The longest command line that Linux takes has 600,000 names.
const MOST_LINES: u64 = 1 << 12;
const MOST_BYTES: u64 = 1 << 24;
/// Of what is in a line.
const VERSION: u32 = 1;
/// Hexadecimal digits of a digest. Two jobs of a million names each have one in common by chance once in twenty million times.
const DIGEST: usize = 16;
/// How long a job waits for another one that reads or changes the file. One that was stopped meanwhile is not waited for.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often the file may have gone between opening and locking it.
const ROUNDS: usize = 100;

/// Where copies get their names.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// The directory that the file is in.
    dir: PathBuf,
    /// What is copied there.
    copies: Vec<Copied>,
}

/// A copy that a job makes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Copied {
    name: Vec<u8>,
    /// The inode number of its source; copies of several sources into one name are merged, and no mistake.
    source: u64,
}

/// What a job says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    version: u32,
    /// The digests of all its copies, one after the other.
    copies: String,
    /// Which part of the sources it copies: a digest.
    selection: String,
    host: String,
    process: u32,
    /// Seconds since 1970, by the clock of that machine.
    begun: u64,
    /// A directory, and the name of a file that it makes there for a short time.
    probe: (Vec<u8>, String),
}

/// A job that is at work, until this is dropped.
#[derive(Debug)]
pub struct AtWork {
    directory: Directory,
    name: String,
    file: Option<File>,
    /// By which it knows its own line.
    probe: String,
}

impl Place {
    /// Where this plan copies to, of which the destination is settled; `None` if nobody knows.
    pub fn of(plan: &Plan, destination: &Destination) -> Option<Place> {
        let copied = |source: &OsString, name: &OsStr| Copied {
            name: name.as_bytes().to_vec(),
            source: fs::metadata(source).map_or(0, |found| found.ino()),
        };
        match destination {
            // Of "a/." it is the directory itself that is copied to.
            Destination::Directory(dir) if plan.sources.iter().all(|source| ends_in_dot(source)) => {
                Place::of(plan, &Destination::Exactly(dir.clone()))
            }
            Destination::Directory(dir) => {
                let name = |source: &OsString| match plan.parents {
                    true => source.clone(),
                    false if ends_in_dot(source) => ".".into(),
                    false => Path::new(source).file_name().unwrap_or(OsStr::new(".")).to_owned(),
                };
                let copies = plan.sources.iter().map(|source| copied(source, &name(source)));
                Some(Place { dir: dir.into(), copies: copies.collect() })
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
                let (dir, name) = match path.file_name() {
                    Some(name) if below.is_none() || below == above => (parent, name),
                    _ => (path, OsStr::new(".")),
                };
                let copies = plan.sources.iter().map(|source| copied(source, name));
                Some(Place { dir: dir.to_owned(), copies: copies.collect() })
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

impl Copied {
    fn digest(&self) -> String {
        digest(&[&self.source.to_le_bytes(), &self.name])
    }
}

/// Of all these bytes together.
fn digest(parts: &[&[u8]]) -> String {
    let mut digits = blake3::hash(&parts.concat()).to_hex().to_string();
    digits.truncate(DIGEST);
    digits
}

impl Line {
    /// Of this process, which makes the file `probe` in a directory for a short time.
    pub fn new(place: &Place, selection: &str, host: &str, probe: (&Path, String)) -> Line {
        // Another job may run in another directory.
        let directory = std::path::absolute(probe.0).unwrap_or_default();
        Line {
            version: VERSION,
            copies: place.copies.iter().map(Copied::digest).collect(),
            selection: digest(&[selection.as_bytes()]),
            host: host.to_owned(),
            process: std::process::id(),
            begun: now(),
            probe: (directory.into_os_string().as_bytes().to_vec(), probe.1),
        }
    }

    /// Which of its copies both would write.
    fn common(&self, other: &Line) -> Option<usize> {
        if self.selection != other.selection {
            return None;
        }
        let theirs: HashSet<&[u8]> = other.digests().collect();
        self.digests().position(|copied| theirs.contains(copied))
    }

    fn digests(&self) -> impl Iterator<Item = &[u8]> {
        self.copies.as_bytes().chunks_exact(DIGEST)
    }
}

impl AtWork {
    /// Begins to be at work. `None` where no such file can be: there is no such directory, nothing can be written in it,
    /// the filesystem has no locks, or the file is somebody else's.
    ///
    /// # Errors
    /// When another job writes the same copy: a message for the user.
    pub fn begin(place: &Place, line: &Line) -> Result<Option<AtWork>, String> {
        let Ok(directory) = Directory::open(&place.dir) else { return Ok(None) };
        let name = format!("{NAME}{:016x}", directory.inode());
        for _ in 0..ROUNDS {
            let Some((file, made)) = open(&directory, &name) else { return Ok(None) };
            let is_locked = locked(&file);
            // The last job may have removed it meanwhile.
            if is_locked == Ok(true) && !is_at(&file, &directory, &name) {
                continue;
            }
            if is_locked == Ok(true) && enter(place, &name, &file, line)? {
                // Closing the file would do that, too.
                range_lock::unlock(file.as_fd(), 0, 1).ok();
                return Ok(Some(AtWork { directory, name, file: Some(file), probe: line.probe.1.clone() }));
            }
            // Still locked, so that nobody else uses it; or there are no locks at all.
            if made && is_locked != Ok(false) {
                // What cannot be removed stays, and is no harm.
                directory.keeping_times(|| directory.remove(&name)).ok();
            }
            return Ok(None);
        }
        Ok(None)
    }

    /// The file, which may stand in the copy itself; `None` if the kernel does not say which it is.
    pub fn file_id(&self) -> Option<FileId> {
        Inode::of(self.file.as_ref()?.as_fd()).ok().map(|inode| inode.id)
    }
}

/// Adds a line, with byte 0 locked. `false` if it cannot.
fn enter(place: &Place, name: &str, mut file: &File, line: &Line) -> Result<bool, String> {
    let Some((lines, whole)) = read(file) else { return Ok(false) };
    let mut lives = false;
    for (byte, other) in (FIRST..).zip(&lines) {
        match is_locked(file, byte, 1) {
            // Who might be at work is not known.
            Err(_) => return Ok(false),
            Ok(false) => remove_probe(other),
            Ok(true) => {
                lives = true;
                if let Some(copied) = line.common(other).and_then(|at| place.copies.get(at)) {
                    return Err(is_at_work(&place.dir, name, copied, other));
                }
            }
        }
    }
    let mut count = lines.len() as u64;
    let keep = if lives { whole } else { 0 };
    if !lives {
        count = 0;
        if is_locked(file, FIRST, MOST_LINES) != Ok(false) {
            return Ok(false);
        }
    }
    let Ok(text) = serde_json::to_string(line).map(|text| text + "\n") else { return Ok(false) };
    // Nobody would read it any more, and all later jobs would know of no other one.
    if count >= MOST_LINES || keep + text.len() as u64 > MOST_BYTES {
        return Ok(false);
    }
    let written = file
        .set_len(keep)
        .and_then(|()| file.seek(SeekFrom::Start(keep)))
        .and_then(|_| file.write_all(text.as_bytes()));
    let mine = range_lock::try_lock(file.as_fd(), FIRST + count, 1) == Ok(true);
    Ok(written.is_ok() && mine)
}

fn is_at_work(dir: &Path, name: &str, copied: &Copied, other: &Line) -> String {
    format!(
        "another job of haul-mpi copies to '{}': process {} on {}, for {} min; nothing was written; wait until it has \
         ended, or, if its machine is gone, remove '{}'",
        dir.join(OsStr::from_bytes(&copied.name)).display(),
        other.process,
        other.host,
        now().saturating_sub(other.begun) / 60,
        dir.join(name).display()
    )
}

/// The file of a job that is gone: it is there only if that was killed in the moment in which it needed it.
fn remove_probe(line: &Line) {
    let (dir, name) = &line.probe;
    if is_probe(name)
        && let Ok(directory) = Directory::open(Path::new(OsStr::from_bytes(dir)))
    {
        // Mostly it is not there.
        directory.keeping_times(|| directory.remove(name)).ok();
    }
}

impl Drop for AtWork {
    /// Other jobs see the lock, which ends with the file. The last one removes it; one that cannot leaves it, as does
    /// one that finds something else there.
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        if locked(&file) != Ok(true) || !is_at(&file, &self.directory, &self.name) {
            return;
        }
        let Some((lines, _)) = read(&file) else { return };
        let mine = lines.iter().position(|line| line.probe.1 == self.probe);
        let is_other = |(at, byte): (usize, u64)| Some(at) != mine && is_locked(&file, byte, 1) != Ok(false);
        if mine.is_some() && !(0..lines.len()).zip(FIRST..).any(is_other) {
            self.directory
                .keeping_times(|| {
                    let removed = self.directory.remove(&self.name);
                    // NFS keeps what is open under another name until it is closed.
                    drop(file);
                    removed
                })
                .ok();
        }
    }
}

/// Opens or makes it, and says whether it was made. `None` if it is nothing that this user has made for this.
fn open(directory: &Directory, name: &str) -> Option<(File, bool)> {
    for _ in 0..ROUNDS {
        match directory.keeping_times(|| directory.create(name)) {
            Ok(file) => return Some((file, true)),
            Err(Errno::EXIST) => {}
            Err(_) => return None,
        }
        match directory.open_file(name) {
            Ok(file) => {
                let found = file.metadata().ok()?;
                let alone = found.is_file() && found.nlink() <= 1 && found.mode() & 0o077 == 0;
                let ours = alone && found.uid() == geteuid().as_raw() && found.len() <= MOST_BYTES;
                return ours.then_some((file, false));
            }
            // It has gone in this moment.
            Err(Errno::NOENT) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Waits until nobody reads or changes it; `false` if somebody takes too long.
///
/// # Errors
/// Where there are no locks.
fn locked(file: &File) -> Result<bool, Errno> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match range_lock::try_lock(file.as_fd(), 0, 1) {
            Ok(true) => return Ok(true),
            Ok(false) | Err(Errno::INTR) if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
            Ok(false) | Err(Errno::INTR) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
}

/// Whether somebody else has a byte of these.
fn is_locked(file: &File, byte: u64, count: u64) -> Result<bool, Errno> {
    let free = range_lock::try_lock(file.as_fd(), byte, count)?;
    if free {
        range_lock::unlock(file.as_fd(), byte, count)?;
    }
    Ok(!free)
}

fn is_at(file: &File, directory: &Directory, name: &str) -> bool {
    match (file.metadata(), directory.look(name)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.st_dev, there.st_ino),
        _ => false,
    }
}

/// Its lines, and how many bytes they are. A last line without an end is what a kill has left of one. `None` if it has lines
/// that haul-mpi has not written.
fn read(mut file: &File) -> Option<(Vec<Line>, u64)> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let (lines, rest) = text.split_at(whole);
    let is_ours = rest.starts_with(START) || START.starts_with(rest);
    let line = |text| serde_json::from_str(text).ok().filter(|line: &Line| line.version == VERSION);
    let lines = lines.lines().map(line).collect::<Option<_>>()?;
    is_ours.then_some((lines, whole as u64))
}

/// How each line begins.
const START: &str = "{\"version\":1,\"copies\":";

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

#[cfg(test)]
mod tests {
    use super::*;
    use haul_testbed::temp_dir;

    fn place(dir: &Path, name: &str) -> Place {
        Place { dir: dir.to_owned(), copies: vec![Copied { name: name.into(), source: 7 }] }
    }

    fn line(dir: &Path, name: &str, secret: &str) -> Line {
        Line::new(&place(dir, name), "all", "host", (dir, probe(&secret.repeat(32))))
    }

    fn begin(dir: &Path, name: &str) -> Result<Option<AtWork>, String> {
        AtWork::begin(&place(dir, name), &line(dir, name, "0"))
    }

    /// The file in this directory.
    fn file_in(dir: &Path) -> PathBuf {
        dir.join(format!("{NAME}{:016x}", fs::metadata(dir).unwrap().ino()))
    }

    fn names_in(dir: &Path) -> Vec<PathBuf> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    fn write_private(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
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
        assert_eq!(names_in(dir.path()), [""; 0].map(PathBuf::from));
        assert_eq!(fs::metadata(dir.path()).unwrap().modified().unwrap(), before);
    }

    #[test]
    fn other_sources_and_other_parts_of_them_are_another_copy() {
        let dir = temp_dir();
        let _one = begin(dir.path(), "merged").unwrap().expect("there are locks");
        let mut elsewhere = place(dir.path(), "merged");
        elsewhere.copies[0].source = 8;
        let of_them = Line::new(&elsewhere, "all", "host", (dir.path(), probe(&"1".repeat(32))));
        let _other = AtWork::begin(&elsewhere, &of_them).unwrap().expect("other sources");
        let part = Line::new(&place(dir.path(), "merged"), "list", "host", (dir.path(), probe(&"2".repeat(32))));
        let _part = AtWork::begin(&place(dir.path(), "merged"), &part).unwrap().expect("another part");
        assert!(begin(dir.path(), "merged").is_err());
    }

    #[test]
    fn a_job_of_very_many_names_is_seen_by_the_next_one() {
        let dir = temp_dir();
        let names = 0..10_000_u64;
        let copies = names.map(|number| Copied { name: format!("{number:027}").into(), source: number }).collect();
        let many = Place { dir: dir.path().to_owned(), copies };
        let of_many = |secret: &str| Line::new(&many, "all", "host", (dir.path(), probe(&secret.repeat(32))));
        let one = AtWork::begin(&many, &of_many("1")).unwrap().expect("there are locks");
        assert!(fs::metadata(file_in(dir.path())).unwrap().len() < 20 * 10_000);
        let last = Place { dir: many.dir.clone(), copies: many.copies[9_999..].to_vec() };
        let of_last = Line::new(&last, "all", "host", (dir.path(), probe(&"2".repeat(32))));
        let why = AtWork::begin(&last, &of_last).unwrap_err();
        assert!(why.contains(&format!("/{:027}': process ", 9_999)), "{why}");
        drop(one);
        assert_eq!(names_in(dir.path()), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn a_line_that_is_too_long_is_not_written() {
        let dir = temp_dir();
        let long = Line { host: "h".repeat(MOST_BYTES as usize), ..line(dir.path(), "long", "1") };
        let begin_long = || AtWork::begin(&place(dir.path(), "long"), &long).unwrap();
        assert!(begin_long().is_none());
        assert_eq!(names_in(dir.path()), [""; 0].map(PathBuf::from));
        let _one = begin(dir.path(), "run7").unwrap().expect("there are locks");
        assert!(begin_long().is_none());
        assert!(begin(dir.path(), "run7").is_err(), "the file can be read as before");
    }

    #[test]
    fn what_killed_jobs_have_left_goes() {
        let dir = temp_dir();
        let dead = line(dir.path(), "run7", "a");
        let dead = serde_json::to_string(&dead).unwrap();
        assert!(dead.starts_with(START), "{dead}");
        write_private(&file_in(dir.path()), &(dead + "\n" + START + "\"01"));
        fs::write(dir.path().join(probe(&"a".repeat(32))), "secret").unwrap();
        let job = begin(dir.path(), "run7").unwrap().expect("nobody is at work");
        assert_eq!(names_in(dir.path()), [file_in(dir.path())]);
        drop(job);
        assert_eq!(names_in(dir.path()), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn a_file_that_came_in_its_place_stays() {
        let dir = temp_dir();
        let job = begin(dir.path(), ".").unwrap().expect("there are locks");
        let copied = serde_json::to_string(&line(dir.path(), "a", "b")).unwrap() + "\n";
        fs::write(file_in(dir.path()), &copied).unwrap();
        drop(job);
        assert_eq!(fs::read_to_string(file_in(dir.path())).unwrap(), copied);
    }

    #[test]
    fn a_file_that_is_somebody_elses_stays_as_it_is() {
        let dir = temp_dir();
        let later = Line { version: VERSION + 1, ..line(dir.path(), "run7", "c") };
        let later = serde_json::to_string(&later).unwrap() + "\n";
        for contents in ["a poem\n", "{\"copies\":1}\n", "x", "a poem\n{", &later] {
            let dir = temp_dir();
            write_private(&file_in(dir.path()), contents);
            assert!(begin(dir.path(), "run7").unwrap().is_none(), "{contents}");
            assert_eq!(fs::read_to_string(file_in(dir.path())).unwrap(), contents);
        }
        let dir = temp_dir();
        // Others can read it, and so could lock it.
        fs::write(file_in(dir.path()), "").unwrap();
        fs::set_permissions(file_in(dir.path()), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        assert!(begin(dir.path(), "run7").unwrap().is_none());
        let dir = temp_dir();
        std::os::unix::fs::symlink("elsewhere", file_in(dir.path())).unwrap();
        assert!(begin(dir.path(), "run7").unwrap().is_none() && !dir.path().join("elsewhere").exists());
        assert!(begin(&dir.path().join("nowhere"), "run7").unwrap().is_none());
    }

    #[test]
    fn a_place_is_the_directory_and_the_names_that_are_made_in_it() {
        let dir = temp_dir();
        let (root, there) = (dir.path(), dir.path().join("there"));
        fs::create_dir(&there).unwrap();
        let plan = |sources: &[&str]| Plan { sources: sources.iter().map(Into::into).collect(), ..Plan::default() };
        let found = |plan: &Plan, destination: &Destination| {
            let place = Place::of(plan, destination).unwrap();
            let names = place.copies.into_iter().map(|copied| String::from_utf8(copied.name).unwrap());
            (place.dir, names.collect::<Vec<_>>())
        };
        let into = Destination::Directory(there.clone().into());
        let expected = |dir: &Path, names: &[&str]| (dir.to_owned(), names.iter().map(ToString::to_string).collect());
        assert_eq!(found(&plan(&["a/b", "c/"]), &into), expected(&there, &["b", "c"]));
        assert_eq!(found(&plan(&["a/.", "c"]), &into), expected(&there, &[".", "c"]));
        assert_eq!(found(&plan(&["/"]), &into), expected(&there, &["."]));
        assert_eq!(found(&plan(&["a/."]), &into), expected(root, &["there"]), "as with -T");
        assert_eq!(found(&Plan { parents: true, ..plan(&["a/b"]) }, &into), expected(&there, &["a/b"]));
        let exactly = |path: &Path| found(&plan(&["a"]), &Destination::Exactly(path.into()));
        assert_eq!(exactly(&there), expected(root, &["there"]));
        assert_eq!(exactly(&root.join("new/")), expected(root, &["new"]));
        assert_eq!(exactly(Path::new("new")), expected(Path::new("."), &["new"]));
        assert_eq!(exactly(Path::new("/proc")), expected(Path::new("/proc"), &["."]), "the root of another filesystem");
        assert_eq!(Place::of(&plan(&["a"]), &Destination::Guess("x".into())), None);
    }
}
