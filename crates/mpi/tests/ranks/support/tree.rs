//! Trees to copy, and the comparison that decides.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use haul_agree::grow::{Flavor, Grower, contents};
use haul_agree::scene::{self, Contents, Kind, Node, Run};
use haul_agree::snapshot::{Item, Snapshot, take};
use haul_testbed::{Bed, Command, Fs};

/// Blocks that hold the extent list count too, and depend on the order of writing.
const SLACK: u64 = 16;
/// Where a large file was being written, holes of a chunk or two may be filled, in units of 512 bytes.
pub const FILLED: u64 = 2048;

/// A mounted filesystem on which reading changes nothing, so that one source can be copied twice.
pub fn place(bed: &Bed, fs: Fs) -> Option<PathBuf> {
    let path = bed.mount(fs)?;
    let done = Command::new("mount").args(["-o", "remount,noatime"]).arg(&path).status().expect("mount can be run");
    assert!(done.success(), "cannot mount {} with noatime", path.display());
    Some(path)
}

/// How much grows.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Random trees, of some ten files each.
    pub trees: usize,
    /// Files in one directory.
    pub many: usize,
    /// Files of several chunks.
    pub large: usize,
}

/// A tree of each sort of thing.
pub const MIXED: Extent = Extent { trees: 25, many: 1500, large: 3 };
/// A few files.
pub const SMALL: Extent = Extent { trees: 6, many: 60, large: 1 };

/// Grows a tree at `root/source`, which must be on a filesystem of our own: it has files of every type and owner.
pub fn grow(rng: &mut Rng, root: &Path, extent: Extent) {
    let flavor = Flavor { fifos: true, devices: true, mounts: false, unprivileged: false };
    let mut grower = Grower { rng, flavor, nodes: Vec::new() };
    let mut top = grower.dressed(b"source", Kind::Directory);
    top.mode = 0o755;
    grower.add(top);
    for tree in 0..extent.trees {
        grower.tree(format!("source/tree-{tree}").as_bytes(), 5, 60);
    }
    let many = grower.dressed(b"source/many", Kind::Directory);
    grower.add(many);
    for number in 0..extent.many {
        let path = format!("source/many/{number:05}").into_bytes();
        // Some are other names of files in other directories.
        let kind = match number % 40 {
            0 => grower.kind(&path),
            1 => Kind::Symlink(b"../tree-0".to_vec()),
            _ => Kind::File(Contents { size: grower.rng.u64(..9000), ..contents(grower.rng) }),
        };
        let node = grower.dressed(&path, kind);
        // Its name is new: no need to look through all others.
        grower.nodes.push(node);
    }
    for number in 0..extent.large {
        let kind = Kind::File(large(grower.rng));
        let node = grower.dressed(format!("source/large-{number}").as_bytes(), kind);
        grower.add(node);
    }
    let nodes: Vec<Node> = grower.nodes;
    scene::build(root, &nodes).expect("a scene can be built");
}

/// A file of several chunks, of odd size, with holes more often than not.
fn large(rng: &mut Rng) -> Contents {
    let size = rng.u64(3 << 20..24 << 20);
    let run = |offset: u64, length: u64| Run { offset, length, zeros: false };
    let runs = match rng.u8(..3) {
        0 => vec![run(0, size)],
        1 => vec![run(0, (size / 3) & !4095), run((size / 2) & !4095, size)],
        _ => (0..8).map(|part| run((part * (size / 8)) & !4095, size / 16)).collect(),
    };
    Contents { size, runs, allocated: None, salt: rng.u8(..) }
}

/// Looks at everything below a directory.
///
/// # Panics
/// If something cannot be read.
pub fn look(directory: &Path) -> Snapshot {
    // No time is taken for one of this run.
    let never = SystemTime::now() + Duration::from_secs(1 << 30);
    take(directory, never).unwrap_or_else(|error| panic!("cannot look at {}: {error}", directory.display()))
}

/// What differs between two trees, in words.
pub fn differences(reference: &Snapshot, result: &Snapshot) -> Vec<String> {
    differences_but_for(SLACK, reference, result)
}

/// The same, where a file may take so many units of 512 bytes more than in the reference.
pub fn differences_but_for(slack: u64, reference: &Snapshot, result: &Snapshot) -> Vec<String> {
    let mut found = Vec::new();
    for (path, left) in reference {
        match result.get(path) {
            None => found.push(format!("{}: missing", path.escape_ascii())),
            Some(right) => {
                let of_it = items(left, right, slack).map(|what| format!("{}: {what}", path.escape_ascii()));
                found.extend(of_it);
            }
        }
    }
    let extra = result.keys().filter(|path| !reference.contains_key(*path));
    found.extend(extra.map(|path| format!("{}: should not be there", path.escape_ascii())));
    found
}

fn items(left: &Item, right: &Item, slack: u64) -> Option<String> {
    let same = Item { blocks: left.blocks, ..right.clone() };
    if *left != same {
        return Some(format!("is {right:?} and should be {left:?}"));
    }
    (right.blocks > left.blocks + slack).then(|| format!("takes {} blocks, not {}", right.blocks, left.blocks))
}

/// Wants two directories to be equal in contents and in all metadata, with the same names for the same files.
#[track_caller]
pub fn assert_equal(reference: &Path, result: &Path, context: &str) {
    assert_none(&differences(&look(reference), &look(result)), context);
}

/// Wants no differences.
#[track_caller]
pub fn assert_none(found: &[String], context: &str) {
    let shown = found.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(found.is_empty(), "{context}: {} differences\n{shown}", found.len());
}

/// Files and directories below a directory, as far as it is there.
pub fn count(directory: &Path) -> usize {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let of = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => 1 + count(&entry.path()),
        _ => 1,
    };
    entries.flatten().map(of).sum()
}

/// Removes a copy.
///
/// # Panics
/// If it resists.
pub fn remove(directory: &Path) {
    fs::remove_dir_all(directory).unwrap_or_else(|error| panic!("cannot remove {}: {error}", directory.display()));
}
