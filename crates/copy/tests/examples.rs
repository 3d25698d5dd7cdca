//! The examples, which the guide to the library shows, copy what they say.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_testbed::{Command, create_painted, temp_dir};

/// Cargo may have to build one.
const BUILD: Duration = Duration::from_secs(600);

/// An example beside this test, which stands in `target/PROFILE/deps`; cargo builds it where it is missing.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let profile = test.ancestors().nth(2).expect("a test is in the deps of a target directory");
    let path = profile.join("examples").join(name);
    if !path.exists() {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.deadline(BUILD).args(["build", "--quiet", "--package", "haul-copy", "--example", name]);
        let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo can be run");
        assert!(status.success() && path.exists(), "cargo did not build {}", path.display());
    }
    path
}

/// Runs it on `from` and `to` in a place; what it prints.
fn run(name: &str, place: &Path) -> String {
    let output = Command::new(example(name)).args(["from", "to"]).current_dir(place).output().expect("it can be run");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A small file, and one of 2 MiB.
fn stage(place: &Path) {
    fs::create_dir_all(place.join("from/sub")).unwrap();
    create_painted(place.join("from/small"), 100);
    create_painted(place.join("from/sub/large"), 2 << 20);
}

fn same(place: &Path, name: &str) {
    let read = |side: &str| fs::read(place.join(side).join(name)).unwrap();
    assert!(read("from") == read("to"), "{name}");
}

/// The guide is in the repository, not in the package.
#[test]
fn the_guide_shows_the_examples_as_they_are() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Ok(guide) = fs::read_to_string(package.join("../../docs/library.md")) else { return };
    for name in ["copy_tree", "verify", "resume", "decide"] {
        let example = fs::read_to_string(package.join(format!("examples/{name}.rs"))).expect("it is in the package");
        assert!(guide.contains(&example), "docs/library.md does not have examples/{name}.rs as it is");
    }
}

#[test]
fn the_example_copies_a_tree() {
    let dir = temp_dir();
    stage(dir.path());
    assert_eq!(run("copy_tree", dir.path()), "2 files, 2 directories\n");
    same(dir.path(), "small");
    same(dir.path(), "sub/large");
}

#[test]
fn each_copy_is_read_again() {
    let dir = temp_dir();
    stage(dir.path());
    assert_eq!(run("verify", dir.path()), "2 files are on the device as they are in the source\n");
    same(dir.path(), "sub/large");
}

#[test]
fn a_copy_that_ends_well_is_not_resumed() {
    let dir = temp_dir();
    stage(dir.path());
    assert_eq!(run("resume", dir.path()), "2 files, of which 0 were there already\n");
    same(dir.path(), "sub/large");
}

#[test]
fn large_files_that_exist_stay() {
    let dir = temp_dir();
    stage(dir.path());
    fs::create_dir_all(dir.path().join("to/sub")).unwrap();
    for (name, size) in [("small", 50), ("sub/large", 3 << 20)] {
        fs::write(dir.path().join("to").join(name), vec![7; size]).unwrap();
    }
    assert_eq!(run("decide", dir.path()), "1 files copied, 1 kept\n");
    same(dir.path(), "small");
    assert_eq!(fs::read(dir.path().join("to/sub/large")).unwrap(), vec![7; 3 << 20]);
}
