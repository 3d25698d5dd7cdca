//! What is said comes in the order of a serial copy, whatever the threads do.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Output;

use fastrand::Rng;
use haul_agree::grow::{Flavor, Grower, USER, join};
use haul_agree::scene::{Kind, Node, build};
use haul_testbed::Command;

use crate::trees::{lacks_root, number, room};

/// A source with files that cannot be read, and directories that cannot be entered, by everybody.
fn source(root: &Path, seed: u64, hard_links: bool) {
    let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let flavor = Flavor { fifos: true, devices: false, mounts: false, unprivileged: true };
    let mut grower = Grower { rng: &mut rng, flavor, nodes: Vec::new() };
    grower.add(Node::new(b"s", Kind::Directory));
    for dir in 0..12 {
        let dir = format!("s/d{dir}").into_bytes();
        grower.add(Node::new(&dir, Kind::Directory));
        for file in 0..grower.rng.usize(..25) {
            let kind = grower.kind(&dir);
            let mut node = grower.dressed(&join(&dir, format!("f{file}").as_bytes()), kind);
            if grower.rng.u8(..5) == 0 {
                node.mode = 0;
                node.owner = (0, 0);
            }
            grower.add(node);
        }
        grower.tree(&join(&dir, b"below"), 3, 12);
    }
    grower.nodes.retain(|node| hard_links || !matches!(node.kind, Kind::HardLink(_)));
    build(root, &grower.nodes).expect("the scene is built");
}

/// Copies with so many jobs as an ordinary user, and moves the copy out of the way.
fn copy(root: &Path, program: &Path, options: &[&str], jobs: u32, prepare: impl Fn(&Path)) -> Output {
    let dest = root.join("d");
    fs::create_dir(&dest).expect("a directory");
    prepare(&dest);
    chown(&dest, Some(USER), Some(USER)).expect("it is given away");
    let mut command = Command::new(program);
    command.args(options).arg(format!("--jobs={jobs}")).args(["s", "d"]).current_dir(root).env("LC_ALL", "C");
    let output = command.uid(USER).gid(USER).output().expect("the program starts");
    fs::rename(&dest, root.join(format!("d-{jobs}-{}", fastrand::u64(..)))).expect("it is moved");
    output
}

fn same_messages(what: &[&str], hard_links: bool, prepare: impl Fn(&Path)) {
    let (room, program) = room();
    let first = number("HAUL_STRESS_SEED", 1);
    for seed in first..first + number("HAUL_STRESS_CASES", 4) {
        let root = room.path().join(seed.to_string());
        fs::create_dir(&root).expect("a directory");
        chown(&root, Some(USER), Some(USER)).expect("it is given away");
        source(&root, seed, hard_links);
        let serial = copy(&root, &program, what, 1, &prepare);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for jobs in [2, 8, 8, 8] {
            let parallel = copy(&root, &program, what, jobs, &prepare);
            let context = format!("HAUL_STRESS_SEED={seed} {what:?} --jobs={jobs}");
            assert_eq!(text(&serial.stdout), text(&parallel.stdout), "{context}");
            assert_eq!(text(&serial.stderr), text(&parallel.stderr), "{context}");
            assert_eq!(serial.status, parallel.status, "{context}");
        }
    }
}

#[test]
fn the_names_and_errors_of_many_threads_come_as_those_of_one() {
    if lacks_root("messages") {
        return;
    }
    same_messages(&["-rv"], true, |_| {});
    same_messages(&["-av"], true, |_| {});
}

#[test]
fn the_choice_for_each_file_is_reported_as_by_one_thread() {
    if lacks_root("messages") {
        return;
    }
    // Which of several names is copied, and which become links to it, depends on the threads: only -a keeps those.
    same_messages(&["-r", "--debug"], true, |_| {});
    same_messages(&["-a", "--debug"], false, |_| {});
}

#[test]
fn obstacles_are_reported_as_by_one_thread() {
    if lacks_root("messages") {
        return;
    }
    let prepare = |dest: &Path| {
        let dir = dest.join("s");
        for name in ["d1", "d4", "d9"] {
            fs::create_dir_all(dir.join(name)).expect("a directory");
            for file in ["f1", "f5", "below"] {
                fs::write(dir.join(name).join(file), "in the way").expect("a file");
            }
        }
        fs::write(dir.join("d6"), "in the way").expect("a file");
        for path in ["", "d1", "d4", "d9", "d4/f1", "d9/f5", "d1/below"] {
            chown(dir.join(path), Some(USER), Some(USER)).expect("it is given away");
        }
    };
    same_messages(&["-rv"], true, prepare);
    same_messages(&["-auv", "--backup=numbered"], true, prepare);
}
