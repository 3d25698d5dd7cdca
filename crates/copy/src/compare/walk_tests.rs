use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::symlink;

use haul_testbed::{TempDir, temp_dir};

use super::*;
use crate::compare::difference::Difference;
use crate::compare::session::Observer;
use crate::meta::XattrRules;

/// What is heard, in its order: names below the directory of both trees.
#[derive(Default)]
struct Record(RefCell<Vec<String>>);

impl Observer for Record {
    fn differs(&self, found: &Found) {
        self.0.borrow_mut().push(format!("{} {:?}", found.copy.display(), found.difference));
    }

    fn problem(&self, error: &Error) {
        self.0.borrow_mut().push(error.to_string());
    }
}

/// Two trees, `source` and `copy`.
struct Scene {
    dir: TempDir,
    plan: Plan,
}

impl Scene {
    /// With these files on both sides, each with its name as contents.
    fn new(files: &[&str]) -> Scene {
        let dir = temp_dir();
        let plan = Plan {
            sources: vec![dir.path().join("source").into()],
            destination: Destination::Exactly(dir.path().join("copy").into()),
            recursive: true,
            dereference: Dereference::Never,
            jobs: Some(3),
            ..Plan::default()
        };
        let scene = Scene { dir, plan };
        for tree in ["source", "copy"] {
            fs::create_dir(scene.path(tree)).unwrap();
            files.iter().for_each(|file| scene.write(&format!("{tree}/{file}"), file));
        }
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, contents: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    /// What a comparison returns, and what it tells.
    fn compare(&self) -> (Summary, Vec<String>) {
        self.compare_until(&|| false)
    }

    fn compare_until(&self, stop: &(dyn Fn() -> bool + Sync)) -> (Summary, Vec<String>) {
        let (heard, rules) = (Record::default(), XattrRules::default());
        let summary = compare(&self.plan, &Session { observer: &heard, rules: &rules, stop, board: None });
        let dir = format!("{}/", self.dir.path().display());
        (summary, heard.0.into_inner().iter().map(|line| line.replace(&dir, "")).collect())
    }
}

fn same(entries: u64) -> (Summary, Vec<String>) {
    (Summary { entries, ..Summary::default() }, Vec::new())
}

#[test]
fn each_name_on_either_side_is_looked_at_once() {
    let scene = Scene::new(&["a", "sub/b"]);
    assert_eq!(scene.compare(), same(4), "two directories and two files");
    scene.write("source/only", "");
    scene.write("copy/sub/more", "");
    let (summary, heard) = scene.compare();
    assert_eq!((summary.entries, summary.differences, summary.is_same()), (6, 2, false));
    assert_eq!(heard, ["copy/only OnlyInSource", "copy/sub/more OnlyInCopy"]);
}

#[test]
fn differences_are_reported_in_the_order_of_one_thread() {
    let names: Vec<String> = (0..40).flat_map(|dir| (0..40).map(move |file| format!("{dir}/{file}"))).collect();
    let mut scene = Scene::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    names.iter().step_by(3).for_each(|name| scene.write(&format!("copy/{name}"), "other"));
    scene.plan.jobs = Some(1);
    let serial = scene.compare();
    assert_eq!((serial.0.entries, serial.1.len()), (1641, 534));
    scene.plan.jobs = Some(8);
    (0..5).for_each(|_| assert_eq!(scene.compare(), serial));
}

#[test]
fn trees_deeper_than_what_is_held_open_are_compared() {
    let deep = format!("{}ground", "d/".repeat(3 * OPEN_LEVELS));
    let scene = Scene::new(&[&deep, "last"]);
    assert_eq!(scene.compare(), same(3 * OPEN_LEVELS as u64 + 3));
    scene.write(&format!("copy/{deep}"), "another");
    let (_, heard) = scene.compare();
    let difference = Difference::Size(deep.len() as u64, "another".len() as u64);
    assert_eq!(heard, [format!("copy/{deep} {difference:?}")]);
}

#[test]
fn a_link_that_leads_back_up_is_an_error() {
    let mut scene = Scene::new(&["sub/a"]);
    scene.plan.dereference = Dereference::Always;
    for tree in ["source", "copy"] {
        symlink("..", scene.path(tree).join("sub/up")).unwrap();
    }
    let (summary, heard) = scene.compare();
    assert_eq!((summary.errors, summary.differences, heard.len()), (1, 0, 1), "{heard:?}");
    assert!(heard[0].contains("source/sub/up"), "{heard:?}");
}

#[test]
fn links_below_an_operand_are_compared_as_links() {
    let scene = Scene::new(&["a"]);
    // What they lead to differs.
    scene.write("one/in", "1");
    scene.write("copy-of-one/in", "2");
    symlink(scene.path("one"), scene.path("source/link")).unwrap();
    symlink(scene.path("one"), scene.path("copy/link")).unwrap();
    assert_eq!(scene.compare(), same(3));
    fs::remove_file(scene.path("copy/link")).unwrap();
    symlink(scene.path("copy-of-one"), scene.path("copy/link")).unwrap();
    let (summary, heard) = scene.compare();
    assert!(summary.differences == 1 && heard[0].starts_with("copy/link Target"), "{heard:?}");
}

#[test]
fn a_link_as_operand_is_followed_as_the_plan_says() {
    let mut scene = Scene::new(&["a"]);
    symlink(scene.path("source"), scene.path("link")).unwrap();
    scene.plan.sources = vec![scene.path("link").into()];
    scene.plan.dereference = Dereference::Operands;
    assert_eq!(scene.compare(), same(2));
    scene.plan.dereference = Dereference::Never;
    let (summary, heard) = scene.compare();
    assert!(summary.entries == 1 && heard[0].starts_with("copy Kind"), "{heard:?}");
}

#[test]
fn a_copy_is_looked_for_where_the_plan_makes_it() {
    let mut scene = Scene::new(&["a"]);
    scene.write("into/source/a", "a");
    let into = scene.path("into").into_os_string();
    for destination in [Destination::Directory(into.clone()), Destination::Guess(into.clone())] {
        scene.plan.destination = destination;
        assert_eq!(scene.compare(), same(2));
    }
    scene.plan.destination = Destination::Exactly(into);
    assert_eq!(scene.compare().0.differences, 2, "the file is missing, a directory is too much");
}

#[test]
fn several_sources_need_a_directory() {
    let mut scene = Scene::new(&["a"]);
    scene.plan.sources.push(scene.path("source/a").into());
    for destination in [Destination::Guess, Destination::Directory] {
        scene.plan.destination = destination(scene.path("nothing").into());
        let (summary, heard) = scene.compare();
        assert_eq!((summary.entries, summary.errors, heard.len()), (0, 1, 1), "{heard:?}");
    }
}

#[test]
fn without_recursion_a_directory_is_left_out() {
    let mut scene = Scene::new(&["a"]);
    scene.plan.recursive = false;
    let (summary, heard) = scene.compare();
    assert_eq!((summary.entries, summary.errors, heard.len()), (0, 1, 1), "{heard:?}");
}

#[test]
fn a_comparison_that_is_stopped_is_reported_as_incomplete() {
    let (summary, heard) = Scene::new(&["a", "b"]).compare_until(&|| true);
    assert!(summary.stopped && !summary.is_same() && heard.is_empty(), "{summary:?} {heard:?}");
}

#[test]
fn an_operand_without_a_name_is_the_directory_itself() {
    for (operand, copy) in [("a/b", "to/b"), ("a/b//", "to/b"), ("..", "to"), ("a/.", "to"), ("/", "to")] {
        assert_eq!(below("to".as_ref(), operand.as_ref()), Path::new(copy), "{operand}");
    }
}

/// Takes the other one of two directories of the copy away, as soon as something differs in one.
struct Taker {
    copy: PathBuf,
    heard: Record,
}

impl Observer for Taker {
    fn differs(&self, found: &Found) {
        let inside = if found.copy.starts_with(self.copy.join("one")) { "two" } else { "one" };
        // After the first difference it is gone.
        fs::rename(self.copy.join(inside), self.copy.with_extension("taken")).ok();
        self.heard.differs(found);
    }

    fn problem(&self, error: &Error) {
        self.heard.problem(error);
    }
}

#[test]
fn a_directory_that_goes_before_it_is_entered_is_an_error() {
    // More names than are under way at a time, so that something is reported before the second directory is entered.
    let names: Vec<String> = (0..BATCH * (UNDER_WAY + 2)).map(|number| number.to_string()).collect();
    let mut scene = Scene::new(&[]);
    scene.plan.jobs = Some(1);
    for dir in ["one", "two"] {
        fs::create_dir_all(scene.path("source").join(dir)).unwrap();
        fs::create_dir_all(scene.path("copy").join(dir)).unwrap();
        for name in &names {
            fs::write(scene.path("source").join(dir).join(name), "bytes").unwrap();
            fs::write(scene.path("copy").join(dir).join(name), "other").unwrap();
        }
    }
    let taker = Taker { copy: scene.path("copy"), heard: Record::default() };
    let rules = XattrRules::default();
    let session = Session { observer: &taker, rules: &rules, stop: &|| false, board: None };
    let summary = compare(&scene.plan, &session);
    assert_eq!((summary.entries, summary.errors), (3 + names.len() as u64, 1));
    let heard = taker.heard.0.into_inner();
    assert!(heard.last().is_some_and(|last| last.contains("cannot access")), "{:?}", heard.last());
}
