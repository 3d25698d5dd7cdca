//! What several ranks copy is what one process copies.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_testbed::{Bed, Fs};

use crate::support::tree::{MIXED, SMALL, assert_equal, grow, place, remove};
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

/// The regular files in the directory `many` of a tree that have bytes and one name, in order.
fn files(tree: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(tree.join("many")).expect("a directory").map(|entry| entry.expect("it can be read"));
    let mut files: Vec<PathBuf> = entries
        .filter(|entry| entry.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > 0 && meta.nlink() == 1))
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files
}

/// Changes a quarter of the files in contents alone, one in size, one in its time of modification.
fn change(tree: &Path) {
    for (number, path) in files(tree).into_iter().enumerate() {
        let meta = fs::metadata(&path).expect("it is there");
        let mut file = File::options().read(true).append(number % 4 == 1).write(true).open(&path).expect("it is ours");
        let time = meta.modified().expect("it has one");
        match number % 4 {
            0 => {
                let mut byte = [0];
                file.read_exact_at(&mut byte, meta.len() / 2).expect("it has so many bytes");
                file.write_all_at(&[!byte[0]], meta.len() / 2).expect("there is room");
                file.set_modified(time).expect("it is ours");
            }
            1 => file.write_all(b"more").and_then(|()| file.set_modified(time)).expect("there is room"),
            2 => file.set_modified(time + Duration::from_secs(3)).expect("it is ours"),
            _ => {}
        }
    }
}

#[test]
fn ranks_update_a_copy_as_one_process_does() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(18), &dir, SMALL);
    haul_copies(&dir, &["-aT", "source", "old"]);
    change(&dir.join("source"));
    let several = files(&dir.join("source")).len();
    assert!(several >= 8, "{several} files to change");
    for update in ["--update=changed", "--update=content"] {
        haul_copies(&dir, &["-aT", "old", "reference"]);
        haul_copies(&dir, &["-aT", update, "source", "reference"]);
        for mpi in Mpi::all() {
            haul_copies(&dir, &["-aT", "old", "result"]);
            let words = ["-aT", update, "--jobs=2", "--stats=json", "source", "result"];
            let done = Job::new(mpi, 3, &dir, &words).run().succeeded();
            let context = format!("{mpi:?}, {update}");
            assert_equal(&dir.join("reference"), &dir.join("result"), &context);
            // By size and time as by their bytes, two of four files are as they were.
            let skipped = number_of(&done.stderr, "skipped");
            assert!(skipped >= several / 4 * 2, "{context}: {done}");
            // Only who compares the bytes finds those that differ in nothing else.
            let compare = Job::new(mpi, 3, &dir, &["-aT", "--compare", "source", "result"]).run();
            match update {
                "--update=content" => drop(compare.succeeded()),
                _ => drop(compare.failed_with(1)),
            }
            remove(&dir.join("result"));
        }
        remove(&dir.join("reference"));
    }
}

/// A number of the record of `--stats=json`.
fn number_of(record: &str, field: &str) -> usize {
    let (_, rest) = record.split_once(&format!("\"{field}\":")).unwrap_or_else(|| panic!("no {field}: {record}"));
    let digits = rest.split(|other: char| !other.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().expect("a number")
}
