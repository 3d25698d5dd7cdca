//! `--if-changed`: a source that changes while it is copied.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Output, Stdio};

use haul_testbed::{Command, TempDir, assert_same_contents, create_painted, temp_dir};

use super::{HAUL, said, succeeds};

/// Copies a FIFO's neighbour: haul is held in the middle of a file by a limit, and the file changes meanwhile.
fn changed_meanwhile(name: &str, options: &[&str], times: usize) -> (TempDir, Output) {
    let dir = temp_dir();
    create_painted(dir.path().join("source"), 3 << 20);
    fs::write(dir.path().join("control"), "limit=1M").unwrap();
    let child = Command::new(HAUL)
        .arg0(name)
        .args(["--engine=read-write", "--control=control"])
        .args(options)
        .args(["source", "dest"])
        .current_dir(dir.path())
        .env("LC_ALL", "C")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for _ in 0..times {
        wait_for_growth(&dir);
        File::options().append(true).open(dir.path().join("source")).unwrap().write_all(b"more").unwrap();
    }
    fs::write(dir.path().join("control"), "limit=none").unwrap();
    haul_sys_kill(child.id());
    let output = child.wait_with_output().unwrap();
    (dir, output)
}

/// Until the copy has begun: its file is there and has bytes, but not all.
fn wait_for_growth(dir: &TempDir) {
    loop {
        let begun = fs::read_dir(dir.path()).unwrap().flatten().any(|entry| {
            let name = entry.file_name();
            let is_copy = name == "dest" || name.to_string_lossy().starts_with(".haul-");
            is_copy && entry.metadata().is_ok_and(|found| found.len() > 0)
        });
        if begun {
            return;
        }
        std::thread::yield_now();
    }
}

fn haul_sys_kill(id: u32) {
    super::run("kill", &["-USR2", &id.to_string()]);
}

#[test]
fn a_change_is_reported_and_the_copy_stays() {
    let (dir, output) = changed_meanwhile("haul", &[], 1);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(said(&output), "haul: 'source' changed while it was being copied\n");
    assert!(dir.path().join("dest").exists());
}

#[test]
fn called_as_cp_nobody_looks() {
    let (_dir, output) = changed_meanwhile("cp", &[], 1);
    assert!(output.status.success());
    assert_eq!(said(&output), "");
}

#[test]
fn with_fail_there_is_no_copy() {
    let (dir, output) = changed_meanwhile("haul", &["--if-changed=fail"], 1);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(said(&output), "haul: 'source' changed while it was being copied\n");
    assert!(!dir.path().join("dest").exists());
}

#[test]
fn with_retry_the_copy_is_of_the_file_as_it_is_in_the_end() {
    for options in [&["--if-changed=retry"][..], &["--if-changed=retry", "--verify", "-p"]] {
        let (dir, output) = changed_meanwhile("haul", options, 1);
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(said(&output), "");
        assert_same_contents(dir.path().join("source"), dir.path().join("dest"));
        let times = ["source", "dest"].map(|name| fs::metadata(dir.path().join(name)).unwrap().modified().unwrap());
        assert!(options.len() < 3 || times[0] == times[1]);
    }
}

#[test]
fn a_file_that_does_not_change_is_copied_once_and_nothing_is_said() {
    let dir = temp_dir();
    create_painted(dir.path().join("source"), 1 << 20);
    for option in ["retry", "warn", "fail", "ignore"] {
        let output = succeeds(dir.path(), &[&format!("--if-changed={option}"), "source", "dest"]);
        assert_eq!(said(&output), "");
        assert_same_contents(dir.path().join("source"), dir.path().join("dest"));
    }
}
