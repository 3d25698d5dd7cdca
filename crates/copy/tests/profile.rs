//! What a profile says of a storage, from the plan to the threads and engines of a run.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use haul_copy::events::{Confirm, Event, Observer, Question};
use haul_copy::meta::XattrRules;
use haul_copy::plan::{DataOptions, Dereference, Destination, EngineName, Plan, Reflink};
use haul_copy::run::{Cancel, Partials, Session, Summary, run};
use haul_io::pace::Pace;
use haul_io::probe::place_of;
use haul_io::profile::{Entry, Measured, PlaceEntry, Profile, Setting, SizeClass, Source};
use haul_testbed::{Bed, Fs, assert_same_contents, create_painted, temp_dir};

/// Remembers which threads moved data.
#[derive(Default)]
struct Threads(Mutex<HashSet<ThreadId>>);

impl Observer for Threads {
    fn event(&self, event: &Event<'_>) {
        if let Event::DataDone(_) = event {
            self.0.lock().unwrap().insert(thread::current().id());
        }
    }

    fn in_order(&self) -> bool {
        false
    }
}

impl Confirm for Threads {
    fn overwrite(&self, _: &Question<'_>) -> bool {
        true
    }
}

/// Copies, and says how many threads moved data.
fn copy(plan: &Plan) -> (Summary, usize) {
    let threads = Threads::default();
    let session = Session {
        observer: &threads,
        confirm: &threads,
        cancel: Cancel::default(),
        pace: Pace::default(),
        partials: Partials::default(),
        xattr_rules: XattrRules::default(),
        skip_files: Vec::new(),
        shared_reads: None,
    };
    let summary = run(plan, &session);
    assert!(!summary.failed);
    let count = threads.0.lock().unwrap().len();
    (summary, count)
}

fn plan(dir: &Path, entries: Vec<Entry>) -> Plan {
    let place = place_of(dir).unwrap().expect("it has an identity");
    let (origin, directory) = ("p".to_owned(), String::new());
    let profile = Profile { places: vec![PlaceEntry { origin, directory, place, entries, ..PlaceEntry::default() }] };
    Plan {
        sources: vec![dir.join("from").into()],
        destination: Destination::Exactly(dir.join("to").into()),
        recursive: true,
        dereference: Dereference::Never,
        data: DataOptions { reflink: Reflink::Never, profile: Some(Arc::new(profile)), ..DataOptions::default() },
        ..Plan::default()
    }
}

fn entry(class: SizeClass, source: Option<Source>, setting: Setting, jobs: Option<usize>) -> Entry {
    Entry { class, source, setting, jobs, measured: Measured::default() }
}

#[test]
fn a_tree_is_copied_by_as_many_threads_as_the_profile_says() {
    let dir = temp_dir();
    for number in 0..300 {
        let folder = dir.path().join(format!("from/{}", number % 7));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(number.to_string()), [7; 2000]).unwrap();
    }
    let alone = plan(dir.path(), vec![entry(SizeClass::Tiny, None, Setting::default(), Some(1))]);
    assert_eq!(copy(&alone).1, 1);
    fs::remove_dir_all(dir.path().join("to")).unwrap();
    let several = Plan { jobs: Some(2), ..alone };
    assert!(copy(&several).1 <= 2, "an option comes first");
}

#[test]
fn each_file_of_a_run_is_moved_as_the_profile_says_of_its_size_and_state() {
    let Some(bed) = Bed::new() else { return };
    for kind in [Fs::Ext4, Fs::XfsNoReflink] {
        let Some(dir) = bed.small(kind, 64 << 20) else { continue };
        fs::create_dir(dir.join("from")).unwrap();
        for (name, size) in [("tiny", 5000), ("small", 1 << 20), ("medium", 5 << 20)] {
            create_painted(dir.join("from").join(name), size);
        }
        let by = |engine| Setting { engine: Some(engine), buffer_size: Some(96 << 10), ..Setting::default() };
        let entries = vec![
            entry(SizeClass::Small, None, by(EngineName::Mapped), None),
            entry(SizeClass::Medium, Some(Source::Cached), by(EngineName::Splice), None),
            entry(SizeClass::Medium, Some(Source::Cold), by(EngineName::Mapped), None),
        ];
        let (summary, _) = copy(&plan(&dir, entries));
        let moved = |engine| summary.stats.engines.get(&engine).map_or(0, |stats| stats.moved.total());
        assert_eq!(summary.stats.by_profile, 2, "{}", kind.name());
        assert_eq!(
            [EngineName::Mapped, EngineName::Splice, EngineName::ReadWrite].map(moved),
            [1 << 20, 5 << 20, 5000]
        );
        for name in ["tiny", "small", "medium"] {
            assert_same_contents(dir.join("from").join(name), dir.join("to").join(name));
        }
    }
}
