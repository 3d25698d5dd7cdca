//! What is outside of source and destination, and the witness who sees whether anybody looks into it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::fs::{Mode, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

/// What is in every file outside, and must be nowhere else.
pub const SECRET: &str = "the secret of another user\n";
/// The owner of everything outside, and of nothing else.
pub const OWNER: u32 = 4242;
/// A name that is outside and nowhere else.
const ONLY_OUTSIDE: &str = "only-outside";
/// An extended attribute that is outside and nowhere else.
const ATTRIBUTE: &str = "trusted.secret";

/// Files and directories under the names of those that are copied, so that whoever goes there by a path finds them.
const FILES: &[&str] =
    &["file0", "file1", "a", "b", "x", "deep/a", "deep/x", "deep/y", "deep/deeper/x", "only-outside", "dir/a"];

/// A directory outside of what is copied, watched.
pub struct Outside {
    root: PathBuf,
    /// Files that have other names inside: a name less changes the number of links and the change time.
    linked: PathBuf,
    witness: OwnedFd,
    before: BTreeMap<PathBuf, Look>,
}

/// All that can be seen of an entry without opening it, and its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Look {
    mode: u32,
    owner: (u32, u32),
    size: u64,
    modified: (i64, i64),
    /// Time and number of links; of a file that has names inside it is no concern.
    changed: Option<(i64, i64, u64)>,
    attribute: Vec<u8>,
    contents: Vec<u8>,
}

impl Outside {
    /// Makes it, with a witness.
    pub fn new(root: &Path) -> Outside {
        let linked = root.with_file_name("linked");
        for name in FILES.iter().chain(&["deep/deeper/only-outside"]) {
            make_secret(&root.join(name));
        }
        for number in 0..4 {
            make_secret(&linked.join(number.to_string()));
        }
        for dir in ["", "deep", "deep/deeper", "dir"] {
            chown(root.join(dir), Some(OWNER), Some(OWNER)).expect("it can be given away");
        }
        let before = look(root, false).into_iter().chain(look(&linked, true)).collect();
        let witness = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).expect("a witness");
        let read_or_written = WatchFlags::ACCESS | WatchFlags::MODIFY;
        let touched = read_or_written | WatchFlags::OPEN;
        let changed = WatchFlags::ATTRIB | WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE;
        for path in Vec::from_iter(look(root, false).into_keys()) {
            inotify::add_watch(&witness, &path, touched | changed).expect("it can be watched");
        }
        // What is opened by its name inside may turn out to be another file than the one that was seen there.
        for number in 0..4 {
            inotify::add_watch(&witness, linked.join(number.to_string()), read_or_written).expect("it can be watched");
        }
        Outside { root: root.to_owned(), linked, witness, before }
    }

    /// A file outside that may have another name inside.
    pub fn linked(&self, number: usize) -> PathBuf {
        self.linked.join(number.to_string())
    }

    /// What the witness has seen since it was asked last.
    pub fn seen(&self) -> Vec<String> {
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = Reader::new(&self.witness, &mut buffer);
        let mut seen = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => seen.push(format!("{:?} {:?}", event.events(), event.file_name())),
                Err(Errno::AGAIN) => return seen,
                Err(error) => panic!("the witness cannot be asked: {error}"),
            }
        }
    }

    /// Asserts that nobody has looked into it, or changed anything of it. Afterwards the witness has seen the test look.
    pub fn assert_untouched(self, context: &str) {
        let seen = self.seen();
        assert!(seen.is_empty(), "{context}: somebody was outside: {:?}", &seen[..seen.len().min(20)]);
        let after: BTreeMap<_, _> = look(&self.root, false).into_iter().chain(look(&self.linked, true)).collect();
        for (path, was) in &self.before {
            assert_eq!(Some(was), after.get(path), "{context}: {} was changed", path.display());
        }
        let new: Vec<_> = after.keys().filter(|path| !self.before.contains_key(*path)).collect();
        assert!(new.is_empty(), "{context}: made outside: {new:?}");
    }
}

fn make_secret(path: &Path) {
    fs::create_dir_all(path.parent().expect("a name")).expect("a directory");
    fs::write(path, SECRET.repeat(50)).expect("a secret");
    chown(path, Some(OWNER), Some(OWNER)).expect("it can be given away");
    rustix::fs::chmod(path, Mode::from_raw_mode(0o640)).expect("its mode can be set");
    rustix::fs::setxattr(path, ATTRIBUTE, SECRET.as_bytes(), XattrFlags::empty()).expect("an attribute");
    let time = Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::empty()).expect("times");
}

/// Everything at and below a path.
fn look(path: &Path, has_names_inside: bool) -> BTreeMap<PathBuf, Look> {
    let found = fs::symlink_metadata(path).expect("it is there");
    let mut attribute = vec![0; 200];
    let length = rustix::fs::lgetxattr(path, ATTRIBUTE, &mut attribute[..]).unwrap_or(0);
    attribute.truncate(length);
    let entry = Look {
        mode: found.mode(),
        owner: (found.uid(), found.gid()),
        size: found.size(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (!has_names_inside).then(|| (found.ctime(), found.ctime_nsec(), found.nlink())),
        attribute,
        contents: if found.is_file() { fs::read(path).expect("it can be read") } else { Vec::new() },
    };
    let mut all = BTreeMap::from([(path.to_owned(), entry)]);
    if found.is_dir() {
        for name in fs::read_dir(path).expect("it can be read") {
            let below = name.expect("it can be read").path();
            all.extend(look(&below, has_names_inside));
        }
    }
    all
}

/// Whatever of the outside is found at and below a path, links not followed. `own_links`: other names of files outside
/// are there because the attacker put them there.
pub fn leaked(path: &Path, own_links: bool) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(metadata) = fs::symlink_metadata(path) else { return found };
    if own_links && metadata.is_file() && metadata.nlink() > 1 {
        return found;
    }
    let mut report = |what: &str| found.push(format!("{} has the {what} of the outside", path.display()));
    if metadata.uid() == OWNER || metadata.gid() == OWNER {
        report("owner");
    }
    if path.file_name() == Some(OsStr::new(ONLY_OUTSIDE)) {
        report("names");
    }
    if rustix::fs::lgetxattr(path, ATTRIBUTE, &mut [0u8; 0][..]).is_ok() {
        report("attributes");
    }
    if metadata.is_file() {
        let contents = fs::read(path).expect("it can be read");
        let first = SECRET.as_bytes();
        if contents.windows(first.len()).any(|window| window == first) {
            report("contents");
        }
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path).expect("it can be read") {
            found.extend(leaked(&entry.expect("it can be read").path(), own_links));
        }
    }
    found
}
