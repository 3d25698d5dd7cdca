//! The options of haul do with several ranks what they do with one process.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use haul_copy::plan::EngineName;
use haul_testbed::{Bed, Command, Fs};

use crate::support::tree::{SMALL, assert_equal, grow, place, remove};
use crate::support::{Job, Mpi, chance, haul, rows};

/// Copies with haul and with each MPI, and wants the same end and the same tree.
fn same_as_haul(dir: &Path, ranks: usize, options: &[&str]) {
    let all = [&["-a"], options, &["source"]].concat();
    fs::create_dir(dir.join("reference")).expect("a directory");
    let reference =
        Command::new(haul()).args(&all).arg("reference/").current_dir(dir).output().expect("haul can be run");
    for mpi in Mpi::all() {
        fs::create_dir(dir.join("result")).expect("a directory");
        let words = [&["--chunk=100K"], &all[..], &["result/"]].concat();
        let done = Job::new(mpi, ranks, dir, &words).run();
        assert_eq!(done.code, reference.status.code(), "{mpi:?} {options:?}: {done}");
        assert!(done.left.is_empty(), "{mpi:?} {options:?}: {done}");
        assert_equal(&dir.join("reference"), &dir.join("result"), &format!("{mpi:?} {options:?}"));
        remove(&dir.join("result"));
    }
    remove(&dir.join("reference"));
}

#[test]
fn every_engine_works_with_several_ranks() {
    let Some(bed) = Bed::new() else { return };
    // It knows clones, and allocates no more than it is asked to.
    let Some(dir) = place(&bed, Fs::Btrfs) else { return };
    grow(&mut chance(2), &dir, SMALL);
    for engine in EngineName::ALL {
        same_as_haul(&dir, 3, &[&format!("--engine={}", engine.as_str())]);
    }
}

/// Bytes of a chunk, and chunks of a file.
const CHUNK: usize = 64 << 10;
const CHUNKS: usize = 128;

#[test]
fn a_file_that_is_named_is_copied_by_all_ranks() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    let contents: Vec<u8> = (0..CHUNK * CHUNKS).map(|at| (at % 251) as u8).collect();
    fs::write(dir.join("file"), &contents).expect("a file");
    symlink("file", dir.join("link")).expect("a link");
    for (mpi, source) in Mpi::all().into_iter().flat_map(|mpi| ["file", "link"].map(|source| (mpi, source))) {
        // In a moment it would be over before anybody asks for work.
        let words = ["--chunk=64K", "--limit=8M", "--stats", "-T", source, "copy"];
        let done = Job::new(mpi, 4, &dir, &words).run().succeeded();
        let chunks: Vec<usize> = rows(&done).iter().map(|row| row.chunks).collect();
        // Were sharing ended by two threads that offer at once, a few would be all.
        assert!(chunks.iter().sum::<usize>() > CHUNKS / 4, "{mpi:?} {source}: {chunks:?}: {done}");
        assert!(fs::read(dir.join("copy")).expect("a copy") == contents, "{mpi:?} {source}: {done}");
        fs::remove_file(dir.join("copy")).expect("it can be removed");
    }
}

#[test]
fn options_that_change_how_files_are_made_work_with_several_ranks() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(3), &dir, SMALL);
    let ways: &[&[&str]] =
        &[&["--verify"], &["--durable=file"], &["--sparse=always"], &["--sparse=never"], &["--atomic"], &["--resume"]];
    for options in ways {
        same_as_haul(&dir, 3, options);
    }
}

#[test]
fn digests_are_those_that_one_process_prints() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(4), &dir, SMALL);
    let words = ["-aT", "--checksum=xxh3", "source", "result"];
    let reference = Command::new(haul()).args(words).current_dir(&dir).output().expect("haul can be run");
    assert!(reference.status.success());
    let wanted = sorted(&String::from_utf8_lossy(&reference.stdout));
    assert!(!wanted.is_empty());
    for mpi in Mpi::all() {
        remove(&dir.join("result"));
        let done = Job::new(mpi, 3, &dir, &[&words[..], &["--chunk=128K"]].concat()).run().succeeded();
        assert_eq!(sorted(&done.stdout), wanted, "{mpi:?}: {done}");
    }
}

/// The lines in order, but for those that the communication layer of MPICH writes among them.
fn sorted(text: &str) -> Vec<String> {
    let text = text.replace("haul-mpi: ", "haul: ");
    let mut lines: Vec<String> = text.lines().filter(|line| !line.contains(" UCX  WARN ")).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn compare_finds_what_one_process_finds() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(5), &dir, SMALL);
    fs::create_dir(dir.join("result")).expect("a directory");
    let copied =
        Command::new(haul()).args(["-a", "source", "result"]).current_dir(&dir).status().expect("it can be run");
    assert!(copied.success());
    let words = ["-a", "--compare", "source", "result"];
    for damaged in [false, true] {
        if damaged {
            fs::write(dir.join("result/source/large-0"), "other bytes").expect("it can be written");
            fs::remove_file(dir.join("result/source/many/00007")).expect("it is there");
        }
        let reference = Command::new(haul()).args(words).current_dir(&dir).output().expect("haul can be run");
        assert_eq!(reference.status.code(), Some(i32::from(damaged)));
        for mpi in Mpi::all() {
            let done = Job::new(mpi, 3, &dir, &words).run();
            assert_eq!(done.code, reference.status.code(), "{mpi:?}: {done}");
            let wanted = sorted(&String::from_utf8_lossy(&reference.stdout));
            assert_eq!(sorted(&done.stdout), wanted, "{mpi:?}: {done}");
        }
    }
}
