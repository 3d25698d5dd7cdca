//! What is certain of a copy: `--atomic`, `--durable`, `--verify`, `--checksum`, `--if-changed`.
#![forbid(unsafe_code)]

mod atomic;
mod changes;
mod durable;
mod interrupted;
mod lists;
mod overwriting;
mod repeated;
mod resume;
mod resumed;
mod slow_disk;
mod stacked;
mod verify;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use haul_testbed::{Command, create_painted};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

fn haul(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(HAUL).arg0("haul").args(arguments).current_dir(dir).env("LC_ALL", "C").output().expect("it can be run")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn succeeds(dir: &Path, arguments: &[&str]) -> Output {
    let output = haul(dir, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    output
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("it can be run");
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A tree with one of everything, files of several sizes and of several names among them.
fn make_tree(dir: &Path) {
    fs::create_dir_all(dir.join("inner/deeper")).expect("it can be made");
    for (name, len) in [("empty", 0), ("small", 100), ("inner/some", 200_000), ("inner/deeper/large", 9 << 20)] {
        create_painted(dir.join(name), len);
    }
    fs::write(dir.join("one"), "linked").expect("it can be written");
    fs::hard_link(dir.join("one"), dir.join("inner/two")).expect("it can be linked");
    fs::hard_link(dir.join("one"), dir.join("inner/deeper/three")).expect("it can be linked");
    symlink("small", dir.join("link")).expect("it can be linked");
    symlink("nowhere", dir.join("dangling")).expect("it can be linked");
    run("mkfifo", &[dir.join("fifo").to_str().expect("a name")]);
    let sparse = File::create(dir.join("sparse")).expect("it can be made");
    sparse.write_all_at(b"middle", 5 << 20).expect("it can be written");
    sparse.set_len(9 << 20).expect("it can be extended");
    for number in 0..50 {
        fs::write(dir.join(format!("inner/file{number}")), format!("{number}\n").repeat(number))
            .expect("it can be written");
    }
}

/// Everything below a directory.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("it can be read") {
        let entry = entry.expect("it can be read");
        if entry.file_type().expect("it has a type").is_dir() {
            found.extend(entries(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}

/// No temporary name is left.
fn assert_tidy(dir: &Path) {
    let left: Vec<_> = entries(dir).into_iter().filter(|path| path.to_string_lossy().contains(".haul-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The second opinion on contents, kinds, modes, owners, times, attributes and hard links.
fn assert_same_trees(a: &Path, b: &Path) {
    let compared = Command::new("rsync")
        .args(["-naHAXSi", "--checksum", "--delete"])
        .arg(a.join(""))
        .arg(b.join(""))
        .output()
        .expect("it can be run");
    assert!(compared.status.success(), "{compared:?}");
    assert_eq!(String::from_utf8_lossy(&compared.stdout), "");
}
