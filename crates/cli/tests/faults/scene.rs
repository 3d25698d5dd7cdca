//! The tree that is copied, what stands at the destination before, and what must stand there after.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use haul_agree::snapshot::{Item, Snapshot, Stamp, take};
use haul_testbed::{create_painted, paint, painted_at, sparse_file};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, lsetxattr, mknodat, utimensat};

use crate::sets::Set;
use crate::{judge, trace};

/// The name of the source, as the command gets it.
pub const SOURCE: &str = "tree";
/// The name of the destination.
pub const DEST: &str = "copy";

/// Whole seconds, in 2001.
const OF_SOURCE: i64 = 1_000_000_000;
/// Older.
const OF_OLD: i64 = 900_000_000;

/// Both sides as they are found, each by the paths below it; the path of the side itself is empty.
#[derive(Debug, PartialEq)]
pub struct Sides {
    pub source: Snapshot,
    pub dest: Snapshot,
}

/// A directory with a source, and what is known of it.
pub struct Scene {
    dir: PathBuf,
    onto_old: bool,
    moves: bool,
    /// Before a copy.
    pub before: Sides,
    /// After a copy in which nothing failed.
    pub expected: Sides,
}

impl Scene {
    /// Builds the source, makes a copy to see how one is, and makes sure that it is right.
    pub fn build(dir: &Path, set: &Set) -> Scene {
        fs::create_dir(dir).expect("a directory for the scene");
        let nothing = || Sides { source: Snapshot::new(), dest: Snapshot::new() };
        let (onto_old, moves) = (set.onto_old, set.moves());
        let mut scene = Scene { dir: dir.to_owned(), onto_old, moves, before: nothing(), expected: nothing() };
        scene.reset();
        scene.before = scene.look();
        let ran = trace::plain(dir, &set.arguments());
        assert!(ran.succeeded(), "{set}: {}", ran.text());
        scene.expected = scene.look();
        let wrong = judge::equals_source(set, &scene.before, &scene.expected);
        assert!(wrong.is_empty(), "{set}: a copy without any fault: {wrong:#?}");
        scene.reset();
        scene
    }

    /// Where the command is run.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What a run with `--resume` leaves for the next one is there.
    pub fn has_journal(&self) -> bool {
        self.journals().next().is_some()
    }

    fn journals(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.dir).expect("it can be read").map(|entry| entry.expect("it can be read"));
        entries.filter(|entry| is_journal(entry.file_name().as_encoded_bytes())).map(|entry| entry.path())
    }

    /// Puts the destination back to what it was before a copy, and the source if it was moved.
    pub fn reset(&self) {
        let source = self.dir.join(SOURCE);
        let is_there = source.symlink_metadata().is_ok();
        if is_there && self.moves {
            fs::remove_dir_all(&source).expect("what is left of the source can be removed");
        }
        if !is_there || self.moves {
            build_source(&source);
        }
        let dest = self.dir.join(DEST);
        if dest.symlink_metadata().is_ok() {
            fs::remove_dir_all(&dest).expect("the copy can be removed");
        }
        if self.onto_old {
            build_old(&dest);
        }
        // What a case was wrong about is not that of the next one.
        self.journals().for_each(|path| fs::remove_file(path).expect("a journal can be removed"));
    }

    /// All that can be seen, but for what a copy need not keep: how many blocks there are, and when they were read.
    pub fn look(&self) -> Sides {
        // What was made during the test is recent, however long it takes; what was given a time is from another century.
        let recent = SystemTime::now() - Duration::from_secs(1800);
        let all = take(&self.dir, recent).expect("all can be seen");
        let side = |name: &str| {
            let below = format!("{name}/").into_bytes();
            let relative = |path: &[u8]| match path {
                path if path == name.as_bytes() => Some(Vec::new()),
                path => path.strip_prefix(&below[..]).map(<[u8]>::to_vec),
            };
            let items = all.iter().filter_map(|(path, item)| {
                let first_name = relative(&item.first_name).unwrap_or_else(|| item.first_name.clone());
                Some((relative(path)?, Item { atime: Stamp::Now, blocks: 0, first_name, ..item.clone() }))
            });
            items.collect()
        };
        let strangers = all.keys().filter(|path| {
            ![SOURCE, DEST]
                .iter()
                .any(|name| *path == name.as_bytes() || path.starts_with(format!("{name}/").as_bytes()))
                && !is_journal(path)
        });
        assert_eq!(strangers.count(), 0, "something is beside source and destination: {:?}", all.keys());
        Sides { source: side(SOURCE), dest: side(DEST) }
    }
}

fn is_journal(name: &[u8]) -> bool {
    name.starts_with(b".haul-resume-")
}

fn build_source(tree: &Path) {
    let at = |name: &str| tree.join(name);
    fs::create_dir(tree).expect("a directory");
    fs::create_dir(at("sub")).expect("a directory");
    File::create_new(at("empty")).expect("a file");
    create_painted(at("small"), 100);
    create_painted(at("painted"), 200 << 10);
    // A hole in the middle and one at the end.
    sparse_file(at("sparse"), 3 << 20, &[(0, 64 << 10), (1 << 20, 100_000)]);
    create_painted(at("shared"), 10);
    create_painted(at("sub/inner"), 4097);
    create_painted(at("pair"), 5000);
    fs::hard_link(at("pair"), at("sub/pair")).expect("a hard link");
    symlink("small", at("link")).expect("a link");
    fifo(&at("fifo"));
    for name in ["painted", "sub"] {
        attribute(&at(name), "user.origin", b"here");
    }
    for (number, name) in ["small", "painted", "pair", "link", "fifo", "sub"].into_iter().enumerate() {
        let owner = 1234 + number as u32;
        lchown(at(name), Some(owner), Some(owner + 1000)).expect("it is given away");
    }
    // After the owner, whose change takes special bits away.
    for (name, mode) in [("small", 0o640), ("painted", 0o4711), ("fifo", 0o620), ("sub", 0o2750), ("", 0o751)] {
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).expect("it is ours");
    }
    attribute(&at("shared"), "system.posix_acl_access", &acl());
    // Directories after what is in them.
    let names = ["empty", "small", "painted", "sparse", "shared", "sub/inner", "pair", "link", "fifo", "sub", ""];
    for (number, name) in (0..).zip(names) {
        set_time(&at(name), OF_SOURCE + number);
    }
}

/// What an earlier copy of another source may have left: the same names, other contents, other kinds.
fn build_old(copy: &Path) {
    let at = |name: &str| copy.join(name);
    fs::create_dir(copy).expect("a directory");
    fs::create_dir(at("sub")).expect("a directory");
    for (name, len) in [("empty", 20), ("small", 500), ("painted", 300 << 10), ("pair", 30), ("sub/pair", 40)] {
        fs::write(at(name), painted_at(7, len)).expect("a file");
    }
    paint(&File::create_new(at("sparse")).expect("a file"), 11, 100_000);
    fs::write(at("fifo"), "in the way").expect("a file");
    fs::write(at("sub/kept"), "nothing in the source has this name").expect("a file");
    symlink("elsewhere", at("link")).expect("a link");
    attribute(&at("small"), "user.old", b"stays");
    fs::set_permissions(at("sub"), fs::Permissions::from_mode(0o700)).expect("it is ours");
    let names = ["empty", "small", "painted", "pair", "sub/pair", "sparse", "fifo", "sub/kept", "link", "sub", ""];
    for (number, name) in (0..).zip(names) {
        set_time(&at(name), OF_OLD + number);
    }
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
}

fn attribute(path: &Path, name: &str, value: &[u8]) {
    lsetxattr(path, name, value, XattrFlags::empty()).expect("an extended attribute");
}

fn set_time(path: &Path, seconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: 123_456_789 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("the time of a file");
}

/// Owner, a user of its own, group, mask and others, in the kernel's form.
fn acl() -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, bits, id) in
        [(0x01u16, 6u16, NOBODY), (0x02, 5, 4321), (0x04, 4, NOBODY), (0x10, 5, NOBODY), (0x20, 0, NOBODY)]
    {
        acl.extend(tag.to_le_bytes());
        acl.extend(bits.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    acl
}
