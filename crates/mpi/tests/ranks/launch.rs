//! Jobs that their launcher or somebody else has started wrongly write nothing.

use std::fs;

use haul_testbed::{create_painted, temp_dir};

use crate::support::{Job, Mpi};

#[test]
fn a_launcher_of_another_library_is_refused_once_and_nothing_is_written() {
    let all = Mpi::all();
    for (launcher, library) in all.iter().flat_map(|one| all.iter().map(move |other| (*one, *other))) {
        if launcher == library {
            continue;
        }
        let dir = temp_dir();
        fs::create_dir(dir.path().join("source")).unwrap();
        fs::write(dir.path().join("source/file"), "four").unwrap();
        let job = Job::new(launcher, 3, dir.path(), &["-aT", "source", "result"]).of_program(&library.program());
        let done = job.run().failed_with(64).says(&["haul-mpi: ", " has started 3 processes", "linked with"]);
        assert_eq!(done.stderr.matches("has started").count(), 1, "{launcher:?}, {library:?}: {done}");
        assert!(!dir.path().join("result").exists(), "{launcher:?}, {library:?}");
    }
}

#[test]
fn another_job_at_work_on_the_same_copy_is_named_and_its_copy_let_be() {
    for mpi in Mpi::all() {
        let dir = temp_dir();
        fs::create_dir(dir.path().join("source")).unwrap();
        create_painted(dir.path().join("source/file"), 4 << 20);
        fs::create_dir(dir.path().join("archive")).unwrap();
        // It would take an hour.
        let mut first = Job::new(mpi, 2, dir.path(), &["-a", "--limit=1K", "source", "archive/"]).start();
        let copy = dir.path().join("archive/source");
        assert!(first.until(|| copy.exists()), "{mpi:?}: it has ended");
        // With one process, too, which is what a job without its launcher is.
        for ranks in [1, 2] {
            let second = Job::new(mpi, ranks, dir.path(), &["-a", "source", "archive"]).run();
            second.failed_with(64).says(&["another job of haul-mpi copies to 'archive/source'", "nothing was written"]);
        }
        Job::new(mpi, 1, dir.path(), &["-aT", "source", "archive/other"]).run().succeeded();
        drop(first);
        Job::new(mpi, 2, dir.path(), &["-a", "source", "archive/"]).run().succeeded();
        let mut left: Vec<_> =
            fs::read_dir(dir.path().join("archive")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["other", "source"], "{mpi:?}");
    }
}
