//! What is promised of shards that machines start: again, late, at the same time, never, and of another job; and wherever they
//! are killed.
//!
//! `HAUL_SHARD_KILLS` is the number of random histories, `HAUL_SHARD_KILLS_SEED` chooses them.
#![forbid(unsafe_code)]

mod kills;
mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use haul_testbed::skip;

use support::{Scene, said};

#[test]
fn a_kill_at_the_end_of_a_job_hides_no_change() {
    let scene = Scene::new();
    scene.must(&["-aT", "--shard=1/2", "s", "d"]);
    if !scene.killed_at("unlinkat", 1, &["-aT", "--shard=2/2", "s", "d"]) {
        // Nothing is removed at the end, so there is nothing to be killed at.
        assert!(scene.status(&[]).contains("2 of 2 shards are done"));
    }
    scene.change("f2", "TWO");
    for shard in ["--shard=1/2", "--shard=2/2"] {
        scene.refused(&["-aT", shard, "s", "d"], "with --job=NEW begin anew");
    }
    for shard in ["--shard=1/2", "--shard=2/2"] {
        scene.must(&["-aT", "--job=new", shard, "s", "d"]);
    }
    scene.is_complete();
}

#[test]
fn a_source_changed_at_equal_size_stops_the_other_shards() {
    let scene = Scene::new();
    scene.must(&["-aT", "--shard=1/2", "s", "d"]);
    scene.change("f1", "ONE");
    scene.refused(&["-aT", "--shard=2/2", "s", "d"], "with --job=NEW begin anew");
    // Whatever its time was set to.
    let scene = Scene::new();
    scene.must(&["-aT", "--shard=1/2", "s", "d"]);
    let time = fs::metadata(scene.path("s/f1")).expect("it is there").modified().expect("a time");
    scene.change("f1", "ONE");
    let file = fs::File::options().write(true).open(scene.path("s/f1")).expect("it is there");
    file.set_modified(time).expect("a time");
    scene.refused(&["-aT", "--shard=2/2", "s", "d"], "with --job=NEW begin anew");
}

#[test]
fn a_source_that_changed_since_the_list_fails_its_shard() {
    let scene = Scene::new();
    scene.must(&["-aT", "--list-out=list", "s", "d"]);
    scene.change("f1", "ONE");
    let outputs = ["--shard=1/2", "--shard=2/2"].map(|shard| scene.run(&["-aT", "--list=list", shard, "s", "d"]));
    let failed: Vec<_> = outputs.iter().filter(|output| !output.status.success()).collect();
    assert_eq!(failed.len(), 1, "the shard that has the file");
    assert!(said(failed[0]).contains("not copying 's/f1': it has changed"), "{}", said(failed[0]));
    assert!(!scene.path("d/f1").exists());
}

#[test]
fn every_shard_and_status_name_those_that_are_missing() {
    let scene = Scene::new();
    assert!(scene.status(&[]).contains("no shard of this copy has begun"));
    let output = scene.must(&["-aT", "--shard=2/5", "s", "d"]);
    assert!(output.contains("1 of 5 shards are done; missing: 1, 3-5;"), "{output}");
    scene.must(&["-aT", "--shard=4/5", "s", "d"]);
    let status = scene.run(&["-aT", "--shard=status", "s", "d"]);
    assert_eq!(status.status.code(), Some(1), "{}", said(&status));
    assert!(scene.status(&[]).contains("2 of 5 shards are done; missing: 1, 3, 5;"));
    for shard in ["--shard=1/5", "--shard=5/5"] {
        scene.must(&["-aT", shard, "s", "d"]);
    }
    let output = scene.must(&["-aT", "--shard=3/5", "s", "d"]);
    assert!(output.contains("5 of 5 shards are done: the copy is complete"), "{output}");
    assert!(scene.must(&["-aT", "--shard=status", "s", "d"]).contains("5 of 5 shards are done"));
    scene.is_complete();
}

#[test]
fn status_of_another_job_is_not_given() {
    let scene = Scene::new();
    scene.must(&["-aT", "--job=one", "--shard=1/1", "s", "d"]);
    scene.must(&["-aT", "--job=one", "--shard=status", "s", "d"]);
    scene.must(&["-aT", "--shard=status", "s", "d"]);
    let other = scene.run(&["-aT", "--job=two", "--shard=status", "s", "d"]);
    assert!(other.status.code() == Some(1) && said(&other).contains("the last one is one"), "{}", said(&other));
}

#[test]
fn a_digest_list_on_standard_output_has_nothing_of_shards() {
    let scene = Scene::new();
    let output = scene.run(&["-aT", "--checksum=blake3", "--shard=1/1", "s", "d"]);
    assert!(output.status.success() && said(&output).contains("1 of 1 shards are done"), "{}", said(&output));
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(list.lines().count() > 0 && !list.contains("shards"), "{list}");
}

#[test]
fn a_shard_repeated_after_the_end_changes_nothing() {
    let scene = Scene::new();
    for shard in ["--shard=1/2", "--shard=2/2"] {
        scene.must(&["-aT", "--job=7", shard, "s", "d"]);
    }
    let before = scene.look_at_all();
    for shard in ["--shard=2/2", "--shard=1/2"] {
        for job in [&["--job=7"][..], &[]] {
            let output = scene.run(&[&["-aT", shard], job, &["s", "d"]].concat());
            assert!(output.status.success(), "{}", said(&output));
            assert!(said(&output).contains("this shard is done already"), "{}", said(&output));
            assert!(scene.look_at_all() == before, "{shard} has changed something");
        }
    }
}

#[test]
fn another_job_copies_what_has_changed() {
    let scene = Scene::new();
    let all = |job: &str, variable: &[(&str, &str)]| {
        for shard in ["--shard=2/3", "--shard=1/3", "--shard=3/3"] {
            let mut words = vec!["-aT", shard, "s", "d"];
            words.extend(Some(job).filter(|job| !job.is_empty()));
            let output = scene.run_with(variable, &words);
            assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {}", said(&output));
        }
        scene.is_complete();
    };
    all("--job=one", &[]);
    scene.change("f1", "111");
    all("--job=two", &[]);
    scene.change("sub/f", "222");
    all("", &[("SLURM_ARRAY_JOB_ID", "100"), ("SLURM_JOB_ID", "101")]);
    scene.change("f3", "333");
    all("", &[("SLURM_JOB_ID", "200")]);
    scene.change("f3", "444");
    all("", &[("PBS_JOBID", "300[7].server")]);
}

#[test]
fn a_job_that_was_replaced_does_nothing_any_more() {
    let scene = Scene::new();
    scene.must(&["-aT", "--job=one", "--shard=1/2", "s", "d"]);
    scene.change("f1", "111");
    scene.must(&["-aT", "--job=two", "--shard=1/2", "s", "d"]);
    for job in ["--job=one", "--job=two"] {
        scene.change("f2", job);
        scene.refused(&["-aT", job, "--shard=2/2", "s", "d"], "nothing was copied");
    }
    scene.refused(&["-aT", "--job=one", "--shard=1/2", "s", "d"], "another job, 'two', has come after this one");
}

#[test]
fn a_batch_job_does_not_replace_an_unfinished_copy_by_itself() {
    let scene = Scene::new();
    let run = |id: &str, words: &[&str]| scene.run_with(&[("SLURM_JOB_ID", id)], words);
    assert!(run("100", &["-aT", "--shard=1/2", "s", "d"]).status.success());
    // As an operator does who has seen that the second shard is missing.
    let again = run("101", &["-aT", "--shard=2/2", "s", "d"]);
    assert!(!again.status.success() && said(&again).contains("--job='100' goes on with it"), "{}", said(&again));
    assert!(scene.status(&[]).contains("job 100: 1 of 2"));
    assert!(run("101", &["-aT", "--job=100", "--shard=2/2", "s", "d"]).status.success());
    scene.is_complete();
}

#[test]
fn a_batch_job_with_an_empty_id_goes_on_with_the_copy() {
    let scene = Scene::new();
    scene.must(&["-aT", "--shard=1/2", "s", "d"]);
    let run = |words: &[&str]| scene.run_with(&[("SLURM_JOB_ID", "5")], words);
    let without = run(&["-aT", "--shard=2/2", "s", "d"]);
    assert!(!without.status.success() && said(&without).contains("--job='' goes on with it"), "{}", said(&without));
    assert!(run(&["-aT", "--job=", "--shard=2/2", "s", "d"]).status.success());
    scene.is_complete();
}

#[test]
fn a_destination_that_is_gone_is_not_called_done() {
    for (job, missing) in [("--job=one", "--shard=2/2"), ("--job=", "--shard=1/2")] {
        let scene = Scene::new();
        scene.must(&["-aT", job, "--shard=1/2", "s", "d"]);
        fs::remove_dir_all(scene.path("d")).expect("it is there");
        scene.refused(&["-aT", job, missing, "s", "d"], "is not there any more");
        fs::create_dir(scene.path("d")).expect("a directory");
        scene.refused(&["-aT", job, missing, "s", "d"], "is not there any more");
        for shard in ["--shard=1/2", "--shard=2/2"] {
            scene.must(&["-aT", "--job=new", shard, "s", "d"]);
        }
        scene.is_complete();
    }
}

#[test]
fn a_repeated_shard_spares_what_somebody_else_has_made() {
    for options in ["-anT", "-auT", "-ruT", "-rnT"] {
        let scene = Scene::new();
        scene.must(&[options, "--shard=1/2", "s", "d"]);
        let missing = (1..=6).map(|number| format!("d/f{number}")).find(|name| !scene.path(name).exists());
        let theirs = scene.path(&missing.expect("a shard does not have all"));
        fs::write(&theirs, "MINE").expect("it can be written");
        assert!(scene.killed_at("fsync", 1, &[options, "--shard=2/2", "s", "d"]), "it notes that it begins");
        for _ in 0..2 {
            let output = scene.run(&[options, "--shard=2/2", "s", "d"]);
            assert!(output.status.success(), "{options}: {}", said(&output));
            assert_eq!(fs::read(&theirs).expect("it is there"), b"MINE", "{options}");
        }
    }
}

#[test]
fn a_repeated_shard_of_attributes_only_empties_no_file() {
    let scene = Scene::new();
    // A file stands where a directory is to be.
    fs::create_dir(scene.path("d")).expect("a directory");
    fs::write(scene.path("d/sub"), "").expect("it can be written");
    let words = ["-aT", "--attributes-only", "--shard=1/1", "s", "d"];
    assert_eq!(scene.run(&words).status.code(), Some(1));
    fs::remove_file(scene.path("d/sub")).expect("it is there");
    fs::write(scene.path("d/f1"), "contents").expect("it can be written");
    scene.must(&words);
    assert_eq!(fs::read(scene.path("d/f1")).expect("it is there"), b"contents");
}

#[test]
fn a_file_half_made_by_a_killed_shard_is_not_kept() {
    for options in ["-anT", "-auT"] {
        let scene = Scene::new();
        // Wherever it is in the making of its files.
        for when in 1..=8 {
            for call in ["write", "pwrite64", "copy_file_range", "ftruncate", "utimensat"] {
                scene.killed_at(call, when, &[options, "--shard=1/1", "s", "d"]);
            }
        }
        scene.run(&[options, "--shard=1/1", "s", "d"]);
        scene.is_complete();
    }
}

#[test]
fn names_of_one_file_stay_so_when_a_shard_is_repeated() {
    for options in ["-anT", "-auT", "-aT"] {
        for when in 1..=12 {
            for call in ["linkat", "renameat2", "renameat"] {
                let scene = Scene::new();
                for name in ["a", "b", "sub/c"] {
                    fs::hard_link(scene.path("s/f1"), scene.path(&format!("s/{name}"))).expect("a link");
                }
                scene.change("f1", "several");
                if !scene.killed_at(call, when, &[options, "--shard=1/1", "s", "d"]) {
                    continue;
                }
                scene.must(&[options, "--shard=1/1", "s", "d"]);
                scene.is_complete();
            }
        }
    }
}

#[test]
fn a_new_job_copies_a_file_with_several_names_whose_source_changed() {
    let scene = Scene::new();
    fs::hard_link(scene.path("s/f1"), scene.path("s/a")).expect("a link");
    let shards = ["--shard=1/2", "--shard=2/2"];
    let has_it = |shard: &&str| {
        scene.must(&["-aT", shard, "s", "elsewhere"]);
        scene.path("elsewhere/f1").exists()
    };
    let own = shards.into_iter().find(has_it).expect("one of them has it");
    // The other one is left, so the next job goes by what this one has noted.
    scene.must(&["-aT", "--update=changed", "--job=one", own, "s", "d"]);
    scene.change("f1", "other");
    for shard in shards {
        scene.must(&["-aT", "--update=changed", "--job=two", shard, "s", "d"]);
    }
    scene.is_complete();
}

#[test]
fn attributes_that_failed_are_set_when_a_shard_is_repeated() {
    let scene = Scene::new();
    fs::hard_link(scene.path("s/f1"), scene.path("s/a")).expect("a link");
    let words = ["-aT", "--jobs=1", "--update=changed", "--shard=1/1", "s", "d"];
    scene.fails_at("utimensat", "ENOSPC", &words);
    scene.must(&words);
    scene.is_complete();
}

#[test]
fn two_processes_do_not_copy_one_shard_at_once() {
    let scene = Scene::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.path("s/fifo"), 0o600.into()).expect("a FIFO");
    let words = ["-rT", "--copy-contents", "--shard=1/1", "s", "d"];
    let start = || {
        let mut command = scene.command(&[], &words);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it can be run")
    };
    let first = start();
    // Opened when the first process has opened it to read.
    let fifo = fs::File::options().write(true).open(scene.path("s/fifo")).expect("it is there");
    let mut second = start();
    let mut lines = BufReader::new(second.stderr.take().expect("a pipe")).lines();
    let line = lines.next().expect("it says something").expect("words");
    assert!(line.contains("another process copies this shard"), "{line}");
    drop(fifo);
    assert!(support::ends(first).success());
    let line = lines.next().expect("it says something").expect("words");
    assert!(line.contains("this shard is done already"), "{line}");
    assert!(support::ends(second).success());
}

#[test]
fn a_job_that_is_being_copied_is_not_replaced() {
    let scene = Scene::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.path("s/fifo"), 0o600.into()).expect("a FIFO");
    let words = ["-rT", "--copy-contents", "--job=one", "--shard=1/1", "s", "d"];
    let first = scene.command(&[], &words).stdout(Stdio::null()).spawn().expect("it can be run");
    let fifo = fs::File::options().write(true).open(scene.path("s/fifo")).expect("it is there");
    let other = ["-rT", "--copy-contents", "--job=two", "--shard=1/1", "s", "d"];
    let output = scene.run(&other);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("shards of another job, 'one', are being copied"), "{}", said(&output));
    drop(fifo);
    assert!(support::ends(first).success());
}

#[test]
fn what_a_killed_shard_left_goes_with_the_next_one() {
    for options in [&["--atomic"][..], &["--verify"], &["--durable=file"], &["-n"], &["--resume"]] {
        let (scene, mut left) = (Scene::new(), 0);
        scene.lay_old();
        for (when, call) in (1..=6).flat_map(|when| ["renameat2", "renameat", "linkat"].map(|call| (when, call))) {
            let words = [options, &["-aT", "--shard=1/1", "s", "d"]].concat();
            left += u32::from(scene.killed_at(call, when, &words) && !scene.temporary().is_empty());
        }
        assert!(left > 0, "{options:?}: nothing was left");
        scene.run(&[options, &["-aT", "--shard=1/1", "s", "d"]].concat());
        assert_eq!(scene.temporary(), [""; 0], "{options:?}");
        assert!(scene.status(options).contains("1 of 1"), "{options:?}");
    }
}

#[test]
fn what_a_killed_run_with_resume_left_goes_with_the_next_one() {
    let (scene, mut left) = (Scene::new(), 0);
    scene.lay_old();
    for (when, call) in (1..=6).flat_map(|when| ["renameat2", "renameat", "linkat"].map(|call| (when, call))) {
        left += u32::from(scene.killed_at(call, when, &["-aT", "--resume", "s", "d"]) && !scene.temporary().is_empty());
    }
    assert!(left > 0, "nothing was left");
    scene.must(&["-aT", "--resume", "s", "d"]);
    assert_eq!(scene.temporary(), [""; 0]);
    scene.is_complete();
}

#[test]
fn what_the_next_run_passes_over_has_its_attributes() {
    for (passes_over, completes) in
        [("-u", "--shard=1/1"), ("-n", "--shard=1/1"), ("-u", "--resume"), ("-n", "--resume")]
    {
        let scene = Scene::new();
        fs::hard_link(scene.path("s/f1"), scene.path("s/a")).expect("a link");
        let words = ["-aT", "--jobs=1", passes_over, completes, "s", "d"];
        scene.fails_at("utimensat", "ENOSPC", &words);
        assert!(!scene.path("d/f1").exists(), "{words:?}");
        scene.must(&words);
        scene.is_complete();
    }
}

#[test]
fn what_never_has_its_attributes_is_copied_even_so() {
    for completes in ["--shard=1/1", "--resume"] {
        let scene = Scene::new();
        scene.fails_at("utimensat", "EPERM", &["-auT", "--jobs=1", completes, "s", "d"]);
        let [copy, source] = ["d/f1", "s/f1"].map(|name| fs::read(scene.path(name)).expect("it is there"));
        assert!(copy == source, "{completes}");
    }
}

#[test]
fn names_of_one_file_stay_so_when_a_copy_is_resumed() {
    for options in ["-anT", "-auT", "-aT"] {
        let mut killed = 0;
        for (when, call) in (1..=12).flat_map(|when| ["linkat", "renameat2", "renameat"].map(|call| (when, call))) {
            let scene = Scene::new();
            for name in ["a", "b", "sub/c"] {
                fs::hard_link(scene.path("s/f1"), scene.path(&format!("s/{name}"))).expect("a link");
            }
            let words = [options, "--resume", "s", "d"];
            if scene.killed_at(call, when, &words) {
                killed += 1;
                scene.must(&words);
                scene.is_complete();
            }
        }
        assert!(killed > 0, "{options}: no run was killed");
    }
}

#[test]
fn a_new_job_removes_what_an_unfinished_one_left() {
    let scene = Scene::new();
    scene.lay_old();
    for shard in ["--shard=1/3", "--shard=2/3", "--shard=3/3"] {
        scene.killed_at("renameat", 1, &["-aT", "--atomic", shard, "s", "d"]);
    }
    assert!(!scene.temporary().is_empty(), "nothing was left");
    for shard in ["--shard=2/2", "--shard=1/2"] {
        scene.must(&["-aT", "--atomic", "--job=new", shard, "s", "d"]);
    }
    assert_eq!(scene.temporary(), [""; 0]);
    scene.is_complete();
}

#[test]
fn a_directory_stays_closed_until_the_last_shard() {
    if !rustix::process::geteuid().is_root() {
        skip("owners take root");
        return;
    }
    let scene = Scene::new();
    let mode = |name: &str| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(scene.path(name)).expect("it is there").permissions().mode() & 0o777
    };
    fs::set_permissions(scene.path("s"), std::os::unix::fs::PermissionsExt::from_mode(0o555)).expect("a mode");
    let said = scene.must(&["-aT", "--shard=1/2", "s", "d"]);
    assert!(said.contains("directories may be closed to others") && mode("d") == 0o700, "{said} {:o}", mode("d"));
    scene.must(&["-aT", "--shard=2/2", "s", "d"]);
    assert_eq!(mode("d"), 0o555);
}
