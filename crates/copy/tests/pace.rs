//! Limits of a run, on a clock that moves only when somebody waits.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_copy::events::{Confirm, Event, Observer, Question};
use haul_copy::meta::XattrRules;
use haul_copy::plan::{DataOptions, Destination, EngineChoice, EngineName, Plan};
use haul_copy::run::{Cancel, Partials, Session, Summary, run};
use haul_io::pace::{Clock, Limit, Pace};
use haul_testbed::{Bed, Fs, assert_same_contents, create_painted, temp_dir};

const MIB: u64 = 1 << 20;

/// A clock that stands still but for the waits.
#[derive(Debug, Clone, Default)]
struct Dial(Arc<Mutex<Duration>>);

impl Dial {
    fn seconds(&self) -> f64 {
        self.now().as_secs_f64()
    }
}

impl Clock for Dial {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn skip(&self, time: Duration) -> bool {
        *self.0.lock().unwrap() += time;
        true
    }
}

/// Hears nothing, but may cancel the run at the first piece of data.
struct Listener {
    cancel_at_progress: Option<Cancel>,
}

impl Observer for Listener {
    fn event(&self, event: &Event<'_>) {
        match (event, &self.cancel_at_progress) {
            (Event::Progress(_), Some(cancel)) => cancel.cancel(),
            (Event::Problem(error), _) => panic!("{error}"),
            _ => {}
        }
    }
}

impl Confirm for Listener {
    fn overwrite(&self, _: &Question<'_>) -> bool {
        true
    }
}

fn plan(from: &Path, to: &Path) -> Plan {
    Plan { sources: vec![from.into()], destination: Destination::Exactly(to.into()), ..Plan::default() }
}

fn copy(plan: &Plan, pace: &Pace, cancel_at_progress: Option<Cancel>) -> Summary {
    let listener = Listener { cancel_at_progress: cancel_at_progress.clone() };
    let session = Session {
        observer: &listener,
        confirm: &listener,
        cancel: cancel_at_progress.unwrap_or_default(),
        pace: pace.clone(),
        partials: Partials::default(),
        xattr_rules: XattrRules::default(),
        skip_files: Vec::new(),
        shared_reads: None,
    };
    run(plan, &session)
}

fn bytes(rate: u64) -> Limit {
    Limit { bytes: Some(rate), operations: None }
}

fn paced(limit: Limit) -> (Pace, Dial) {
    let dial = Dial::default();
    (Pace::with_clock(limit, Box::new(dial.clone())), dial)
}

#[test]
fn three_mebibytes_at_one_a_second_take_three_seconds_with_every_engine() {
    let dir = temp_dir();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    create_painted(&a, 3 * MIB);
    let moving = EngineName::ALL.into_iter().filter(|name| *name != EngineName::Null);
    for engine in moving.map(EngineChoice::Only).chain([EngineChoice::Auto]) {
        let (pace, dial) = paced(bytes(MIB));
        let summary = copy(&Plan { data: DataOptions { engine, ..plan(&a, &b).data }, ..plan(&a, &b) }, &pace, None);
        assert!(!summary.failed, "{engine:?}");
        let moved = summary.stats.moved;
        let data = (moved.written + moved.offloaded) as f64 / MIB as f64;
        // The last piece, a sixteenth of a second, is not waited for.
        assert!((data - 0.07..=data + 0.01).contains(&dial.seconds()), "{engine:?}: {} for {moved:?}", dial.seconds());
        assert_eq!(pace.done().bytes, moved.written + moved.offloaded);
        assert_same_contents(&a, &b);
        fs::remove_file(&b).unwrap();
    }
}

#[test]
fn odd_sizes_and_low_rates_lose_no_byte_in_any_engine() {
    let Some(bed) = Bed::new() else { return };
    for filesystem in Fs::ALL {
        let Some(dir) = bed.mount(filesystem) else { continue };
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, MIB + 4321);
        for engine in EngineName::ALL.into_iter().filter(|name| *name != EngineName::Null) {
            for limit in [bytes(50_000), bytes(7 * MIB), Limit { bytes: None, operations: Some(3) }] {
                let (pace, _) = paced(limit);
                let plan = Plan {
                    data: DataOptions {
                        engine: EngineChoice::Only(engine),
                        readahead: Some(MIB / 2),
                        ..plan(&a, &b).data
                    },
                    ..plan(&a, &b)
                };
                assert!(!copy(&plan, &pace, None).failed, "{engine} on {}", filesystem.name());
                assert_same_contents(&a, &b);
                fs::remove_file(&b).unwrap();
            }
        }
        fs::remove_file(&a).unwrap();
    }
}

#[test]
fn shared_extents_and_holes_cost_no_time() {
    let Some(bed) = Bed::new() else { return };
    let limit = bytes(1);
    if let Some(dir) = bed.mount(Fs::Xfs) {
        create_painted(dir.join("a"), 3 * MIB);
        let (pace, dial) = paced(limit);
        let summary = copy(&plan(&dir.join("a"), &dir.join("b")), &pace, None);
        assert_eq!((summary.stats.moved.cloned, dial.now()), (3 * MIB, Duration::ZERO));
    }
    if let Some(dir) = bed.mount(Fs::Ext4) {
        fs::File::create(dir.join("a")).unwrap().set_len(3 * MIB).unwrap();
        let (pace, dial) = paced(limit);
        let summary = copy(&plan(&dir.join("a"), &dir.join("b")), &pace, None);
        assert_eq!((summary.stats.moved.holes, dial.now()), (3 * MIB, Duration::ZERO));
    }
}

#[test]
fn every_file_made_and_every_request_is_an_operation() {
    let dir = temp_dir();
    let source = dir.path().join("source");
    fs::create_dir(&source).unwrap();
    for name in 0..40 {
        fs::write(source.join(name.to_string()), b"contents").unwrap();
    }
    let (pace, dial) = paced(Limit { bytes: None, operations: Some(10) });
    let plan = Plan { recursive: true, ..plan(&source, &dir.path().join("dest")) };
    assert!(!copy(&plan, &pace, None).failed);
    let operations = pace.done().operations;
    // A file and its directory, and one request to read and one to write at least.
    assert!(operations > 40 * 3, "{operations}");
    // The last ones are not waited for.
    let due = operations as f64 / 10.0;
    assert!((due - 1.0..=due + 0.2).contains(&dial.seconds()), "{} for {operations}", dial.seconds());
}

#[test]
fn a_run_that_waits_for_its_turn_can_be_cancelled() {
    let dir = temp_dir();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    create_painted(&a, 3 * MIB);
    // The second piece would have its turn in an hour.
    let summary = copy(&plan(&a, &b), &Pace::new(bytes(1)), Some(Cancel::default()));
    assert!(summary.cancelled);
    assert!(!b.exists());
}

#[test]
fn the_threads_of_a_tree_share_one_limit() {
    let dir = temp_dir();
    let source = dir.path().join("source");
    for folder in 0..8 {
        let folder = source.join(folder.to_string());
        fs::create_dir_all(&folder).unwrap();
        for name in 0..8 {
            create_painted(folder.join(name.to_string()), 100_000);
        }
    }
    for jobs in [1, 2, 8] {
        let (pace, dial) = paced(bytes(MIB));
        let dest = dir.path().join(format!("dest{jobs}"));
        let plan = Plan { recursive: true, jobs: Some(jobs), ..plan(&source, &dest) };
        assert!(!copy(&plan, &pace, None).failed);
        let due = pace.done().bytes as f64 / MIB as f64;
        assert_eq!(pace.done().bytes, 64 * 100_000);
        // Neither the last piece nor a tenth of a second that was saved up is waited for.
        assert!((due - 0.2..=due + 0.01).contains(&dial.seconds()), "{jobs} jobs: {} of {due}", dial.seconds());
        for folder in 0..8 {
            for name in 0..8 {
                let file = format!("{folder}/{name}");
                assert_same_contents(source.join(&file), dest.join(&file));
            }
        }
    }
}
