//! Directories that are made ahead of the files beside them, and what becomes of them when they are not wanted. On ext4: only
//! filesystems with a device of their own get them.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use haul_copy::events::Event;
use haul_copy::plan::{Dereference, Destination, Plan};
use haul_copy::run::Cancel;
use haul_testbed::{Bed, Fs};
use support::copy;

const DIRECTORIES: usize = 8;
const THREADS: usize = 2;

/// A tree of a few files and directories, each with a file in it, and where its copy goes.
fn tree(room: &Path) -> (PathBuf, PathBuf) {
    let (source, dest) = (room.join("source"), room.join("dest"));
    for number in 0..DIRECTORIES {
        let below = directory(&source, number);
        fs::create_dir_all(&below).unwrap();
        fs::set_permissions(&below, PermissionsExt::from_mode(0o755)).unwrap();
        fs::write(below.join("file"), format!("{number}")).unwrap();
        fs::write(source.join(format!("file-{number}")), "beside").unwrap();
    }
    (source, dest)
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
        jobs: Some(THREADS),
        ..Plan::default()
    }
}

fn is_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"file"))
}

#[test]
fn all_directories_beside_a_file_are_there_before_it() {
    let Some(bed) = Bed::new() else { return };
    let Some(room) = bed.mount(Fs::Ext4) else { return };
    let (source, dest) = tree(&room);
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
    let Some(bed) = Bed::new() else { return };
    let Some(room) = bed.mount(Fs::Ext4) else { return };
    let (source, dest) = tree(&room);
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
    let Some(bed) = Bed::new() else { return };
    let Some(room) = bed.mount(Fs::Ext4) else { return };
    for round in 0..20 {
        let (source, dest) = tree(&room.join(round.to_string()));
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

#[test]
fn a_directory_gets_the_mode_that_its_source_has_when_it_is_copied() {
    let Some(bed) = Bed::new() else { return };
    let Some(room) = bed.mount(Fs::Ext4) else { return };
    let (source, dest) = tree(&room);
    let mut closed = false;
    let (summary, problems) = copy(&plan(&source, &dest), &Cancel::default(), |event| {
        // By then all of them stand there.
        if let Event::Copying { dest: entered, .. } = event
            && *entered != dest
            && !std::mem::replace(&mut closed, true)
        {
            for number in 0..DIRECTORIES {
                fs::set_permissions(directory(&source, number), PermissionsExt::from_mode(0o700)).unwrap();
            }
        }
    });
    assert!(!summary.failed, "{problems:?}");
    let mode = |number| fs::metadata(directory(&dest, number)).unwrap().permissions().mode() & 0o7777;
    let modes: Vec<_> = (0..DIRECTORIES).map(mode).collect();
    // Another thread may have been at some of them before.
    assert!(modes.iter().all(|mode| matches!(mode, 0o700 | 0o755)), "{modes:?}");
    assert!(modes.contains(&0o700), "{modes:?}");
}

#[test]
fn a_directory_that_was_removed_since_it_was_made_is_made_again() {
    let Some(bed) = Bed::new() else { return };
    let Some(room) = bed.mount(Fs::Ext4) else { return };
    let (source, dest) = tree(&room);
    let mut removed = None;
    let (_, problems) = copy(&plan(&source, &dest), &Cancel::default(), |event| {
        if let Event::Copying { dest: entered, .. } = event
            && is_file(entered)
            && removed.is_none()
        {
            // Those that hold nothing yet.
            removed = Some((0..DIRECTORIES).filter(|number| fs::remove_dir(directory(&dest, *number)).is_ok()).count());
        }
    });
    let missing = (0..DIRECTORIES).filter(|number| !directory(&dest, *number).join("file").exists()).count();
    // Each thread may have opened one just then, and what is removed from under it cannot be made again.
    assert!(missing <= THREADS, "{missing} are missing: {problems:?}");
    assert!(removed > Some(THREADS), "of {removed:?} that were removed none had to be made again");
}
