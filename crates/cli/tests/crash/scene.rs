//! The tree that is copied, and the older one that stands at its destination.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use haul_testbed::Command;
use haul_testbed::guest::Noise;
use rustix::fs::{XattrFlags, setxattr};
use rustix::process::geteuid;

/// From none to more than a page, a block group's reservation, and what one request to a device carries.
const SIZES: [usize; 8] = [0, 1, 700, 4096, 10_000, 65_536, 150_001, 400_000];

/// Of these only the first three exist at the destination.
const DIRS: [&str; 5] = ["", "a", "a/b", "new", "new/deep"];

/// How many files there are of all sizes, but for the large ones.
const FILES: usize = 80;

const LARGE: usize = 5 << 20;

/// Everything is older than any test.
const LONG_AGO: u64 = 1_600_000_000;

/// The path of one of the files.
fn path(number: usize) -> PathBuf {
    Path::new(DIRS[number % DIRS.len()]).join(format!("file-{number}"))
}

/// Whether a file stands at the destination before.
fn was_there(number: usize) -> bool {
    number % DIRS.len() < 3 && number % 3 != 2
}

/// Files that come by a new name, in no order.
pub fn new_names() -> Vec<PathBuf> {
    (0..FILES).filter(|number| !was_there(*number)).map(path).collect()
}

/// Makes the tree that is copied: about 16 MiB. With privilege also what only root can keep.
pub fn lay_new(root: &Path) {
    let mut noise = Noise::new(1);
    make_dirs(root, &DIRS);
    for number in 0..FILES {
        let file = root.join(path(number));
        write(&file, &noise.bytes(SIZES[number % SIZES.len()]), number as u64);
        fs::set_permissions(&file, PermissionsExt::from_mode(0o600 | ((number as u32 * 7) & 0o77))).expect("a mode");
        if number % 4 == 0 {
            setxattr(&file, "user.number", number.to_string().as_bytes(), XattrFlags::empty()).expect("an attribute");
        }
        if number % 5 == 0 && geteuid().is_root() {
            chown(&file, Some(1000 + number as u32), Some(2000)).expect("an owner");
        }
    }
    for (name, size) in [("large", LARGE), ("a/large-new", LARGE / 2)] {
        write(&root.join(name), &noise.bytes(size), 7);
    }
    symlink("after", root.join("link")).expect("a link");
    symlink("after", root.join("new/link-new")).expect("a link");
    fs::hard_link(root.join("a/large-new"), root.join("new/second-name")).expect("a link");
    let status = Command::new("mkfifo").arg(root.join("a/fifo")).status().expect("mkfifo can be run");
    assert!(status.success());
    date_dirs(root);
}

/// Makes the older tree: some of the names, none of them with the contents or the size of the new one, and none empty; and
/// some that the copy does not touch.
pub fn lay_old(root: &Path) {
    let mut noise = Noise::new(2);
    make_dirs(root, &DIRS[..3]);
    for number in (0..FILES).filter(|number| was_there(*number)) {
        let size = SIZES[number % SIZES.len()];
        let other = if number % 2 == 0 { size / 2 + 13 } else { size + 5000 };
        write(&root.join(path(number)), &noise.bytes(other), 1000 + number as u64);
    }
    write(&root.join("large"), &noise.bytes(LARGE / 2 + 77), 1);
    write(&root.join("a/bystander"), &noise.bytes(5000), 1);
    symlink("before", root.join("link")).expect("a link");
    symlink("nobody", root.join("a/bystanding-link")).expect("a link");
    date_dirs(root);
}

/// Adds to the older tree what the new one does not have: directories side by side, and links.
pub fn lay_gone(root: &Path) {
    let mut noise = Noise::new(3);
    for dir in 0..12 {
        for below in ["", "below"] {
            let dir = root.join(format!("gone-{dir}")).join(below);
            fs::create_dir_all(&dir).expect("a directory");
            for size in SIZES {
                write(&dir.join(format!("file-{size}")), &noise.bytes(size), 1);
            }
            symlink("../../large", dir.join("link")).expect("a link");
        }
    }
}

fn make_dirs(root: &Path, dirs: &[&str]) {
    for dir in dirs {
        fs::create_dir_all(root.join(dir)).expect("a directory");
    }
}

fn write(path: &Path, bytes: &[u8], age: u64) {
    fs::write(path, bytes).expect("a file can be written");
    File::open(path).and_then(|file| file.set_modified(time(age))).expect("a time");
}

fn date_dirs(root: &Path) {
    for (age, dir) in DIRS.iter().enumerate().filter(|(_, dir)| root.join(dir).exists()) {
        File::open(root.join(dir)).and_then(|file| file.set_modified(time(age as u64))).expect("a time");
    }
}

fn time(age: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(LONG_AGO - age, 123_456_789)
}
