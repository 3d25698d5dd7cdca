//! What somebody sees who watches a run: the bar, the line at the end, and nothing with `-q`.
#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use haul_testbed::{Command, create_painted, temp_dir};
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, tcflow};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// What clears a line of a terminal.
const CLEAR: &str = "\r\u{1b}[K";

/// Runs haul under this name, with no terminal.
fn run(name: &str, dir: &Path, arguments: &[&str]) -> Output {
    Command::new(HAUL).arg0(name).args(arguments).current_dir(dir).env("LC_ALL", "C").output().expect("it can be run")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A command for bash whose standard streams are a terminal of so many columns.
fn on_terminal(dir: &Path, columns: u32, script: &str) -> Command {
    let mut command = Command::new("script");
    command
        .args(["-qefc", "exec bash -c \"$SCRIPT\"", "/dev/null"])
        .env("SCRIPT", format!("stty cols {columns}; {script}"))
        .env("HAUL", HAUL)
        .env("LC_ALL", "C")
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// All that a terminal shows of it.
fn shown(dir: &Path, script: &str) -> String {
    let output = on_terminal(dir, 80, script).output().expect("script(1) can be run");
    String::from_utf8(output.stdout).expect("plain words")
}

/// What a terminal shows of a copy of one MiB that is slow until the time left is known.
fn watched(columns: u32, options: &str) -> String {
    let dir = temp_dir();
    create_painted(dir.path().join("file"), 1 << 20);
    fs::write(dir.path().join("control"), "limit=16K").expect("it can be written");
    let script = format!("exec -a haul \"$HAUL\" --control=control --reflink=never {options} file dest");
    let mut child = on_terminal(dir.path(), columns, &script).spawn().expect("script(1) can be run");
    let mut screen = child.stdout.take().expect("it is piped");
    let mut seen = Vec::new();
    let mut byte = [0];
    // A number before it: not `-:--`, which is not known.
    let is_known = |seen: &[u8]| seen.ends_with(b" left") && seen[seen.len() - 6].is_ascii_digit();
    while !is_known(&seen) {
        assert_eq!(screen.read(&mut byte).expect("the terminal is open"), 1, "{}", String::from_utf8_lossy(&seen));
        seen.push(byte[0]);
    }
    fs::write(dir.path().join("new"), "limit=none").expect("it can be written");
    fs::rename(dir.path().join("new"), dir.path().join("control")).expect("it can be renamed");
    screen.read_to_end(&mut seen).expect("the terminal is open until the end");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(fs::metadata(dir.path().join("dest")).expect("it was copied").len(), 1 << 20);
    String::from_utf8(seen).expect("plain words")
}

#[test]
fn the_time_left_is_on_80_columns_and_on_40() {
    for (columns, parts) in [(80, &["copying [", "% ", "/1.0 MiB  ", " KiB/s  ", " left"][..]), (40, &["% ", " left"])]
    {
        let seen = watched(columns, "");
        let mut frames = seen.split(CLEAR);
        assert!(frames.clone().all(|frame| frame.trim_end().len() < columns as usize), "{seen:?}");
        assert!(frames.any(|frame| parts.iter().all(|part| frame.contains(part))), "{seen:?}");
    }
}

#[test]
fn bytes_that_are_only_copied_are_not_done_where_they_have_to_be_durable() {
    let seen = watched(100, "--durable=file");
    let mut frames = seen.split(CLEAR).filter(|frame| frame.contains(" left"));
    assert!(frames.any(|frame| frame.contains("   0%  0 B/1.0 MiB  ")), "{seen:?}");
}

#[test]
fn the_last_line_on_a_terminal_says_what_was_done() {
    let seen = watched(80, "");
    let (_, last) = seen.rsplit_once(CLEAR).expect("the bar is cleared at the end");
    assert!(last.starts_with("1 file, 1.0 MiB in ") && last.ends_with("/s)\r\n"), "{last:?}");
    let dir = temp_dir();
    fs::write(dir.path().join("a"), "text").expect("a file");
    let seen = shown(dir.path(), "exec -a haul \"$HAUL\" a b");
    assert!(seen.starts_with("1 file, 4 B in ") && seen.lines().count() == 1, "{seen:?}");
    let seen = shown(dir.path(), "exec -a haul \"$HAUL\" -n a b");
    assert!(seen.starts_with("0 files, 0 B in ") && seen.ends_with(" s, 1 skipped\r\n"), "{seen:?}");
}

/// Copies a tree for some seconds, which a bar is to be shown of on a stream that takes nothing; returns what `-v` has said.
fn copied_unseen(stderr: OwnedFd) -> String {
    let dir = temp_dir();
    fs::create_dir(dir.path().join("tree")).expect("a directory");
    for name in ["a", "b", "c"] {
        create_painted(dir.path().join("tree").join(name), 300_000);
    }
    let mut command = Command::new(HAUL);
    command.arg0("haul").args(["-rv", "--progress=always", "--limit=256K", "--reflink=never", "tree", "dest"]);
    // Far longer than the copy takes, far shorter than who waits for ever.
    command.deadline(Duration::from_secs(100)).current_dir(dir.path()).env("LC_ALL", "C");
    let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().expect("it can be run");
    let mut said = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut said).expect("plain words");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(fs::metadata(dir.path().join("dest/c")).expect("it was copied").len(), 300_000);
    said
}

const SAID: &str = "'tree' -> 'dest'\n'tree/a' -> 'dest/a'\n'tree/b' -> 'dest/b'\n'tree/c' -> 'dest/c'\n";

#[test]
fn a_reader_of_the_bar_that_has_stopped_holds_up_nothing() {
    let (_reader, mut writer) = pipe().expect("there are pipes");
    let flags = fcntl_getfl(&writer).expect("it is open");
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("it is a pipe");
    while writer.write(&[b'.'; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).expect("it is a pipe");
    let lines = copied_unseen(writer.into());
    assert_eq!(sorted(&lines), sorted(SAID));
}

#[test]
fn a_terminal_that_was_stopped_holds_up_nothing() {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are terminals");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
    let name = ptsname(&master, Vec::new()).expect("it has a name");
    let terminal = open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).expect("it is there");
    // As Ctrl-S does.
    tcflow(&terminal, Action::OOff).expect("it is a terminal");
    let lines = copied_unseen(terminal);
    assert_eq!(sorted(&lines), sorted(SAID));
}

fn sorted(lines: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn no_line_sums_up_where_nobody_watches_or_that_is_not_wanted() {
    let dir = temp_dir();
    fs::write(dir.path().join("a"), "text").expect("a file");
    for script in [
        "exec -a haul \"$HAUL\" -q a b",
        "exec -a haul \"$HAUL\" --progress=never a b",
        "exec -a cp \"$HAUL\" a b",
        "exec -a cp \"$HAUL\" --progress=always a b",
        "exec -a haul \"$HAUL\" a b 2>err; cat err",
    ] {
        assert_eq!(shown(dir.path(), script), "", "{script}");
    }
    assert_eq!(said(&run("haul", dir.path(), &["a", "b"])), "");
    assert!(said(&run("haul", dir.path(), &["--progress=always", "a", "b"])).starts_with("1 file, 4 B in "));
}

#[test]
fn with_q_errors_stay_and_hints_go() {
    let dir = temp_dir();
    fs::write(dir.path().join("a"), "text").expect("a file");
    fs::create_dir(dir.path().join("d")).expect("a directory");
    let hint = "haul: warning: source file 'a' specified more than once\n";
    let error = "haul: cannot stat 'nothing': No such file or directory\n";
    for (options, expected) in [(&[][..], format!("{hint}{error}")), (&["-q"], error.to_owned())] {
        let output = run("haul", dir.path(), &[options, &["a", "a", "nothing", "d"]].concat());
        assert_eq!(said(&output), expected);
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn an_unknown_option_suggests_the_nearest_unless_cp_is_asked() {
    let dir = temp_dir();
    let first = |name| said(&run(name, dir.path(), &["--recursve", "a", "b"])).lines().next().map(str::to_owned);
    let message = ": unrecognized option '--recursve'";
    assert_eq!(first("haul"), Some(format!("haul{message}; did you mean '--recursive'?")));
    assert_eq!(first("cp"), Some(format!("cp{message}")));
}
