//! Where a case is played: a sealed-off directory per filesystem, always under the same name.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, SystemTime};

use haul_testbed::process::DEADLINE;
use haul_testbed::{Child, Command};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, Mode};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

use crate::case::{Case, Place, user};
use crate::scene::{absolute, build};
use crate::snapshot::{Snapshot, in_inode_order, take};

/// What a run did.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// `exit 0`, `signal 9`.
    pub status: String,
    /// The run was killed.
    pub timed_out: bool,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// The scene before the run.
    pub before: Snapshot,
    /// The paths in it by the numbers of their inodes: both copiers go through a directory in that order.
    pub order: Vec<Vec<u8>>,
    /// The scene after the run.
    pub after: Snapshot,
    /// The scene could not be looked at: its paths became too long.
    pub too_deep: bool,
    /// Holes had to be filled.
    pub fills_holes: bool,
}

/// One command line and all that goes with it.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// Words after the program's name; `@/` at the start of one stands for the scene.
    pub argv: Vec<Vec<u8>>,
    /// The whole environment but `PATH`.
    pub environment: Vec<(String, String)>,
    /// The file mode creation mask.
    pub umask: u32,
    /// The user to become; 0 stays.
    pub user: u32,
    /// Standard input.
    pub stdin: Vec<u8>,
    /// A command that starts the copier, such as `prlimit --fsize=1`.
    pub starter: Vec<String>,
    /// Where standard output goes, if not into the outcome.
    pub stdout: Option<PathBuf>,
}

impl Call {
    /// A call of root in the C locale.
    pub fn new(argv: &[&str]) -> Call {
        let argv = argv.iter().map(|word| word.as_bytes().to_vec()).collect();
        let environment = vec![("LC_ALL".to_owned(), "C".to_owned())];
        Call { argv, environment, umask: 0o022, ..Call::default() }
    }

    /// The call of a case.
    pub fn of(case: &Case) -> Call {
        Call {
            argv: case.argv(),
            environment: case.environment.clone(),
            umask: case.umask,
            user: user(case),
            stdin: case.stdin.clone(),
            ..Call::default()
        }
    }

    fn command(&self, program: &Path, work: &Path) -> Command {
        let mut command = match self.starter.split_first() {
            None => {
                let mut command = Command::new(program);
                command.arg0("cp");
                command
            }
            Some((starter, options)) => {
                let mut command = Command::new(starter);
                command.args(options).args(["bash", "-c", "exec -a cp \"$0\" \"$@\""]).arg(program);
                command
            }
        };
        command.env_clear().env("PATH", "/usr/bin:/bin").envs(self.environment.iter().cloned());
        for word in &self.argv {
            let word = if word.starts_with(b"@/") { absolute(work, word) } else { word.clone() };
            command.arg(OsString::from_vec(word));
        }
        command.current_dir(work);
        command
    }
}

/// One thread's place to play. Dropped with the thread: its mounts live in the thread's own namespace.
#[derive(Debug)]
pub struct Stage {
    home: PathBuf,
}

impl Stage {
    /// Prepares filesystems below `home`, which must exist and belong to this thread alone; with `images` XFS and
    /// btrfs too.
    ///
    /// The calling thread must be root's; it gets a mount namespace in which only `home` can be written.
    pub fn new(home: &Path, images: bool) -> io::Result<Stage> {
        fs::create_dir_all(home.join("disk"))?;
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS)?;
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        mount(Some(home), home, none, MsFlags::MS_BIND, none)?;
        mount(none, "/", none, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, none)?;
        fs::create_dir_all(home.join("memory"))?;
        mount(Some("tmpfs"), &home.join("memory"), Some("tmpfs"), MsFlags::empty(), Some("size=512m"))?;
        if images {
            image(home, "xfs", &["-q", "-f"])?;
            image(home, "btrfs", &["-q", "-f"])?;
        }
        Ok(Stage { home: home.to_owned() })
    }

    fn root(&self, place: Place) -> PathBuf {
        let name = match place {
            Place::Memory => "memory",
            Place::Disk => "disk",
            Place::Xfs => "xfs",
            Place::Btrfs => "btrfs",
        };
        let root = self.home.join(name);
        if root.is_dir() { root } else { self.home.join("disk") }
    }

    /// Builds the case's scene, runs `program` on it as `cp`, and takes everything away again.
    pub fn play(&self, case: &Case, program: &Path, limit: Duration) -> io::Result<Outcome> {
        self.perform(case.place, &|work| build(work, &case.nodes), &Call::of(case), program, limit)
    }

    /// Lets `scene` fill an empty directory, runs `program` there as `cp`, and takes everything away again.
    pub fn perform(
        &self,
        place: Place,
        scene: &dyn Fn(&Path) -> io::Result<()>,
        call: &Call,
        program: &Path,
        limit: Duration,
    ) -> io::Result<Outcome> {
        let root = self.root(place);
        clear(&root)?;
        let start = SystemTime::now();
        let outer = root.join("outer");
        let work = outer.join("work");
        rustix::process::umask(Mode::empty());
        fs::create_dir_all(&work)?;
        for directory in [&outer, &work] {
            fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
            std::os::unix::fs::chown(directory, Some(call.user), Some(call.user))?;
        }
        scene(&work)?;
        let before = take(&outer, start)?;
        let order = in_inode_order(&outer)?;
        let (status, timed_out, stdout, stderr) = self.run(call, program, &work, limit)?;
        let (after, too_deep) = match take(&outer, start) {
            // Longer than a path can be: made by a copier that copies its own copies.
            Err(error) if error.raw_os_error() == Some(Errno::NAMETOOLONG.raw_os_error()) => (Snapshot::new(), true),
            taken => (taken?, false),
        };
        clear(&root)?;
        let fills_holes = call.argv.iter().any(|word| word.starts_with(b"--sparse=n"))
            || call.argv.windows(2).any(|words| words[0] == b"--sparse" && words[1].starts_with(b"n"));
        Ok(Outcome { status, timed_out, stdout, stderr, before, order, after, too_deep, fills_holes })
    }

    fn run(
        &self,
        call: &Call,
        program: &Path,
        work: &Path,
        limit: Duration,
    ) -> io::Result<(String, bool, Vec<u8>, Vec<u8>)> {
        let mut files = [memory()?, memory()?, memory()?];
        files[0].write_all(&call.stdin)?;
        files[0].rewind()?;
        let mut command = call.command(program, work);
        command.stdin(files[0].try_clone()?).stderr(files[2].try_clone()?);
        match &call.stdout {
            Some(path) => command.stdout(File::options().write(true).open(path)?),
            None => command.stdout(files[1].try_clone()?),
        };
        if call.user != 0 {
            command.uid(call.user).gid(call.user);
        }
        // The mask is this thread's own since it unshared CLONE_FS.
        rustix::process::umask(Mode::from_raw_mode(call.umask));
        // What takes longer than the limit is an outcome, and no failure of the test.
        let child = command.deadline(2 * limit + DEADLINE).spawn();
        rustix::process::umask(Mode::empty());
        let (status, timed_out) = wait(child?, limit)?;
        let mut read = |index: usize| -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            files[index].rewind()?;
            files[index].read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        Ok((describe(status), timed_out, read(1)?, read(2)?))
    }
}

/// `exit 0` or `signal 9`.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or_default()),
    }
}

fn memory() -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create("stream", MemfdFlags::CLOEXEC)?))
}

/// Waits for a child; kills it when the time is over.
pub fn wait(mut child: Child, limit: Duration) -> io::Result<(ExitStatus, bool)> {
    let pid = Pid::from_child(&child);
    let handle: OwnedFd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    let ready = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&limit))?;
    if ready == 0 {
        child.kill()?;
    }
    Ok((child.wait()?, ready == 0))
}

/// Makes and mounts a filesystem in an image file; without its mkfs the share of cases goes to the disk.
fn image(home: &Path, kind: &str, options: &[&str]) -> io::Result<()> {
    let image = home.join(format!("{kind}.img"));
    let target = home.join(kind);
    // One of an earlier stage may still be about to be unmounted, which writes to it.
    if image.exists() {
        fs::remove_file(&image)?;
    }
    File::create_new(&image)?.set_len(512 << 20)?;
    let made = Command::new(format!("mkfs.{kind}")).args(options).arg(&image).output();
    if !made.as_ref().is_ok_and(|output| output.status.success()) {
        crate::skip::skip(&format!("scenes on {kind}"), &format!("mkfs.{kind}: {made:?}"));
        return Ok(());
    }
    fs::create_dir_all(&target)?;
    let mounted = Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&target).output()?;
    if !mounted.status.success() {
        fs::remove_dir(&target)?;
        crate::skip::skip(&format!("scenes on {kind}"), &String::from_utf8_lossy(&mounted.stderr));
    }
    Ok(())
}

/// Empties a directory, mounts below it included.
pub(crate) fn clear(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if fs::symlink_metadata(&path)?.is_dir() {
            match fs::remove_dir_all(&path) {
                Ok(()) => {}
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::ReadOnlyFilesystem) =>
                {
                    unmount_below(&path)?;
                    fs::remove_dir_all(&path)?;
                }
                Err(error) => return Err(error),
            }
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Unmounts everything below `root`, deepest first.
fn unmount_below(root: &Path) -> io::Result<()> {
    let table = fs::read("/proc/thread-self/mountinfo")?;
    let mut points: Vec<PathBuf> = table
        .split(|&byte| byte == b'\n')
        .filter_map(|line| line.split(|&byte| byte == b' ').nth(4))
        .map(|field| PathBuf::from(OsStr::from_bytes(&unescape(field))))
        .filter(|point| point.starts_with(root))
        .collect();
    points.sort();
    for point in points.iter().rev() {
        umount2(point, MntFlags::MNT_DETACH)?;
    }
    Ok(())
}

/// Undoes the octal escapes of mountinfo.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = rest.get(1..4).filter(|_| first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    bytes
}
