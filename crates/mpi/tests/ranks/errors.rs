//! Rank 0 reports what is wrong, and so does the exit status of the job.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use haul_testbed::{Bed, Fs, create_painted, temp_dir};

use crate::support::tree::{SMALL, differences, grow, look, place, remove};
use crate::support::{Job, Mpi, Part, chance, haul_copies};

/// Root, but not above permissions.
const HUMBLE: [&str; 3] = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"];

/// Ranks of which the last has other mounts.
fn one_elsewhere(mpi: Mpi, dir: &Path, mount: &str, args: &[&str]) -> Job {
    let line = format!("{mount} && exec \"$0\" \"$@\"");
    let starter = ["unshare", "--mount", "sh", "-c", line.as_str()];
    Job::of(mpi, dir, vec![Part::new(2, args), Part::new(1, args).by(&starter)])
}

/// Runs a job that is to be refused, and wants the destination to be what it was.
#[track_caller]
fn is_refused(job: &Job, dest: &Path, words: &[&str]) {
    let before = look(dest);
    job.run().failed_with(64).says(&["haul-mpi: "]).says(words);
    assert_eq!(differences(&before, &look(dest)), [""; 0], "something was written");
}

#[test]
fn a_file_that_cannot_be_read_is_reported_and_all_others_are_copied() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    for part in 0..6 {
        fs::create_dir_all(dir.join(format!("source/{part}"))).expect("a directory");
        for file in 0..20 {
            fs::write(dir.join(format!("source/{part}/{file}")), format!("{part} {file}")).expect("a file");
        }
    }
    fs::set_permissions(dir.join("source/3/7"), PermissionsExt::from_mode(0o0)).expect("it is ours");
    for mpi in Mpi::all() {
        let part = Part::new(4, &["-aT", "source", "result"]).by(&HUMBLE);
        let done = Job::of(mpi, &dir, vec![part]).run().failed_with(1);
        let done = done.says(&["haul-mpi: ", "source/3/7", "Permission denied"]);
        assert_eq!(done.stderr.matches("source/3/7").count(), 1, "reported once: {done}");
        let found = differences(&look(&dir.join("source")), &look(&dir.join("result")));
        assert_eq!(found, ["3/7: missing"], "{mpi:?}");
        remove(&dir.join("result"));
    }
}

#[test]
fn all_ranks_list_what_failed_and_another_job_copies_it() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    for part in 0..8 {
        fs::create_dir_all(dir.join(format!("source/{part}"))).expect("a directory");
        for file in 0..20 {
            fs::write(dir.join(format!("source/{part}/{file}")), format!("{part} {file}")).expect("a file");
        }
    }
    fs::write(dir.join("names"), "0\n1\n2\n3\n4\n5\n6\n7\nnone\n").expect("a list");
    for mpi in Mpi::all() {
        let blocked: Vec<String> = (0..8).map(|part| format!("{part}/{}", 2 * part)).collect();
        for name in &blocked {
            fs::create_dir_all(dir.join("result").join(name)).expect("a directory");
        }
        let words = ["-a", "-r", "--files-from=names", "--failures=list", "-T", "source", "result"];
        Job::new(mpi, 4, &dir, &words).run().failed_with(1);
        let list = fs::read_to_string(dir.join("list")).expect("there is a list");
        let mut listed: Vec<&str> = list.lines().collect();
        listed.sort_unstable();
        listed.dedup();
        let wanted: Vec<&str> = blocked.iter().map(String::as_str).chain(["none"]).collect();
        assert_eq!(listed, wanted, "{mpi:?}");
        for name in &blocked {
            fs::remove_dir(dir.join("result").join(name)).expect("it is empty");
        }
        fs::write(dir.join("source/none"), "here now").expect("a file");
        let words = ["-a", "-r", "--files-from=list", "--failures=list", "-T", "source", "result"];
        Job::new(mpi, 4, &dir, &words).run().succeeded();
        assert_eq!(fs::read(dir.join("list")).expect("there is a list"), b"", "{mpi:?}");
        let found = differences(&look(&dir.join("source")), &look(&dir.join("result")));
        assert_eq!(found, [""; 0], "{mpi:?}");
        remove(&dir.join("result"));
        fs::remove_file(dir.join("source/none")).expect("it is there");
    }
}

#[test]
fn a_full_filesystem_is_reported_and_what_is_there_is_whole() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    fs::create_dir(dir.join("source")).expect("a directory");
    for file in 0..40 {
        create_painted(dir.join(format!("source/{file}")), 1 << 20);
    }
    let source = look(&dir.join("source"));
    for mpi in Mpi::all() {
        let Some(small) = bed.small(Fs::Ext4, 20 << 20) else { return };
        let result = small.join("result");
        let words = ["-aT", "source", result.to_str().expect("text")];
        Job::new(mpi, 4, &dir, &words).run().failed_with(1).says(&["haul-mpi: ", "No space left on device"]);
        let found = differences(&source, &look(&result));
        assert!(found.len() < 40, "{mpi:?}: nothing was copied");
        assert!(found.iter().all(|what| what.ends_with(": missing")), "{mpi:?}: not whole: {found:?}");
    }
}

#[test]
fn ranks_with_different_options_are_refused() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(7), &dir, SMALL);
    fs::create_dir(dir.join("result")).expect("a directory");
    for mpi in Mpi::all() {
        let (one, other) = (["-a", "source", "result"], ["-r", "source", "result"]);
        let job = Job::of(mpi, &dir, vec![Part::new(2, &one), Part::new(1, &other)]);
        is_refused(&job, &dir.join("result"), &["rank 2", "-r source result"]);
    }
}

#[test]
fn ranks_with_different_operands_are_refused() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(8), &dir, SMALL);
    fs::create_dir(dir.join("result")).expect("a directory");
    for mpi in Mpi::all() {
        let (one, other) = (["-a", "source", "result"], ["-a", "source/many", "result"]);
        let job = Job::of(mpi, &dir, vec![Part::new(1, &one), Part::new(2, &other)]);
        is_refused(&job, &dir.join("result"), &["rank 1", "source/many"]);
    }
}

#[test]
fn ranks_started_in_directories_with_different_sources_are_refused() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(15), &dir, SMALL);
    fs::create_dir_all(dir.join("elsewhere/source")).expect("a directory");
    fs::create_dir(dir.join("result")).expect("a directory");
    let result = dir.join("result");
    let words = ["-a", "source", result.to_str().expect("text")];
    for mpi in Mpi::all() {
        let elsewhere = Part::new(1, &words).within(&dir.join("elsewhere"));
        let job = Job::of(mpi, &dir, vec![Part::new(1, &words), elsewhere]);
        is_refused(&job, &result, &["source", "rank 1"]);
    }
}

#[test]
fn a_source_that_is_not_the_same_on_all_ranks_is_refused() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(9), &dir, SMALL);
    for name in ["other", "result"] {
        fs::create_dir(dir.join(name)).expect("a directory");
    }
    for mpi in Mpi::all() {
        let job = one_elsewhere(mpi, &dir, "mount --bind other source", &["-a", "source", "result"]);
        is_refused(&job, &dir.join("result"), &["source", "rank 2"]);
    }
}

#[test]
fn a_destination_that_is_not_the_same_on_all_ranks_is_refused() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(10), &dir, SMALL);
    fs::create_dir(dir.join("result")).expect("a directory");
    for mpi in Mpi::all() {
        let job = one_elsewhere(mpi, &dir, "mount -t tmpfs tmpfs result", &["-a", "source", "result"]);
        is_refused(&job, &dir.join("result"), &["destination", "not shared"]);
    }
}

#[test]
fn options_that_several_ranks_cannot_keep_are_refused() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(11), &dir, SMALL);
    fs::create_dir(dir.join("result")).expect("a directory");
    fs::write(dir.join("control"), "").expect("a file");
    for mpi in Mpi::all() {
        for (option, word) in [
            ("-i", "interactive"),
            ("--control=control", "control"),
            ("--shard=1/2", "shard"),
            ("--digests=list", "'--digests' is not possible"),
            ("--json", "'--json' is for one process: use haul"),
            ("--delete", "'--delete' is not possible"),
            ("--dry-run", "'--dry-run' is for one process: use haul"),
            ("--move", "'--move' is for one process: use haul"),
            ("--clone-tree", "'--clone-tree' is for one process: use haul"),
        ] {
            let job = Job::new(mpi, 2, &dir, &["-a", option, "source", "result/"]);
            is_refused(&job, &dir.join("result"), &[word]);
        }
    }
}

#[test]
fn what_one_rank_cannot_use_ends_the_job_before_anything_is_tried() {
    let dir = temp_dir();
    let path = |name: &str| dir.path().join(name).to_str().expect("it is text").to_owned();
    fs::create_dir(path("source")).expect("a directory");
    for number in 0..20 {
        fs::write(path(&format!("source/{number}")), "bytes").expect("a file");
    }
    for rank in 0..3 {
        fs::create_dir(path(&format!("rank-{rank}"))).expect("a directory");
        if rank != 2 {
            let profile = "format = \"haul-profile\"\nversion = 1\n";
            fs::write(path(&format!("rank-{rank}/profile")), profile).expect("a file");
        }
    }
    let [source, result] = ["source", "result"].map(path);
    for mpi in Mpi::all() {
        for (option, words, rank) in [
            ("--profile=profile", "cannot use the profile", "rank 2 on "),
            ("--profile=nothing", "cannot use the profile", ""),
            ("--failures=nowhere/list", "cannot write", ""),
        ] {
            let part = |rank: usize| {
                Part::new(1, &["-aT", option, &source, &result]).within(&dir.path().join(format!("rank-{rank}")))
            };
            let done = Job::of(mpi, dir.path(), (0..3).map(part).collect()).run().failed_with(64).says(&[words, rank]);
            assert!(done.stderr.matches("haul-mpi: ").count() == 1 && !Path::new(&result).exists(), "{mpi:?}: {done}");
            assert!(rank.is_empty() != done.stderr.contains("rank "), "{mpi:?}: {done}");
        }
    }
}

#[test]
fn a_destination_that_could_mean_two_things_is_refused_with_resume() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(24), &dir, SMALL);
    fs::create_dir(dir.join("result")).expect("a directory");
    for mpi in Mpi::all() {
        for dest in ["result", "result/new"] {
            let job = Job::new(mpi, 2, &dir, &["-a", "--resume", "source", dest]);
            let (itself, into) = (format!("add -T to copy to '{dest}' itself"), format!("'{dest}/' to copy into it"));
            is_refused(&job, &dir.join("result"), &["--resume", &itself, &into]);
        }
    }
}

#[test]
fn a_source_that_is_missing_is_reported_once_with_status_1() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    fs::create_dir(dir.join("result")).expect("a directory");
    for mpi in Mpi::all() {
        let done = Job::new(mpi, 3, &dir, &["-a", "nothing", "result"]).run().failed_with(1);
        assert_eq!(done.stderr.matches("nothing").count(), 1, "{mpi:?}: {done}");
    }
}

#[test]
fn a_list_that_is_of_another_tree_is_refused_and_reported_once() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(17), &dir, SMALL);
    for name in ["other", "result"] {
        fs::create_dir(dir.join(name)).expect("a directory");
    }
    fs::write(dir.join("other/file"), "x").expect("a file");
    haul_copies(&dir, &["-a", "--list-out=list", "other", "result"]);
    for mpi in Mpi::all() {
        let before = look(&dir.join("result"));
        let done = Job::new(mpi, 3, &dir, &["-a", "--list=list", "source", "result"]).run().failed_with(1);
        assert_eq!(done.stderr.matches("another file or directory").count(), 1, "{mpi:?}: {done}");
        assert_eq!(differences(&before, &look(&dir.join("result"))), [""; 0], "{mpi:?}");
    }
}
