//! Every system call may fail once. One fault is injected into a small copy, at each call that the copy makes on files and
//! with each of a few errors; whatever becomes of the run, it must report the truth about what is at the destination.
//!
//! Exit status 0 means that the copy is equal to the source. Otherwise every name at the destination is complete, absent,
//! the untouched old file or named on standard error; the source is as it was; nothing temporary is left; and the same
//! command succeeds afterwards.
//!
//! An ordinary run meets each call with each error at one occurrence. `HAUL_FAULTS=all` plays all occurrences, and any
//! other value those whose description contains it, as failures print it: `HAUL_FAULTS="-a --jobs=1 on ext4: fchown"`.
//!
//! # What is not injected
//! A count that is too short. The tracer can only forge the number: with a forged count of `write` the kernel has not
//! written what it says, and with a forged end of `read` or `copy_file_range` the source has ended as far as any program can
//! know. Real short counts, and interruptions after them, come from the kernels and engines that wrap others in
//! `haul_io::engine::wrap`, and from the tests of the engines.
//!
//! Nor calls that the tracer knows by their number only, such as `fchmodat2` and `setxattrat` where it is older than the
//! kernel: it cannot be made to fail them.
#![forbid(unsafe_code)]

mod calls;
mod judge;
mod scene;
mod sets;
mod trace;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use haul_testbed::guest::has;
use haul_testbed::{Bed, Command, TempDir, skip, temp_dir};

use scene::Scene;
use sets::{SETS, Set};
use trace::Fault;

/// Failing devices, full ones, signals, scarce resources, and what the caller may not do.
const ERRORS: [&str; 5] = ["EIO", "ENOSPC", "EINTR", "EAGAIN", "EPERM"];

/// After so many wrong copies the rest would say the same.
const ENOUGH: usize = 40;

/// One fault in a copy with one set of options.
struct Case {
    set: usize,
    fault: Fault,
}

/// What is counted over all cases.
#[derive(Default)]
struct Tally {
    runs: AtomicUsize,
    injected: AtomicUsize,
    succeeded: AtomicUsize,
    not_met: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

/// What one thread needs: mounts of its own, and the scenes that it has built there.
struct Desk {
    bed: Bed,
    logs: TempDir,
    scenes: BTreeMap<usize, Option<Scene>>,
}

impl Desk {
    /// `None` where mounts are not permitted, which is then said.
    fn new() -> Option<Desk> {
        Some(Desk { bed: Bed::new()?, logs: temp_dir(), scenes: BTreeMap::new() })
    }

    /// The scene of a set of options, built on the first call. `None` where its filesystem is lacking.
    fn scene(&mut self, index: usize) -> Option<&Scene> {
        let (bed, set) = (&self.bed, &SETS[index]);
        let build = || Some(Scene::build(&bed.mount(set.filesystem)?.join(index.to_string()), set));
        self.scenes.entry(index).or_insert_with(build).as_ref()
    }

    fn log(&self) -> std::path::PathBuf {
        self.logs.path().join("log")
    }
}

/// Whether the tracer works here: it may be missing, or forbidden.
fn can_trace() -> bool {
    if !has("strace") {
        return false;
    }
    let works = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).output();
    let works = works.is_ok_and(|output| output.status.success());
    if !works {
        skip("strace may not trace here");
    }
    works
}

/// All faults that are played in one set.
fn faults(set: usize, calls: &BTreeMap<String, Vec<u32>>, wanted: Option<&str>) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, occurrences) in calls {
        for (nth, errno) in ERRORS.into_iter().enumerate() {
            let case = |&occurrence: &u32| Case { set, fault: Fault { name: name.clone(), occurrence, errno } };
            match wanted {
                // The errors are spread over the occurrences, and over others in the next set.
                None => {
                    let place = (nth * occurrences.len() / ERRORS.len() + set) % occurrences.len();
                    cases.push(case(&occurrences[place]));
                }
                Some("all") => cases.extend(occurrences.iter().map(case)),
                Some(words) => {
                    let fits = |case: &Case| describe(&SETS[case.set], &case.fault).contains(words);
                    cases.extend(occurrences.iter().map(case).filter(fits));
                }
            }
        }
    }
    cases
}

fn describe(set: &Set, fault: &Fault) -> String {
    format!("{set}: {fault}")
}

/// Copies once without a fault in each set and returns the faults to be played.
fn plan(wanted: Option<&str>) -> Option<Vec<Case>> {
    let mut desk = Desk::new()?;
    let mut cases = Vec::new();
    for (index, set) in SETS.iter().enumerate() {
        let log = desk.log();
        let Some(scene) = desk.scene(index) else { continue };
        let ran = trace::observe(scene.dir(), &set.arguments(), &log);
        assert!(ran.succeeded(), "{set}: {}", ran.text());
        assert_eq!(scene.look().dest, scene.expected.dest, "{set}: two copies differ without any fault");
        scene.reset();
        let calls = calls::calls(&fs::read_to_string(&log).expect("the tracer has written"));
        assert!(calls.len() > 10, "{set}: only {:?} were seen", calls.keys());
        cases.extend(faults(index, &calls, wanted));
    }
    Some(cases)
}

/// Plays one case, and the same command again without the fault; returns what is wrong.
fn play(scene: &Scene, case: &Case, log: &Path, tally: &Tally) -> Vec<String> {
    let set = &SETS[case.set];
    let ran = trace::inject(scene.dir(), &set.arguments(), &case.fault, log);
    let met = trace::injected(log);
    tally.runs.fetch_add(1, Ordering::Relaxed);
    tally.injected.fetch_add(met, Ordering::Relaxed);
    tally.not_met.fetch_add(usize::from(met == 0), Ordering::Relaxed);
    tally.succeeded.fetch_add(usize::from(ran.succeeded()), Ordering::Relaxed);
    let mut wrong = judge::judge(set, &case.fault, scene, &scene.look(), &ran);
    // Which thread makes a call, and how often, is chance where there are several; and so is how often one waits for a queue. Of a
    // source that was put back after a move, some files are written back before the next one.
    let chance =
        !set.is_serial() || case.fault.name.starts_with("io_") || set.moves() && case.fault.name == "sync_file_range";
    if met == 0 && !chance {
        wrong.push("nothing was injected, though such a call was counted".to_owned());
    }
    // What was moved cannot be moved again.
    let is_gone = set.moves() && scene.look().source.is_empty();
    if !ran.hung() && !is_gone {
        let again = trace::plain(scene.dir(), &set.arguments());
        wrong.extend(judge::judge_second(set, scene, &scene.look(), &again));
        if again.succeeded() && scene.has_journal() {
            wrong.push("all is done, and a journal is left".to_owned());
        }
    }
    scene.reset();
    if !wrong.is_empty() {
        wrong.push(format!("the first run: {}", ran.text()));
    }
    wrong
}

/// Takes cases until there are none left.
fn work(cases: &[Case], next: &AtomicUsize, lacking: &AtomicBool, tally: &Tally) {
    let Some(mut desk) = Desk::new() else { return };
    let log = desk.log();
    while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
        let Some(scene) = desk.scene(case.set) else {
            lacking.store(true, Ordering::Relaxed);
            continue;
        };
        let wrong = play(scene, case, &log, tally);
        if !wrong.is_empty() {
            let mut failures = tally.failures.lock().expect("no thread panics with it");
            failures.push(format!("{}\n    {}", describe(&SETS[case.set], &case.fault), wrong.join("\n    ")));
            if failures.len() >= ENOUGH && env::var_os("HAUL_FAULTS").is_none() {
                return;
            }
        }
    }
}

#[test]
fn a_call_that_fails_once_never_makes_a_wrong_copy() {
    if !can_trace() {
        return;
    }
    let wanted = env::var("HAUL_FAULTS").ok();
    // The mounts go with the thread that made them.
    let planned = thread::scope(|scope| scope.spawn(|| plan(wanted.as_deref())).join());
    let Some(cases) = planned.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) else { return };
    let (next, lacking, tally) = (AtomicUsize::new(0), AtomicBool::new(false), Tally::default());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| work(&cases, &next, &lacking, &tally));
        }
    });
    let mut sets: Vec<usize> = cases.iter().map(|case| case.set).collect();
    sets.dedup();
    let number = |of: &AtomicUsize| of.load(Ordering::Relaxed);
    let line = format!(
        "faults: {} option sets, {} runs, {} calls failed, {} runs succeeded all the same, {} met no such call\n",
        sets.len(),
        number(&tally.runs),
        number(&tally.injected),
        number(&tally.succeeded),
        number(&tally.not_met),
    );
    // Straight to the descriptor: what a passing test prints is swallowed otherwise.
    std::io::stderr().write_all(line.as_bytes()).expect("standard error is there");
    let failures = tally.failures.into_inner().expect("no thread panics with it");
    assert!(failures.is_empty(), "{} of {} runs:\n{}", failures.len(), cases.len(), failures.join("\n"));
    assert!(lacking.into_inner() || number(&next) >= cases.len(), "not all cases were played");
}
