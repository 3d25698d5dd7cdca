//! For the unit tests of the walk: a walker on the two directories of a [`Bench`], and what became of whole trees.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use haul_io::tuner::Tuner;
use haul_sys::inode::{DeviceNumber, FileId};

use crate::context::RunContext;
use crate::context::test_support::{self, Bench, Ran};
use crate::links::{DestDir, LinkTable, Made, Source};
use crate::peers::PeerGroup;
use crate::plan::{Dereference, Destination, ModeRule, Plan, Preserve, Wish};
use crate::publish::Sides;
use crate::report::Session;
use crate::schedule::ordered::{EventSink, OrderedEvents};
use crate::schedule::pool::Pool;
use crate::tree::tasks;
use crate::tree::walker::Walker;
use crate::walk::{Listing, PathNode};
use crate::work::directory::{Directory, Frame};
use crate::work::entry::{Level, Subject, Top};
use crate::work::task::Task;

/// Whole trees as they are, with their modes.
pub(crate) fn plan() -> Plan {
    let preserve = Preserve { mode: ModeRule::Keep, ..Preserve::default() };
    Plan { recursive: true, dereference: Dereference::Never, preserve, ..Plan::default() }
}

/// The same of these entries of the source into the directory of the destination.
pub(crate) fn copy_into(bench: &mut Bench, operands: &[&str]) {
    bench.plan.sources = operands.iter().map(|name| bench.source_path(name).into()).collect();
    bench.plan.destination = Destination::Directory(bench.dest_path("").into());
}

/// Everything is moved with all that a filesystem keeps.
pub(crate) fn moving() -> Plan {
    let mut plan = Plan { moves: true, ..plan() };
    (plan.preserve.ownership, plan.preserve.timestamps, plan.preserve.links) = (true, true, true);
    plan.preserve.xattr = Wish::Try;
    plan
}

/// What a second thread was given, which a test does by [`do_given`].
#[derive(Default)]
pub(crate) struct Other(RefCell<VecDeque<Task>>);

impl Other {
    /// The names in the parts of directories that it was given.
    pub(crate) fn names(&self) -> Vec<OsString> {
        let mut tasks = self.0.borrow_mut();
        let names = tasks.iter_mut().flat_map(|task| match task {
            Task::Names { frame, .. } => frame.names().2.map(|listed| listed.name.clone()).collect(),
            _ => Vec::new(),
        });
        names.collect()
    }
}

/// Runs a walker that is the only one.
pub(crate) fn alone<T>(bench: &Bench, walk: impl FnOnce(&mut Walker<'_>) -> T) -> Ran<T> {
    run(bench, None, None, |walker, _| walk(walker))
}

/// Runs a walker that finds another thread idle. That is given what there is to give, and does nothing of its own accord.
pub(crate) fn beside_other<T>(bench: &Bench, walk: impl FnOnce(&mut Walker<'_>, &Other) -> T) -> Ran<T> {
    run(bench, None, Some(2), walk)
}

/// Runs a walker of one of several processes, with no other thread.
pub(crate) fn among<T>(bench: &Bench, peers: &PeerGroup<'_>, walk: impl FnOnce(&mut Walker<'_>) -> T) -> Ran<T> {
    run(bench, Some(peers), Some(1), |walker, _| walk(walker))
}

fn run<T>(
    bench: &Bench,
    peers: Option<&PeerGroup<'_>>,
    threads: Option<usize>,
    walk: impl FnOnce(&mut Walker<'_>, &Other) -> T,
) -> Ran<T> {
    let mut ran = bench.run(|worker| {
        let cx = worker.cx;
        let (ordered, first) = OrderedEvents::new();
        let pool = Pool::new(Tuner::fixed(threads.unwrap_or(1)), 8);
        let sink = EventSink::new(cx.session.observer, &ordered, Some(first), &pool);
        let session = Session { observer: &sink, ..cx.session.clone() };
        let other = Other::default();
        let spawn = |task| {
            other.0.borrow_mut().push_back(task);
            None
        };
        let mut walker = Walker::alone(RunContext { session: &session, peers, ..cx }, &sink, tasks::do_task);
        walker.pool = threads.map(|_| &pool);
        walker.spawn = &spawn;
        let value = walk(&mut walker, &other);
        assert!(other.0.borrow().is_empty(), "everything that was given away is done");
        worker.report.add(walker.worker.report);
        value
    });
    // Paths of operands, which the user has named whole.
    let whole = format!("{}/", bench.path().display());
    ran.heard.iter_mut().for_each(|line| *line = line.replace(&whole, ""));
    ran
}

/// Does what the other thread was given.
pub(crate) fn do_given(walker: &mut Walker<'_>, other: &Other) {
    let pool = walker.pool.unwrap();
    loop {
        let Some(task) = other.0.borrow_mut().pop_front() else { return };
        tasks::do_task(walker, task);
        pool.finished();
    }
}

/// The directory of the source as one that was entered, and the one of the destination, which was made for it.
pub(crate) fn entered(bench: &Bench) -> Frame {
    Frame::new(bench.full_directory().place, opened(bench), Listing::default())
}

/// The same, where the directory of the destination was there before.
pub(crate) fn found(bench: &Bench) -> Frame {
    let place = Arc::into_inner(bench.full_directory().place).unwrap();
    Frame::new(Arc::new(Directory { created: false, fresh: false, ..place }), opened(bench), Listing::default())
}

/// Both directories. What was read of them for another walk is read again.
fn opened(bench: &Bench) -> Option<Arc<Sides>> {
    let [source, dest] = [bench.source_path(""), bench.dest_path("")].map(|dir| fs::File::open(dir).unwrap().into());
    Some(Arc::new(Sides::new(source, dest, &PathNode::root(Path::new("dest")))))
}

/// Where an operand stands.
pub(crate) fn top_level(dir: &Arc<DestDir>) -> Level<'_> {
    Level { dir: Some(dir), ancestors: &[], missing: false, is_regular: false, listed: None, made: None }
}

/// Where an entry of the directory stands that is the only one of these.
pub(crate) fn level_in(ancestors: &[Frame]) -> Level<'_> {
    let [frame] = ancestors else { panic!("one directory") };
    Level { ancestors, ..top_level(&frame.place.dir) }
}

/// An entry that stands there.
pub(crate) fn at<'a>(level: &'a Level<'a>, subject: Subject<'a>) -> Subject<'a> {
    Subject { level, ..subject }
}

/// The operand that all is below.
pub(crate) fn top() -> Top {
    Top { source: "source".into(), dest: "dest".into(), into_itself: false }
}

/// Errors and warnings.
pub(crate) fn troubles<T>(ran: &Ran<T>) -> Vec<&str> {
    let is_trouble = |line: &&str| line.starts_with("error: ") || line.starts_with("warning: ");
    ran.heard.iter().map(String::as_str).filter(is_trouble).collect()
}

/// Lets every question to the table of links fail from here on: what it cannot hold in memory has no place to go to.
pub(crate) fn break_links(bench: &mut Bench) {
    bench.services.links = LinkTable::new(1);
    let nowhere = Arc::new(fs::File::open("/proc").unwrap().into());
    let dir = DestDir::root_shown_as(nowhere, "/proc/".into()).unwrap();
    let made = || Made { dir: Arc::clone(&dir), name: "made".into(), id: None };
    let source = |inode| Source { id: FileId::new(DeviceNumber { major: 0, minor: 0 }, inode), born: None };
    let links = &bench.services.links;
    assert!((1..1000).any(|inode| links.remember(source(inode), made).is_err()), "there is a place for everything");
}

/// Every entry of a tree below its root, in the order of paths: `PATH: CONTENTS`, `PATH -> TEXT` of a symbolic link,
/// `PATH/ MODE` of a directory.
pub(crate) fn whole_tree(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    add_tree(root, "", &mut found);
    found
}

fn add_tree(dir: &Path, before: &str, found: &mut Vec<String>) {
    for line in test_support::tree(dir) {
        let Some(name) = line.strip_suffix('/') else {
            found.push(format!("{before}{line}"));
            continue;
        };
        let below = dir.join(name);
        found.push(format!("{before}{line} {:03o}", mode_of(&below)));
        add_tree(&below, &format!("{before}{line}"), found);
    }
}

pub(crate) fn mode_of(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Makes a directory of this mode.
pub(crate) fn make_dir(path: impl AsRef<Path>, mode: u32) {
    fs::create_dir(&path).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}
