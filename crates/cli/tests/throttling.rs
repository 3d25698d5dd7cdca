//! How much of the machine a copy takes: limits that change while it runs, and priorities.
#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use haul_io::engine::EngineName;
use haul_sys::priority::{IoPriority, io_priority};
use haul_testbed::{Child, Command, TempDir, painted, skip, temp_dir};
use rustix::process::{Pid, Signal, geteuid, kill_process};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// More than a FIFO holds.
const FLOOD: usize = 1 << 20;

/// A copy of a FIFO to `dest`, which is under way and waits for data.
struct Copy {
    dir: TempDir,
    child: Child,
    feed: File,
}

impl Copy {
    fn start(options: &[&str], prepare: impl FnOnce(&Path)) -> Copy {
        let dir = temp_dir();
        let status = Command::new("mkfifo").arg(dir.path().join("fifo")).status().expect("mkfifo can be run");
        assert!(status.success());
        prepare(dir.path());
        let child = Command::new(HAUL)
            .arg0("haul")
            .args(options)
            .args(["fifo", "dest"])
            .current_dir(dir.path())
            .env("LC_ALL", "C")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be run");
        // Waits for the reader.
        let feed = OpenOptions::new().write(true).open(dir.path().join("fifo")).expect("the FIFO can be opened");
        Copy { dir, child, feed }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process is there");
    }

    /// Gives it all the data and waits for the end. Returns what it said.
    fn finish(mut self) -> String {
        let data = painted(FLOOD);
        self.feed.write_all(&data).expect("the reader reads");
        drop(self.feed);
        let mut said = String::new();
        self.child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("messages are text");
        let status = self.child.wait().expect("the child is ours");
        assert!(status.success(), "{status}: {said}");
        assert!(fs::read(self.dir.path().join("dest")).expect("it was copied") == data, "the contents differ");
        said
    }
}

/// Replaces the control file as a whole.
fn control(dir: &Path, text: &str) {
    fs::write(dir.join("new"), text).expect("it can be written");
    fs::rename(dir.join("new"), dir.join("control")).expect("it can be renamed");
}

#[test]
fn a_control_file_lifts_a_limit_that_would_take_days() {
    // A byte a second from the start: a mebibyte would take twelve days.
    let copy = Copy::start(&["--control=control"], |dir| control(dir, "limit=1"));
    control(copy.dir.path(), "limit=none");
    assert_eq!(copy.finish(), "");
}

#[test]
fn a_control_file_that_comes_later_is_heeded_too() {
    let copy = Copy::start(&["--limit=1", "--control=control"], |_| {});
    control(copy.dir.path(), "# enough\nlimit=0,0\n");
    copy.send(Signal::USR2);
    assert_eq!(copy.finish(), "");
}

#[test]
fn sigusr2_has_the_control_file_read_again_and_mistakes_in_it_change_nothing() {
    let mut copy = Copy::start(&["--limit=1", "--control=control"], |dir| control(dir, "limit=none speed=9"));
    let mut said = BufReader::new(copy.child.stderr.take().expect("it is piped"));
    let mut line = || {
        let mut line = String::new();
        said.read_line(&mut line).expect("messages are text");
        line
    };
    let warning = "haul: warning: control file 'control' changes nothing: 'speed=9' is no setting\n";
    assert_eq!(line(), warning);
    // The file is the same, so only the signal can have it read.
    copy.send(Signal::USR2);
    assert_eq!(line(), warning);
    control(copy.dir.path(), "limit=none");
    copy.send(Signal::USR2);
    copy.child.stderr = Some(said.into_inner());
    assert_eq!(copy.finish(), "");
}

#[test]
fn without_a_control_file_sigusr2_is_ignored() {
    let copy = Copy::start(&[], |_| {});
    copy.send(Signal::USR2);
    assert_eq!(copy.finish(), "");
}

#[test]
fn a_copy_that_waits_for_its_turn_is_stopped_by_a_signal() {
    let mut copy = Copy::start(&["--limit=1"], |_| {});
    // More than the FIFO and the first piece hold, so the copy has moved something and waits.
    let feed = copy.feed.try_clone().expect("descriptors are left");
    let writer = std::thread::spawn(move || {
        let mut feed = feed;
        // Ends with EPIPE when the reader is gone.
        feed.write_all(&vec![b'x'; 4 << 20]).is_err()
    });
    // A piece is in place, and the next one would come in an hour.
    while fs::metadata(copy.dir.path().join("dest")).map_or(0, |dest| dest.len()) == 0 {
        std::thread::yield_now();
    }
    copy.send(Signal::TERM);
    let status = copy.child.wait().expect("the child is ours");
    assert_eq!(status.code(), Some(143));
    assert!(!copy.dir.path().join("dest").exists());
    drop(copy.feed);
    assert!(writer.join().expect("it does not panic"));
}

#[test]
fn a_copy_that_makes_way_for_others_is_whole() {
    if fs::read_to_string("/proc/pressure/io").is_err() {
        return skip("this kernel has no pressure-stall figures");
    }
    let copy = Copy::start(&["--yield", "--control=control"], |_| {});
    assert_eq!(copy.finish(), "");
    let copy = Copy::start(&["--control=control"], |dir| control(dir, "yield=on"));
    control(copy.dir.path(), "yield=off");
    copy.send(Signal::USR2);
    assert_eq!(copy.finish(), "");
}

/// Nice value and I/O priority of every thread of a process.
fn priorities(process: &Child) -> Vec<(i32, IoPriority)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.id())).expect("the process is there");
    let priority = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).expect("the thread is there");
        // The name, in parentheses, is the second field; nice is the 19th.
        let (_, rest) = stat.rsplit_once(") ").expect("the name ends");
        let nice = rest.split(' ').nth(16).expect("there are so many fields").parse().expect("nice is a number");
        let thread = task.file_name().to_str().expect("threads have numbers").parse().expect("threads have numbers");
        (nice, io_priority(thread).expect("the thread is there"))
    };
    tasks.map(|task| priority(task.expect("it can be listed"))).collect()
}

#[test]
fn every_thread_has_the_priority_that_was_asked_for() {
    for (option, expected) in [
        ("--priority=7", (7, IoPriority::BestEffort(5))),
        ("--priority=19", (19, IoPriority::BestEffort(7))),
        ("--priority=idle", (19, IoPriority::Idle)),
    ] {
        let copy = Copy::start(&[option, "--control=none", "--progress=always"], |_| {});
        let found = priorities(&copy.child);
        assert!(found.len() >= 3, "the run, the thread for signals and the one for the pace: {found:?}");
        assert!(found.iter().all(|priority| *priority == expected), "{option}: {found:?}");
        copy.finish();
    }
}

#[test]
fn without_the_privilege_to_be_urgent_nothing_is_copied() {
    let dir = temp_dir();
    let program = dir.path().join("haul");
    // Where a user without privileges can reach it, and written by another process, so that it can be started at once.
    assert!(Command::new("cp").arg(HAUL).arg(&program).status().expect("cp can be run").success());
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    fs::write(dir.path().join("a"), b"contents").expect("it can be written");
    let mut command = Command::new(&program);
    command.arg0("haul").args(["--priority=-5", "a", "b"]).current_dir(dir.path()).env("LC_ALL", "C");
    if geteuid().is_root() {
        command.uid(65534);
    }
    let output = command.output().expect("the program can be run");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "haul: cannot set the priority: Permission denied\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(!dir.path().join("b").exists());
}

#[test]
fn the_limit_is_in_the_explanation_and_in_the_statistics() {
    let dir = temp_dir();
    fs::write(dir.path().join("a"), b"contents").expect("it can be written");
    let output = Command::new(HAUL)
        .args(["--limit=50M,1K", "--explain", "--stats=json", "a", "b"])
        .current_dir(dir.path())
        .output()
        .expect("the program can be run");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("\n  limit: 50.0 MiB/s, 1024 operations/s\n"), "{said}");
    let record: serde_json::Value = serde_json::from_slice(&output.stderr).expect("what was printed is JSON");
    assert_eq!(record["limit"]["bytes_per_second"], 50 << 20);
    assert_eq!(record["limit"]["operations_per_second"], 1024);
}

/// The ranges that a copy with these options has read ahead, in order.
fn read_ahead(dir: &Path, options: &[&str]) -> Option<Vec<(u64, u64)>> {
    let log = dir.join("log");
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=fadvise64", "-o"]).arg(&log).arg(HAUL).args(options).args(["a", "b"]);
    match command.current_dir(dir).status() {
        Ok(status) => assert!(status.success(), "{options:?}"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skip("strace is not installed");
            return None;
        }
        Err(error) => panic!("strace: {error}"),
    }
    let log = fs::read_to_string(log).expect("it was written");
    let calls = log.lines().filter(|line| line.contains("POSIX_FADV_WILLNEED) = 0"));
    let range = |line: &str| {
        let numbers: Vec<u64> = line.split(", ").filter_map(|word| word.parse().ok()).collect();
        assert_eq!(numbers.len(), 2, "{line}");
        (numbers[0], numbers[0] + numbers[1])
    };
    Some(calls.map(range).collect())
}

#[test]
fn the_whole_source_is_read_ahead_of_every_engine_that_reads_it_through_the_page_cache() {
    let dir = temp_dir();
    let size = 3 * FLOOD + 4321;
    fs::write(dir.path().join("a"), painted(size)).expect("it can be written");
    for engine in EngineName::ALL.into_iter().filter(|engine| !engine.caps().queued && *engine != EngineName::Clone) {
        // They read past the page cache, or not at all.
        let helps = !matches!(engine, EngineName::Direct | EngineName::Null);
        let option = format!("--engine={engine}");
        let Some(ranges) = read_ahead(dir.path(), &["--readahead=1M", &option]) else { return };
        let mut end = 0;
        for (from, to) in &ranges {
            assert_eq!((*from, to > from), (end, true), "{engine}: in order, and nothing twice");
            end = *to;
        }
        assert_eq!(end, if helps { size as u64 } else { 0 }, "{engine}: all of it and nothing beyond");
        if engine != EngineName::Null {
            let copy = fs::read(dir.path().join("b")).expect("it was copied");
            assert!(copy == painted(size), "{engine}: the contents differ");
        }
        fs::remove_file(dir.path().join("b")).expect("it is there");
        assert_eq!(read_ahead(dir.path(), &[&option]), Some(Vec::new()), "{engine}");
        fs::remove_file(dir.path().join("b")).expect("it is there");
    }
}
