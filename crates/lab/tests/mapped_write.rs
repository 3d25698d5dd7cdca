//! `mapped-write` where its answer is known: in memory, on an ordinary disk, and on storage that is made slow.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_lab::experiments::mapped_write::{Measured, Request, details, judge, measure};
use haul_lab::results::{Body, Detail, Environment, Results, Section};
use haul_measure::own::Own;
use haul_measure::stats::FEWEST;
use haul_testbed::misbehaving::{Fault, Manner, Misbehaving, On, What};
use haul_testbed::{Bed, Command, Fs, SlowDisk, temp_dir};

/// What each slow write takes.
const DELAY: Duration = Duration::from_millis(50);

fn lab() -> Own {
    Own::at(env!("CARGO_BIN_EXE_haul-lab"))
}

/// A small one, which a slow disk gets done within seconds.
fn small() -> Request {
    let mut request = Request::default();
    (request.msync.rounds, request.msync.size, request.msync.time) = (2, 64 << 10, Duration::from_secs(2));
    (request.under.size, request.under.repeats, request.under.time) = (512 << 10, 3, Duration::from_secs(3));
    (request.grid.files, request.grid.records) = (vec![64 << 10], vec![4 << 10, 32 << 10]);
    request.grid.time = Duration::from_secs(1);
    (request.stall.files, request.stall.step, request.stall.segment) = (4, 128 << 10, 512 << 10);
    (request.stall.space, request.stall.time) = (8 << 20, Duration::from_secs(3));
    request
}

fn place(below: &Path) -> PathBuf {
    let place = below.join("place");
    fs::create_dir(&place).unwrap();
    place
}

/// Measures on a filesystem, and looks whether anything is left.
fn measured(request: &Request, below: &Path) -> Measured {
    let place = place(below);
    let measured = measure(&lab(), request, &place, &mut |_, _| {}, &|| false).unwrap();
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "something was left");
    fs::remove_dir(place).unwrap();
    measured
}

fn verdict(details: &[Detail]) -> &str {
    match &details.last().unwrap().body {
        Body::Verdict { name, .. } => name,
        other => panic!("the last detail is no verdict: {other:?}"),
    }
}

#[test]
fn in_memory_there_is_no_device_and_nobody_waits_for_it() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.mount(Fs::Tmpfs) else { return };
    let found = measured(&small(), &dir);
    assert_eq!(judge(&found).name, "no-device", "{found:?}");
    let stall = found.stall.unwrap();
    assert_eq!((stall.bytes, stall.fills.count), (8 << 20, 64));
    assert!(!stall.waits.contains_key("stable-page") && !stall.waits.contains_key("throttled"), "{stall:?}");
}

#[test]
fn every_part_of_an_ordinary_disk_is_measured() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.mount(Fs::Ext4) else { return };
    let found = measured(&small(), &dir);
    let details = details(&found);
    let named = |name: &str| details.iter().any(|detail| detail.name == name);
    for name in ["facts", "msync", "msync-latency", "grid-mapped-record-rewrite", "grid-written-stride-read", "stall"] {
        assert!(named(name), "{name}");
    }
    assert!(!named("left-out"));
    let (msync, grid) = (found.msync.unwrap(), found.grid.unwrap());
    let pages = (64 << 10) / haul_sys::rustix::param::page_size() as u64;
    assert_eq!((msync.mapped_rounds.len(), msync.mapped.count, msync.written.count), (2, 2 * pages, 2 * pages));
    assert_eq!(grid.cells.len(), 2 * 2 * 9);
    assert_eq!((found.facts.filesystem.as_str(), found.facts.stable_pages), ("ext4", Some(false)));
    assert_eq!(found.under.unwrap().stores.len(), 3);
}

/// The classic fault, planted: the same disk, slow in both cases, and in one of them pages must be stable.
#[test]
fn stores_wait_where_a_slow_disk_demands_stable_pages_and_only_there() {
    let Some(bed) = Bed::new() else { return };
    let saved = temp_dir();
    for (name, stable) in [("stable", true), ("plain", false)] {
        let Some(disk) = SlowDisk::mount(&bed, name, 64 << 20, stable) else { return };
        disk.slow_down(DELAY);
        let mut request = without_grid();
        // As many as a verdict needs.
        (request.under.repeats, request.under.time) = (FEWEST as u32, Duration::from_secs(10));
        let found = measured(&request, disk.path());
        assert!(disk.slowed() > 0);
        assert_eq!(found.facts.stable_pages, Some(stable), "{found:?}");
        let (verdict, under) = (judge(&found), found.under.as_ref().unwrap());
        let share = under.waited().unwrap();
        assert_eq!(verdict.name == "waits-for-stable-pages", stable, "{verdict:#?} {found:?}");
        assert_eq!(share > 0.5, stable, "{found:?}");
        assert_ne!(verdict.name, "no-stalls");
        save(&found, &saved.path().join(name));
        // The device's own time is known in both cases.
        assert!(found.msync.unwrap().written.at(50.0).unwrap() >= DELAY.as_secs_f64());
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_haul-lab"));
    let compared = command.args(["report", "stable", "--baseline=plain", "--csv=out"]).current_dir(saved.path());
    let compared = compared.output().unwrap();
    assert!(compared.status.success(), "{compared:?}");
    let csv = fs::read_to_string(saved.path().join("out")).unwrap();
    assert!(
        csv.lines().any(|line| line.contains("under write back, store") && line.contains("slower")),
        "two results tell the disks apart: {csv}"
    );
}

/// As the command saves it.
fn save(measured: &Measured, path: &Path) {
    let section = Section { details: details(measured), complete: true, ..Section::new("mapped-write", "directory") };
    let results = Results::new(vec!["mapped-write".to_owned()], 0, Environment::default());
    Results { sections: vec![section], complete: true, ..results }.save(path).unwrap();
}

fn without_grid() -> Request {
    let mut request = small();
    request.grid.time = Duration::ZERO;
    request
}

#[test]
fn a_disk_that_is_slow_whoever_writes_is_not_blamed_on_mappings() {
    let Some(bed) = Bed::new() else { return };
    let Some(disk) = SlowDisk::mount(&bed, "slow", 64 << 20, false) else { return };
    let mut request = without_grid();
    (request.under.time, request.stall.time) = (Duration::ZERO, Duration::ZERO);
    let quick = measured(&request, disk.path());
    disk.slow_down(DELAY);
    let slow = measured(&request, disk.path());
    assert_eq!(judge(&slow).name, "slow-device", "{slow:?}");
    assert_ne!(judge(&quick).name, "slow-device", "{quick:?}");
    let skipped: Vec<&str> = slow.skipped.iter().map(|(part, _)| part.as_str()).collect();
    assert_eq!(skipped, ["grid", "under", "stall"]);
}

/// Planted by the kernel's own means: very little of this disk may be dirty.
#[test]
fn writers_that_are_held_back_are_distinguished_from_others() {
    let Some(bed) = Bed::new() else { return };
    let Some(disk) = SlowDisk::mount(&bed, "held", 64 << 20, false) else { return };
    if !disk.hold_writers_back(1 << 20) {
        return;
    }
    disk.slow_down(DELAY);
    let found = measured(&without_grid(), disk.path());
    assert_eq!(judge(&found).name, "throttled-writers", "{:#?} {found:?}", judge(&found));
}

#[test]
fn a_slow_server_of_files_makes_who_stores_wait() {
    let Some(bed) = Bed::new() else { return };
    let manner = Manner { write_back: true, ..Manner::default() };
    let Some(files) = Misbehaving::mount(&bed, "files", manner) else { return };
    files.on(Fault::of(On::Write, "place").does(What::Delay(DELAY)));
    let found = measured(&without_grid(), files.path());
    let verdict = judge(&found);
    assert!(["waits-for-stable-pages", "throttled-writers"].contains(&verdict.name), "{verdict:#?} {found:?}");
}

#[test]
fn the_command_says_a_verdict_and_leaves_nothing() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("place")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_haul-lab"));
    command.args(["mapped-write", "--time=3s", "--space=8M", "--rounds=1", "--files=2", "--output=out", "place"]);
    let done = command.current_dir(dir.path()).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(fs::read_dir(at("place")).unwrap().count(), 0);
    let results = Results::load(&at("out/results.json")).unwrap();
    let details = &results.section("mapped-write").unwrap().details;
    assert!(details.len() > 20 && !verdict(details).is_empty());
    assert!(fs::read_to_string(at("out/report.html")).unwrap().contains("<svg"));
}

#[test]
fn a_file_that_somebody_cuts_is_a_clear_error() {
    let dir = temp_dir();
    let place = place(dir.path());
    let request = Request { under: Default::default(), ..small() };
    let cut = std::sync::atomic::AtomicBool::new(false);
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !cut.load(std::sync::atomic::Ordering::Relaxed) {
                // Whatever there is of it at this moment.
                for name in ["mapped-write.under", "mapped-write.stall.0", "mapped-write.stall.1"] {
                    let file = File::options().write(true).open(place.join(name));
                    file.and_then(|file| file.set_len(0)).unwrap_or_default();
                }
            }
        });
        let error = measure(&lab(), &request, &place, &mut |_, _| {}, &|| false).unwrap_err();
        cut.store(true, std::sync::atomic::Ordering::Relaxed);
        error
    });
    assert!(error.starts_with("SIGBUS: ") && error.contains("cut the file"), "{error}");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}

#[test]
fn a_disk_that_fills_up_meanwhile_is_a_clear_error() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.small(Fs::Ext4, 64 << 20) else { return };
    let place = place(&dir);
    let request = without_grid();
    let mut report = |part: &str, _| {
        if part == "under" && !dir.join("other").exists() {
            fs::write(dir.join("other"), vec![1; 128 << 20]).unwrap_err();
        }
    };
    let error = measure(&lab(), &request, &place, &mut report, &|| false).unwrap_err();
    assert!(error.contains("no space left below") || error.contains("had no room for the page"), "{error}");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}

#[test]
fn it_stops_when_asked_and_leaves_nothing() {
    let dir = temp_dir();
    let place = place(dir.path());
    let mut request = small();
    request.stall.space = 1 << 30;
    request.stall.pause = Duration::from_secs(3600);
    request.stall.time = Duration::from_secs(3600);
    let stop = std::cell::Cell::new(false);
    let mut report = |part: &str, _| stop.set(part == "stall");
    assert_eq!(measure(&lab(), &request, &place, &mut report, &|| stop.get()), Err("stopped".to_owned()));
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}
