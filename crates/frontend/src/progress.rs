//! How far a run is, for people who wait.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use haul_copy::Wanted;
use haul_copy::events::{Event, Stage};
use haul_copy::plan::{Dereference, DoneWhen, LinkMode, Plan, SpecialFiles};
use haul_copy::walk::{Descent, Entered, Operand, PathCursor, path_below};
use haul_sys::inode::{DeviceNumber, FileId, Inode, Kind};

use crate::bar::{Moment, Phase, Rate, Speed, Totals, numbers};
use crate::json;
use crate::quote::Quoter;

/// Runs that take less time than this show no bar.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// What has been done so far. Counted by the threads that copy, read by the one that draws.
#[derive(Debug)]
pub struct Progress {
    started: Instant,
    done_when: DoneWhen,
    /// Bytes that are at the destination.
    moved: AtomicU64,
    /// Those of them that nobody had to move.
    spared: AtomicU64,
    /// Bytes that are as the plan asks for.
    secured: AtomicU64,
    entries: AtomicU64,
    deleted: AtomicU64,
    /// What a thread did last besides copying, and how many bytes were moved and entries begun then.
    aside: Mutex<Option<(Phase, (u64, u64))>>,
    current: Mutex<PathBuf>,
    totals: OnceLock<Totals>,
}

impl Progress {
    /// That of a run whose bytes count as done then.
    pub(crate) fn new(done_when: DoneWhen) -> Progress {
        Progress {
            started: Instant::now(),
            done_when,
            moved: AtomicU64::new(0),
            spared: AtomicU64::new(0),
            secured: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
            aside: Mutex::default(),
            current: Mutex::new(PathBuf::new()),
            totals: OnceLock::new(),
        }
    }

    /// So many more bytes and entries are done, all of it somewhere else.
    pub fn add(&self, bytes: u64, entries: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        self.secured.fetch_add(bytes, Ordering::Relaxed);
        self.entries.fetch_add(entries, Ordering::Relaxed);
    }

    /// Bytes and entries that are done.
    pub fn done(&self) -> (u64, u64) {
        self.moved_and_done().1
    }

    /// Bytes and entries that there are, if that is known by now.
    pub fn totals(&self) -> Option<(u64, u64)> {
        self.totals.get().map(|totals| (totals.bytes, totals.entries))
    }

    /// Bytes that are at the destination; bytes and entries that are done.
    fn moved_and_done(&self) -> (u64, (u64, u64)) {
        let (moved, entries) = (self.moved.load(Ordering::Relaxed), self.entries.load(Ordering::Relaxed));
        let bytes = if self.done_when == DoneWhen::Written { moved } else { self.secured.load(Ordering::Relaxed) };
        (moved, (bytes, entries))
    }

    /// Takes in what happens in the run.
    pub(crate) fn hear(&self, event: &Event<'_>) {
        let add = |to: &AtomicU64, more: u64| {
            to.fetch_add(more, Ordering::Relaxed);
        };
        match event {
            Event::Listed { entries, bytes } => self.expect(Totals { bytes: *bytes, entries: *entries }),
            Event::Copying { source, .. } => {
                add(&self.entries, 1);
                self.set_current(source);
            }
            Event::Skipped(..) | Event::Renamed { .. } => add(&self.entries, 1),
            Event::Progress(more) => add(&self.moved, more.total()),
            Event::Spared { bytes, whole } => {
                add(&self.moved, *bytes);
                add(&self.spared, *bytes);
                add(&self.secured, if *whole { *bytes } else { 0 });
            }
            Event::Secured(bytes) => add(&self.secured, *bytes),
            Event::Stage(Stage::Syncing) => self.set_aside(Phase::Syncing),
            Event::Stage(Stage::Comparing) => self.set_aside(Phase::Verifying),
            Event::Deleted { .. } | Event::SourceRemoved { .. } => {
                add(&self.deleted, 1);
                self.set_aside(Phase::Deleting);
            }
            _ => {}
        }
    }

    /// A thread does something besides copying.
    fn set_aside(&self, phase: Phase) {
        let then = (self.moved.load(Ordering::Relaxed), self.entries.load(Ordering::Relaxed));
        *lock(&self.aside) = Some((phase, then));
    }

    /// This file is being copied now.
    fn set_current(&self, path: &Path) {
        let mut current = lock(&self.current);
        // Keeps the allocation of the name before.
        current.as_mut_os_string().clear();
        current.as_mut_os_string().push(path);
    }

    /// Counts what there is to do, unless the run knows it; from then on the bar knows the time left.
    pub fn count(&self, plan: &Plan, skip_files: &[FileId], stop: &dyn Fn() -> bool) {
        if let Some(totals) = count(plan, skip_files, stop) {
            self.expect(totals);
        }
    }

    /// So much there is to do.
    fn expect(&self, totals: Totals) {
        self.totals.get_or_init(|| totals);
    }

    /// How far it is now.
    pub(crate) fn moment(&self) -> Moment {
        let (moved, (bytes, entries)) = self.moved_and_done();
        let spared = self.spared.load(Ordering::Relaxed);
        // A guess that has proved too low is none.
        let all = self.totals.get().filter(|all| all.bytes >= moved.max(bytes) && all.entries >= entries).copied();
        let is_moved = all.is_some_and(|all| moved >= all.bytes && bytes < all.bytes);
        // Where others go on to copy, that is what the run does.
        let aside = lock(&self.aside).filter(|(_, then)| *then == (moved, entries)).map(|(phase, _)| phase);
        let phase = match aside {
            Some(phase) => phase,
            None if entries == 0 && moved == 0 => Phase::Scanning,
            None if is_moved && self.done_when == DoneWhen::Compared => Phase::Verifying,
            None => Phase::Copying,
        };
        let in_bursts = self.done_when != DoneWhen::Written;
        let deleted = self.deleted.load(Ordering::Relaxed);
        Moment { phase, done: Totals { bytes, entries }, moved, spared, deleted, in_bursts, all }
    }

    /// How fast it is, and how long it will take.
    pub(crate) fn speed(&self, moment: &Moment, rate: &mut Rate) -> Speed {
        rate.update(self.started.elapsed(), moment)
    }

    /// The same for programs.
    pub(crate) fn json(&self, rate: &mut Rate) -> String {
        let moment = self.moment();
        json::progress(self.started.elapsed(), &moment, &self.speed(&moment, rate))
    }

    /// A line of at most so many columns.
    pub fn line(&self, rate: &mut Rate, quoter: &Quoter, columns: usize) -> Vec<u8> {
        let moment = self.moment();
        let mut line = numbers(&moment, &self.speed(&moment, rate), columns).into_bytes();
        let room = columns.saturating_sub(line.len() + 2);
        let current = lock(&self.current);
        if room >= 8 && !current.as_os_str().is_empty() {
            line.extend(b"  ");
            line.extend(quoter.tail(current.as_os_str().as_bytes(), room));
        }
        line
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while it was held can have cost a name, no more.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Files of several names that are remembered while counting. Whoever has more gets no forecast.
const MOST_LINKED: usize = 100_000;

/// Counts the sources of a plan by the rules of the run, nearly: it is a forecast. `None` if there can be none.
fn count(plan: &Plan, skip_files: &[FileId], stop: &dyn Fn() -> bool) -> Option<Totals> {
    // Through links there may be loops, which only the run itself can distinguish from what is wanted.
    if plan.recursive && plan.dereference == Dereference::Always {
        return None;
    }
    // The run lists these itself, and says how much there is.
    if plan.names.is_some() || plan.list.is_some() || plan.shard.is_some() {
        return None;
    }
    let wanted = Wanted::new(plan, skip_files);
    let mut counter = Counter { plan, wanted, stop, totals: Totals::default(), linked: HashSet::new() };
    plan.sources.iter().try_for_each(|source| counter.operand(source))?;
    Some(counter.totals)
}

struct Counter<'a> {
    plan: &'a Plan,
    wanted: Wanted<'a>,
    stop: &'a dyn Fn() -> bool,
    totals: Totals,
    linked: HashSet<FileId>,
}

impl Counter<'_> {
    /// `None`: there will be no forecast. What cannot be looked at or read is not copied either.
    fn operand(&mut self, source: &OsStr) -> Option<()> {
        let follow = self.plan.dereference != Dereference::Never;
        let operand = Operand::open(source);
        let spot = operand.spot();
        let found = if follow { spot.inode_following() } else { spot.inode() };
        let Ok(found) = found else { return Some(()) };
        if !self.wanted.operand(&found) {
            return Some(());
        }
        self.add(&found)?;
        if !self.wanted.contents(&found, None) {
            return Some(());
        }
        let Ok(top) = Entered::open(spot, follow, None, ()) else { return Some(()) };
        self.tree(top, spot.path, found.id.device())
    }

    /// Counts what is in a directory and below it.
    fn tree(&mut self, top: Entered<()>, operand: &Path, device: DeviceNumber) -> Option<()> {
        let (mut cursor, wanted) = (PathCursor::default(), self.wanted);
        // The copy itself may need all other descriptors.
        let mut descent = Descent::new(1);
        let enter = |descent: &mut Descent<Entered<()>>, mut level: Entered<()>| {
            if wanted.excludes_caches() {
                level.leave_cache_out();
            }
            descent.enter(level);
        };
        enter(&mut descent, top);
        while let Some(level) = descent.innermost() {
            let Ok(Some(listed)) = level.next_name() else {
                // Of directories that were moved meanwhile, the rest is not counted.
                drop(descent.leave());
                continue;
            };
            if (self.stop)() {
                return None;
            }
            let spot = level.spot(&listed.name, Path::new(""));
            let Ok(inode) = spot.inode() else { continue };
            let dir = level.path();
            if wanted.below(&inode, &listed.name, || path_below(operand, cursor.entry(dir, &listed.name))).excluded {
                continue;
            }
            self.add(&inode)?;
            if wanted.contents(&inode, Some(device))
                && let Ok(next) = Entered::open(spot, false, Some(level.path()), ())
            {
                enter(&mut descent, next);
            }
        }
        Some(())
    }

    fn add(&mut self, inode: &Inode) -> Option<()> {
        if !self.wanted.entry(inode) {
            return Some(());
        }
        let has_end = matches!(inode.kind, Kind::Regular | Kind::Directory | Kind::SymbolicLink | Kind::Socket);
        if !has_end && (!self.plan.recursive || self.plan.special_files == SpecialFiles::Contents) {
            // What comes out of a FIFO or a device is copied, and nobody knows how much that is.
            return None;
        }
        self.totals.entries += 1;
        let known = inode.kind != Kind::Directory && inode.links > 1 && !self.linked.insert(inode.id);
        let moves_contents = self.plan.link == LinkMode::Copy && !self.plan.attributes_only;
        if inode.kind == Kind::Regular && moves_contents && !(known && self.plan.preserve.links) {
            self.totals.bytes += inode.size;
        }
        (self.linked.len() <= MOST_LINKED).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use haul_copy::filter::{Choice, Filter, Rule};
    use haul_copy::list::Names;
    use haul_sys::rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};

    use super::*;
    use std::fs;
    use std::os::fd::AsFd;

    use haul_io::moved::Moved;

    /// Bytes that are done, and the phase, after these events and so many bytes in all.
    fn after(done_when: DoneWhen, all: u64, events: &[Event<'static>]) -> (u64, Phase) {
        let progress = Progress::new(done_when);
        progress.expect(Totals { bytes: all, entries: 9 });
        events.iter().for_each(|event| progress.hear(event));
        let moment = progress.moment();
        (moment.done.bytes, moment.phase)
    }

    fn moved(bytes: u64) -> Event<'static> {
        Event::Progress(Moved { written: bytes, ..Moved::default() })
    }

    #[test]
    fn bytes_count_as_done_when_the_plan_has_what_it_asks_for() {
        use Phase::{Copying, Scanning, Syncing, Verifying};
        let (syncing, comparing) = (Event::Stage(Stage::Syncing), Event::Stage(Stage::Comparing));
        let secured = Event::Secured(60);
        for (done_when, events, expected) in [
            (DoneWhen::Written, vec![], (0, Scanning)),
            (DoneWhen::Written, vec![moved(100)], (100, Copying)),
            (DoneWhen::Flushed, vec![moved(100)], (0, Copying)),
            (DoneWhen::Flushed, vec![moved(100), syncing.clone()], (0, Syncing)),
            (DoneWhen::Synced, vec![moved(70), secured.clone()], (60, Copying)),
            (DoneWhen::Synced, vec![moved(70), syncing.clone(), moved(1)], (0, Copying)),
            (DoneWhen::Synced, vec![moved(70), comparing.clone(), moved(1)], (0, Copying)),
            (DoneWhen::Synced, vec![moved(100), syncing.clone(), comparing, secured.clone()], (60, Verifying)),
            (DoneWhen::Compared, vec![moved(70), secured.clone()], (60, Copying)),
            (DoneWhen::Compared, vec![moved(100), secured], (60, Verifying)),
        ] {
            assert_eq!(after(done_when, 100, &events), expected, "{done_when:?} {events:?}");
        }
    }

    #[test]
    fn a_run_deletes_until_it_copies_again() {
        let path = || Path::new("copy").into();
        let deleted = Event::Deleted { path: path(), directory: false };
        let removed = Event::SourceRemoved { source: path(), directory: false };
        let (kind, size) = (Kind::Regular, 1);
        let begun = Event::Copying { source: path(), dest: path(), backup: None, kind, size, reason: None };
        for (events, expected) in [
            (vec![deleted.clone()], (Phase::Deleting, 1)),
            (vec![moved(100), deleted.clone(), removed.clone()], (Phase::Deleting, 2)),
            (vec![deleted.clone(), begun.clone()], (Phase::Copying, 1)),
            (vec![begun, deleted, moved(1)], (Phase::Copying, 1)),
        ] {
            let progress = Progress::new(DoneWhen::Written);
            events.iter().for_each(|event| progress.hear(event));
            let moment = progress.moment();
            assert_eq!((moment.phase, moment.deleted), expected, "{events:?}");
        }
    }

    #[test]
    fn bytes_of_an_earlier_run_count_from_the_start() {
        let whole = Event::Spared { bytes: 60, whole: true };
        let beginning = Event::Spared { bytes: 30, whole: false };
        let events = [whole, beginning, moved(10)];
        assert_eq!(after(DoneWhen::Synced, 100, &events).0, 60);
        assert_eq!(after(DoneWhen::Written, 100, &events).0, 100);
    }

    #[test]
    fn a_total_that_is_too_low_is_none() {
        let progress = Progress::new(DoneWhen::Written);
        progress.expect(Totals { bytes: 5, entries: 1 });
        assert!(progress.moment().all.is_some());
        progress.hear(&moved(6));
        assert_eq!(progress.moment().all, None);
    }

    fn plan(source: &Path) -> Plan {
        Plan { sources: vec![source.into()], recursive: true, dereference: Dereference::Never, ..Plan::default() }
    }

    #[test]
    fn everything_below_the_sources_is_counted_files_of_several_names_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let deep = dir.path().join("s/one/two");
        fs::create_dir_all(&deep).expect("directories");
        fs::write(deep.join("file"), "12345").expect("a file");
        fs::hard_link(deep.join("file"), dir.path().join("s/other")).expect("a link");
        let mut plan = plan(&dir.path().join("s"));
        assert_eq!(count(&plan, &[], &|| false), Some(Totals { bytes: 10, entries: 5 }));
        plan.preserve.links = true;
        assert_eq!(count(&plan, &[], &|| false), Some(Totals { bytes: 5, entries: 5 }));
        assert_eq!(count(&plan, &[], &|| true), None);
    }

    #[test]
    fn what_the_run_leaves_out_is_not_counted() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "12345").expect("a file");
        fs::write(path("list"), "123").expect("a file");
        let list = Inode::of(fs::File::open(path("list")).expect("it is there").as_fd()).expect("it is open").id;
        let expected = Some(Totals { bytes: 5, entries: 2 });
        assert_eq!(count(&plan(dir.path()), &[list], &|| false), expected);
        let operands = Plan { sources: vec![path("file").into(), path("list").into()], ..Plan::default() };
        assert_eq!(count(&operands, &[list], &|| false), Some(Totals { bytes: 5, entries: 1 }));
        let not_recursive = Plan { recursive: false, ..plan(dir.path()) };
        assert_eq!(count(&not_recursive, &[], &|| false), Some(Totals::default()));
    }

    #[test]
    fn nobody_knows_how_much_comes_out_of_a_fifo() {
        let dir = tempfile::tempdir().expect("a directory");
        let fifo = dir.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).expect("a FIFO");
        let contents = |recursive| Plan { recursive, special_files: SpecialFiles::Contents, ..plan(&fifo) };
        assert_eq!(count(&contents(false), &[], &|| false), None);
        assert_eq!(count(&contents(true), &[], &|| false), None);
        assert_eq!(count(&plan(&fifo), &[], &|| false), Some(Totals { bytes: 0, entries: 1 }), "it is made");
    }

    #[test]
    fn what_the_run_has_listed_is_not_counted_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let names = Names::parse(b"none", b'\n', true).expect("names").into();
        assert_eq!(count(&Plan { names: Some(names), ..plan(dir.path()) }, &[], &|| false), None);
        assert_eq!(count(&Plan { list: Some(Default::default()), ..plan(dir.path()) }, &[], &|| false), None);
    }

    #[test]
    fn the_forecast_is_of_what_the_filters_leave() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join("s").join(name);
        for name in ["one/two", "cache", "no"] {
            fs::create_dir_all(path(name)).expect("directories");
        }
        fs::write(path("cache/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55").expect("a file");
        for name in ["a.o", "one/two/a.c", "one/a.c", "cache/data", "no/x", "one/two/long"] {
            fs::write(path(name), name).expect("a file");
        }
        let rules = ["*.o", "/one/*.c", "no/"].map(Rule::exclude).into();
        let choice = Choice { rules, exclude_caches: true, max_size: Some(43), ..Choice::default() };
        let plan = Plan { filter: Filter::new(choice).expect("patterns"), ..plan(&dir.path().join("s/")) };
        // s, one, one/two with two files, cache with its tag.
        let bytes = ("one/two/a.c".len() + "one/two/long".len() + 43) as u64;
        assert_eq!(count(&plan, &[], &|| false), Some(Totals { bytes, entries: 7 }));
    }

    #[test]
    fn a_directory_swapped_for_a_link_while_counting_does_not_lead_out_of_the_source() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("s/dir")).expect("directories");
        fs::create_dir(path("outside")).expect("a directory");
        for number in 0..50 {
            fs::write(path("outside").join(number.to_string()), "").expect("a file");
        }
        std::os::unix::fs::symlink(path("outside"), path("s/link")).expect("a link");
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let (one, other) = (path("s/dir"), path("s/link"));
                    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).expect("both are there");
                }
            });
            let most = (0..3000).filter_map(|_| count(&plan(&path("s")), &[], &|| false)).map(|all| all.entries).max();
            over.store(true, Ordering::Relaxed);
            // The directory and both of its entries; one may be met twice, under its old and its new name.
            assert!(most.is_some_and(|most| most < 10), "{most:?}");
        });
    }

    #[test]
    fn a_line_fits_the_terminal() {
        let quoter = Quoter::from_environment();
        let progress = Progress::new(DoneWhen::Written);
        progress.set_current(Path::new("a/long/name/of/a/file\nwith a line break"));
        for columns in [0, 10, 40, 80] {
            let line = progress.line(&mut Rate::default(), &quoter, columns);
            assert!(line.len() <= columns, "{columns}: {line:?}");
            assert!(!line.contains(&b'\n'));
        }
    }
}
