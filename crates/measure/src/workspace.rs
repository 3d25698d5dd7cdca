//! The one folder below which everything is made, and the process that removes it however this one ends.
//!
//! The guard waits for the end of a pipe. That ends when the measuring does: by itself, by Ctrl-C, by a failure or by SIGKILL.
//! The guard has a process group of its own, so what a terminal sends does not end it as well.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_sys::child;
use haul_sys::rustix::fs::{Access, access, syncfs};
use haul_sys::rustix::process::{Pid, Signal, kill_process_group};

use crate::leftovers;
use crate::mounts;
use crate::own::Own;
use crate::space::entries_below;
use crate::stop::Stop;
use crate::words::{self, quoted};

/// The name of the part of this program that is the guard.
pub const PART: &str = "tidy-up";

/// How long programs that lost their measurer may go on writing.
const PATIENCE: Duration = Duration::from_secs(20);

/// Least tries of the guard, however long one takes.
const TRIES: u32 = 3;

/// What the guard gets if the folder is to stay.
const KEEP: &str = "keep\n";
/// How a line begins that names the user's source.
const SOURCE: &str = "source ";

/// What the folders of a front end are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// How their names begin. No other folder is ever removed.
    pub prefix: &'static str,
    /// Filesystems are mounted in them, from files in them, which go with them. Else a mount in one is somebody else's, and is
    /// left alone.
    pub mounts: bool,
}

impl Kind {
    fn remove(self, folder: &Path) -> std::io::Result<()> {
        if self.mounts { leftovers::free(folder).map_err(std::io::Error::other) } else { remove(folder) }
    }
}

/// The guards that this process has started: its only children that no program has left behind.
static GUARDS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

pub(crate) fn is_guard(process: u32) -> bool {
    GUARDS.lock().unwrap_or_else(PoisonError::into_inner).contains(&process)
}

/// A folder of our own.
pub struct Workspace {
    kind: Kind,
    path: PathBuf,
    process: Child,
    pipe: Mutex<ChildStdin>,
    source: Mutex<Option<Whole>>,
}

/// A source of the user's as it was: its path, its entries and their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Whole {
    path: PathBuf,
    entries: u64,
    bytes: u64,
}

impl Whole {
    /// Whether nothing is missing. Never interrupted: what is at stake is the user's only copy.
    fn is_there(&self) -> bool {
        entries_below(&self.path, &Stop::default()).is_ok_and(|now| now == (self.entries, self.bytes))
    }

    /// A line for the guard; the path in hexadecimal digits, since a name may have any bytes.
    fn line(&self) -> String {
        let digits = self.path.as_os_str().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("{SOURCE}{digits} {} {}\n", self.entries, self.bytes)
    }

    fn of_line(line: &str) -> Option<Whole> {
        let mut words = line.strip_prefix(SOURCE)?.split_whitespace();
        let (digits, entries, bytes) = (words.next()?, words.next()?, words.next()?);
        let path = digits.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        let path = OsString::from_vec(path.collect::<Option<Vec<u8>>>()?);
        Some(Whole { path: path.into(), entries: entries.parse().ok()?, bytes: bytes.parse().ok()? })
    }
}

impl Workspace {
    /// Makes a new folder in `directory`, and starts its guard.
    pub fn make(own: &Own, directory: &Path, kind: Kind) -> Result<Workspace, String> {
        let failed = words::cannot("make files in", directory);
        let real = usable(directory)?;
        // Nobody else has this name, also not in another container or on another machine that shares the directory.
        let name = RandomState::new().hash_one(std::process::id());
        let path = real.join(format!("{}{name:016x}", kind.prefix));
        // The guard first: what is made before it would stay if this process were killed now.
        let mut command = own.part(PART);
        command.arg(&path).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let mut process =
            command.spawn().map_err(|error| format!("cannot start this program again: {}", words::of(&error)))?;
        GUARDS.lock().unwrap_or_else(PoisonError::into_inner).push(process.id());
        let pipe = process.stdin.take().ok_or("the guard has no pipe")?;
        let workspace = Workspace { kind, path, process, pipe: Mutex::new(pipe), source: Mutex::new(None) };
        if let Err(error) = DirBuilder::new().mode(0o700).create(&workspace.path) {
            // Whatever has this name is not ours.
            workspace.tell(KEEP)?;
            return Err(failed(error));
        }
        Ok(workspace)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells the guard of a process group that must not outlive the measuring, or with `None` that it has ended.
    pub fn watch(&self, group: Option<u32>) -> Result<(), String> {
        self.tell(&group.map_or_else(|| "ended\n".to_owned(), |id| format!("{id}\n")))
    }

    /// Lets the guard know of the process group of a command before that does anything: killed between the start and
    /// [`Workspace::watch`], this process would leave a program that nobody ends.
    pub(crate) fn watch_from_start(&self, command: &mut Command) -> std::io::Result<()> {
        let pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner).as_fd().try_clone_to_owned()?;
        child::announce(command, pipe);
        Ok(())
    }

    /// The folder is to stay, since there is something in it that somebody may miss.
    ///
    /// # Errors
    /// When the guard is gone; then it stays in any case.
    pub fn keep(&self) -> Result<(), String> {
        self.tell(KEEP)
    }

    /// Nothing is removed from now on while this source of the user's has not so many entries and bytes: a competitor that
    /// moves it, and does not copy, has the only copy.
    pub fn guard_source(&self, path: &Path, entries: u64, bytes: u64) -> Result<(), String> {
        let whole = Whole { path: path.to_path_buf(), entries, bytes };
        let mut known = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref() != Some(&whole) {
            self.tell(&whole.line())?;
            *known = Some(whole);
        }
        Ok(())
    }

    /// Whether that source is what it was.
    pub fn source_is_whole(&self) -> bool {
        self.source.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_none_or(Whole::is_there)
    }

    fn tell(&self, line: &str) -> Result<(), String> {
        // A thread that panicked here has at worst left half a line, which the guard takes for an end.
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        pipe.write_all(line.as_bytes()).map_err(|error| format!("the guard is gone: {}", words::of(&error)))
    }

    /// Removes what is in it, and waits until that is on the device.
    pub fn clear(&self) -> Result<(), String> {
        let failed = words::cannot("empty", &self.path);
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            remove(&entry.map_err(failed)?.path()).map_err(failed)?;
        }
        let folder = File::open(&self.path).map_err(failed)?;
        syncfs(folder).map_err(|errno| failed(errno.into()))
    }

    /// Removes it, and waits for that.
    pub fn finish(self) -> Result<(), String> {
        let whole = self.source_is_whole();
        let Workspace { kind, mut process, pipe, path, .. } = self;
        drop(pipe);
        match process.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(_) if !whole => Err(format!("{} stays: the source is not what it was", quoted(&path))),
            // It was killed, or something resisted for a while.
            Ok(_) => {
                let left = |error| format!("{} is left, remove it: {}", quoted(&path), words::of(&error));
                kind.remove(&path).map_err(left)
            }
            Err(error) => Err(format!("cannot wait for the guard of {}: {}", quoted(&path), words::of(&error))),
        }
    }
}

/// The real path of a directory in which a workspace can be made.
pub fn usable(directory: &Path) -> Result<PathBuf, String> {
    let failed = words::cannot("make files in", directory);
    let real = directory.canonicalize().map_err(failed)?;
    if !real.is_dir() {
        return Err(format!("{} is not a directory", quoted(directory)));
    }
    access(&real, Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| failed(errno.into()))?;
    Ok(real)
}

/// Removes a file or a tree, also directories that nobody may write to.
pub fn remove(path: &Path) -> std::io::Result<()> {
    if let Some(mounted) = mounts::below(path) {
        // Removing would reach into another filesystem, perhaps that of the source.
        return Err(std::io::Error::other(format!("{} is mounted there; unmount it first", quoted(&mounted))));
    }
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !kind.is_dir() {
        return fs::remove_file(path);
    }
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        result => result,
    }
}

fn open_up(directory: &Path) -> std::io::Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

/// The guard.
pub fn guard(mut pipe: impl BufRead, folder: &Path, kind: Kind) -> Result<(), String> {
    let ours = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(kind.prefix));
    if !ours {
        return Err(format!("{} is no folder of ours", quoted(folder)));
    }
    let (mut watched, mut keep, mut source) = (None, false, None);
    let mut line = String::new();
    // An unreadable pipe is as good as an ended one, and half a line is none.
    while pipe.read_line(&mut line).is_ok_and(|count| count > 0) && line.ends_with('\n') {
        keep |= line == KEEP;
        if line.starts_with(SOURCE) {
            source = Whole::of_line(&line);
            // One that cannot be read cannot be looked for.
            keep |= source.is_none();
        } else {
            watched = line.trim_end().parse().ok().filter(|id| *id > 1).and_then(Pid::from_raw);
        }
        line.clear();
    }
    if let Some(group) = watched {
        // It may have ended by itself.
        kill_process_group(group, Signal::KILL).ok();
    }
    if keep {
        return Ok(());
    }
    if source.is_some_and(|source| !source.is_there()) {
        return Err(format!("{} is kept: something is missing from the source", quoted(folder)));
    }
    remove_for_sure(folder, kind)
}

/// Tries until the folder is gone: what was killed may still be in the middle of a call that makes files.
fn remove_for_sure(folder: &Path, kind: Kind) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    let mut tries = 0;
    loop {
        let removed = kind.remove(folder);
        tries += 1;
        let late = tries >= TRIES && Instant::now() > deadline;
        match removed {
            Ok(()) if !folder.exists() => return Ok(()),
            Ok(()) if late => return Err(format!("{} comes back again and again", quoted(folder))),
            Err(error) if late => return Err(format!("cannot remove {}: {}", quoted(folder), words::of(&error))),
            _ => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    const KIND: Kind = Kind { prefix: ".haul-test-", mounts: false };

    #[test]
    fn a_program_and_its_files_go_when_the_pipe_ends() {
        let dir = haul_testbed::temp_dir();
        let folder = dir.path().join(".haul-test-x");
        fs::create_dir_all(folder.join("deep/er")).unwrap();
        fs::set_permissions(folder.join("deep"), fs::Permissions::from_mode(0o500)).unwrap();
        let mut program = haul_testbed::Command::new("sleep").arg("1000").spawn().unwrap();
        guard(format!("1 no number\n{}\n", program.id()).as_bytes(), &folder, KIND).unwrap();
        assert_eq!(program.wait().unwrap().signal(), Some(9));
        assert!(!folder.exists());
    }

    #[test]
    fn nothing_is_removed_while_the_source_lacks_something_whatever_has_ended_the_measuring() {
        let dir = haul_testbed::temp_dir();
        let (folder, source) = (dir.path().join(".haul-test-x"), dir.path().join("a source\n"));
        fs::create_dir(&folder).unwrap();
        fs::write(&source, b"precious").unwrap();
        let line = Whole { path: source.clone(), entries: 1, bytes: 8 }.line();
        fs::rename(&source, folder.join("copy")).unwrap();
        assert!(guard(line.as_bytes(), &folder, KIND).is_err());
        assert_eq!(fs::read(folder.join("copy")).unwrap(), b"precious");
        fs::rename(folder.join("copy"), &source).unwrap();
        guard(line.as_bytes(), &folder, KIND).unwrap();
        assert!(!folder.exists() && source.exists());
    }

    #[test]
    fn a_folder_that_is_to_stay_stays() {
        let dir = haul_testbed::temp_dir();
        let folder = dir.path().join(".haul-test-x");
        fs::create_dir(&folder).unwrap();
        guard(KEEP.as_bytes(), &folder, KIND).unwrap();
        assert!(folder.exists());
    }

    #[test]
    fn a_program_that_has_ended_is_left_alone() {
        let dir = haul_testbed::temp_dir();
        let folder = dir.path().join(".haul-test-x");
        fs::create_dir(&folder).unwrap();
        let mut program = haul_testbed::Command::new("sleep").arg("1000").spawn().unwrap();
        guard(format!("{}\nended\n", program.id()).as_bytes(), &folder, KIND).unwrap();
        let running = program.try_wait().unwrap().is_none();
        program.kill().unwrap();
        program.wait().unwrap();
        assert!(running && !folder.exists());
    }

    #[test]
    fn what_is_mounted_below_is_not_removed() {
        let Some(bed) = haul_testbed::Bed::new() else { return };
        let inside = bed.mount(haul_testbed::Fs::Tmpfs).expect("tmpfs is everywhere");
        fs::write(inside.join("file"), b"x").unwrap();
        assert!(remove(bed.path()).is_err());
        assert!(inside.join("file").exists());
    }

    #[test]
    fn no_folder_of_others_is_ever_removed() {
        let dir = haul_testbed::temp_dir();
        assert!(guard(&b""[..], dir.path(), KIND).is_err());
        assert!(dir.path().exists());
    }
}
