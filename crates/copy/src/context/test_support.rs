//! For the unit tests of stages: two directories, a plan, and everything else that a stage needs.
//!
//! Entries of the directory `source/` are named by [`Bench::from`], those of the directory `dest/` by [`Bench::to`]; messages
//! show both by their bare names. A stage runs within [`Bench::run`], which says what it returned, and what it reported.
//!
//! ```text
//! let bench = Bench::new(Plan::default()).source("a", "new").dest("b", "old");
//! let ran = bench.run(|worker| make_file(worker, &mut bench.subject("a", "b"), &bench.state("b")));
//! ran.says(&[]);
//! assert_eq!(bench.tree(), ["b: new"]);
//! ```

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use haul_io::control::Cancel;
use haul_io::pace::Pace;
use haul_io::strategy::Demands;
use haul_io::transfer::Transfer;
use haul_sys::Errno;
use haul_sys::inode::{DeviceNumber, FileId, Inode};
use haul_sys::kernel::{Fd, Kernel, Linux};
use haul_sys::rustix::fs::{FileType, OFlags, fcntl_getfl};
use haul_testbed::{TempDir, temp_dir};
use parking_lot::Mutex;

use super::{RunContext, Services, Worker};
use crate::decide::Existing;
use crate::events::{Confirm, Event, Observer, Question};
use crate::links::DestDir;
use crate::meta::{Caller, NewEntries, XattrRules};
use crate::plan::{Dereference, Plan};
use crate::publish::{Partials, Sides};
use crate::recorded_progress::RecordedProgress;
use crate::report::Session;
use crate::stats::Stats;
use crate::walk::{PathNode, Spot};
use crate::work::directory::{Directory, FullDirectory};
use crate::work::entry::{DestState, Level, Subject};
use crate::work::file_data::FileData;

/// What everybody who shows a name shows in the place of a temporary one, which nobody can foresee.
pub(crate) const TEMPORARY: &str = "(temporary)";

/// Does something between two steps of a stage.
pub(crate) type Meanwhile = Box<dyn Fn(&Path) + Send + Sync>;

/// Two directories, and everything that a stage needs to work on them.
pub(crate) struct Bench {
    dir: TempDir,
    from: OwnedFd,
    to: Arc<OwnedFd>,
    pub plan: Plan,
    pub services: Services,
    pub kernel: Script,
    pub cancel: Cancel,
    pub partials: Partials,
    pub skip_files: Vec<FileId>,
    /// What happens to the two directories each time that the data of a file is about to be moved.
    pub before_data: Option<Meanwhile>,
    /// Whether who listens wants the order of a serial copy.
    pub in_order: bool,
}

impl Drop for Bench {
    /// Whatever modes a test has given to directories, they can be removed.
    fn drop(&mut self) {
        for entry in self.path().read_dir().into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                // If this fails the folder stays, and no test depends on that.
                fs::set_permissions(entry.path(), Permissions::from_mode(0o700)).ok();
            }
        }
    }
}

/// What came of a stage.
#[derive(Debug)]
pub(crate) struct Ran<T> {
    pub value: T,
    /// Errors, warnings and events but those of data that is moved, in order.
    pub heard: Vec<String>,
    /// How often the data of a file was about to be moved.
    pub moves: usize,
    pub failed: bool,
    pub damaged: Vec<PathBuf>,
    pub stats: Stats,
}

impl Bench {
    /// Two empty directories.
    pub(crate) fn new(plan: Plan) -> Bench {
        Bench::with(plan, Services::new(None, Caller::this_thread().unwrap(), false))
    }

    pub(crate) fn with(plan: Plan, services: Services) -> Bench {
        let dir = temp_dir();
        let [from, to] = ["source", "dest"].map(|name| {
            fs::create_dir(dir.path().join(name)).unwrap();
            File::open(dir.path().join(name)).unwrap().into()
        });
        let kernel = Script { dest: dir.path().join("dest"), ..Script::default() };
        let (cancel, partials) = (Cancel::default(), Partials::default());
        let to = Arc::new(to);
        let skip_files = Vec::new();
        Bench { dir, from, to, plan, services, kernel, cancel, partials, skip_files, before_data: None, in_order: true }
    }

    /// The same with a file in the directory of the source.
    pub(crate) fn source(self, name: &str, contents: impl AsRef<[u8]>) -> Bench {
        fs::write(self.path().join("source").join(name), contents).unwrap();
        self
    }

    /// The same with a file in the directory of the destination.
    pub(crate) fn dest(self, name: &str, contents: impl AsRef<[u8]>) -> Bench {
        fs::write(self.dest_path(name), contents).unwrap();
        self
    }

    /// The same with a symbolic link in the directory of the destination.
    pub(crate) fn link(self, name: &str, text: &str) -> Bench {
        std::os::unix::fs::symlink(text, self.dest_path(name)).unwrap();
        self
    }

    /// Makes a FIFO in the directory of the destination.
    pub(crate) fn make_fifo(&self, name: &str) {
        self.to(name).make_node(FileType::Fifo, 0o600, DeviceNumber { major: 0, minor: 0 }).unwrap();
    }

    /// The directory of both directories.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The whole path of an entry of the destination.
    pub(crate) fn dest_path(&self, name: &str) -> PathBuf {
        self.path().join("dest").join(name)
    }

    /// The whole path of an entry of the source.
    pub(crate) fn source_path(&self, name: &str) -> PathBuf {
        self.path().join("source").join(name)
    }

    /// An entry of the source.
    pub(crate) fn from<'a>(&'a self, name: &'a str) -> Spot<'a> {
        Spot::new(self.from.as_fd(), OsStr::new(name), Path::new(name))
    }

    /// An entry of the destination.
    pub(crate) fn to<'a>(&'a self, name: &'a str) -> Spot<'a> {
        Spot::new(self.to.as_fd(), OsStr::new(name), Path::new(name))
    }

    /// Notes the filesystem of the destination, as one that is synced as a whole or file by file.
    pub(crate) fn writes_to_filesystem(&self, syncs_whole: bool) -> DeviceNumber {
        let device = Inode::of(self.to.as_fd()).unwrap().id.device();
        self.services.filesystems.note(device, Path::new("dest"), self.to.as_fd());
        self.services.filesystems.pretend(device, syncs_whole);
        device
    }

    /// Begins a run with `--resume`, after what is in the journal of earlier ones. That is beside the two directories.
    pub(crate) fn open_journal(&mut self) {
        // One run after the other.
        self.services.progress = OnceLock::new();
        let dir = File::open(self.path()).unwrap();
        let progress =
            RecordedProgress::open(&self.plan, dir.as_fd(), OsStr::new(""), OsStr::new("journal"), 0).unwrap();
        assert!(self.services.progress.set(progress).is_ok());
    }

    /// Both directories, as those that a walk has entered.
    pub(crate) fn sides(&self) -> Sides {
        let [from, to] = [self.from.as_fd(), self.to.as_fd()].map(|dir| dir.try_clone_to_owned().unwrap());
        Sides::new(from, to, &PathNode::root(Path::new("dest")))
    }

    /// The directory of the destination, as one that the user has named.
    pub(crate) fn root(&self) -> Arc<DestDir> {
        DestDir::root_shown_as(Arc::clone(&self.to), "dest/".into()).unwrap()
    }

    /// The directory of the source and that of the destination, which was made for it and is full.
    pub(crate) fn full_directory(&self) -> FullDirectory {
        let [source_inode, dest_inode] = [self.from.as_fd(), self.to.as_fd()].map(|dir| Inode::of(dir).unwrap());
        let [source_path, dest_path] = ["source", "dest"].map(|name| PathNode::root(Path::new(name)));
        let place = Directory {
            source_inode,
            dest_inode,
            entries: NewEntries::UNKNOWN,
            source_path_only: false,
            dir: self.root(),
            created: true,
            fresh: true,
            source_path,
            dest_path,
            listed: None,
            stays: AtomicBool::new(false),
            unread: AtomicBool::new(false),
        };
        FullDirectory { place: Arc::new(place), sides: Some(Arc::new(self.sides())) }
    }

    /// A copy that was named by the user, links not followed.
    pub(crate) fn subject<'a>(&'a self, source: &'a str, dest: &'a str) -> Subject<'a> {
        self.subject_of(self.from(source), dest)
    }

    /// The same of a source that is somewhere else.
    pub(crate) fn subject_of<'a>(&'a self, source: Spot<'a>, dest: &'a str) -> Subject<'a> {
        Subject {
            inode: source.inode().unwrap(),
            source,
            dest: self.to(dest),
            opened: None,
            dereference: Dereference::Never,
            level: &Level { dir: None, ancestors: &[], missing: false, is_regular: false, listed: None, made: None },
            sides: None,
            remote: None,
        }
    }

    /// What is found at this destination: nothing, or something that is to be written into.
    pub(crate) fn state(&self, dest: &str) -> DestState {
        let dest = self.to(dest);
        let found =
            dest.inode_following().map(|target| Existing { entry: dest.inode().unwrap(), target, is_dot: false });
        DestState { new: found.is_err(), existing: found.ok().map(Box::new), ..DestState::default() }
    }

    /// Runs a stage.
    pub(crate) fn run<T>(&self, stage: impl FnOnce(&mut Worker<'_>) -> T) -> Ran<T> {
        let (path, meanwhile) = (self.path(), self.before_data.as_ref());
        let heard = Heard { path, meanwhile, in_order: self.in_order, said: Mutex::default() };
        let session = Session {
            observer: &heard,
            confirm: &Nobody,
            cancel: self.cancel.clone(),
            pace: Pace::default(),
            partials: self.partials.clone(),
            xattr_rules: XattrRules::default(),
            skip_files: self.skip_files.clone(),
            shared_reads: None,
        };
        let (plan, services, kernel) = (&self.plan, &self.services, &self.kernel);
        let mut worker = Worker::new(RunContext { plan, session: &session, services, kernel, peers: None });
        let value = stage(&mut worker);
        let report = worker.report;
        let (stats, failed, damaged) = (report.stats, report.failed, report.damaged);
        let Said { lines, moves } = heard.said.into_inner();
        let (errors, warnings) = (stats.errors as usize, stats.warnings as usize);
        let count = |kind: &str| lines.iter().filter(|line| line.starts_with(kind)).count();
        assert_eq!([errors, warnings], ["error: ", "warning: "].map(count), "what is said is counted: {lines:?}");
        Ran { value, heard: lines, moves, failed, damaged, stats }
    }

    /// Every entry of the destination in the order of names, each with what is in it: `NAME: CONTENTS`, `NAME -> TEXT` of a
    /// symbolic link, `NAME/` of a directory.
    pub(crate) fn tree(&self) -> Vec<String> {
        tree(&self.dest_path(""))
    }
}

impl<T> Ran<T> {
    /// Nothing else was reported, and the run has failed if there is an error among it.
    #[track_caller]
    pub(crate) fn says(&self, expected: &[&str]) {
        assert_eq!(self.heard, expected);
        assert_eq!(self.failed, expected.iter().any(|line| line.starts_with("error: ")), "failed");
    }
}

/// Two open files, of which nothing is known but how they look: `a`, to be copied to `b`.
pub(crate) fn file_data<'a>([source, dest]: [OwnedFd; 2], inodes: [&'a Inode; 2]) -> FileData<'a> {
    let transfer = Transfer::new([Arc::new(source), Arc::new(dest)], inodes, Demands::NONE);
    FileData {
        transfer,
        source_path: Path::new("a"),
        dest_path: Path::new("b"),
        source_dir: None,
        image: None,
        log: None,
    }
}

/// A directory with a file, [`SETTLED`], that nobody has changed for a while, and nobody will.
pub(crate) fn settled_dir() -> File {
    File::open(env!("CARGO_MANIFEST_DIR")).unwrap()
}

/// The name of that file.
pub(crate) const SETTLED: &str = "Cargo.toml";

/// [`Bench::tree`] of any directory.
pub(crate) fn tree(dir: &Path) -> Vec<String> {
    let mut entries: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let (kind, path) = (entry.file_type().unwrap(), entry.path());
            let name = shown(&entry.file_name().into_string().unwrap());
            if kind.is_symlink() {
                format!("{name} -> {}", fs::read_link(path).unwrap().display())
            } else if kind.is_dir() {
                format!("{name}/")
            } else if kind.is_file() {
                let contents = fs::read(path).unwrap();
                match String::from_utf8(contents) {
                    Ok(text) if text.len() < 100 => format!("{name}: {text}"),
                    Ok(text) => format!("{name}: {} bytes", text.len()),
                    Err(bytes) => format!("{name}: {} bytes", bytes.as_bytes().len()),
                }
            } else {
                format!("{name}: {kind:?}")
            }
        })
        .collect();
    entries.sort();
    entries
}

/// The text with [`TEMPORARY`] in the place of each temporary name.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(".haul-") {
        let end = after.find(|next: char| !next.is_ascii_hexdigit()).unwrap_or(after.len());
        shown.push_str(before);
        let is_temporary = end == 16;
        shown.push_str(if is_temporary { TEMPORARY } else { ".haul-" });
        rest = if is_temporary { &after[end..] } else { after };
    }
    shown + rest
}

struct Heard<'a> {
    path: &'a Path,
    meanwhile: Option<&'a Meanwhile>,
    in_order: bool,
    said: Mutex<Said>,
}

#[derive(Default)]
struct Said {
    lines: Vec<String>,
    moves: usize,
}

impl Observer for Heard<'_> {
    fn event(&self, event: &Event<'_>) {
        let line = match event {
            Event::Problem(error) => format!("error: {error}"),
            Event::Warning(error) => format!("warning: {error}"),
            Event::LostAttributes(path) => format!("attributes of {} lost", path.display()),
            Event::Removed(path) => format!("removed {}", path.display()),
            Event::Deleted { path, directory: false } => format!("deleted {}", path.display()),
            Event::Deleted { path, directory: true } => format!("deleted {}/", path.display()),
            Event::SourceRemoved { source, .. } => format!("removed source {}", source.display()),
            Event::Renamed { source, dest, .. } => format!("renamed {} to {}", source.display(), dest.display()),
            Event::UnBackedUp { backup, dest } => format!("{} is {} again", backup.display(), dest.display()),
            Event::Digest { dest, digest } => format!("digest of {}: {digest}", dest.display()),
            Event::DataStarted { .. } => {
                self.said.lock().moves += 1;
                if let Some(meanwhile) = self.meanwhile {
                    meanwhile(self.path);
                }
                return;
            }
            Event::Progress(_) | Event::DataDone(_) => return,
            Event::Spared { .. } | Event::Secured(_) | Event::Stage(_) => return,
            other => format!("{other:?}"),
        };
        self.said.lock().lines.push(shown(&line));
    }

    fn in_order(&self) -> bool {
        self.in_order
    }
}

struct Nobody;

impl Confirm for Nobody {
    fn overwrite(&self, _: &Question<'_>) -> bool {
        panic!("nothing is asked")
    }
}

/// The kernel, but for the calls that are to fail.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub sync: Option<Errno>,
    pub sync_filesystem: Option<Errno>,
    pub write_back: Option<Errno>,
    pub clone_range: Option<Errno>,
    pub share_if_same: Option<Errno>,
    pub reopen_to_read: Option<Errno>,
    pub pread: Option<Errno>,
    /// What is read from files that are open for writing, too, begins with another byte than they do.
    pub spoil: bool,
    /// The directory of the destination.
    dest: PathBuf,
    /// Syncs, each with what the directory had in it.
    synced: Mutex<Vec<String>>,
}

impl Script {
    /// What was synced so far, and which entries there were then.
    pub(crate) fn synced(&self) -> Vec<String> {
        self.synced.lock().clone()
    }

    fn note(&self, what: &str) {
        let line = format!("{what}, with [{}]", tree(&self.dest).join(", "));
        self.synced.lock().push(line);
    }
}

/// What the script says, or else what the kernel does.
fn follow<T>(script: Option<Errno>, call: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    script.map_or_else(call, Err)
}

impl Kernel for Script {
    fn sync(&self, fd: Fd<'_>) -> Result<(), Errno> {
        self.note("a file");
        follow(self.sync, || Linux.sync(fd))
    }

    fn sync_filesystem(&self, _: Fd<'_>) -> Result<(), Errno> {
        self.note("a filesystem");
        // A real one waits for the data of all programs.
        follow(self.sync_filesystem, || Ok(()))
    }

    fn write_back(&self, fd: Fd<'_>, wait: bool) -> Result<(), Errno> {
        follow(self.write_back, || Linux.write_back(fd, wait))
    }

    fn clone_range(&self, source: Fd<'_>, dest: Fd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
        follow(self.clone_range, || Linux.clone_range(source, dest, offset, len))
    }

    fn share_if_same(&self, source: Fd<'_>, dest: Fd<'_>, len: u64) -> Result<bool, Errno> {
        follow(self.share_if_same, || Linux.share_if_same(source, dest, len))
    }

    fn reopen_to_read(&self, fd: Fd<'_>, direct: bool) -> Result<OwnedFd, Errno> {
        follow(self.reopen_to_read, || Linux.reopen_to_read(fd, direct))
    }

    fn pread(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let count = follow(self.pread, || Linux.pread(fd, buffer, offset))?;
        if self.spoil && count > 0 && fcntl_getfl(fd)? & OFlags::ACCMODE == OFlags::RDWR {
            buffer[0] ^= 1;
        }
        Ok(count)
    }
}
