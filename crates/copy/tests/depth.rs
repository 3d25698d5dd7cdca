//! Trees deeper than there are descriptors. One test for each process, since the limit is the process's.

mod support;

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use haul_copy::events::Event;
use haul_copy::plan::{Dereference, Destination, Plan};
use haul_copy::run::Cancel;
use haul_sys::rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use haul_sys::rustix::io::{read, write};
use haul_sys::rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use haul_testbed::temp_dir;
use support::copy;

/// With names of 20 bytes, twice as long as PATH_MAX.
const LEVELS: usize = 400;
const NAME: &str = "a-directory-of-20-by";

fn plan(source: &Path, dest: &Path) -> Plan {
    Plan {
        sources: vec![source.into()],
        destination: Destination::Exactly(dest.into()),
        recursive: true,
        dereference: Dereference::Never,
        ..Plan::default()
    }
}

fn descend(dir: &OwnedFd) -> OwnedFd {
    openat(dir, NAME, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

fn make_deep(root: &Path) {
    fs::create_dir(root).unwrap();
    let mut dir = openat(CWD, root, OFlags::RDONLY, Mode::empty()).unwrap();
    for level in 0..LEVELS {
        mkdirat(&dir, NAME, Mode::from_raw_mode(0o755)).unwrap();
        // Sorted by inode this comes after the directory: the way back up is needed.
        let file = openat(&dir, "file", OFlags::WRONLY | OFlags::CREATE, Mode::from_raw_mode(0o644)).unwrap();
        write(&file, format!("level {level}").as_bytes()).unwrap();
        dir = descend(&dir);
    }
}

fn count_levels(root: &Path) -> usize {
    let mut dir = openat(CWD, root, OFlags::RDONLY, Mode::empty()).unwrap();
    for level in 0..LEVELS {
        let Ok(file) = openat(&dir, "file", OFlags::RDONLY, Mode::empty()) else { return level };
        let mut text = [0; 20];
        let len = read(file.as_fd(), &mut text).unwrap();
        assert_eq!(&text[..len], format!("level {level}").as_bytes());
        dir = descend(&dir);
    }
    LEVELS
}

#[test]
fn a_tree_deeper_than_path_max_and_the_descriptor_limit_is_copied_and_a_moved_ancestor_is_noticed() {
    let dir = temp_dir();
    let (source, dest) = (dir.path().join("source"), dir.path().join("dest"));
    make_deep(&source);
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();

    let (summary, problems) = copy(&plan(&source, &dest), &Cancel::default(), |_| {});
    assert!(!summary.failed, "{problems:?}");
    assert_eq!(count_levels(&dest), LEVELS);

    // A directory in the middle is moved away while the copy is far below it, and its place taken by another.
    let (moved, elsewhere) = (source.join(NAME).join(NAME), dir.path().join("elsewhere"));
    // With several threads what is reported may be long past.
    let serial = Plan { jobs: Some(1), ..plan(&source, &dir.path().join("again")) };
    let mut depth = 0;
    let (summary, problems) = copy(&serial, &Cancel::default(), |event| {
        if let Event::Copying { source, .. } = event
            && source.ends_with(NAME)
        {
            depth += 1;
            if depth == 200 {
                fs::rename(&moved, &elsewhere).unwrap();
                fs::create_dir(&moved).unwrap();
                fs::write(moved.join("file"), "from somebody else").unwrap();
            }
        }
    });
    assert!(summary.failed);
    assert!(problems.iter().any(|problem| problem.contains("was moved while")), "{problems:?}");
    setrlimit(Resource::Nofile, limit).unwrap();
    remove_deep(&dest);
    for rest in ["again", "elsewhere", "source"] {
        remove_deep(&dir.path().join(rest));
    }
}

/// The standard library gives up at PATH_MAX.
fn remove_deep(path: &Path) {
    let status = haul_testbed::Command::new("rm").arg("-rf").arg(path).status().unwrap();
    assert!(status.success());
}
