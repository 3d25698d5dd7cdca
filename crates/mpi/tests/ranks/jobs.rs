//! The test bed itself: jobs begin, end and are killed as the other tests believe.

use crate::support::{Job, Mpi, groups};
use haul_testbed::{assert_same_contents, commands, create_painted, temp_dir};
use rustix::process::{Signal, kill_process};

#[test]
fn one_line_at_the_end_says_what_all_ranks_did() {
    for mpi in Mpi::all() {
        let dir = temp_dir();
        std::fs::create_dir(dir.path().join("source")).expect("a directory");
        for number in 0..20 {
            std::fs::write(dir.path().join("source").join(number.to_string()), "four").expect("a file");
        }
        let run = |options: &[&str], dest: &str| {
            let words = [&["-aT"], options, &["source", dest]].concat();
            Job::new(mpi, 3, dir.path(), &words).run().succeeded().stderr
        };
        let said = run(&["--progress=always"], "one");
        assert_eq!(said.matches("20 files, 80 B in ").count(), 1, "{mpi:?}: {said}");
        assert!(!run(&[], "two").contains("files, "), "nobody watches");
    }
}

#[test]
fn a_job_that_runs_says_how_far_it_is_when_it_is_asked() {
    for mpi in Mpi::all() {
        let dir = temp_dir();
        std::fs::create_dir(dir.path().join("source")).expect("a directory");
        for number in 0..3 {
            create_painted(dir.path().join("source").join(number.to_string()), 4 << 20);
        }
        // It would take hours.
        let mut job = Job::new(mpi, 3, dir.path(), &["-aT", "--limit=1K", "source", "result"]).start();
        let copy = dir.path().join("result");
        assert!(job.until(|| copy.exists()), "{mpi:?}: it has ended");
        let pid = job.rank(1).expect("it runs");
        kill_process(pid, Signal::USR1).expect("it is ours");
        for words in ["haul-mpi: after 0:", "haul-mpi: least was done by rank "] {
            assert!(job.until_said(words), "{mpi:?}: it has ended");
        }
    }
}

#[test]
fn a_signal_to_any_rank_is_the_status_of_the_job() {
    for mpi in Mpi::all() {
        for (rank, signal, status) in [(0, Signal::INT, 130), (1, Signal::TERM, 143), (2, Signal::HUP, 129)] {
            let dir = temp_dir();
            create_painted(dir.path().join("source"), 8 << 20);
            // It would take hours.
            let mut job = Job::new(mpi, 3, dir.path(), &["--limit=1K", "source", "result"]).start();
            let copy = dir.path().join("result");
            assert!(job.until(|| copy.exists()), "{mpi:?}: it has ended");
            let pid = job.rank(rank).expect("it runs");
            kill_process(pid, signal).expect("it is ours");
            job.end().failed_with(status);
        }
    }
}

#[test]
fn ranks_of_one_job_know_each_other() {
    for mpi in Mpi::all() {
        let dir = temp_dir();
        let done = Job::new::<&str>(mpi, 3, dir.path(), &[]).of_program(&groups(mpi)).run().succeeded();
        for rank in 0..3 {
            assert!(done.stdout.contains(&format!("rank {rank} of 3 is on ")), "{mpi:?}: {done}");
        }
    }
}

/// With fewer ranks than a cluster has.
#[test]
fn the_commands_of_the_documentation_are_run() {
    for (page, source, copy) in
        [("cluster.md", "scratch/run7", "archive/run7"), ("../README.md", "data", "scratch/data")]
    {
        let examples = commands(page, "mpirun");
        assert!(!examples.is_empty(), "{page} has no command");
        for mpi in Mpi::all() {
            let dir = temp_dir();
            for folder in [source, "archive", "scratch"] {
                std::fs::create_dir_all(dir.path().join(folder)).expect("a directory");
            }
            std::fs::write(dir.path().join(source).join("file"), "four").expect("a file");
            for example in &examples {
                let (line, _) = example.split_once('#').unwrap_or((example, ""));
                let (_, words) = line.split_once(" haul-mpi ").unwrap_or_else(|| panic!("{line} has no haul-mpi"));
                let root = format!("{}/", dir.path().display());
                let here = words.replace(" /", &format!(" {root}")).replace("=/", &format!("={root}"));
                let words: Vec<&str> = here.split_whitespace().collect();
                Job::new(mpi, 3, dir.path(), &words).run().succeeded();
            }
            assert_same_contents(dir.path().join(source).join("file"), dir.path().join(copy).join("file"));
        }
    }
}
