use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use haul_testbed::{TempDir, temp_dir};

use super::*;
use crate::compare::difference::Difference;
use crate::meta::XattrRules;
use crate::plan::Plan;

/// The number of the batch in the row.
const SLOT: u64 = 5;

/// A board, two directories, and what is said of the names in them.
struct Scene {
    dir: TempDir,
    board: Board,
    sides: Arc<Sides>,
    answer: Sender<Answer>,
    answers: Receiver<Answer>,
}

impl Scene {
    fn new() -> Scene {
        let dir = temp_dir();
        let side = |name: &str| {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            let fd = OwnedFd::from(File::open(&path).unwrap());
            let inode = Inode::of(fd.as_fd()).unwrap();
            let operand = Arc::new((path, inode.id.device()));
            Side { fd, inode, path: PathNode::root(Path::new(name)), operand }
        };
        let sides = Arc::new(Sides { source: side("source"), copy: side("copy") });
        let (answer, answers) = channel();
        Scene { dir, board: Board::new(), sides, answer, answers }
    }

    /// Names at the positions 10, 11 and so on of a batch.
    fn batch(&self, names: &[&str]) -> Batch {
        let names = (10..).zip(names.iter().map(OsString::from)).collect();
        Batch { sides: Arc::clone(&self.sides), slot: SLOT, of_copy: false, names, answer: self.answer.clone() }
    }

    /// What a helper is given.
    fn take(&self) -> Option<(u64, Vec<OsString>)> {
        let unit = decode::<WorkUnit>(&self.board.take()?).unwrap();
        Some((unit.token, unit.names))
    }

    fn hear(&self, reply: &Reply) -> Option<Heard> {
        self.board.hear(&encode(reply))
    }

    /// What a thread of this process would take next, and whether nobody else may.
    fn next(&self) -> (Vec<(usize, OsString)>, bool) {
        let (batch, for_own) = self.board.next().unwrap();
        (batch.names, for_own)
    }

    /// What was said last.
    fn said(&self) -> Said {
        said(self.answers.recv().unwrap())
    }

    /// Lets a thread of this process compare what waits, until so much was said.
    fn work(&self, parts: usize) -> Vec<Said> {
        let (plan, xattrs) = (Plan::default(), XattrRules::default());
        let rules = Rules { plan: &plan, xattrs: &xattrs, stop: &|| false, offline: Arc::default() };
        let (board, answer, rules) = (&self.board, self.answer.clone(), &rules);
        let answers: Vec<Answer> = thread::scope(|scope| {
            scope.spawn(move || board.work(rules, answer));
            let answers = self.answers.iter().take(parts).collect();
            board.close();
            answers
        });
        answers.into_iter().map(said).collect()
    }
}

/// Of how many names something was said, how many entries were looked at, and what was found.
type Said = (usize, u64, Vec<(usize, Compared)>);

fn said(answer: Answer) -> Said {
    let Answer::Part(part) = answer else { panic!("a thread has panicked") };
    assert_eq!(part.slot, SLOT);
    (part.names, part.entries, part.reports)
}

fn names(names: &[&str]) -> Vec<OsString> {
    names.iter().map(OsString::from).collect()
}

#[test]
fn names_that_a_helper_has_are_nobody_elses() {
    let scene = Scene::new();
    scene.board.put(scene.batch(&["a", "b"]));
    let (token, given) = scene.take().unwrap();
    assert_eq!((given, scene.take(), scene.board.away()), (names(&["a", "b"]), None, 1));
    assert_eq!(scene.hear(&Reply::Done { token, entries: 2, notes: Vec::new() }), Some(Heard::Done(2)));
    assert_eq!((scene.said(), scene.board.away()), ((2, 2, Vec::new()), 0));
}

#[test]
fn what_a_helper_leaves_comes_before_what_waits() {
    let scene = Scene::new();
    scene.board.put(scene.batch(&["a", "b", "c"]));
    scene.board.put(scene.batch(&["d"]));
    let (token, _) = scene.take().unwrap();
    assert_eq!(scene.hear(&Reply::Rest { token, from: 1 }), Some(Heard::More));
    assert_eq!(scene.next(), (vec![(11, "b".into()), (12, "c".into())], false));
    assert_eq!(scene.take().unwrap().1, names(&["d"]));
    scene.hear(&Reply::Done { token, entries: 1, notes: Vec::new() }).unwrap();
    assert_eq!(scene.said(), (1, 1, Vec::new()), "the others are not done with");
}

#[test]
fn what_a_helper_cannot_open_is_for_this_process_alone() {
    let scene = Scene::new();
    scene.board.put(scene.batch(&["a"]));
    scene.board.put(scene.batch(&["b"]));
    let (token, _) = scene.take().unwrap();
    assert_eq!(scene.hear(&Reply::Cannot { token }), Some(Heard::Done(0)));
    assert_eq!((scene.next(), scene.board.away()), ((vec![(10, "a".into())], true), 0));
    assert_eq!(scene.next(), (vec![(10, "b".into())], false));
}

#[test]
fn only_what_a_helper_leaves_open_is_looked_at_again() {
    let scene = Scene::new();
    scene.board.put(scene.batch(&["a", "b", "c"]));
    let (token, _) = scene.take().unwrap();
    let notes = vec![Note { at: 1, links: None }, Note { at: 2, links: Some((77, 88)) }];
    assert_eq!(scene.hear(&Reply::Done { token, entries: 2, notes }), Some(Heard::Done(2)));
    let (done, entries, reports) = scene.said();
    assert_eq!((done, entries, scene.next()), (2, 2, (vec![(11, "b".into())], true)));
    // The device numbers of the helper say nothing here.
    let id = |side: &Side, inode| FileId::new(side.inode.id.device(), inode);
    let [(12, compared)] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!(compared.outcome.links, Some((id(&scene.sides.source, 77), id(&scene.sides.copy, 88))));
    assert_eq!(compared.copy.path(), Path::new("copy/c"));
}

#[test]
fn answers_that_cannot_be_meant_are_nothing() {
    let scene = Scene::new();
    scene.board.put(scene.batch(&["a", "b"]));
    let (token, _) = scene.take().unwrap();
    for from in [0, 2, u64::MAX] {
        assert_eq!(scene.hear(&Reply::Rest { token, from }), None, "from {from} of two names");
    }
    assert_eq!(scene.hear(&Reply::Cannot { token: token + 1 }), None, "nobody has these names");
    let notes = vec![Note { at: 2, links: None }];
    assert_eq!(scene.hear(&Reply::Done { token, entries: 2, notes }), None, "a third name");
}

#[test]
fn after_the_end_nothing_waits_and_nothing_is_heard() {
    let scene = Scene::new();
    scene.board.put(scene.batch(&["a"]));
    let (token, _) = scene.take().unwrap();
    scene.board.put(scene.batch(&["b"]));
    scene.board.close();
    assert_eq!((scene.take(), scene.board.next().is_none()), (None, true));
    assert_eq!(scene.hear(&Reply::Done { token, entries: 1, notes: Vec::new() }), Some(Heard::Done(0)));
    assert!(scene.answers.try_recv().is_err(), "it was passed on");
    // The next comparison does not take answers to this one for its own.
    scene.board.open();
    scene.board.put(scene.batch(&["c"]));
    assert_ne!(scene.take().unwrap().0, token);
}

#[test]
fn a_thread_says_what_differs_by_its_position() {
    let scene = Scene::new();
    for (name, contents) in [("source/a", "1"), ("copy/a", "1"), ("source/b", "1"), ("copy/b", "2"), ("source/c", "1")]
    {
        fs::write(scene.dir.path().join(name), contents).unwrap();
    }
    scene.board.put(scene.batch(&["a", "b"]));
    scene.board.put_for_own(scene.batch(&["c"]));
    let said = scene.work(2);
    let found = |(names, entries, reports): &Said| {
        let [(at, compared)] = &reports[..] else { panic!("{reports:?}") };
        (*names, *entries, *at, compared.outcome.differences.clone())
    };
    assert_eq!(
        found(&said[0]),
        (1, 1, 10, vec![Difference::OnlyInSource]),
        "what only this process can do comes first"
    );
    assert_eq!(found(&said[1]), (2, 2, 11, vec![Difference::Contents(0)]));
}

#[test]
fn a_thread_that_panics_says_so() {
    let scene = Scene::new();
    scene.board.put(scene.batch(&["a"]));
    let (plan, xattrs) = (Plan::default(), XattrRules::default());
    let rules = Rules {
        plan: &plan,
        xattrs: &xattrs,
        stop: &|| panic!("as if it had met something that cannot be"),
        offline: Arc::default(),
    };
    let ended = catch_unwind(AssertUnwindSafe(|| scene.board.work(&rules, scene.answer.clone())));
    assert!(ended.is_err() && matches!(scene.answers.try_recv(), Ok(Answer::Broken)));
}
