//! What a run leaves as it is in the process that calls it.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use haul_copy::events::{Confirm, Event, Observer, Question};
use haul_copy::meta::XattrRules;
use haul_copy::plan::{Destination, Plan};
use haul_copy::run::{self, Cancel, Partials, Session};
use haul_io::pace::Pace;
use haul_testbed::guest::has;
use haul_testbed::{Command, skip, temp_dir};

/// The directory in which [`only_a_copy`] copies.
const PLACE: &str = "HAUL_COPY_HERE";

/// Says yes, and hears nothing.
struct Silent;

impl Observer for Silent {
    fn event(&self, event: &Event<'_>) {
        if let Event::Problem(error) = event {
            panic!("{error}");
        }
    }
}

impl Confirm for Silent {
    fn overwrite(&self, _: &Question<'_>) -> bool {
        true
    }
}

fn copy(place: &Path) {
    let session = Session {
        observer: &Silent,
        confirm: &Silent,
        cancel: Cancel::default(),
        pace: Pace::default(),
        partials: Partials::default(),
        xattr_rules: XattrRules::default(),
        skip_files: Vec::new(),
        shared_reads: None,
    };
    let plan = Plan {
        sources: vec![place.join("source").into()],
        destination: Destination::Exactly(place.join("dest").into()),
        recursive: true,
        jobs: Some(2),
        ..Plan::default()
    };
    assert!(!run::run(&plan, &session).failed);
}

/// Not a test by itself: the process that the others watch.
#[test]
fn only_a_copy() {
    if let Some(place) = std::env::var_os(PLACE) {
        copy(Path::new(&place));
    }
}

/// Copies a tree in a process of its own with the umask 027, and gives the lines of these calls that it made. `prefix` is
/// run before the tracer.
fn calls_of_a_copy(place: &Path, prefix: &[&str], trace: &str) -> Vec<String> {
    fs::create_dir(place.join("source")).expect("a directory can be made");
    fs::write(place.join("source/file"), "text").expect("a file can be made");
    fs::set_permissions(place.join("source/file"), PermissionsExt::from_mode(0o777)).expect("it is ours");
    let log = place.join("log");
    let itself = std::env::current_exe().expect("it was started from a file");
    let status = Command::new("timeout")
        .arg("60")
        .args(prefix)
        .args(["sh", "-c", "umask 027; exec strace \"$@\"", "sh", "-f", "-qq", "-e", "signal=none", "-e", trace, "-o"])
        .args([&log, &itself])
        .args(["--exact", "only_a_copy"])
        .env(PLACE, place)
        .status();
    assert!(status.expect("timeout can be run").success());
    let mode = fs::metadata(place.join("dest/file")).expect("it was copied").permissions().mode();
    assert_eq!(mode & 0o7777, 0o750);
    fs::read_to_string(log).expect("it was written").lines().map(str::to_owned).collect()
}

#[test]
fn a_run_changes_neither_umask_nor_working_directory_nor_signals() {
    if !has("strace") {
        return skip("strace is missing");
    }
    let dir = temp_dir();
    let lines = calls_of_a_copy(dir.path(), &[], "trace=umask,chdir,fchdir,rt_sigaction,prlimit64,openat");
    let umask: Vec<_> = lines.iter().filter(|line| line.contains("umask(")).collect();
    assert!(umask.is_empty(), "{umask:?}");
    // Before main the Rust runtime does.
    let begun = lines.iter().position(|line| line.contains("/proc/thread-self/status")).expect("the run looks there");
    // With no new limit the call asks for the present one.
    let asks = |line: &str| line.contains("prlimit64(0, ") && line.contains(", NULL, ");
    let reads = |line: &&String| line.contains("openat(") || asks(line);
    let changes: Vec<_> = lines[begun..].iter().filter(|line| !reads(line)).collect();
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn without_proc_the_umask_is_read_in_a_thread_of_its_own() {
    if !has("strace") {
        return skip("strace is missing");
    }
    if !is_root() {
        return skip("root is needed to hide /proc");
    }
    let dir = temp_dir();
    let hide = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"];
    let lines = calls_of_a_copy(dir.path(), &hide, "trace=umask,unshare,openat");
    let is_missing = |line: &&String| line.contains("/proc/thread-self/status") && line.contains("ENOENT");
    assert!(lines.iter().any(|line| is_missing(&line)), "{lines:?}");
    let by = |line: &String| line.split(' ').next().map(str::to_owned);
    let parts = |line: &&String| line.contains("unshare(CLONE_FS)") && line.ends_with("= 0");
    let apart = lines.iter().find(parts).expect("a thread parts with its umask");
    let set: Vec<_> = lines.iter().filter(|line| line.contains("umask(")).collect();
    assert!(set.len() == 1 && by(set[0]) == by(apart), "{set:?}, {apart}");
}

fn is_root() -> bool {
    haul_sys::rustix::process::geteuid().is_root()
}
