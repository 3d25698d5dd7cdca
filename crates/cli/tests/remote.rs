//! How many threads copy where a server has the files. strace says of all filesystems that they are NFS; what a server makes of
//! it is measured in virtual machines (`cargo xtask vm --only nfs-latency`).
#![forbid(unsafe_code)]

use std::fs;

use haul_testbed::guest::has;
use haul_testbed::{Command, TempDir, skip};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// What fstatfs(2) has of NFS: its type.
const NFS: &str = "inject=fstatfs:poke_exit=@arg2=6969000000000000";

/// Copies a tree of 512 files in 32 directories on one processor; returns how many threads were started.
fn threads(dir: &TempDir, answers: &[&str]) -> usize {
    let (calls, copy) = (dir.path().join("calls"), dir.path().join("copy"));
    let mut command = Command::new("taskset");
    command.args(["-c", "0", "strace", "-f", "-qq", "-e", "trace=fstatfs,clone,clone3,openat", "-o"]).arg(&calls);
    answers.iter().for_each(|answer| _ = command.args(["-e", answer]));
    let output = command.args([HAUL, "-rT"]).arg(dir.path().join("tree")).arg(&copy).output().expect("it can be run");
    assert!(output.status.success(), "{output:?}");
    for number in 0..512 {
        let name = format!("{}/{number}", number % 32);
        assert_eq!(fs::read_to_string(copy.join(&name)).expect("it was copied"), name);
    }
    fs::remove_dir_all(&copy).expect("it can be removed");
    let calls = fs::read_to_string(&calls).expect("strace has written");
    calls.lines().filter(|line| ["clone(", "clone3("].iter().any(|call| line.contains(call))).count()
}

#[test]
fn a_server_gets_more_threads_than_there_are_processors() {
    if !has("strace") || !has("taskset") {
        return skip("strace or taskset is not installed");
    }
    // What a server has is on no device.
    let Ok(dir) = TempDir::new_in("/dev/shm") else { return skip("there is no /dev/shm") };
    for number in 0..512 {
        let name = format!("{}/{number}", number % 32);
        let path = dir.path().join("tree").join(&name);
        fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
        fs::write(path, name).expect("it can be written");
    }
    // One awaits signals. One processor means at most four that copy.
    assert!(threads(&dir, &[]) <= 4);
    assert!(threads(&dir, &[NFS]) >= 7);
}
