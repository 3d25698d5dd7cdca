//! A run that is stopped: what it leaves behind, what it says, and how it ends.
#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use haul_testbed::{Bed, Child, Command, TempDir, temp_dir};
use rustix::process::{Pid, Signal, kill_process};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// More than a FIFO holds: when it is written, most of it was read.
const FLOOD: usize = 1 << 20;

/// A copy of a FIFO that goes on as long as the test wants.
struct Copy {
    dir: TempDir,
    child: Child,
    feed: File,
}

impl Copy {
    /// Starts a copy of a FIFO to `dest`, by this command, and waits until it is under way.
    fn start(mut command: Command, prepare: impl FnOnce(&Path)) -> Copy {
        let dir = temp_dir();
        let status = Command::new("mkfifo").arg(dir.path().join("fifo")).status().expect("mkfifo can be run");
        assert!(status.success());
        prepare(dir.path());
        let child = command
            .args(["fifo", "dest"])
            .current_dir(dir.path())
            .env("LC_ALL", "C")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be run");
        // Waits for the reader.
        let mut feed = OpenOptions::new().write(true).open(dir.path().join("fifo")).expect("the FIFO can be opened");
        feed.write_all(&vec![b'x'; FLOOD]).expect("the reader reads");
        Copy { dir, child, feed }
    }

    fn send(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the process is there");
    }

    fn dest(&self) -> std::path::PathBuf {
        self.dir.path().join("dest")
    }

    /// Waits for the end; the FIFO stays open meanwhile.
    fn end(mut self) -> (ExitStatus, String, TempDir) {
        let mut said = String::new();
        self.child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("messages are text");
        let status = self.child.wait().expect("the child is ours");
        drop(self.feed);
        (status, said, self.dir)
    }
}

fn haul() -> Command {
    let mut command = Command::new(HAUL);
    command.arg0("haul");
    command
}

#[test]
fn a_new_file_that_is_not_whole_is_removed_and_the_status_names_the_signal() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let copy = Copy::start(haul(), |_| {});
        assert!(copy.dest().exists());
        copy.send(signal);
        let (ended, said, dir) = copy.end();
        assert_eq!((ended.code(), said.as_str()), (Some(status), ""), "{signal:?}");
        assert!(!dir.path().join("dest").exists(), "{signal:?}");
    }
}

#[test]
fn an_overwritten_file_that_is_now_incomplete_is_named() {
    let copy = Copy::start(haul(), |dir| fs::write(dir.join("dest"), b"precious").expect("it can be written"));
    copy.send(Signal::INT);
    let (ended, said, dir) = copy.end();
    assert_eq!(ended.code(), Some(130));
    assert_eq!(said, "haul: 'dest' was overwritten and is now incomplete\n");
    assert!(dir.path().join("dest").exists(), "it is not ours to remove");
}

#[test]
fn a_file_that_a_signal_leaves_incomplete_is_listed_and_told_to_programs() {
    let mut command = haul();
    command.args(["--failures=list", "--json", "--stats=json", "-T"]).stdout(Stdio::piped());
    let mut copy = Copy::start(command, |dir| fs::write(dir.join("dest"), b"precious").expect("it can be written"));
    let mut events = copy.child.stdout.take().expect("it is piped");
    copy.send(Signal::INT);
    // Whoever waits for a source that gives nothing is left behind.
    while copy.feed.write_all(&vec![b'x'; FLOOD]).is_ok() {}
    let (ended, said, dir) = copy.end();
    assert_eq!(ended.code(), Some(130));
    let mut text = String::new();
    events.read_to_string(&mut text).expect("JSON is text");
    let error = text.lines().find(|line| line.contains("\"event\":\"error\"")).expect("there is an error");
    assert!(error.contains("\"path\":\"dest\""), "{error}");
    assert!(said.lines().any(|line| line.contains("haul-error") && line.contains("dest")), "{said}");
    assert_eq!(fs::read_to_string(dir.path().join("list")).expect("there is a list"), ".\n");
}

#[test]
fn called_as_cp_the_process_ends_by_the_signal_as_cp_does() {
    let mut command = Command::new(HAUL);
    command.arg0("cp");
    let copy = Copy::start(command, |_| {});
    copy.send(Signal::TERM);
    let (ended, _, dir) = copy.end();
    assert_eq!(ended.signal(), Some(Signal::TERM.as_raw()));
    assert!(!dir.path().join("dest").exists());
}

#[test]
fn a_list_that_is_stopped_as_cp_leaves_nothing_behind() {
    let dir = temp_dir();
    for number in 0..200 {
        fs::create_dir_all(dir.path().join(format!("source/{number}"))).expect("it can be made");
    }
    std::os::unix::fs::symlink(HAUL, dir.path().join("cp")).expect("it can be made");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "log", "-e", "trace=getdents64", "-e", "inject=getdents64:signal=TERM:when=1"]);
    let status = command.args(["./cp", "-a", "--list-out=list", "source", "dest"]).current_dir(dir.path()).status();
    assert!(!status.expect("strace can be run").success());
    let names = fs::read_dir(dir.path()).expect("it is there").map(|entry| entry.expect("it is there").file_name());
    let other = |name: &std::ffi::OsString| !["cp", "list", "log", "source"].iter().any(|known| name == known);
    assert_eq!(names.filter(other).collect::<Vec<_>>(), Vec::<std::ffi::OsString>::new());
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let copy = Copy::start(haul(), |_| {});
    copy.send(Signal::INT);
    copy.send(Signal::TERM);
    let (ended, _, dir) = copy.end();
    assert!(matches!(ended.code(), Some(130 | 143)), "{ended:?}");
    assert!(!dir.path().join("dest").exists());
}

/// A copy that notes its process ID.
const NOTED: [&str; 9] = ["sh", "-c", "echo $$ >pid; exec \"$@\"", "sh", HAUL, "-r", "--jobs=1", "source", "dest"];

/// Which calls of openat(2) make a file, counted as the tracer counts them.
fn creations(dir: &Path) -> Vec<usize> {
    let log = dir.join("log");
    let mut command = Command::new("timeout");
    command.args(["60", "strace", "-f", "-qq", "-e", "trace=openat", "-o"]).arg(&log);
    let status = command.args(NOTED).current_dir(dir).status();
    assert!(status.expect("timeout can be run").success());
    let log = fs::read_to_string(log).expect("it was written");
    fs::remove_dir_all(dir.join("dest")).expect("it was made");
    let main = log.split_whitespace().next().expect("it made calls").to_owned();
    let own = log.lines().filter(|line| line.starts_with(&main));
    let numbered = own.zip(1..).filter(|(line, _)| line.contains("O_CREAT|O_EXCL"));
    numbered.map(|(_, number)| number).collect()
}

#[test]
fn a_file_that_was_just_made_does_not_stay_empty() {
    if !haul_testbed::guest::has("strace") {
        return haul_testbed::skip("strace is missing");
    }
    let dir = temp_dir();
    fs::create_dir(dir.path().join("source")).expect("it can be made");
    for name in ["a", "b", "c"] {
        fs::write(dir.path().join("source").join(name), b"contents").expect("it can be written");
    }
    let creations = creations(dir.path());
    assert_eq!(creations.len(), 3, "{creations:?}");
    for (made, number) in creations.into_iter().enumerate() {
        // The thread that copies stays in its call, which has made the file, for longer than the rest takes.
        let inject = format!("inject=openat:delay_exit=4000000:when={number}");
        let mut child = Command::new("strace")
            .args(["-f", "-qq", "-e", "signal=none", "-e", "trace=openat", "-e", &inject, "-o", "/dev/null"])
            .args(NOTED)
            .current_dir(dir.path())
            .env("LC_ALL", "C")
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace can be run");
        let files = || fs::read_dir(dir.path().join("dest")).map_or(0, Iterator::count);
        while files() <= made {
            assert!(child.try_wait().expect("it is ours").is_none(), "it ended before file {made}");
            std::thread::yield_now();
        }
        let pid = fs::read_to_string(dir.path().join("pid")).expect("it was written");
        let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("a process");
        kill_process(pid, Signal::INT).expect("the process is there");
        kill_process(pid, Signal::TERM).expect("the process is there");
        let mut said = String::new();
        child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("messages are text");
        child.wait().expect("the child is ours");
        // The tracer may wonder about a thread that ends while it is held.
        let said: Vec<_> = said.lines().filter(|line| !line.starts_with("strace: ")).collect();
        assert!(said.is_empty(), "file {made}: {said:?}");
        for entry in fs::read_dir(dir.path().join("dest")).expect("it was made") {
            let path = entry.expect("it can be read").path();
            assert_eq!(fs::read(&path).expect("it can be read"), b"contents", "{path:?} at file {made}");
        }
        fs::remove_dir_all(dir.path().join("dest")).expect("it was made");
    }
}

/// Runs haul for `small`, a small file on a filesystem of its own, below strace with these options, which writes to `log`.
fn traced(bed: &Bed, options: &[&str]) -> Command {
    fs::write(bed.path().join("small"), b"contents").expect("it can be written");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "signal=none", "-o", "log"]).args(options).args([HAUL, "small", "dest"]);
    command.current_dir(bed.path()).env("LC_ALL", "C").stderr(Stdio::piped());
    command
}

#[test]
fn one_small_file_is_copied_by_one_thread() {
    if !haul_testbed::guest::has("strace") {
        return haul_testbed::skip("strace is missing");
    }
    let Some(bed) = Bed::new() else { return };
    let status = traced(&bed, &["-e", "trace=clone,clone3,write,pwrite64"]).status().expect("strace can be run");
    let log = fs::read_to_string(bed.path().join("log")).expect("it was written");
    assert!(status.success() && log.contains("write") && !log.contains("clone"), "{log}");
    assert_eq!(fs::read(bed.path().join("dest")).expect("it is there"), b"contents");
}

#[test]
fn a_small_file_without_a_thread_beside_it_is_whole_or_gone() {
    if !haul_testbed::guest::has("strace") {
        return haul_testbed::skip("strace is missing");
    }
    let Some(bed) = Bed::new() else { return };
    let dest = bed.path().join("dest");
    for call in ["openat:delay_exit", "pwrite64:delay_enter"] {
        // It was made, or is about to be written to, while the signal comes.
        let made_by = traced(&bed, &["-e", "trace=openat"]).status().expect("strace can be run");
        assert!(made_by.success());
        let log = fs::read_to_string(bed.path().join("log")).expect("it was written");
        let number = log.lines().position(|line| line.contains("O_EXCL")).expect("it makes a file") + 1;
        fs::remove_file(&dest).expect("it was made");
        let number = if call.starts_with("openat") { number } else { 1 };
        let inject = format!("inject={call}=4000000:when={number}");
        let mut child = traced(&bed, &["-e", "trace=openat,pwrite64", "-e", &inject]).spawn().expect("it can be run");
        while !dest.exists() {
            assert!(child.try_wait().expect("it is ours").is_none(), "it ended too soon");
            std::thread::yield_now();
        }
        let log = fs::read_to_string(bed.path().join("log")).expect("it is written");
        let pid = Pid::from_raw(log.split_whitespace().next().expect("a call").parse().expect("a number"));
        kill_process(pid.expect("a process"), Signal::INT).expect("the process is there");
        let mut said = String::new();
        child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("messages are text");
        child.wait().expect("the child is ours");
        let left = fs::read(&dest).ok();
        assert!(left.as_ref().is_none_or(|left| left == b"contents"), "{call}: {left:?}, {said}");
        fs::remove_file(&dest).ok();
    }
}

/// A copy over an old file without a thread beside it, called so, which waits for somebody to give up a lease.
fn stuck(bed: &Bed, called: &str) -> (Child, File) {
    fs::write(bed.path().join("small"), b"contents").expect("it can be written");
    fs::write(bed.path().join("dest"), b"old").expect("it can be written");
    let lease = File::open(bed.path().join("dest")).expect("it is there");
    haul_sys::for_tests::take_read_lease(&lease).expect("nobody writes to it");
    let mut command = Command::new(HAUL);
    let mut child =
        command.arg0(called).args(["small", "dest"]).current_dir(bed.path()).spawn().expect("it can be run");
    let lease_on = lease.metadata().expect("it is open");
    let (major, minor) = (rustix::fs::major(lease_on.dev()), rustix::fs::minor(lease_on.dev()));
    let file = format!(" {major:02x}:{minor:02x}:{} ", lease_on.ino());
    let breaks = |line: &str| line.contains("BREAKING") && line.contains(&file);
    while !fs::read_to_string("/proc/locks").expect("it can be read").lines().any(breaks) {
        assert!(child.try_wait().expect("it is ours").is_none(), "it ended too soon");
        std::thread::yield_now();
    }
    (child, lease)
}

#[test]
fn a_stuck_copy_without_a_thread_ends_as_its_signal_says() {
    let Some(bed) = Bed::new() else { return };
    for signal in [Signal::INT, Signal::TERM] {
        let number = signal.as_raw();
        for (called, ends) in [("haul", (Some(128 + number), None)), ("cp", (None, Some(number)))] {
            let (mut child, _lease) = stuck(&bed, called);
            kill_process(Pid::from_child(&child), signal).expect("the process is there");
            let ended = child.wait().expect("the child is ours");
            assert_eq!((ended.code(), ended.signal()), ends, "{called}");
            assert_eq!(fs::read(bed.path().join("dest")).expect("it is there"), b"old");
        }
    }
}

#[test]
fn a_second_signal_ends_a_stuck_copy_without_a_thread_before_the_first_does() {
    if !Path::new("/proc/self/timers").exists() {
        return haul_testbed::skip("the kernel does not list timers");
    }
    let Some(bed) = Bed::new() else { return };
    let (mut child, _lease) = stuck(&bed, "haul");
    let pid = Pid::from_child(&child);
    let begun = Instant::now();
    kill_process(pid, Signal::INT).expect("the process is there");
    // Its time runs.
    while fs::read(format!("/proc/{}/timers", pid.as_raw_nonzero())).is_ok_and(|timers| timers.is_empty()) {
        assert!(child.try_wait().expect("it is ours").is_none(), "it ended too soon");
        std::thread::yield_now();
    }
    kill_process(pid, Signal::TERM).expect("the process is there");
    // On a machine that is so slow, the time of the first signal may have come.
    let late = begun.elapsed() > Duration::from_secs(1);
    let code = child.wait().expect("the child is ours").code();
    assert!(code == Some(143) || (late && code == Some(130)), "{code:?}");
}

#[test]
fn a_signal_that_was_ignored_from_the_start_stays_ignored() {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", HAUL]);
    let copy = Copy::start(command, |_| {});
    copy.send(Signal::HUP);
    let Copy { dir, mut child, feed } = copy;
    // The end of the data.
    drop(feed);
    assert!(child.wait().expect("the child is ours").success());
    assert_eq!(fs::metadata(dir.path().join("dest")).expect("it was copied").len(), FLOOD as u64);
}

#[test]
fn a_reader_that_has_stopped_does_not_keep_a_signal_from_ending_the_process() {
    let dir = temp_dir();
    let source = dir.path().join("source");
    fs::create_dir(&source).expect("it can be made");
    // Lines for many times what a pipe holds.
    for number in 0..2000 {
        fs::write(source.join(format!("{number:0200}")), b"").expect("it can be written");
    }
    let mut child = haul()
        .args(["-rv", "--progress=always", "source", "dest"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program can be run");
    let mut stdout = child.stdout.take().expect("it is piped");
    // One byte is there when the first buffer is full; the rest is never read.
    assert_eq!(stdout.read(&mut [0]).expect("the pipe is open"), 1);
    kill_process(Pid::from_child(&child), Signal::TERM).expect("the process is there");
    assert_eq!(child.wait().expect("the child is ours").code(), Some(143));
}

#[test]
fn ctrl_c_at_a_question_ends_the_run() {
    let dir = temp_dir();
    for name in ["a", "b"] {
        fs::write(dir.path().join(name), name).expect("it can be written");
    }
    let mut child = haul()
        .args(["-i", "a", "b"])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be run");
    let mut question = vec![0; "haul: overwrite 'b'? ".len()];
    child.stderr.as_mut().expect("it is piped").read_exact(&mut question).expect("it asks");
    kill_process(Pid::from_child(&child), Signal::INT).expect("the process is there");
    assert_eq!(child.wait().expect("the child is ours").code(), Some(130));
    assert_eq!(fs::read(dir.path().join("b")).expect("it is there"), b"b");
}

/// A standard output that nobody reads any more.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("there are pipes");
    drop(reader);
    writer.into()
}

#[test]
fn without_a_reader_the_process_ends_by_sigpipe_unless_that_was_ignored() {
    for program in [HAUL, "/bin/cp"] {
        let dir = temp_dir();
        fs::write(dir.path().join("a"), b"contents").expect("it can be written");
        let status =
            Command::new(program).args(["-v", "a", "b"]).current_dir(dir.path()).stdout(closed_pipe()).status();
        assert_eq!(status.expect("it can be run").signal(), Some(Signal::PIPE.as_raw()), "{program}");
        let output = Command::new("sh")
            .args(["-c", "trap '' PIPE; exec \"$0\" -v a b", program])
            .current_dir(dir.path())
            .env("LC_ALL", "C")
            .stdout(closed_pipe())
            .output()
            .expect("it can be run");
        assert_eq!(output.status.code(), Some(1), "{program}");
        let message = format!("{program}: write error: Broken pipe\n");
        assert_eq!(String::from_utf8_lossy(&output.stderr), message);
    }
}

#[test]
fn a_new_file_that_is_not_whole_is_removed_where_nobody_reads_what_is_printed() {
    let mut command = haul();
    command.args(["--json", "-T"]).stdout(Stdio::piped());
    let mut copy = Copy::start(command, |_| {});
    let mut events = copy.child.stdout.take().expect("it is piped");
    events.read_exact(&mut [0]).expect("it says that it starts");
    drop(events);
    // The next line has no reader.
    while copy.feed.write_all(&vec![b'x'; FLOOD]).is_ok() {}
    let (ended, said, dir) = copy.end();
    assert_eq!((ended.signal(), said.as_str()), (Some(Signal::PIPE.as_raw()), ""));
    assert!(!dir.path().join("dest").exists());
}

#[test]
fn the_file_size_limit_is_reported_and_other_files_are_copied() {
    let dir = temp_dir();
    fs::write(dir.path().join("large"), vec![b'x'; 3 << 20]).expect("it can be written");
    fs::write(dir.path().join("small"), b"contents").expect("it can be written");
    fs::create_dir(dir.path().join("dest")).expect("it can be made");
    // The unit is 512 bytes.
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 2048; exec \"$0\" large small dest", HAUL])
        .current_dir(dir.path())
        .env("LC_ALL", "C")
        .output()
        .expect("it can be run");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("'dest/large'") && said.ends_with(": File too large\n"), "{said}");
    assert!(!dir.path().join("dest/large").exists());
    assert_eq!(fs::read(dir.path().join("dest/small")).expect("it was copied"), b"contents");
}
