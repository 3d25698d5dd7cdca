//! A comparison whose names other processes look at, too: what it says does not depend on them.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use haul_copy::compare::{Board, Found, Heard, Helper, Observer, Session, Summary, compare};
use haul_copy::error::Error;
use haul_copy::meta::XattrRules;
use haul_copy::plan::{Destination, ModeRule, Plan};
use haul_testbed::temp_dir;

/// Writes down what it hears.
#[derive(Default)]
struct Record(RefCell<Vec<String>>);

impl Observer for Record {
    fn differs(&self, found: &Found) {
        self.0.borrow_mut().push(format!("{found:?}"));
    }

    fn problem(&self, error: &Error) {
        self.0.borrow_mut().push(error.to_string());
    }
}

fn plan(dir: &Path) -> Plan {
    let mut plan = Plan {
        sources: vec![dir.join("source").into()],
        destination: Destination::Exactly(dir.join("copy").into()),
        recursive: true,
        jobs: Some(1),
        ..Plan::default()
    };
    plan.preserve.mode = ModeRule::Keep;
    plan.preserve.links = true;
    plan
}

/// What one process says.
fn alone(plan: &Plan) -> (Summary, Vec<String>) {
    let (heard, rules) = (Record::default(), XattrRules::default());
    let session = Session { observer: &heard, rules: &rules, stop: &|| false, board: None };
    (compare(plan, &session), heard.0.into_inner())
}

/// Lets nobody wait for a helper that has panicked.
struct Alarm<'a>(&'a AtomicU64);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(u64::MAX / 2, Ordering::Release);
        }
    }
}

/// What is said when the only thread of the process waits at its first name until helpers have compared so many entries, or
/// have left something to others; that name is a directory, which is not for helpers. Also how many entries helpers have
/// compared, and how often they left something.
fn together(plan: &Plan, helpers: usize, enough: u64) -> (Summary, Vec<String>, u64, u64) {
    let (heard, rules, board) = (Record::default(), XattrRules::default(), Board::new());
    let (done, more, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let walker = thread::current().id();
    let hold = || {
        while thread::current().id() != walker && done.load(Ordering::Acquire) + more.load(Ordering::Acquire) < enough {
            thread::yield_now();
        }
        false
    };
    let help = || {
        let _alarm = Alarm(&done);
        let mut helper = Helper::new(plan, &rules, &|| false);
        while !over.load(Ordering::Acquire) {
            let Some(unit) = board.take() else {
                thread::yield_now();
                continue;
            };
            let understood = helper.compare(&unit, &mut |message| match board.hear(&message) {
                Some(Heard::More) => _ = more.fetch_add(1, Ordering::AcqRel),
                Some(Heard::Done(entries)) => _ = done.fetch_add(entries, Ordering::AcqRel),
                None => panic!("a helper makes no sense"),
            });
            assert_eq!(understood, Some(()));
        }
    };
    let summary = thread::scope(|scope| {
        (0..helpers).for_each(|_| _ = scope.spawn(help));
        let session = Session { observer: &heard, rules: &rules, stop: &hold, board: Some(&board) };
        let summary = compare(plan, &session);
        over.store(true, Ordering::Release);
        summary
    });
    (summary, heard.0.into_inner(), done.into_inner(), more.into_inner())
}

/// Two trees of 40 directories with 50 files each, and a difference here and there.
fn trees(dir: &Path) {
    for tree in ["source", "copy"] {
        for inner in 0..40 {
            let inner = dir.join(tree).join(format!("{inner:02}"));
            fs::create_dir_all(&inner).expect("a directory");
            for file in 0..50 {
                fs::write(inner.join(format!("{file:02}")), format!("{file}")).expect("a file");
            }
        }
    }
    for (at, name) in ["00/07", "13/49", "26/00", "39/20"].into_iter().enumerate() {
        let copy = dir.join("copy").join(name);
        match at {
            0 => fs::remove_file(copy).expect("it is there"),
            1 => fs::write(copy, "other").expect("it is ours"),
            2 => fs::set_permissions(copy, Permissions::from_mode(0o777)).expect("it is ours"),
            _ => fs::write(dir.join("copy/39/more"), "more").expect("it is ours"),
        }
    }
    for (one, other) in [("00/01", "39/link"), ("05/01", "05/02")] {
        for tree in ["source", "copy"] {
            let (one, other) = (dir.join(tree).join(one), dir.join(tree).join(other));
            fs::remove_file(&other).unwrap_or_default();
            fs::hard_link(one, other).expect("a link");
        }
    }
    fs::remove_file(dir.join("copy/39/link")).expect("it is there");
    fs::write(dir.join("copy/39/link"), "1").expect("a file");
}

#[test]
fn what_helpers_find_is_reported_as_by_one_process() {
    let dir = temp_dir();
    trees(dir.path());
    let plan = plan(dir.path());
    let (summary, said) = alone(&plan);
    assert!(said.len() >= 5 && said.iter().any(|line| line.contains("NotLinked")), "{said:?}");
    for helpers in [1, 3] {
        let (together, heard, done, _) = together(&plan, helpers, 1000);
        assert_eq!((together, &heard), (summary, &said));
        assert!((1000..=summary.entries).contains(&done), "helpers have compared {done} of {}", summary.entries);
    }
}

#[test]
fn a_helper_that_reads_much_leaves_the_rest_of_its_names_to_others() {
    let dir = temp_dir();
    for tree in ["source/a", "source/b", "copy/a", "copy/b"] {
        fs::create_dir_all(dir.path().join(tree)).expect("a directory");
        for file in 0..6 {
            let file = File::create(dir.path().join(tree).join(file.to_string())).expect("a file");
            file.set_len(65 << 20).expect("there is room for a hole");
        }
    }
    fs::write(dir.path().join("copy/b/4"), "small").expect("a file");
    let plan = plan(dir.path());
    let (summary, said) = alone(&plan);
    assert_eq!((summary.entries, said.len()), (15, 1));
    let (together, heard, _, left) = together(&plan, 2, 1);
    assert_eq!((together, heard), (summary, said));
    assert!((1..=10).contains(&left), "helpers have left names to others {left} times");
}

#[test]
fn what_helpers_cannot_open_is_compared_without_them() {
    let dir = temp_dir();
    trees(dir.path());
    let plan = plan(dir.path());
    let (summary, said) = alone(&plan);
    let (heard, rules, board) = (Record::default(), XattrRules::default(), Board::new());
    let (over, refused) = (AtomicBool::new(false), AtomicU64::new(0));
    let walker = thread::current().id();
    let hold = || {
        while thread::current().id() != walker && refused.load(Ordering::Acquire) < 10 {
            thread::yield_now();
        }
        false
    };
    let help = || {
        let mut helper = Helper::new(&plan, &rules, &|| false);
        while !over.load(Ordering::Acquire) {
            let Some(mut unit) = board.take() else {
                thread::yield_now();
                continue;
            };
            // The first letter of the path of the source, which no byte before it can be mistaken for.
            let path = dir.path().as_os_str().as_bytes();
            let at = unit.windows(path.len()).position(|bytes| bytes == path).expect("it names the source");
            unit[at] = b'?';
            helper.compare(&unit, &mut |message| {
                assert_eq!(board.hear(&message), Some(Heard::Done(0)));
                refused.fetch_add(1, Ordering::AcqRel);
            });
        }
    };
    let together = thread::scope(|scope| {
        scope.spawn(help);
        let session = Session { observer: &heard, rules: &rules, stop: &hold, board: Some(&board) };
        let summary = compare(&plan, &session);
        over.store(true, Ordering::Release);
        summary
    });
    assert_eq!((together, heard.0.into_inner()), (summary, said));
    assert!(refused.into_inner() >= 10);
}

#[test]
fn what_makes_no_sense_is_nothing() {
    let (plan, rules, board) = (Plan::default(), XattrRules::default(), Board::new());
    let mut helper = Helper::new(&plan, &rules, &|| false);
    assert_eq!(helper.compare(b"nonsense", &mut |_| panic!("it says something")), None);
    assert_eq!((board.take(), board.hear(b"\x09nonsense"), board.hear(b"")), (None, None, None));
    // Of names that nobody was given.
    assert_eq!(board.hear(b"\x01\x01\0\0\0\0\0\0\0"), None);
}

#[test]
fn a_thread_that_panics_is_not_waited_for() {
    let dir = temp_dir();
    trees(dir.path());
    let (plan, rules, board) = (plan(dir.path()), XattrRules::default(), Board::new());
    let walker = thread::current().id();
    let panics = || {
        assert!(thread::current().id() == walker, "as if it had met something that cannot be");
        false
    };
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let heard = Record::default();
        compare(&plan, &Session { observer: &heard, rules: &rules, stop: &panics, board: Some(&board) })
    }));
    assert!(ended.is_err(), "nothing was reported");
    assert_eq!(board.take(), None, "names wait for a comparison that is over");
}
