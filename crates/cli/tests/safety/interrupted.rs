//! `--resume` after a copy that was killed or stopped in the middle.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::{env, thread};

use haul_io::engine::{EngineName, Role, Shares};
use haul_testbed::{Child, Command, assert_same_contents, create_painted, skip, sparse_file, temp_dir};
use rustix::process::{Pid, Signal, kill_process};

use super::resume::{counted, journals, let_settle};
use super::{HAUL, assert_tidy, entries, make_tree, run, said, succeeds};

/// From one mark to the next, and the most that is copied twice.
const STEP: u64 = 64 << 20;
const AHEAD: u64 = 2 * STEP;

fn start(dir: &Path, arguments: &[&str]) -> Child {
    let_settle(dir);
    let mut command = Command::new(HAUL);
    command.arg0("haul").args(arguments).current_dir(dir).env("LC_ALL", "C").stderr(Stdio::null());
    command.spawn().expect("it can be run")
}

/// Waits until this journal has so many records.
fn wait_for_records(dir: &Path, records: u64, child: &mut Child) {
    loop {
        let written = journals(dir).first().and_then(|path| fs::metadata(path).ok()).map_or(0, |journal| journal.len());
        if written >= records * 64 {
            return;
        }
        assert!(child.try_wait().expect("it is ours").is_none(), "it has ended with {written} bytes in its journal");
        thread::yield_now();
    }
}

/// Kills the command when the journal in that directory has so many records.
pub fn killed(dir: &Path, arguments: &[&str], records: u64, journal: &Path) {
    let mut child = start(dir, arguments);
    wait_for_records(journal, records, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The one file under a temporary name.
pub fn beginning(dir: &Path) -> PathBuf {
    let mut found = entries(dir);
    found.retain(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".haul-r") && name.len() == 33)
    });
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn a_large_file_goes_on_where_it_was_on_the_device_with_every_engine() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    create_painted(at("large"), (230 << 20) + 77);
    // Where extents are shared there is nothing to go on with.
    let movers = EngineName::ALL.into_iter().filter(|engine| engine.caps().role == Role::Mover);
    let engines = movers.filter(|engine| engine.caps().shares != Shares::Always).map(EngineName::as_str);
    for engine in engines.chain(["auto"]) {
        let engine = format!("--engine={engine}");
        let arguments = ["--resume", "--stats=json", "--limit=400M", &engine, "-aT", "large", "copy"];
        killed(dir.path(), &arguments, 2, dir.path());
        beginning(dir.path());
        let output = succeeds(dir.path(), &arguments);
        let resumed = counted(&output, "resumed_bytes");
        assert!((STEP..=230 << 20).contains(&resumed), "{engine}: {}", said(&output));
        assert_same_contents(at("large"), at("copy"));
        assert_tidy(dir.path());
        fs::remove_file(at("copy")).unwrap();
    }
}

#[test]
fn holes_are_holes_after_two_runs_and_the_copy_is_right() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let islands: Vec<(u64, u64)> = (0..220).map(|number| (number * (3 << 20) + 4096, 1 << 20)).collect();
    sparse_file(at("sparse"), 900 << 20, &islands);
    for option in ["--sparse=auto", "--sparse=always", "--sparse=never", "--jobs=3"] {
        let arguments = ["--resume", "--stats=json", "--limit=150M", option, "-aT", "sparse", "copy"];
        killed(dir.path(), &arguments, 3, dir.path());
        let output = succeeds(dir.path(), &arguments);
        // A mark ends where the file does, and a hole after its last island is not in it yet.
        assert!(counted(&output, "resumed_bytes") >= 2 * STEP - (2 << 20), "{option}: {}", said(&output));
        assert_same_contents(at("sparse"), at("copy"));
        let holes = fs::metadata(at("copy")).unwrap().blocks() * 512 < 400 << 20;
        assert_eq!(holes, option != "--sparse=never", "{option}");
        fs::remove_file(at("copy")).unwrap();
    }
}

#[test]
fn no_more_than_one_chunk_is_copied_twice() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    create_painted(at("large"), 400 << 20);
    for records in [2, 3, 5] {
        // One worker moves it from the beginning to the end, so its size says how far it came.
        let arguments = ["--resume", "--stats=json", "--limit=400M", "--engine=read-write", "-T", "large", "copy"];
        let arguments = [&["--preallocate=never", "--buffer-size=1M"], &arguments[..]].concat();
        killed(dir.path(), &arguments, records, dir.path());
        let copied = fs::metadata(beginning(dir.path())).unwrap().blocks() * 512;
        let output = succeeds(dir.path(), &arguments);
        let resumed = counted(&output, "resumed_bytes");
        assert!(resumed + AHEAD + (8 << 20) >= copied, "{copied} were there: {}", said(&output));
        assert_same_contents(at("large"), at("copy"));
        fs::remove_file(at("copy")).unwrap();
    }
}

#[test]
fn after_an_interrupt_nothing_but_the_last_block_is_copied_twice() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    create_painted(at("large"), 300 << 20);
    let arguments = ["--resume", "--stats=json", "--limit=400M", "-T", "large", "copy"];
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = start(dir.path(), &arguments);
        wait_for_records(dir.path(), 2, &mut child);
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert!(!child.wait().unwrap().success());
        let left = fs::metadata(beginning(dir.path())).unwrap().len();
        assert!(!at("copy").exists());
        let output = succeeds(dir.path(), &arguments);
        assert!(counted(&output, "resumed_bytes") + (64 << 10) > left, "{left}: {}", said(&output));
        assert_same_contents(at("large"), at("copy"));
        assert_tidy(dir.path());
        fs::remove_file(at("copy")).unwrap();
    }
}

#[test]
fn the_beginning_of_a_source_that_has_changed_is_not_used() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    create_painted(at("large"), 200 << 20);
    let arguments = ["--resume", "--stats=json", "--limit=400M", "-T", "large", "copy"];
    killed(dir.path(), &arguments, 2, dir.path());
    File::options().write(true).open(at("large")).unwrap().write_all(b"another beginning").unwrap();
    let output = succeeds(dir.path(), &arguments);
    assert_eq!(counted(&output, "resumed_bytes"), 0, "{}", said(&output));
    assert_same_contents(at("large"), at("copy"));
    assert_tidy(dir.path());
}

#[test]
fn a_beginning_that_somebody_has_touched_is_found_when_it_is_verified() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    create_painted(at("large"), 200 << 20);
    let arguments = ["--resume", "--verify", "--limit=400M", "-T", "large", "copy"];
    killed(dir.path(), &arguments, 2, dir.path());
    File::options().write(true).open(beginning(dir.path())).unwrap().write_all(b"somebody was here").unwrap();
    let output = super::haul(dir.path(), &arguments);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("the copy 'copy' differs from its source"), "{}", said(&output));
    assert!(!at("copy").exists());
}

/// What a tree looks like, but for the times of what was not dated.
fn look(dir: &Path, times: bool) -> Vec<String> {
    let mut seen: Vec<String> = entries(dir)
        .into_iter()
        .chain([dir.to_owned()])
        .map(|path| {
            let found = fs::symlink_metadata(&path).expect("it is there");
            let contents = match found.file_type() {
                kind if kind.is_file() => fs::read(&path).expect("it can be read").len().to_string(),
                kind if kind.is_symlink() => format!("{:?}", fs::read_link(&path).expect("it can be read")),
                kind => format!("fifo: {}", kind.is_fifo()),
            };
            let time = if times { found.mtime() } else { 0 };
            let name = path.strip_prefix(dir).expect("it is below").display();
            let links = if found.is_dir() { 0 } else { found.nlink() };
            format!("{name} {:o} {} {} {links} {time} {contents}", found.mode(), found.uid(), found.gid())
        })
        .collect();
    seen.sort();
    seen
}

/// How often the command makes each call, from its journal on.
fn calls(dir: &Path, arguments: &[&str]) -> Vec<(String, usize)> {
    let log = dir.join("log");
    let mut command = Command::new("strace");
    let status = command.args(["-f", "-qq", "-o"]).arg(&log).arg(HAUL).args(arguments).current_dir(dir).status();
    assert!(status.expect("strace can be run").success());
    let mut counts: Vec<(String, usize)> = Vec::new();
    for line in fs::read_to_string(&log).expect("it was written").lines() {
        let Some(name) =
            line.split_once(' ').and_then(|(_, call)| call.trim_start().split_once('(')).map(|(name, _)| name)
        else {
            continue;
        };
        if !KILLED_AT.contains(&name) {
            continue;
        }
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name.to_owned(), 1)),
        }
    }
    counts
}

/// Calls before which the world is different from what it is after them.
const KILLED_AT: [&str; 17] = [
    "mkdirat",
    "openat",
    "linkat",
    "symlinkat",
    "mknodat",
    "renameat2",
    "renameat",
    "unlinkat",
    "fchmod",
    "fchmodat",
    "fchownat",
    "utimensat",
    "pwrite64",
    "syncfs",
    "copy_file_range",
    "ftruncate",
    "close",
];

#[test]
fn a_copy_that_is_killed_at_any_call_is_completed_to_what_one_run_makes() {
    if !haul_testbed::guest::has("strace") {
        return skip("strace is missing");
    }
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    make_tree(&at("tree"));
    fs::remove_file(at("tree/inner/deeper/large")).unwrap();
    for (number, mode) in [0o555, 0o700, 0o2775, 0o111, 0o1777].into_iter().enumerate() {
        let inner = at("tree").join(format!("mode{number}"));
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("file"), "text").unwrap();
        fs::set_permissions(&inner, PermissionsExt::from_mode(mode)).unwrap();
    }
    let all = env::var("HAUL_KILLS").is_ok();
    let (mut kills, mut before_end) = (0, 0);
    for options in [&["-r"][..], &["-a"], &["-r", "--no-preserve=mode"], &["-p", "-r", "--parents"]] {
        let times = options.iter().any(|option| option.contains('a') && option.len() == 2);
        let dest = if options.contains(&"--parents") { "into/." } else { "dest" };
        let exactly: &[&str] = if dest == "dest" { &["-T"] } else { &[] };
        let arguments = [&["--resume", "--jobs=1"], options, exactly, &["tree", dest]].concat();
        let fresh = || {
            fs::remove_dir_all(at("dest")).ok();
            fs::remove_dir_all(at("into")).ok();
            fs::create_dir(at("into")).unwrap();
        };
        fresh();
        let counts = calls(dir.path(), &arguments);
        let result = if dest == "dest" { at("dest") } else { at("into") };
        let expected = look(&result, times);
        for (name, count) in counts {
            let some = [count.div_ceil(3), count];
            let mut chosen: Vec<usize> = if all { (1..=count).collect() } else { some.to_vec() };
            chosen.dedup();
            for which in chosen {
                fresh();
                let inject = format!("inject={name}:signal=KILL:when={which}");
                let mut command = Command::new("strace");
                command.args([
                    "-f",
                    "-qq",
                    "-e",
                    "signal=none",
                    "-e",
                    &format!("trace={name}"),
                    "-e",
                    &inject,
                    "-o",
                    "log",
                ]);
                let status = command.arg(HAUL).args(&arguments).current_dir(dir.path()).stderr(Stdio::null()).status();
                kills += 1;
                before_end += usize::from(status.unwrap().signal().is_some());
                succeeds(dir.path(), &arguments);
                let found = look(&result, times);
                let different: Vec<_> = found.iter().filter(|line| !expected.contains(line)).collect();
                assert_eq!(found, expected, "{options:?}, killed at {name} {which}: {different:?}");
                assert_eq!(journals(dir.path()), [] as [PathBuf; 0], "{options:?}, killed at {name} {which}");
            }
        }
    }
    run("chmod", &["-R", "u+rwx", dir.path().to_str().unwrap()]);
    std::io::stderr()
        .write_all(format!("resume: {kills} kills at calls, {before_end} before the end\n").as_bytes())
        .unwrap();
    assert!(before_end > 20);
}
