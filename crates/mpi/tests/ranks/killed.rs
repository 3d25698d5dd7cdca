//! A job that loses a rank is over; the same command goes on with what it has done, with any number of ranks.
//!
//! `HAUL_MPI_KILLS` is the number of kills with each MPI.

use std::fs;

use haul_testbed::{Bed, Fs};

use crate::support::tree::{FILLED, MIXED, SMALL, assert_none, count, differences_but_for, grow, look, place, remove};
use crate::support::{Job, Mpi, RANKS, chance, haul_copies, number};

#[test]
fn a_job_that_was_killed_is_resumed_by_another_number_of_ranks() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    let mut rng = chance(6);
    grow(&mut rng, &dir, MIXED);
    fs::create_dir(dir.join("reference")).expect("a directory");
    haul_copies(&dir, &["-a", "source", "reference"]);
    let (all, reference) = (count(&dir.join("reference")), look(&dir.join("reference")));
    let (mut before_end, kills) = (0, number("HAUL_MPI_KILLS", 4));
    for mpi in Mpi::all() {
        for _ in 0..kills {
            let (ranks, then) = (rng.usize(2..=7), RANKS[rng.usize(..RANKS.len())]);
            let (rank, files) = (rng.usize(..ranks), rng.usize(..all));
            let (how, dest) = if rng.bool() { ("-aT", "result/source") } else { ("-a", "result/") };
            let context = format!("{mpi:?}: rank {rank} of {ranks} at {files} files, then {then} ranks, {how} {dest}");
            let words = [how, "--resume", "--chunk=256K", "source", dest];
            fs::create_dir(dir.join("result")).expect("a directory");
            let mut job = Job::new(mpi, ranks, &dir, &words).start();
            // What is being staged counts too, so that no moment is out of reach.
            let killed = job.until(|| count(&dir.join("result")) >= files) && job.kill_rank(rank);
            let done = job.end();
            assert!(!done.timed_out && done.left.is_empty(), "{context}: {done}");
            assert!(killed || done.code == Some(0), "{context}: it failed by itself: {done}");
            before_end += u64::from(done.code != Some(0));
            Job::new(mpi, then, &dir, &words).run().succeeded();
            let result = look(&dir.join("result"));
            assert_none(&differences_but_for(FILLED, &reference, &result), &context);
            remove(&dir.join("result"));
        }
    }
    assert!(before_end > 0 || kills < 4, "no job was interrupted");
}

#[test]
fn a_job_that_is_done_and_runs_again_makes_no_second_copy() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(25), &dir, SMALL);
    fs::create_dir(dir.join("reference")).expect("a directory");
    haul_copies(&dir, &["-a", "source", "reference"]);
    let reference = look(&dir.join("reference"));
    for mpi in Mpi::all() {
        for operands in [&["-T", "source", "result/source"][..], &["source", "result/"], &["-t", "result", "source"]] {
            fs::create_dir(dir.join("result")).expect("a directory");
            for ranks in [3, 2, 3] {
                let context = format!("{mpi:?}: {operands:?} by {ranks} ranks");
                Job::new(mpi, ranks, &dir, &[&["-a", "--resume"], operands].concat()).run().succeeded();
                assert_none(&differences_but_for(FILLED, &reference, &look(&dir.join("result"))), &context);
            }
            remove(&dir.join("result"));
        }
    }
}
