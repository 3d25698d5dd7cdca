//! A source, a destination, and the copy of the one to the other.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use haul_testbed::misbehaving::{Fault, Manner, Misbehaving};
use haul_testbed::{Bed, Child, Command, painted, painted_at};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::{Ran, STUCK};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// What the paths of the files that faults are about begin with, in the source.
pub const SOURCE_ODD: &str = "tree/odd/";
/// The same in the destination, also before the file has its name.
pub const DEST_ODD: &str = "copy/odd/";
/// The file that faults are about, below either side.
pub const ODD: &str = "odd/file";

/// Which side misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Source,
    Dest,
    Both,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    File(Vec<u8>),
    Link(PathBuf),
    Directory,
    Other,
}

/// Everything below a directory.
pub type Tree = BTreeMap<String, Item>;

/// One copy of a small tree.
pub struct Scene<'a> {
    pub fs: Misbehaving,
    bed: &'a Bed,
    number: u32,
    side: Side,
    /// What the source truly holds.
    pub truth: Tree,
    /// What stood at the destination before.
    pub old: Tree,
}

impl Scene<'_> {
    /// Builds both sides; the odd file has these bytes. `None`, after a skip, where there is no FUSE.
    pub fn build<'a>(
        bed: &'a Bed,
        number: u32,
        (side, manner): (Side, Manner),
        bytes: &[u8],
        onto_old: bool,
    ) -> Option<Scene<'a>> {
        let fs = Misbehaving::mount(bed, &format!("fs{number}"), manner)?;
        fs::create_dir(bed.path().join(format!("plain{number}"))).expect("a directory");
        let mut scene = Scene { fs, bed, number, side, truth: Tree::new(), old: Tree::new() };
        let files = [("first", painted(5000)), (ODD, bytes.to_vec()), ("other/second", painted(7000))];
        for (path, bytes) in files {
            scene.add(side != Side::Dest, "tree", path, Item::File(bytes));
        }
        scene.add(side != Side::Dest, "tree", "other/link", Item::Link("second".into()));
        scene.truth = scene.look("tree");
        // The faults are about what is in the directory, so it is there already.
        scene.make_directory("copy/odd");
        if onto_old {
            for (path, len) in [(ODD, 400_000), ("other/second", 30)] {
                scene.add(side != Side::Source, "copy", path, Item::File(painted_at(7, len)));
            }
        }
        scene.old = scene.look("copy");
        Some(scene)
    }

    fn make_directory(&self, path: &str) {
        match self.side {
            Side::Source => fs::create_dir_all(self.plain().join(path)).expect("a directory"),
            Side::Dest | Side::Both => self.fs.add_directory(path),
        }
    }

    fn add(&self, misbehaving: bool, tree: &str, path: &str, item: Item) {
        let path = format!("{tree}/{path}");
        let plain = self.plain().join(&path);
        if !misbehaving {
            fs::create_dir_all(plain.parent().expect("it is below something")).expect("a directory");
        }
        match item {
            Item::File(bytes) if misbehaving => self.fs.add_file(&path, &bytes),
            Item::File(bytes) => fs::write(plain, bytes).expect("a file"),
            Item::Link(target) if misbehaving => self.fs.add_link(&path, target.to_str().expect("it is text")),
            Item::Link(target) => symlink(target, plain).expect("a link"),
            Item::Directory | Item::Other => {}
        }
    }

    fn plain(&self) -> PathBuf {
        self.bed.path().join(format!("plain{}", self.number))
    }

    /// Whether the filesystem that misbehaves has this tree.
    fn has(&self, tree: &str) -> bool {
        self.side == Side::Both || (self.side == Side::Source) == (tree == "tree")
    }

    /// The path of one of both trees, as the command gets it.
    pub fn name(&self, tree: &str) -> String {
        let place = if self.has(tree) { "fs" } else { "plain" };
        format!("{place}{}/{tree}", self.number)
    }

    /// Everything that can be seen of a tree through the kernel.
    pub fn look(&self, tree: &str) -> Tree {
        let mut found = Tree::new();
        look_into(&self.bed.path().join(self.name(tree)), "", &mut found);
        found
    }

    /// What the filesystem itself has there, of regular files.
    pub fn know(&self, tree: &str) -> Tree {
        if !self.has(tree) {
            return Tree::new();
        }
        let below = |path: String| path.strip_prefix(&format!("{tree}/")).map(str::to_owned);
        let file = |path: &String| Some(Item::File(self.fs.contents(path)?));
        let paths = self.fs.paths(tree).into_iter();
        paths.filter_map(|path| Some((path.clone(), file(&path)?))).filter_map(|(p, i)| Some((below(p)?, i))).collect()
    }

    /// Sets the faults and copies.
    pub fn copy(&self, options: &str, faults: &[Fault]) -> Ran {
        let running = self.start(options, faults);
        self.end(running)
    }

    /// Sets the faults and begins to copy.
    pub fn start(&self, options: &str, faults: &[Fault]) -> Running {
        for fault in faults {
            self.fs.on(fault.clone());
        }
        let child = Command::new(HAUL)
            .arg0("haul")
            .args(options.split_whitespace())
            .args(["-T", &self.name("tree"), &self.name("copy")])
            .current_dir(self.bed.path())
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it can be run");
        Running(child)
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// If it is stuck. It is killed then.
    pub fn end(&self, running: Running) -> Ran {
        self.end_or(running, Duration::from_secs(STUCK), || ())
    }

    /// The same of a run that got a signal: the filesystem answers what hangs, as one does that hears of signals.
    pub fn end_by_signal(&self, running: Running) -> Ran {
        self.end_or(running, Duration::from_millis(20), || self.fs.interrupt())
    }

    /// Waits for the end, and does something again and again after so much time.
    fn end_or(&self, Running(mut child): Running, each: Duration, again: impl Fn()) -> Ran {
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).expect("the process is there");
        let timeout = Timespec::try_from(each).expect("it is short");
        let deadline = Instant::now() + Duration::from_secs(STUCK);
        let has_ended = || {
            let ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout));
            ended.expect("it can be waited for") > 0
        };
        let mut ended = has_ended();
        while !ended && Instant::now() < deadline {
            again();
            ended = has_ended();
        }
        if !ended {
            // The kernel lets nobody go who waits for an answer.
            self.fs.behave();
            child.kill().expect("the process is there");
        }
        let mut said = String::new();
        child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("messages are text");
        let status = child.wait().expect("the child is ours");
        assert!(ended, "it did not end: {said}");
        Ran { status, said }
    }

    /// Takes the source as it is now, without its faults, for what it truly holds.
    pub fn accept_changes(&mut self) {
        self.fs.behave();
        self.truth = self.look("tree");
    }
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        // The test bed is small. What is left of it goes with the namespace.
        fs::remove_dir_all(self.plain()).unwrap_or_default();
    }
}

/// A run of haul.
pub struct Running(Child);

impl Running {
    pub fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("the process is there");
    }
}

fn look_into(dir: &Path, prefix: &str, found: &mut Tree) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries {
        let entry = entry.expect("it can be listed");
        let path = format!("{prefix}{}", entry.file_name().to_str().expect("names are text"));
        let kind = entry.file_type().expect("it has a type");
        let item = if kind.is_dir() {
            look_into(&entry.path(), &format!("{path}/"), found);
            Item::Directory
        } else if kind.is_symlink() {
            Item::Link(fs::read_link(entry.path()).expect("it can be read"))
        } else if kind.is_file() {
            Item::File(fs::read(entry.path()).expect("it can be read"))
        } else {
            Item::Other
        };
        found.insert(path, item);
    }
}
