//! When bytes count as done: when the plan has all that it asks for, and not before.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use haul_copy::events::{Confirm, Event, Observer, Question, Stage};
use haul_copy::meta::XattrRules;
use haul_copy::plan::{Dereference, Destination, DoneWhen, Durable, Overwrite, Plan, Verify};
use haul_copy::run::{Cancel, Partials, Session, run};
use haul_io::pace::Pace;
use haul_testbed::{create_painted, temp_dir};

/// What a run has said of its bytes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Heard {
    moved: u64,
    spared: u64,
    secured: u64,
    stages: Vec<Stage>,
}

#[derive(Default)]
struct Listener(Mutex<Heard>);

impl Observer for Listener {
    fn event(&self, event: &Event<'_>) {
        let mut heard = self.0.lock().unwrap();
        match event {
            Event::Progress(moved) => heard.moved += moved.total(),
            Event::Spared { bytes, whole: true } => heard.spared += bytes,
            Event::Secured(bytes) => heard.secured += bytes,
            Event::Stage(stage) if heard.stages.last() != Some(stage) => heard.stages.push(*stage),
            _ => {}
        }
        assert!(heard.secured <= heard.moved + heard.spared, "{heard:?}");
    }

    fn in_order(&self) -> bool {
        false
    }
}

impl Confirm for Listener {
    fn overwrite(&self, _: &Question<'_>) -> bool {
        true
    }
}

/// A large file and small ones.
const SIZES: [u64; 4] = [20 << 20, 100_000, 5, 0];

fn all() -> u64 {
    SIZES.iter().sum()
}

fn fill(dir: &Path) {
    fs::create_dir_all(dir.join("from/inner")).unwrap();
    for (number, size) in SIZES.into_iter().enumerate() {
        create_painted(dir.join(format!("from/inner/{number}")), size);
    }
}

fn copy(dir: &Path, plan: Plan) -> Heard {
    let listener = Listener::default();
    let session = Session {
        observer: &listener,
        confirm: &listener,
        cancel: Cancel::default(),
        pace: Pace::default(),
        partials: Partials::default(),
        xattr_rules: XattrRules::default(),
        skip_files: Vec::new(),
        shared_reads: None,
    };
    let plan = Plan {
        sources: vec![dir.join("from").into()],
        destination: Destination::Exactly(dir.join("to").into()),
        recursive: true,
        dereference: Dereference::Never,
        ..plan
    };
    assert!(!run(&plan, &session).failed);
    listener.0.into_inner().unwrap()
}

#[test]
fn bytes_are_secured_when_they_are_as_the_plan_asks() {
    let (durable, verify) =
        (|durable| Plan { durable, ..Plan::default() }, |verify| Plan { verify, ..Plan::default() });
    for (plan, done_when, secured, stages) in [
        (Plan::default(), DoneWhen::Written, 0, vec![]),
        (verify(Verify::Read), DoneWhen::Compared, all(), vec![]),
        (durable(Durable::Flush), DoneWhen::Flushed, 0, vec![Stage::Syncing]),
        (durable(Durable::File), DoneWhen::Synced, all(), vec![Stage::Syncing]),
        (Plan { verify: Verify::Read, ..durable(Durable::File) }, DoneWhen::Synced, all(), vec![Stage::Syncing]),
    ] {
        let dir = temp_dir();
        fill(dir.path());
        assert_eq!(plan.done_when(), done_when);
        assert_eq!(copy(dir.path(), plan), Heard { moved: all(), spared: 0, secured, stages }, "{done_when:?}");
    }
}

#[test]
fn bytes_of_files_that_are_left_alone_need_not_be_moved() {
    let dir = temp_dir();
    fill(dir.path());
    copy(dir.path(), Plan::default());
    let heard = copy(dir.path(), Plan { overwrite: Overwrite::Skip, ..Plan::default() });
    assert_eq!(heard, Heard { spared: all(), ..Heard::default() });
}
