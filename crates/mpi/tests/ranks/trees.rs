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

#[test]
fn ranks_leave_out_what_one_process_leaves_out() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(17), &dir, MIXED);
    let mut names: Vec<String> = std::fs::read_dir(dir.join("source"))
        .expect("a directory")
        .filter_map(|entry| entry.expect("it can be read").file_name().into_string().ok())
        .filter(|name| !name.contains('\n'))
        .collect();
    names.sort();
    names.truncate(names.len() / 2 + 1);
    std::fs::write(dir.join("names"), names.join("\n")).expect("a list");
    let filters = ["--exclude=*1*", "--include=/**/*2*", "--exclude=/*/?*3/", "--max-size=100K"];
    let listed = ["-r", "--files-from=names", "--exclude=*1*"];
    for options in [&filters[..], &listed] {
        let words = |rest: &[&'static str]| [&["-aT"], options, rest].concat();
        haul_copies(&dir, &words(&["source", "reference"]));
        for mpi in Mpi::all() {
            Job::new(mpi, 3, &dir, &words(&["--chunk=64K", "--jobs=2", "source", "result"])).run().succeeded();
            assert_equal(&dir.join("reference"), &dir.join("result"), &format!("{mpi:?}, {options:?}"));
            Job::new(mpi, 3, &dir, &words(&["--compare", "source", "result"])).run().succeeded();
            remove(&dir.join("result"));
        }
        remove(&dir.join("reference"));
    }
    std::fs::write(dir.join("source/file.no"), "not wanted").expect("a file");
    std::fs::write(dir.join("names"), format!("{}\nnone\nfile.no\n", names[0])).expect("a list");
    for mpi in Mpi::all() {
        let words = ["-aT", "--files-from=names", "--exclude=*.no", "--explain", "--stats=json", "source", "result"];
        let stop = [&["--fail-fast"], &words[..]].concat();
        Job::new(mpi, 3, &dir, &stop).run().failed_with(1).says(&["source/none"]);
        assert!(!dir.join("result").exists(), "{mpi:?}");
        let done = Job::new(mpi, 3, &dir, &words).run().failed_with(1).says(&["No such file"]);
        assert_eq!(done.stderr.matches("source/none'").count(), 1, "reported once: {done}");
        assert!(done.stderr.contains("\"excluded\":1,") && !done.stdout.contains("no entry"), "{done}");
        assert!(dir.join("result").join(&names[0]).symlink_metadata().is_ok(), "{mpi:?}");
        remove(&dir.join("result"));
    }
}
