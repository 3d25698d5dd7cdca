//! Ctrl-C and SIGTERM: what is not whole does not stay.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use haul_agree::stage::{describe, wait};
use haul_testbed::{Child, Command};
use rustix::fs::{CWD, FileType, Mode};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{LIMIT, Sealed, sealed};

fn start(place: &Sealed, directory: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(&place.cp);
    command.arg0("cp").args(arguments).current_dir(directory).stderr(Stdio::piped());
    // The interrupt must not be ignored as it is in the background of some shells.
    command.spawn().expect("starts")
}

/// Signals the copier and returns how it ended and what it said.
fn stop(mut child: Child, signal: Signal) -> (String, String) {
    let messages = child.stderr.take().expect("was piped");
    kill_process(Pid::from_child(&child), signal).expect("is still there");
    let (status, timed_out) = wait(child, LIMIT).expect("can be waited for");
    assert!(!timed_out, "did not stop when asked to");
    (describe(status), std::io::read_to_string(messages).expect("readable"))
}

/// The end of a run stopped by a signal, as a shell sees it.
fn stopped_by(ended: &str, signal: i32) -> bool {
    ended == format!("exit {}", 128 + signal) || ended == format!("signal {signal}")
}

/// Copies from a FIFO, lets the copier take more than the FIFO holds, and stops it: no clock is needed.
fn stopped_in_the_middle(place: &Sealed, prepare: fn(&Path), signal: Signal) -> (String, String) {
    let directory = place.room.join("memory/stop");
    fs::create_dir(&directory).expect("a directory");
    rustix::fs::mknodat(CWD, directory.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
    prepare(&directory);
    let child = start(place, &directory, &["--copy-contents", "fifo", "copy"]);
    let mut fifo = File::options().write(true).open(directory.join("fifo")).expect("the copier opens the other end");
    fifo.write_all(&vec![5; 4 << 20]).expect("the copier reads");
    let ended = stop(child, signal);
    drop(fifo);
    ended
}

#[test]
fn ctrl_c_removes_a_new_file_that_is_not_whole_and_exits_with_130() {
    sealed("SIGINT", |place| {
        let (ended, said) = stopped_in_the_middle(place, |_| {}, Signal::INT);
        assert!(stopped_by(&ended, 2), "{ended}: {said}");
        assert!(!place.room.join("memory/stop/copy").exists(), "a stub was left");
    });
}

#[test]
fn sigterm_removes_a_new_file_that_is_not_whole_and_exits_with_143() {
    sealed("SIGTERM", |place| {
        let (ended, said) = stopped_in_the_middle(place, |_| {}, Signal::TERM);
        assert!(stopped_by(&ended, 15), "{ended}: {said}");
        assert!(!place.room.join("memory/stop/copy").exists(), "a stub was left");
    });
}

#[test]
fn ctrl_c_names_an_overwritten_file_that_is_now_damaged_and_keeps_it() {
    sealed("SIGINT, existing file", |place| {
        let prepare = |directory: &Path| fs::write(directory.join("copy"), vec![9; 1000]).expect("room");
        let (ended, said) = stopped_in_the_middle(place, prepare, Signal::INT);
        assert!(stopped_by(&ended, 2), "{ended}: {said}");
        assert!(place.room.join("memory/stop/copy").exists(), "a file that was there before was removed");
        assert!(said.contains("copy"), "the damaged file is not named: {said:?}");
    });
}

#[test]
fn ctrl_c_stops_a_large_regular_file_and_the_files_after_it() {
    sealed("SIGINT, large file", |place| {
        let directory = place.room.join("memory/large");
        fs::create_dir_all(directory.join("copy")).expect("a directory");
        haul_agree::scene::mount_tmpfs(&directory, "6g").expect("a tmpfs");
        fs::create_dir_all(directory.join("copy")).expect("a directory");
        fs::write(directory.join("first"), b"first").expect("room");
        fs::write(directory.join("last"), b"last").expect("room");
        // A hole that has to be written out: nothing to prepare, much to copy.
        File::create(directory.join("big")).expect("a file").set_len(4 << 30).expect("a hole");
        let arguments = ["--sparse=never", "--reflink=never", "first", "big", "last", "copy"];
        let mut child = start(place, &directory, &arguments);
        while fs::metadata(directory.join("copy/big")).map_or(0, |copy| copy.len()) == 0 {
            assert!(child.try_wait().expect("can be asked").is_none(), "ended before it wrote anything");
            std::thread::yield_now();
        }
        let (ended, said) = stop(child, Signal::INT);
        assert!(stopped_by(&ended, 2), "{ended}: {said}");
        assert!(!directory.join("copy/big").exists(), "a stub was left");
        assert!(!directory.join("copy/last").exists(), "went on after it was stopped");
        assert_eq!(fs::read(directory.join("copy/first")).expect("was copied"), b"first");
    });
}

#[test]
fn ctrl_c_during_a_tree_leaves_whole_files_only() {
    sealed("SIGINT, tree", |place| {
        let directory = place.room.join("memory/tree");
        fs::create_dir_all(directory.join("s")).expect("a directory");
        let contents = vec![4; 100_000];
        for index in 0..2000 {
            fs::write(directory.join(format!("s/{index}")), &contents).expect("room");
        }
        let mut child = start(place, &directory, &["-r", "s", "d"]);
        let copied = || fs::read_dir(directory.join("d")).map_or(0, Iterator::count);
        while copied() < 20 {
            assert!(child.try_wait().expect("can be asked").is_none(), "ended before it was stopped");
            std::thread::yield_now();
        }
        let (ended, said) = stop(child, Signal::INT);
        // On a fast machine the copy may be complete before the signal arrives.
        assert!(stopped_by(&ended, 2) || (ended == "exit 0" && copied() == 2000), "{ended}: {said}");
        for entry in fs::read_dir(directory.join("d")).expect("was made") {
            let path = entry.expect("an entry").path();
            assert!(fs::read(&path).expect("readable") == contents, "{} is not whole", path.display());
        }
    });
}
