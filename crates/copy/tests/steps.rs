//! The steps of a copy that others divide among themselves, as a program of one's own calls them: list, split, copy the
//! parts, add up, compare.

use std::fs;
use std::io::Cursor;
use std::num::NonZero;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};

use haul_copy::compare::{self, Found, compare};
use haul_copy::error::Error;
use haul_copy::events::{Confirm, Event, Observer, Question};
use haul_copy::list::{self, Shard};
use haul_copy::meta::XattrRules;
use haul_copy::plan::{Dereference, Destination, ModeRule, Plan, Preserve};
use haul_copy::run::{self, Cancel, Partials, Session, Summary};
use haul_io::pace::Pace;
use haul_testbed::temp_dir;

const PARTS: u32 = 3;

/// Keeps what is reported.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Heard {
    fn hears(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    fn everything(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Observer for Heard {
    fn event(&self, event: &Event<'_>) {
        if let Event::Problem(error) = event {
            self.hears(error.to_string());
        }
    }
}

impl Confirm for Heard {
    fn overwrite(&self, _: &Question<'_>) -> bool {
        true
    }
}

impl compare::Observer for Heard {
    fn differs(&self, found: &Found) {
        self.hears(format!("{found:?}"));
    }

    fn problem(&self, error: &Error) {
        self.hears(error.to_string());
    }
}

fn session(heard: &Heard) -> Session<'_> {
    Session {
        observer: heard,
        confirm: heard,
        cancel: Cancel::default(),
        pace: Pace::default(),
        partials: Partials::default(),
        xattr_rules: XattrRules::default(),
        skip_files: Vec::new(),
        shared_reads: None,
    }
}

fn grow(source: &Path) {
    for dir in 0..7 {
        let dir = source.join(format!("dir{dir}/inner"));
        fs::create_dir_all(&dir).unwrap();
        for file in 0..40 {
            fs::write(dir.join(format!("file{file}")), format!("{file} ").repeat(file * 50)).unwrap();
        }
        symlink("file1", dir.join("link")).unwrap();
        fs::set_permissions(&dir, PermissionsExt::from_mode(0o750)).unwrap();
    }
    fs::hard_link(source.join("dir0/inner/file3"), source.join("dir6/inner/the same")).unwrap();
}

#[test]
fn a_destination_that_a_repeated_run_may_read_otherwise_is_refused() {
    let dir = temp_dir();
    let (source, dest) = (dir.path().join("source"), dir.path().join("dest"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "text").unwrap();
    let plan = Plan {
        sources: vec![source.into()],
        destination: Destination::Guess(dest.clone().into()),
        recursive: true,
        dereference: Dereference::Never,
        ..Plan::default()
    };
    let why = [format!("cannot tell whether {dest:?} is the copy or the directory that it goes into")];
    for again in [Plan { resume: true, ..plan.clone() }, Plan { shard: Shard::new(1, 1), ..plan.clone() }] {
        for made in [false, true] {
            if made {
                fs::create_dir(&dest).unwrap();
            }
            let heard = Heard::default();
            assert_eq!(run::settle_destination(&again), again.destination);
            assert!(run::run(&again, &session(&heard)).failed);
            assert_eq!(heard.everything(), why);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1 + usize::from(made), "nothing was made");
        }
        assert_eq!(fs::read_dir(&dest).unwrap().count(), 0, "nothing was copied");
        fs::remove_dir(&dest).unwrap();
        let status = run::shard_status(&again).map_err(|error| error.to_string());
        assert_eq!(status, Err(why[0].clone()));
    }
    assert!(!run::run(&plan, &session(&Heard::default())).failed, "a run that is not repeated takes it");
    assert_eq!(fs::read(dest.join("file")).unwrap(), b"text");
}

#[test]
fn parts_of_a_list_that_are_copied_in_any_order_make_the_whole_copy() {
    let dir = temp_dir();
    let (source, dest) = (dir.path().join("source"), dir.path().join("dest"));
    grow(&source);
    let heard = Heard::default();
    let whole = Plan {
        sources: vec![source.clone().into()],
        destination: Destination::Exactly(dest.clone().into()),
        recursive: true,
        dereference: Dereference::Never,
        preserve: Preserve { links: true, mode: ModeRule::Keep, timestamps: true, ..Preserve::default() },
        ..Plan::default()
    };

    let survey = run::list(&whole, &session(&heard));
    assert!(!survey.failed, "{:?}", heard.everything());
    let mut stored = Vec::new();
    list::save(&survey.list, &mut stored).unwrap();
    let list = Arc::new(list::load(&mut Cursor::new(stored)).unwrap());
    let work = list::split(&list, NonZero::new(PARTS).unwrap()).work().to_vec();
    assert_eq!(work.iter().map(|work| work.entries).sum::<u64>(), list.len() as u64);
    assert!(work.iter().all(|work| work.entries > 0), "each has something to do: {work:?}");

    let mut together = Summary::default();
    for number in (1..=PARTS).rev() {
        let shard = Shard::new(number, PARTS);
        let part = Plan { list: Some(Arc::clone(&list)), shard, ..whole.clone() };
        together += run::run(&part, &session(&heard));
    }
    assert!(!together.failed, "{:?}", heard.everything());
    assert_eq!(together.stats.regular, 7 * 40, "every file once, and a name more of one of them");

    let rules = XattrRules::default();
    let looked = compare(&whole, &compare::Session { observer: &heard, rules: &rules, stop: &|| false, board: None });
    assert!(looked.is_same(), "{:?}", heard.everything());
    assert_eq!(looked.entries, list.len() as u64);
    let links = |path: &str| fs::metadata(dest.join(path)).unwrap().ino();
    assert_eq!(links("dir0/inner/file3"), links("dir6/inner/the same"));
    // The record of the job stays, so that a part that is copied again does nothing; nothing else does.
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut others: Vec<_> = names.filter(|name| *name != "source" && *name != "dest").collect();
    let record = others.pop().unwrap();
    assert!(record.to_string_lossy().starts_with(".haul-shards-") && others.is_empty(), "{record:?} {others:?}");
}
