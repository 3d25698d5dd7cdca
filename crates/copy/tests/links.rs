//! More names of one file than its copy's filesystem allows.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;

use haul_copy::events::Event;
use haul_copy::plan::{Destination, Durable, Plan, Preserve, Update};
use haul_copy::run::Cancel;
use haul_testbed::{Bed, Fs};

/// What ext4 allows.
const MOST: usize = 65_000;
const NAMES: usize = MOST + 300;

/// A file of so many names, in directories of a few thousand, on a filesystem that allows them.
fn make_names(root: &Path) {
    let first = root.join("first");
    fs::create_dir(root).unwrap();
    fs::write(&first, "one file").unwrap();
    for number in 1..NAMES {
        let dir = root.join(format!("d{}", number / 5000));
        if !dir.exists() {
            fs::create_dir(&dir).unwrap();
        }
        fs::hard_link(&first, dir.join(number.to_string())).unwrap();
    }
}

/// Copies and gives how many names each file has at the destination, and the warnings.
fn copy(source: &Path, dest: &Path, plan: Plan) -> (Vec<usize>, Vec<String>) {
    let plan = Plan {
        sources: vec![source.into()],
        destination: Destination::Exactly(dest.into()),
        recursive: true,
        preserve: Preserve { links: true, ..Preserve::default() },
        ..plan
    };
    let warnings = Mutex::new(Vec::new());
    let (summary, problems) = support::copy(&plan, &Cancel::default(), |event| {
        if let Event::Warning(warning) = event {
            warnings.lock().unwrap().push(warning.to_string());
        }
    });
    assert_eq!((summary.failed, problems), (false, vec![]));
    (names_of_files(dest), warnings.into_inner().unwrap())
}

/// How many names each file below a directory has, the most first. All of them have the contents.
fn names_of_files(dir: &Path) -> Vec<usize> {
    let mut files: BTreeMap<u64, usize> = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
                continue;
            }
            let names = files.entry(entry.metadata().unwrap().ino()).or_default();
            if *names == 0 {
                assert_eq!(fs::read(entry.path()).unwrap(), b"one file");
            }
            *names += 1;
        }
    }
    let mut counts: Vec<usize> = files.into_values().collect();
    counts.sort_unstable_by(|one, other| other.cmp(one));
    counts
}

#[test]
fn names_beyond_the_limit_of_links_become_another_file() {
    let Some(bed) = Bed::new() else { return };
    let (Some(from), Some(to)) = (bed.mount(Fs::Tmpfs), bed.mount(Fs::Ext4)) else { return };
    let source = from.join("source");
    make_names(&source);
    for (name, plan) in [
        ("one thread", Plan { jobs: Some(1), ..Plan::default() }),
        ("several threads", Plan { jobs: Some(4), ..Plan::default() }),
        ("names that wait for the device", Plan { durable: Durable::File, jobs: Some(2), ..Plan::default() }),
    ] {
        let dest = to.join("copy");
        let (files, warnings) = copy(&source, &dest, plan);
        assert_eq!(files, [MOST, NAMES - MOST], "{name}");
        assert_eq!(warnings.len(), 1, "{name}: {warnings:?}");
        assert!(warnings[0].contains("no more hard links to"), "{name}: {warnings:?}");
        fs::remove_dir_all(dest).unwrap();
    }
}

#[test]
fn a_copy_in_several_files_for_its_names_is_updated_as_it_is() {
    let Some(bed) = Bed::new() else { return };
    let (Some(from), Some(to)) = (bed.mount(Fs::Tmpfs), bed.mount(Fs::Ext4)) else { return };
    let source = from.join("source");
    make_names(&source);
    let dest = to.join("copy");
    for _ in 0..2 {
        let update = Plan { update: Update::Older, jobs: Some(1), ..Plan::default() };
        assert_eq!(copy(&source, &dest, update).0, [MOST, NAMES - MOST]);
    }
}
