//! Ranks that are not equally fast.

use std::fs;
use std::time::Duration;

use haul_testbed::late::{self, LateView, Lateness};
use haul_testbed::{Bed, Fs};

use crate::support::tree::{assert_equal, place, remove};
use crate::support::{Job, Mpi, Part, rows};

const DIRECTORIES: usize = 12;
const FILES: usize = 80;

#[test]
fn a_slow_rank_is_given_less_than_an_equal_share() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    for directory in 0..DIRECTORIES {
        fs::create_dir_all(dir.join(format!("source/{directory}"))).expect("a directory");
        for file in 0..FILES {
            fs::write(dir.join(format!("source/{directory}/{file}")), vec![1; 5000]).expect("a file");
        }
    }
    // Each request of the last rank to the source takes its time; the others read it directly.
    let (slow, source) = (bed.path().join("slow"), dir.join("source"));
    fs::create_dir(&slow).expect("a mount point");
    let lateness = Lateness { believed: Duration::from_secs(1), delay: Duration::from_millis(3) };
    let Some(_view) = LateView::mount(&late::program(), &[], &source, &slow, lateness) else { return };
    let line = format!("mount --bind {} {} && exec \"$0\" \"$@\"", slow.display(), source.display());
    let starter = ["unshare", "--mount", "sh", "-c", line.as_str()];
    for mpi in Mpi::all() {
        let words = ["-aT", "--jobs=1", "--stats", "source", "result"];
        let parts = vec![Part::new(3, &words), Part::new(1, &words).by(&starter)];
        let done = Job::of(mpi, &dir, parts).run().succeeded();
        let rows = rows(&done);
        let files: Vec<usize> = rows.iter().map(|row| row.files).collect();
        assert_eq!(files.iter().sum::<usize>(), DIRECTORIES * FILES, "{mpi:?}: {done}");
        assert!(files[3] < DIRECTORIES * FILES / 4, "{mpi:?}: {files:?}: {done}");
        assert_equal(&source, &dir.join("result"), &format!("{mpi:?}"));
        remove(&dir.join("result"));
    }
}
