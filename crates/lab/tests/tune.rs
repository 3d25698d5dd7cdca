//! `haul-lab tune` from its command line to the profile that haul obeys.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::Output;

use haul_io::probe::place_of;
use haul_io::profile;
use haul_lab::results::{Body, Outcome, Results};
use haul_testbed::{Bed, Command, Fs, temp_dir};

const LAB: &str = env!("CARGO_BIN_EXE_haul-lab");

/// Results and profile go to `out`.
fn tune(dir: &Path, out: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(LAB);
    command.arg("tune").args(options).arg("--output").arg(out.join("results")).arg(dir);
    command.env("XDG_CONFIG_HOME", out).env("HOME", out).current_dir(out).output().expect("it can be run")
}

fn results(out: &Path) -> Results {
    Results::load(&out.join("results/results.json")).expect("they were saved")
}

/// How it ended, and the words of the first sentence.
fn verdict(results: &Results) -> String {
    let section = results.section("tune").expect("it is there");
    match section.detail("verdict") {
        Some(Body::Verdict { name, .. }) => name.clone(),
        other => panic!("{other:?}"),
    }
}

fn nothing_is_left(dir: &Path) {
    let left: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "lost+found"), "{left:?}");
}

#[test]
fn a_search_compares_every_copy_ends_in_time_and_writes_what_won_or_nothing() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.small(Fs::Ext4, 160 << 20) else { return };
    let out = temp_dir();
    let output = tune(&dir, out.path(), &["--time=8s", "--files=tiny,small"]);
    assert!(output.status.success(), "{output:?}");
    nothing_is_left(&dir);
    let results = results(out.path());
    let section = results.section("tune").unwrap();
    assert!(section.complete && !section.cases.is_empty());
    assert!(section.cases.iter().all(|case| case.outcome == Outcome::Right), "{:?}", section.cases);
    let groups: std::collections::BTreeSet<&str> = section.cases.iter().map(|case| case.group.as_str()).collect();
    for group in groups {
        let base = section.cases.iter().find(|case| case.group == group && case.base);
        assert!(base.is_some_and(|base| base.competitor == "defaults" && !base.runs.is_empty()), "{group}");
    }
    let path = out.path().join("haul/profile");
    assert_eq!(path.exists(), verdict(&results) == "written");
    if let Ok(text) = fs::read_to_string(&path) {
        let profile = profile::parse(&text, "p").expect("haul understands it");
        let place = profile.of(&place_of(&dir).unwrap().unwrap()).expect("it is about this place");
        assert!(place.entries.iter().all(|entry| entry.measured.gain.is_some_and(|gain| gain > 1.0)), "{text}");
    }
}

#[test]
fn a_place_that_is_memory_is_tuned_too_and_a_dry_run_writes_nothing() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.small(Fs::Tmpfs, 64 << 20) else { return };
    let out = temp_dir();
    let output = tune(&dir, out.path(), &["--time=4s", "--files=small,huge", "--dry-run"]);
    assert!(output.status.success(), "{output:?}");
    nothing_is_left(&dir);
    let results = results(out.path());
    assert_eq!(verdict(&results), "not-written");
    assert!(!out.path().join("haul").exists());
    let skipped = &results.section("tune").unwrap().skipped;
    assert!(skipped.iter().any(|what| what.contains("from 2 GiB") && what.contains("too little space")), "{skipped:?}");
}

#[test]
fn where_extents_are_shared_there_is_nothing_to_tune() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.small(Fs::Btrfs, 200 << 20) else { return };
    let out = temp_dir();
    let output = tune(&dir, out.path(), &["--time=4s", "--files=small"]);
    assert!(output.status.success(), "{output:?}");
    let results = results(out.path());
    let section = results.section("tune").unwrap();
    assert_eq!((verdict(&results).as_str(), section.cases.len()), ("nothing-won", 0));
    assert!(section.skipped[0].contains("share extents"), "{:?}", section.skipped);
}

#[test]
fn a_profile_that_cannot_be_added_to_is_reported_before_anything_is_measured() {
    let (dir, out) = (temp_dir(), temp_dir());
    let path = out.path().join("mine");
    fs::write(&path, "precious").unwrap();
    let output = tune(dir.path(), out.path(), &["--profile=mine"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && message.contains("cannot add to the profile"), "{message}");
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    nothing_is_left(dir.path());
}
