//! What every process of a test is promised: a deadline, signals as they come, and an end with its test.
#![forbid(unsafe_code)]

use std::fs;
use std::io::{PipeReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Stdio;
use std::time::Duration;

use haul_testbed::Command;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A deadline that is to pass. Before it a shell only has to start.
const SHORT: Duration = Duration::from_secs(3);

/// Longer than any test.
const FOR_EVER: &str = "100000";

/// A shell that hands its standard input down to all that it starts, and the end of a pipe that closes with the last of them.
fn shell(script: &str) -> (Command, PipeReader) {
    let (reader, writer) = std::io::pipe().expect("there are pipes");
    let mut command = Command::new("sh");
    // The background of a shell has /dev/null as its input unless that is said.
    command.args(["-c", &format!("exec 9<&0; {script}"), FOR_EVER]).stdin(writer).deadline(SHORT);
    (command, reader)
}

/// All processes that hold the other end have ended, or do so in the time that this one gives them.
fn assert_closes(mut reader: PipeReader) {
    let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
    let closed = poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&limit)).expect("a pipe can be waited for");
    assert!(closed > 0, "somebody holds the pipe");
    assert_eq!(reader.read(&mut [0]).expect("it can be read"), 0);
}

/// What a test would die with.
fn panic_of(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it must not go on");
    *panic.downcast::<String>().expect("a panic has a message")
}

#[test]
fn a_process_without_an_end_is_killed_at_its_deadline_with_all_it_started() {
    let (mut command, reader) = shell("sleep $0 & setsid sleep $0 & (timeout $0 sleep $0) & echo said; sleep $0");
    let message = panic_of(|| drop(command.output()));
    drop(command);
    for words in ["did not end within", "setsid sleep", "standard output:\nsaid\n"] {
        assert!(message.contains(words), "{message}");
    }
    assert_closes(reader);
}

#[test]
fn a_process_that_outlives_its_parent_and_holds_the_output_has_the_deadline_too() {
    let (mut command, reader) = shell("sleep $0 &");
    let message = panic_of(|| drop(command.output()));
    drop(command);
    assert!(message.contains("did not end within"), "{message}");
    assert_closes(reader);
}

#[test]
fn a_test_that_reads_from_a_process_gets_to_its_deadline() {
    let (mut command, reader) = shell("sleep $0");
    let message = panic_of(|| {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("there is a shell");
        child.stdout.take().expect("it is piped").read_to_end(&mut Vec::new()).expect("it can be read");
        drop(child.wait());
    });
    drop(command);
    assert!(message.contains("did not end within"), "{message}");
    assert_closes(reader);
}

#[test]
fn a_process_that_ended_in_time_may_be_asked_later() {
    let (mut command, reader) = shell("exit 7");
    let mut child = command.spawn().expect("there is a shell");
    drop(command);
    assert_closes(reader);
    // It has the same deadline and was started later.
    panic_of(|| drop(Command::new("sleep").arg(FOR_EVER).deadline(SHORT).status()));
    assert_eq!(child.wait().expect("the child is ours").code(), Some(7));
}

#[test]
fn a_process_that_is_dropped_is_killed_with_all_it_started() {
    let (mut command, reader) = shell("sleep $0 & setsid sleep $0 & echo ready; sleep $0");
    let mut child = command.deadline(Duration::from_secs(1000)).stdout(Stdio::piped()).spawn().expect("a shell");
    drop(command);
    let mut ready = [0; 6];
    child.stdout.as_mut().expect("it is piped").read_exact(&mut ready).expect("it says that it is ready");
    drop(child);
    assert_closes(reader);
}

#[test]
fn a_process_ends_with_the_thread_that_started_it() {
    let (mut command, reader) = shell("exec sleep $0");
    let child = std::thread::scope(|scope| {
        let started = scope.spawn(|| command.deadline(Duration::from_secs(1000)).spawn().expect("there is a shell"));
        started.join().expect("it does not panic")
    });
    drop(command);
    assert_closes(reader);
    drop(child);
}

#[test]
fn standard_input_is_empty_unless_a_test_sets_it() {
    let output = Command::new("cat").output().expect("there is cat");
    assert!(output.status.success() && output.stdout.is_empty());
    assert!(Command::new("cat").status().expect("there is cat").success());
}

/// The masks of a process, by the names that /proc gives them.
fn mask(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel knows it");
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).expect("a mask in hexadecimal")
}

/// Plays itself once more, where signals are ignored.
#[test]
fn signals_have_their_default_actions_whatever_the_test_inherited() {
    const INNER: &str = "HAUL_TEST_IGNORES_SIGNALS";
    if std::env::var_os(INNER).is_none() {
        let name = "signals_have_their_default_actions_whatever_the_test_inherited";
        let test = std::env::current_exe().expect("a test knows where it is");
        let script = "trap '' HUP INT QUIT USR1 PIPE TERM XFSZ; exec \"$0\" --exact \"$1\"";
        let output = Command::new("sh").args(["-c", script]).arg(test).arg(name).env(INNER, "1").output();
        let output = output.expect("there is a shell");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let own = fs::read_to_string("/proc/self/status").expect("there is /proc");
    // INT, TERM and XFSZ, which is the least that this test is about.
    let ignored = 1 << 1 | 1 << 14 | 1 << 24;
    assert_eq!(mask(&own, "SigIgn") & ignored, ignored, "the premise");
    let output = Command::new("cat").arg("/proc/self/status").output().expect("there is cat");
    let status = String::from_utf8(output.stdout).expect("it is text");
    // glibc keeps 32 and 33 for itself, and its posix_spawn leaves them ignored.
    let of_the_library = 0b11 << 31;
    assert_eq!((mask(&status, "SigIgn") & !of_the_library, mask(&status, "SigBlk")), (0, 0));
}
