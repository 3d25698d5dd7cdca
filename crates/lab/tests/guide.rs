//! Every command of haul-lab in the documentation is run.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::symlink;

use haul_testbed::{Command, TempDir, commands, create_painted, temp_dir, write_script};

/// What the pages speak of: a disk, two sources, and a program to compare with.
fn stage() -> TempDir {
    let dir = temp_dir();
    let root = dir.path();
    for folder in ["mnt/disk", "here/tree", "programs"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    create_painted(root.join("here/tree/file"), 300_000);
    create_painted(root.join("here/big.iso"), 3_000_000);
    symlink(env!("CARGO_BIN_EXE_haul-lab"), root.join("programs/haul-lab")).unwrap();
    let mycp = root.join("programs/mycp");
    write_script(&mycp, "#!/bin/sh\nexec cp -r \"$1\" \"$2\"\n");
    dir
}

/// Runs the commands of a page; one that takes minutes gets the shortest time and the least space that it accepts.
fn follow(page: &str) -> TempDir {
    let dir = stage();
    let root = dir.path();
    let examples = commands(page, "haul-lab");
    assert!(!examples.is_empty(), "{page} has no command");
    for example in examples {
        let (example, _) = example.split_once(" #").unwrap_or((&example, ""));
        let shorter = if example.contains(" reproduce ") { " --budget=1m --space=512M" } else { "" };
        let here = example.replace("/mnt/disk", root.join("mnt/disk").to_str().unwrap()) + shorter;
        let output = Command::new("sh")
            .args(["-c", &here])
            .current_dir(root.join("here"))
            .env("PATH", format!("{}:{}", root.join("programs").display(), std::env::var("PATH").unwrap()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{here}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    dir
}

#[test]
fn the_commands_of_its_page_lead_to_a_report() {
    let dir = follow("lab.md");
    let report = fs::read_to_string(dir.path().join("here/report.html")).unwrap();
    assert!(report.contains("Copies inside the kernel"), "{report}");
    assert_eq!(fs::read_dir(dir.path().join("mnt/disk")).unwrap().count(), 0);
}

#[test]
fn the_command_of_the_readme_compares() {
    let dir = follow("../README.md");
    assert_eq!(fs::read_dir(dir.path().join("mnt/disk")).unwrap().count(), 0);
}
