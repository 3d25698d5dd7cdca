//! Directories that are made ahead of the files beside them, and what becomes of them when they are not wanted.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use haul_copy::events::Event;
use haul_copy::plan::{Dereference, Destination, Plan};
use haul_copy::run::Cancel;
use haul_testbed::{TempDir, temp_dir};
use support::copy;

const DIRECTORIES: usize = 8;

/// A tree of a few files and directories, each with a file in it.
fn tree() -> (TempDir, PathBuf, PathBuf) {
    let dir = temp_dir();
    let (source, dest) = (dir.path().join("source"), dir.path().join("dest"));
    for number in 0..DIRECTORIES {
        let below = directory(&source, number);
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join("file"), format!("{number}")).unwrap();
        fs::write(source.join(format!("file-{number}")), "beside").unwrap();
    }
    (dir, source, dest)
}

fn directory(above: &Path, number: usize) -> PathBuf {
    above.join(format!("dir-{number}"))
}

fn plan(source: &Path, dest: &Path) -> Plan {
    Plan {
        sources: vec![source.into()],
        destination: Destination::Exactly(dest.into()),
        recursive: true,
        dereference: Dereference::Never,
        jobs: Some(2),
        ..Plan::default()
    }
}

fn is_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"file"))
}

#[test]
fn all_directories_beside_a_file_are_there_before_it() {
    let (_dir, source, dest) = tree();
    let mut early = Vec::new();
    let (summary, problems) = copy(&plan(&source, &dest), &Cancel::default(), |event| {
        if let Event::Copying { dest: file, .. } = event
            && is_file(file)
            && !(0..DIRECTORIES).all(|number| directory(&dest, number).is_dir())
        {
            early.push(file.to_path_buf());
        }
    });
    assert!(!summary.failed, "{problems:?}");
    assert_eq!(early, Vec::<PathBuf>::new());
    assert_eq!(summary.stats.directories, DIRECTORIES as u64 + 1);
    for number in 0..DIRECTORIES {
        assert_eq!(fs::read(directory(&dest, number).join("file")).unwrap(), number.to_string().into_bytes());
    }
}

#[test]
fn a_stopped_copy_leaves_no_directory_that_it_did_not_come_to() {
    let (_dir, source, dest) = tree();
    let cancel = Cancel::default();
    let mut entered = BTreeSet::new();
    copy(&plan(&source, &dest), &cancel, |event| {
        if let Event::Copying { dest, .. } = event {
            entered.insert(dest.to_path_buf());
            if is_file(dest) {
                cancel.cancel();
            }
        }
    });
    let left: Vec<_> = (0..DIRECTORIES).map(|number| directory(&dest, number)).filter(|dir| dir.exists()).collect();
    assert!(left.iter().all(|dir| entered.contains(dir)), "{left:?} of {entered:?}");
    assert!(left.len() < DIRECTORIES, "nothing was stopped");
}

#[test]
fn a_directory_that_becomes_a_file_meanwhile_is_copied_as_one_or_reported() {
    for round in 0..20 {
        let (_dir, source, dest) = tree();
        let mut replaced = false;
        let (summary, problems) = copy(&plan(&source, &dest), &Cancel::default(), |event| {
            let Event::Copying { dest: entered, .. } = event else { return };
            if entered.starts_with(&dest) && *entered != dest && !std::mem::replace(&mut replaced, true) {
                for number in 0..DIRECTORIES {
                    let old = directory(&source, number);
                    if fs::remove_dir_all(&old).is_ok() {
                        fs::write(old, "now a file").unwrap();
                    }
                }
            }
        });
        for number in 0..DIRECTORIES {
            let copied = fs::read(directory(&dest, number)).is_ok_and(|bytes| bytes == b"now a file");
            let entered = directory(&dest, number).is_dir();
            assert!(copied || entered || summary.failed, "round {round}, {number}: {problems:?}");
            assert!(!entered || summary.failed || directory(&dest, number).join("file").exists(), "round {round}");
        }
    }
}
