//! `--each`: every rank makes a copy of its own, and the ranks read large files together.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use haul_testbed::guest::has;
use haul_testbed::{Bed, Fs, create_painted, skip, sparse_file, temp_dir};
use rustix::process::{Signal, kill_process};

use crate::support::tree::{FILLED, SMALL, assert_none, differences_but_for, grow, look, place};
use crate::support::{Job, Mpi, Part, chance, haul_copies};

const MIB: u64 = 1 << 20;

/// Ranks that have a directory of their own each, `rank-N`, to which `copy` belongs.
fn apart(mpi: Mpi, dir: &Path, ranks: usize, args: &[&str]) -> Job {
    let part = |rank: usize| Part::new(1, args).within(&directory(dir, rank));
    Job::of(mpi, dir, (0..ranks).map(part).collect())
}

fn directory(dir: &Path, rank: usize) -> PathBuf {
    dir.join(format!("rank-{rank}"))
}

/// Empty directories for so many ranks.
fn make_directories(dir: &Path, ranks: usize) {
    for rank in 0..ranks {
        // That of the round before, if there was one: otherwise it cannot be made.
        fs::remove_dir_all(directory(dir, rank)).ok();
        fs::create_dir(directory(dir, rank)).expect("a directory");
    }
}

/// Ranks pass on only what has been as it is for two seconds by the clock of files.
fn until_settled(file: &Path) {
    let found = fs::metadata(file).expect("it is there");
    let changed = Duration::new(found.ctime().unsigned_abs(), found.ctime_nsec().unsigned_abs() as u32);
    while UNIX_EPOCH.elapsed().expect("a clock after 1970") < changed + Duration::from_secs(2) {
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn every_rank_makes_the_copy_that_one_process_makes() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(51), &dir, SMALL);
    let source = dir.join("source");
    create_painted(source.join("large"), 9 * MIB + 17);
    sparse_file(source.join("sparse"), 64 * MIB, &[(5 * MIB, MIB), (40 * MIB + 4096, 3 * MIB)]);
    fs::create_dir(dir.join("reference")).expect("a directory");
    haul_copies(&dir, &["-aT", "source", "reference/copy"]);
    until_settled(&source.join("sparse"));
    let reference = look(&dir.join("reference"));
    for mpi in Mpi::all() {
        for ranks in [1, 3] {
            make_directories(&dir, ranks);
            let source = source.to_str().expect("it is text");
            let done = apart(mpi, &dir, ranks, &["-aT", "--each", "--stats", source, "copy"]).run().succeeded();
            for rank in 0..ranks {
                let found = differences_but_for(FILLED, &reference, &look(&directory(&dir, rank)));
                assert_none(&found, &format!("{mpi:?}, rank {rank} of {ranks}: {done}"));
            }
            assert_eq!(done.stderr.matches("from other ranks").count() > 0, ranks > 1, "{done}");
        }
    }
}

#[test]
fn each_byte_of_a_large_file_is_read_once_by_all_ranks_together() {
    if !has("strace") {
        return skip("strace is not installed");
    }
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    let (size, ranks) = (24 * MIB + 4097, 3);
    let source = dir.join("large");
    create_painted(&source, size);
    until_settled(&source);
    for mpi in Mpi::all() {
        make_directories(&dir, ranks);
        let path = source.to_str().expect("it is text");
        let part = |rank: usize| {
            let calls = directory(&dir, rank).join("calls");
            let trace = ["-f", "-qq", "-o", calls.to_str().expect("it is text"), "-e", "trace=pread64", "-P", path];
            Part::new(1, &["--each", path, "copy"])
                .within(&directory(&dir, rank))
                .by(&[&["strace"][..], &trace].concat())
        };
        let done = Job::of(mpi, &dir, (0..ranks).map(part).collect()).run().succeeded();
        let mut read = Vec::new();
        for rank in 0..ranks {
            let here = directory(&dir, rank);
            assert!(fs::read(here.join("copy")).expect("a copy") == fs::read(&source).expect("the source"), "{done}");
            let calls = fs::read_to_string(here.join("calls")).expect("what strace saw");
            let own: BTreeSet<u64> = calls.lines().filter_map(part_read).collect();
            assert!(own.len() >= 8, "{mpi:?}: rank {rank} has read {own:?}:\n{calls}");
            read.extend(own);
        }
        // What a rank reads for several others its page cache has.
        read.sort_unstable();
        assert_eq!(read, (0..size.div_ceil(MIB)).collect::<Vec<_>>(), "{mpi:?}: by one rank each: {done}");
    }
}

/// Which part a line of strace has read some of: the offset is the last argument.
fn part_read(line: &str) -> Option<u64> {
    let (call, count) = line.rsplit_once(") = ")?;
    let offset: u64 = call.rsplit_once(", ")?.1.parse().ok()?;
    (count.parse::<u64>().ok()? > 0).then_some(offset / MIB)
}

#[test]
fn ranks_that_would_write_to_one_destination_are_refused() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    fs::write(dir.join("source"), "bytes").expect("a file");
    for mpi in Mpi::all() {
        let job = Job::new(mpi, 3, &dir, &["-T", "--each", "source", "copy"]);
        job.run().failed_with(64).says(&["rank 0", "rank 1", "would write to the same", "a destination of its own"]);
        let left: Vec<_> =
            fs::read_dir(&dir).expect("a directory").map(|entry| entry.expect("one").file_name()).collect();
        assert_eq!(left.iter().filter(|name| *name != "lost+found").count(), 1, "{mpi:?}: {left:?}");
    }
}

#[test]
fn ranks_whose_destinations_lead_to_one_file_are_refused() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    let source = dir.join("source");
    fs::write(&source, "bytes").expect("a file");
    fs::create_dir(dir.join("shared")).expect("a directory");
    fs::write(dir.join("shared/file"), "old").expect("a file");
    for mpi in Mpi::all() {
        make_directories(&dir, 2);
        for rank in 0..2 {
            symlink(dir.join("shared/file"), directory(&dir, rank).join("copy")).expect("a link");
        }
        let job = apart(mpi, &dir, 2, &["-T", "--each", source.to_str().expect("it is text"), "copy"]);
        job.run().failed_with(64).says(&["rank 0", "rank 1", "would write to the same", "/shared"]);
        assert_eq!(fs::read(dir.join("shared/file")).expect("it is there"), b"old");
    }
}

#[test]
fn a_second_job_is_refused_and_one_that_is_stopped_ends() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    let source = dir.join("source");
    create_painted(&source, 64 * MIB);
    until_settled(&source);
    let path = source.to_str().expect("it is text");
    for mpi in Mpi::all() {
        make_directories(&dir, 3);
        let mut running = apart(mpi, &dir, 3, &["-T", "--each", "--limit=24M", path, "copy"]).start();
        let copying = || (0..3).all(|rank| directory(&dir, rank).join("copy").exists());
        assert!(running.until(copying), "{mpi:?}: {}", running.end());
        let second = apart(mpi, &dir, 3, &["-T", "--each", path, "copy"]);
        second.run().failed_with(64).says(&["another job of haul-mpi copies to"]);
        let first = running.rank(0).expect("it is at work");
        kill_process(first, Signal::INT).expect("it is there");
        let ended = running.end();
        assert!(!ended.timed_out && ended.code != Some(0) && ended.left.is_empty(), "{mpi:?}: {ended}");
        second.run().succeeded();
        for rank in 0..3 {
            let copy = fs::read(directory(&dir, rank).join("copy")).expect("a copy");
            assert!(copy == fs::read(&source).expect("the source"), "{mpi:?}: rank {rank}");
        }
    }
}

#[test]
fn a_mirror_keeps_the_file_of_jobs_that_stands_in_it() {
    let dir = temp_dir();
    let source = dir.path().join("source");
    fs::create_dir(&source).expect("a directory");
    fs::write(source.join("file"), "bytes").expect("a file");
    let source = source.to_str().expect("it is text");
    for mpi in Mpi::all() {
        make_directories(dir.path(), 2);
        let job = |options: &[&str]| {
            apart(mpi, dir.path(), 2, &[&["--mirror", "-T", "--each", "-v"], options, &[source, "."]].concat()).run()
        };
        job(&["--max-delete=0"]).succeeded();
        for rank in 0..2 {
            fs::write(directory(dir.path(), rank).join("extra"), "not in the source").expect("a file");
        }
        let done = job(&["--max-delete=1"]).succeeded();
        assert!(!done.stdout.contains("jobs"), "{mpi:?}: {done}");
        for rank in 0..2 {
            let names = fs::read_dir(directory(dir.path(), rank)).expect("a directory");
            let names: Vec<_> = names.map(|entry| entry.expect("one").file_name()).collect();
            assert_eq!(names, ["file"], "{mpi:?}: {done}");
        }
    }
}

#[test]
fn ranks_whose_destinations_are_not_alike_are_refused() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    let source = dir.join("source");
    fs::write(&source, "bytes").expect("a file");
    let source = source.to_str().expect("it is text");
    for mpi in Mpi::all() {
        make_directories(&dir, 2);
        fs::create_dir(directory(&dir, 1).join("copy")).expect("a directory");
        apart(mpi, &dir, 2, &["--each", source, "copy"]).run().failed_with(64).says(&["rank 1", "-t or -T"]);
        apart(mpi, &dir, 2, &["--each", "--chunk=1M", source, "copy"]).run().failed_with(64).says(&["--chunk"]);
        assert!(!directory(&dir, 0).join("copy").exists() && !directory(&dir, 1).join("copy/source").exists());
    }
}

#[test]
fn what_one_rank_cannot_read_is_its_own_error_and_the_others_have_it() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    let source = dir.join("source");
    fs::create_dir(&source).expect("a directory");
    for name in ["first", "second"] {
        create_painted(source.join(name), 5 * MIB + 3);
    }
    fs::set_permissions(source.join("first"), PermissionsExt::from_mode(0o0)).expect("it is ours");
    until_settled(&source.join("first"));
    let path = source.to_str().expect("it is text");
    let humble = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"];
    for mpi in Mpi::all() {
        make_directories(&dir, 3);
        let part = |rank: usize| {
            let part = Part::new(1, &["-aT", "--each", path, "copy"]).within(&directory(&dir, rank));
            if rank == 1 { part.by(&humble) } else { part }
        };
        let done = Job::of(mpi, &dir, (0..3).map(part).collect()).run().failed_with(1);
        let done = done.says(&["rank 1 on ", "source/first", "Permission denied"]);
        assert_eq!(done.stderr.matches("source/first").count(), 1, "{done}");
        for (rank, name) in [(0, "first"), (0, "second"), (1, "second"), (2, "first"), (2, "second")] {
            let copy = fs::read(directory(&dir, rank).join("copy").join(name)).expect("a copy");
            assert!(copy == fs::read(source.join(name)).expect("the source"), "{mpi:?}: {name} of rank {rank}");
        }
        assert!(!directory(&dir, 1).join("copy/first").exists());
    }
}

#[test]
fn the_record_of_a_rank_says_whether_that_rank_failed() {
    let dir = temp_dir();
    let source = dir.path().join("source");
    fs::write(&source, "bytes").expect("a file");
    let source = source.to_str().expect("it is text");
    for mpi in Mpi::all() {
        make_directories(dir.path(), 3);
        // In the way of the copy.
        fs::create_dir(directory(dir.path(), 1).join("copy")).expect("a directory");
        let job = apart(mpi, dir.path(), 3, &["-T", "--each", "--stats=json", source, "copy"]);
        let done = job.run().failed_with(1);
        let records = done.stderr.lines().filter(|line| line.contains(r#""haul-mpi-rank""#));
        let failed: Vec<_> = records.map(|line| line.contains(r#""failed":true"#)).collect();
        assert_eq!(failed, [false, true, false], "{mpi:?}: {done}");
    }
}

#[test]
fn a_killed_job_is_resumed_and_an_old_copy_becomes_a_mirror_on_every_rank() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    let source = dir.join("source");
    fs::create_dir(&source).expect("a directory");
    for file in 0..300 {
        create_painted(source.join(file.to_string()), 100_000 + file);
    }
    fs::create_dir(dir.join("reference")).expect("a directory");
    haul_copies(&dir, &["-aT", "source", "reference/copy"]);
    until_settled(&source.join("299"));
    let reference = look(&dir.join("reference"));
    let path = source.to_str().expect("it is text");
    for mpi in Mpi::all() {
        make_directories(&dir, 2);
        let job = apart(mpi, &dir, 2, &["-aT", "--each", "--resume", path, "copy"]);
        let mut running = job.start();
        let begun = || fs::read_dir(directory(&dir, 1).join("copy")).is_ok_and(|names| names.count() > 20);
        let killed = running.until(begun) && running.kill_rank(1);
        let ended = running.end();
        assert!(killed && !ended.timed_out && ended.code != Some(0), "{mpi:?}: {ended}");
        job.run().succeeded();
        for rank in 0..2 {
            let copy = directory(&dir, rank).join("copy");
            assert_none(&differences_but_for(FILLED, &reference, &look(&directory(&dir, rank))), "resumed");
            fs::write(copy.join("extra"), "not in the source").expect("a file");
            fs::write(copy.join("7"), "old").expect("a file");
        }
        apart(mpi, &dir, 2, &["--mirror", "-T", "--each", path, "copy"]).run().succeeded();
        for rank in 0..2 {
            assert_none(&differences_but_for(FILLED, &reference, &look(&directory(&dir, rank))), "mirrored");
        }
    }
}
