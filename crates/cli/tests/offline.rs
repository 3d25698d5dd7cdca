//! `--skip-offline`: what an archive has is not read. strace answers as Lustre would; a server of SMB is asked in a virtual
//! machine.
#![forbid(unsafe_code)]

use std::fs;
use std::process::Output;

use haul_testbed::guest::has;
use haul_testbed::{Command, TempDir, skip, temp_dir};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// What fstatfs(2) has of Lustre: its type.
const TYPE: &str = "inject=fstatfs:poke_exit=@arg2=d00bd00b00000000";
/// What LL_IOC_HSM_STATE_GET has of a file that is archived and released, and of one that is archived and there: `struct
/// hsm_user_state`, of which the states come first.
const RELEASED: &str = "0d000000010000000000000000000000";
const ARCHIVED: &str = "09000000010000000000000000000000";

/// Two files, and a directory for their copies. `None` where there is no strace.
fn scene() -> Option<TempDir> {
    if !has("strace") {
        skip("strace is not installed");
        return None;
    }
    let dir = temp_dir();
    for (name, text) in [("taken", "on tape"), ("here", "on disk")] {
        fs::write(dir.path().join(name), text).expect("it can be written");
    }
    fs::create_dir(dir.path().join("to")).expect("it can be made");
    Some(dir)
}

/// Runs haul where the file `taken` is on Lustre, in this state.
fn run(dir: &TempDir, state: &str, arguments: &[&str]) -> Output {
    let state = format!("inject=ioctl:retval=0:poke_exit=@arg3={state}");
    // Every ioctl(2) on the file is answered so, also that which would clone it.
    let never = ["--reflink=never"].into_iter().filter(|_| !arguments.contains(&"--compare"));
    Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-P"])
        .arg(dir.path().join("taken"))
        .args(["-e", "trace=fstatfs,ioctl", "-e", TYPE, "-e", &state, HAUL])
        .args(never)
        .args(arguments)
        .current_dir(dir.path())
        .output()
        .expect("strace can be run")
}

/// What is at the destination of the file, and what was said.
fn copied(dir: &TempDir, arguments: &[&str]) -> (Option<String>, String) {
    let output = run(dir, RELEASED, arguments);
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    (fs::read_to_string(dir.path().join("to/taken")).ok(), said)
}

#[test]
fn a_file_that_an_archive_has_is_left_out_and_others_are_copied() {
    let Some(dir) = scene() else { return };
    let (taken, said) = copied(&dir, &["--skip-offline", "--debug", "taken", "here", "to"]);
    assert_eq!(taken, None);
    assert!(said.contains("skipped 'to/taken' (offline)\n"), "{said}");
    assert_eq!(fs::read_to_string(dir.path().join("to/here")).expect("it was copied"), "on disk");
    let (_, said) = copied(&dir, &["--skip-offline", "--stats", "taken", "to"]);
    assert!(said.contains("1 offline"), "{said}");
}

#[test]
fn it_is_copied_without_the_option_and_when_it_is_back() {
    let Some(dir) = scene() else { return };
    assert_eq!(copied(&dir, &["taken", "to"]).0.as_deref(), Some("on tape"));
    fs::remove_file(dir.path().join("to/taken")).expect("it is there");
    let output = run(&dir, ARCHIVED, &["--skip-offline", "taken", "to"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(dir.path().join("to/taken")).expect("it was copied"), "on tape");
}

#[test]
fn a_shard_that_left_it_out_is_not_done_for_the_command_without_the_option() {
    let Some(dir) = scene() else { return };
    let shard = ["-a", "--shard=1/1", "taken", "here", "to/"];
    assert_eq!(copied(&dir, &[&["--skip-offline"], &shard[..]].concat()).0, None);
    assert_eq!(copied(&dir, &shard).0.as_deref(), Some("on tape"));
}

#[test]
fn its_old_copy_stays_and_nobody_is_asked() {
    let Some(dir) = scene() else { return };
    fs::write(dir.path().join("to/taken"), "old").expect("it can be written");
    for more in ["-f", "-i", "-b", "--remove-destination", "--atomic", "--update=content"] {
        let (taken, said) = copied(&dir, &["--skip-offline", "--debug", more, "taken", "to"]);
        assert_eq!(taken.as_deref(), Some("old"), "{more}");
        assert!(said.contains("skipped 'to/taken' (offline)\n"), "{more}: {said}");
    }
    assert_eq!(fs::read_dir(dir.path().join("to")).expect("it is there").count(), 1, "no backup was made");
}

/// On a filesystem without a device of its own, as Lustre has none, numbers do not tell two files apart: they are read.
#[test]
fn it_is_not_read_to_tell_it_from_its_copy() {
    let Some(dir) = scene() else { return };
    let Ok(memory) = TempDir::new_in("/dev/shm") else { return skip("there is no /dev/shm") };
    let (taken, calls) = (memory.path().join("taken"), dir.path().join("calls"));
    fs::write(&taken, "on tape").expect("it can be written");
    fs::write(dir.path().join("to/taken"), "ON disk").expect("it can be written");
    let state = format!("inject=ioctl:retval=0:poke_exit=@arg3={RELEASED}");
    let reads = |options: &[&str]| {
        let output = Command::new("strace")
            .args(["-f", "-qq", "-y", "-e", "trace=fstatfs,ioctl,read,pread64,preadv2,mmap", "-e", TYPE, "-e", &state])
            .args(["-o".as_ref(), calls.as_os_str(), "-P".as_ref(), taken.as_os_str(), HAUL.as_ref()])
            .args(options)
            .args([&taken, &dir.path().join("to")])
            .output()
            .expect("strace can be run");
        assert!(output.status.success(), "{output:?}");
        let calls = fs::read_to_string(&calls).expect("strace has written");
        calls.lines().filter(|line| ["read", "mmap"].iter().any(|call| line.contains(call))).count()
    };
    for options in [&["-a"][..], &["-b"], &["--remove-destination"], &["-u"], &["--atomic"], &["--dry-run"]] {
        assert_eq!(reads(&[&["--skip-offline", "--reflink=never"], options].concat()), 0, "{options:?}");
    }
    assert!(reads(&["--reflink=never"]) > 0, "who copies it reads it");
}

#[test]
fn a_move_leaves_it_and_a_link_to_it_reads_nothing() {
    let Some(dir) = scene() else { return };
    assert_eq!(copied(&dir, &["--skip-offline", "--move", "taken", "to"]).0, None);
    assert!(dir.path().join("taken").exists());
    assert_eq!(copied(&dir, &["--skip-offline", "-l", "taken", "to"]).0.as_deref(), Some("on tape"));
}

/// Before a source goes whose copy is up to date, the two are compared.
#[test]
fn a_move_leaves_it_where_its_copy_is_up_to_date() {
    let Some(dir) = scene() else { return };
    let Ok(memory) = TempDir::new_in("/dev/shm") else { return skip("there is no /dev/shm") };
    let dest = memory.path().to_str().expect("it is text");
    let output = run(&dir, ARCHIVED, &["-p", "taken", "here", dest]);
    assert!(output.status.success(), "{output:?}");
    for (more, stays) in [(&["--dry-run"][..], [true, true]), (&[], [true, false])] {
        let options = ["--skip-offline", "--debug", "--move", "--update=changed"];
        let output = run(&dir, RELEASED, &[&options, more, &["taken", "here", dest]].concat());
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && !said.contains("removed 'taken'"), "{said}");
        assert!(said.contains("offline"), "{said}");
        assert_eq!(["taken", "here"].map(|name| dir.path().join(name).exists()), stays, "{said}");
    }
}

#[test]
fn a_dry_run_and_a_comparison_leave_it_out() {
    let Some(dir) = scene() else { return };
    let (_, said) = copied(&dir, &["--skip-offline", "--dry-run", "-v", "taken", "to"]);
    assert!(said.contains("offline"), "{said}");
    fs::write(dir.path().join("to/taken"), "other").expect("it can be written");
    copied(&dir, &["--compare", "--skip-offline", "taken", "to"]);
    let differs = run(&dir, RELEASED, &["--compare", "taken", "to"]);
    assert_eq!(differs.status.code(), Some(1), "{differs:?}");
}
