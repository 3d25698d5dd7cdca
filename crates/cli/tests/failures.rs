//! `--failures`: what could not be copied, in a list that `--files-from` takes.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Output;

use haul_testbed::{Command, TempDir, skip, temp_dir};

const NOBODY: u32 = 65534;

fn haul(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
    command.args(arguments).current_dir(dir).env("LC_ALL", "C").output().expect("haul can be run")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A source, and a destination where directories stand in the place of some of its files.
fn stage(blocked: &[&str]) -> TempDir {
    let dir = temp_dir();
    for sub in ["s/a", "s/b c", "s/d/e"] {
        fs::create_dir_all(dir.path().join(sub)).expect("a directory");
        for number in 0..20 {
            fs::write(dir.path().join(sub).join(number.to_string()), format!("{sub} {number}")).expect("a file");
        }
    }
    for name in blocked {
        fs::create_dir_all(dir.path().join("d").join(name)).expect("a directory");
    }
    dir
}

fn names(list: &Path, end: char) -> BTreeSet<String> {
    let text = fs::read_to_string(list).expect("there is a list");
    let names = text.split_terminator(end).map(str::to_owned).collect();
    assert!(text.is_empty() || text.ends_with(end), "{text:?}");
    names
}

#[test]
fn what_failed_is_listed_and_another_run_copies_it_and_nothing_else() {
    let blocked = ["a/3", "b c/7", "d/e/0"];
    for (jobs, operands) in [("1", ["-T", "s", "d"]), ("4", ["-T", "s", "d"]), ("4", ["-r", "s", "into/"])] {
        let dir = stage(&blocked);
        fs::create_dir(dir.path().join("into")).expect("a directory");
        let copy = if operands[0] == "-T" { "d" } else { "into/s" };
        if copy != "d" {
            fs::rename(dir.path().join("d"), dir.path().join(copy)).expect("it can be renamed");
        }
        let jobs = format!("--jobs={jobs}");
        let done = haul(dir.path(), &[&["-a", &jobs, "--failures=LIST"], &operands[..]].concat());
        assert_eq!(done.status.code(), Some(1), "{}", said(&done));
        let listed = names(&dir.path().join("LIST"), '\n');
        assert_eq!(listed, blocked.map(str::to_owned).into(), "{operands:?}");
        for name in blocked {
            fs::remove_dir(dir.path().join(copy).join(name)).expect("it is empty");
        }
        // What was copied stays as it is, though it differs by now.
        fs::write(dir.path().join(copy).join("a/4"), "other").expect("it can be written");
        let again = ["-a", "-r", "--files-from=LIST", "--failures=LIST"];
        let again = haul(dir.path(), &[&again, &operands[..]].concat());
        assert!(again.status.success(), "{}", said(&again));
        assert_eq!(names(&dir.path().join("LIST"), '\n'), BTreeSet::new());
        for name in blocked {
            let [from, to] = ["s", copy].map(|root| fs::read(dir.path().join(root).join(name)).expect("it is there"));
            assert_eq!(from, to, "{name}");
        }
        assert_eq!(fs::read(dir.path().join(copy).join("a/4")).expect("it is there"), b"other");
    }
}

#[test]
fn a_name_with_a_line_break_needs_a_zero_byte_behind_it() {
    let dir = stage(&["new\nline"]);
    fs::write(dir.path().join("s/new\nline"), "x").expect("a file");
    let done = haul(dir.path(), &["-a", "--failures=LIST", "-T", "s", "d"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(said(&done).contains("-0 (--from0) is needed"), "{}", said(&done));
    assert!(!dir.path().join("LIST").exists());
    haul(dir.path(), &["-a", "--failures=LIST", "-0", "-T", "s", "d"]);
    assert_eq!(names(&dir.path().join("LIST"), '\0'), ["new\nline".to_owned()].into());
    fs::remove_dir(dir.path().join("d/new\nline")).expect("it is empty");
    let again = haul(dir.path(), &["-a", "-0", "--files-from=LIST", "-T", "s", "d"]);
    assert!(again.status.success(), "{}", said(&again));
    assert_eq!(fs::read(dir.path().join("d/new\nline")).expect("it is there"), b"x");
}

#[test]
fn a_name_that_is_not_there_fails_and_is_listed() {
    let dir = stage(&[]);
    fs::write(dir.path().join("NAMES"), "a/1\nnone\n").expect("a file");
    let done = haul(dir.path(), &["-a", "--files-from=NAMES", "--failures=LIST", "-T", "s", "d"]);
    assert_eq!(done.status.code(), Some(1), "{}", said(&done));
    assert_eq!(names(&dir.path().join("LIST"), '\n'), ["none".to_owned()].into());
}

#[test]
fn what_fails_without_a_message_is_listed() {
    if !rustix::process::geteuid().is_root() {
        return skip("files of other users take root");
    }
    let dir = temp_dir();
    for sub in ["", "s", "d"] {
        fs::create_dir_all(dir.path().join(sub)).expect("a directory");
        chown(dir.path().join(sub), Some(NOBODY), Some(NOBODY)).expect("an owner");
    }
    // Anybody may write to the old file, and only root may change its mode.
    for (name, user) in [("s/a", NOBODY), ("s/b", NOBODY), ("d/a", 0)] {
        let path = dir.path().join(name);
        fs::write(&path, name).expect("a file");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).expect("a mode");
        chown(&path, Some(user), Some(user)).expect("an owner");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
    command.args(["-r", "--preserve=mode,ownership", "--failures=LIST", "-T", "s", "d"]);
    let done = command.current_dir(dir.path()).uid(NOBODY).gid(NOBODY).output().expect("haul can be run");
    // cp says nothing either.
    assert_eq!((done.status.code(), said(&done)), (Some(1), String::new()));
    assert_eq!(names(&dir.path().join("LIST"), '\n'), ["a".to_owned()].into());
}

#[test]
fn the_list_is_no_part_of_the_copy_and_replaces_no_source() {
    let dir = stage(&["a/3"]);
    let done = haul(dir.path(), &["-a", "--failures=s/LIST", "-T", "s", "d"]);
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(names(&dir.path().join("s/LIST"), '\n'), ["a/3".to_owned()].into());
    assert!(!dir.path().join("d/LIST").exists());
    let done = haul(dir.path(), &["-a", "--failures=s/a/1", "-T", "s", "d"]);
    assert!(said(&done).contains("the list would replace"), "{}", said(&done));
    assert_eq!(fs::read(dir.path().join("s/a/1")).expect("it is there"), b"s/a 1");
}

#[test]
fn a_list_that_cannot_be_written_is_refused_before_anything_is_copied() {
    let dir = stage(&[]);
    let done = haul(dir.path(), &["-a", "--failures=none/LIST", "-T", "s", "d"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(said(&done).contains("list of failures") && said(&done).contains("none/LIST"), "{}", said(&done));
    assert!(!dir.path().join("d").exists());
}
