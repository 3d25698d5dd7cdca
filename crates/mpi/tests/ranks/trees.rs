//! What several ranks copy is what one process copies.

use haul_testbed::{Bed, Fs};

use crate::support::tree::{MIXED, assert_equal, grow, place, remove};
use crate::support::{Job, Mpi, RANKS, chance, haul_copies};

#[test]
fn any_number_of_ranks_copies_a_random_tree_as_one_process_does() {
    let Some(bed) = Bed::new() else { return };
    let mut rng = chance(1);
    // XFS keeps space behind the end for a while, so how much a file takes says nothing there.
    let fs = [Fs::Ext4, Fs::Btrfs, Fs::Tmpfs][rng.usize(..3)];
    let Some(dir) = place(&bed, fs) else { return };
    grow(&mut rng, &dir, MIXED);
    std::fs::create_dir(dir.join("reference")).expect("a directory");
    haul_copies(&dir, &["-a", "source", "reference"]);
    assert_equal(&dir.join("reference"), &dir.join("reference"), "the judge");
    for mpi in Mpi::all() {
        for ranks in RANKS {
            let (chunk, jobs) = (rng.u64(16..=1024) << 12, rng.u64(1..=3));
            let (chunk, jobs) = (format!("--chunk={chunk}"), format!("--jobs={jobs}"));
            std::fs::create_dir(dir.join("result")).expect("a directory");
            let context = format!("{mpi:?}, {ranks} ranks, {chunk} {jobs} on {}", fs.name());
            Job::new(mpi, ranks, &dir, &["-a", &chunk, &jobs, "source", "result"]).run().succeeded();
            assert_equal(&dir.join("reference"), &dir.join("result"), &context);
            remove(&dir.join("result"));
        }
    }
}

#[test]
fn ranks_copy_by_a_list_what_one_process_copies_by_it() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(16), &dir, MIXED);
    haul_copies(&dir, &["-a", "--list-out=list", "source", "result"]);
    std::fs::write(dir.join("source/later"), "not in the list").expect("a file");
    for name in ["reference", "result"] {
        std::fs::create_dir(dir.join(name)).expect("a directory");
    }
    haul_copies(&dir, &["-a", "--list=list", "source", "reference"]);
    for mpi in Mpi::all() {
        let words = ["-a", "--list=list", "--chunk=64K", "source", "result"];
        Job::new(mpi, 3, &dir, &words).run().succeeded();
        assert!(!dir.join("result/source/later").exists(), "{mpi:?}");
        assert_equal(&dir.join("reference"), &dir.join("result"), &format!("{mpi:?}"));
        remove(&dir.join("result"));
        std::fs::create_dir(dir.join("result")).expect("a directory");
    }
}
