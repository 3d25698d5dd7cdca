//! `--open-noatime`: reading does not show at the source, where the kernel allows that.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Output;

use haul_testbed::{Command, TempDir, copy_program, create_painted, skip, temp_dir};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");
/// What is read; the last is larger than what is read at once.
const NAMES: [&str; 3] = ["src", "src/small", "src/large"];
/// In seconds, before the times of modification, so that relatime notes the next access.
const LONG_AGO: i64 = 946_684_800;

/// A tree that nobody has looked at for long. `None` where the filesystem does not note who looks.
fn scene() -> Option<TempDir> {
    let dir = temp_dir();
    fs::create_dir(dir.path().join("src")).expect("it can be made");
    fs::write(dir.path().join("src/small"), "small").expect("it can be written");
    create_painted(dir.path().join("src/large"), 3 << 20);
    forget(&dir);
    run(&dir, &["-r", "src", "plain"]);
    if seen(&dir).contains(&false) {
        skip("the filesystem notes no times of access");
        return None;
    }
    Some(dir)
}

fn forget(dir: &TempDir) {
    let time = |tv_sec| Timespec { tv_sec, tv_nsec: 0 };
    let times = Timestamps { last_access: time(LONG_AGO), last_modification: time(LONG_AGO + 1) };
    for name in NAMES {
        utimensat(CWD, dir.path().join(name), &times, AtFlags::empty()).expect("the times can be set");
    }
}

/// Of which of the names the time of access has changed.
fn seen(dir: &TempDir) -> [bool; 3] {
    NAMES.map(|name| fs::symlink_metadata(dir.path().join(name)).expect("it is there").atime() != LONG_AGO)
}

fn run(dir: &TempDir, arguments: &[&str]) -> Output {
    let output = Command::new(HAUL).args(arguments).current_dir(dir.path()).output().expect("haul can be run");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn sources_are_read_without_a_trace() {
    let Some(dir) = scene() else { return };
    for arguments in [
        &["-r", "src", "new"][..],
        &["-a", "--jobs=4", "src", "all"],
        &["-r", "--verify", "src", "verified"],
        &["-r", "--engine=read-write", "src", "read-written"],
        &["-r", "--engine=mapped", "src", "mapped"],
        &["-r", "--engine=io-uring", "src", "uring"],
        &["-rT", "--update=content", "src", "new"],
        &["-rT", "--compare", "src", "new"],
        &["-rT", "--delete", "src", "new"],
        &["-rT", "--delete", "--atomic", "src", "new"],
    ] {
        forget(&dir);
        run(&dir, &[&["--open-noatime"], arguments].concat());
        assert_eq!(seen(&dir), [false; 3], "{arguments:?}");
    }
}

/// What is moved to another filesystem is compared with its copy before it goes, and may stay.
#[test]
fn a_move_that_leaves_them_leaves_no_trace() {
    let Some(dir) = scene() else { return };
    let Ok(memory) = TempDir::new_in("/dev/shm") else { return skip("there is no /dev/shm") };
    let dest = memory.path().to_str().expect("it is text");
    run(&dir, &["-r", "src", dest]);
    fs::write(memory.path().join("src/small"), "other").expect("it can be written");
    forget(&dir);
    let long_ago = fs::metadata(dir.path().join("src/small")).expect("it is there").modified().expect("it has one");
    let copy = fs::File::options().write(true).open(memory.path().join("src/small")).expect("it is ours");
    copy.set_modified(long_ago).expect("it is ours");
    let mut command = Command::new(HAUL);
    command.args(["--open-noatime", "--move", "--update=changed", "src", dest]).current_dir(dir.path());
    let output = command.output().expect("haul can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("not removing 'src/small'"), "{said}");
    assert!(!dir.path().join("src/large").exists(), "{said}");
    let seen = ["src", "src/small"].map(|name| fs::metadata(dir.path().join(name)).expect("it stays").atime());
    assert_eq!(seen, [LONG_AGO; 2]);
}

#[test]
fn what_belongs_to_others_is_copied_all_the_same() {
    if !rustix::process::geteuid().is_root() {
        return skip("who is nobody is for root to say");
    }
    let Some(dir) = scene() else { return };
    // The built program may lie where nobody may go.
    let haul = dir.path().join("haul");
    copy_program(HAUL, &haul);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    chown(dir.path().join("src/small"), Some(65534), Some(65534)).expect("root may");
    forget(&dir);
    let mut command = Command::new(&haul);
    command.args(["-r", "--open-noatime", "src", "copy"]).current_dir(dir.path()).uid(65534).gid(65534);
    let output = command.output().expect("it can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(seen(&dir), [true, false, true]);
    same(dir.path(), ["small", "large"]);
}

fn same(dir: &Path, names: [&str; 2]) {
    for name in names {
        let [source, copy] = ["src", "copy"].map(|side| fs::read(dir.join(side).join(name)).expect("it is there"));
        assert!(source == copy, "{name}");
    }
}
