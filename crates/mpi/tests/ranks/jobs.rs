//! The test bed itself: jobs begin, end and are killed as the other tests believe.

use crate::support::{Job, Mpi, groups};
use haul_testbed::temp_dir;

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
fn ranks_of_one_job_know_each_other() {
    for mpi in Mpi::all() {
        let dir = temp_dir();
        let done = Job::new::<&str>(mpi, 3, dir.path(), &[]).of_program(&groups(mpi)).run().succeeded();
        for rank in 0..3 {
            assert!(done.stdout.contains(&format!("rank {rank} of 3 is on ")), "{mpi:?}: {done}");
        }
    }
}
