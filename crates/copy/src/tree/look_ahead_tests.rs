use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use haul_sys::inode::FileId;
use haul_testbed::{Bed, Command, Fs, temp_dir_in};

use super::*;
use crate::context::test_support::Bench;
use crate::tree::test_support::{found, plan};

/// What is found out about the destination.
fn look_at(bench: &Bench) -> Option<Found> {
    let ran = bench.run(|worker| {
        assert!(worker.cx.services.order.ask());
        look(worker.cx, found(bench).sides.as_ref().unwrap(), 8)
    });
    ran.value
}

fn id(path: PathBuf) -> FileId {
    let dir = fs::File::open(path).unwrap();
    Inode::of(dir.as_fd()).unwrap().id
}

/// These directories on both sides, one in the other.
fn bench_of(dirs: &[&str]) -> Bench {
    let bench = Bench::new(plan());
    for dir in dirs {
        fs::create_dir_all(bench.source_path(dir)).unwrap();
        fs::create_dir_all(bench.dest_path(dir)).unwrap();
    }
    bench
}

#[test]
fn a_directory_with_a_link_over_something_else_is_ordered_and_so_are_those_above() {
    let bench = bench_of(&["a/b/c", "a/d", "e"]);
    fs::write(bench.source_path("a/b/file"), "new").unwrap();
    symlink("c", bench.dest_path("a/b/file")).unwrap();
    let ordered = ["", "a", "a/b"].map(|dir| id(bench.dest_path(dir)));
    assert_eq!(look_at(&bench).unwrap().ordered, HashSet::from(ordered));
}

#[test]
fn links_that_nobody_writes_through_do_not_matter() {
    let bench = bench_of(&["a"]);
    symlink("old", bench.dest_path("a/link")).unwrap();
    symlink("new", bench.source_path("a/link")).unwrap();
    symlink("old", bench.dest_path("a/gone")).unwrap();
    let found = look_at(&bench).unwrap();
    assert!(found.ordered.is_empty() && found.files);
}

#[test]
fn what_holds_nothing_but_directories_has_no_files() {
    assert!(!look_at(&bench_of(&["a/b", "c"])).unwrap().files);
}

#[test]
fn nothing_is_known_once_nobody_wants_it() {
    let bench = bench_of(&["a"]);
    let ran = bench.run(|worker| look(worker.cx, found(&bench).sides.as_ref().unwrap(), 8).is_none());
    assert!(ran.value);
}

#[test]
fn nothing_is_shared_where_a_filesystem_is_mounted() {
    let Some(bed) = Bed::new() else { return };
    let Some(room) = bed.mount(Fs::Tmpfs) else { return };
    let dir = temp_dir_in(&room);
    for side in ["s/a", "d/a", "d/b"] {
        fs::create_dir_all(dir.path().join(side)).unwrap();
    }
    let (a, b) = (dir.path().join("d/a"), dir.path().join("d/b"));
    assert!(Command::new("mount").arg("--bind").args([&a, &b]).status().unwrap().success());
    let bench = Bench::new(plan());
    let sides = ["s", "d"].map(|side| fs::File::open(dir.path().join(side)).unwrap().into());
    let [source, dest] = sides;
    let sides = Sides::new(source, dest, &crate::walk::PathNode::root(Path::new("d")));
    let looks = || {
        bench
            .run(|worker| {
                worker.cx.services.order.forget();
                assert!(worker.cx.services.order.ask());
                look(worker.cx, &sides, 8).is_some()
            })
            .value
    };
    let mounted = looks();
    haul_testbed::guest::unmount(&b);
    assert!(!mounted && looks());
}

#[test]
fn nothing_is_shared_where_upper_and_lower_case_are_alike() {
    let dir = haul_testbed::temp_dir();
    for name in ["File", "other", "123"] {
        fs::write(dir.path().join(name), "").unwrap();
    }
    let opened = fs::File::open(dir.path()).unwrap();
    let counts =
        |name: &str| case_counts(Spot::new(opened.as_fd(), OsStr::new(name), Path::new(name)), OsStr::new(name));
    assert_eq!((counts("File"), counts("123")), (Some(true), Some(false)));
    fs::hard_link(dir.path().join("File"), dir.path().join("fILE")).unwrap();
    assert_eq!(counts("File"), Some(false), "two names of one file tell nothing");
    fs::create_dir(dir.path().join("Dir")).unwrap();
    // As a directory is found there by both names.
    let found = Spot::new(opened.as_fd(), OsStr::new("Dir"), Path::new("Dir"));
    assert_eq!(case_counts(found, OsStr::new("dIR")), None);
}
