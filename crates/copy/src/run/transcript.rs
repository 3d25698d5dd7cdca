//! Messages of many threads in the order of a serial copy.
//!
//! The transcript is a row of passages in the order in which one thread would have written them. Each passage has one
//! writer. The first one is live: its events go to the observer at once. Those of the others are held back until every
//! passage before them is closed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::Error;
use crate::events::{DataReport, Event, HoleSearch, Observer, Tried};
use crate::images::ImageReport;
use crate::moved::Moved;
use crate::plan::profile::Setting;

/// Bytes held back (about) from which on writers of later passages wait for the first one.
const ENOUGH: usize = 4 << 20;

/// A passage, for its one writer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passage(usize);

/// The row of passages.
pub(super) struct Transcript {
    row: Mutex<Row>,
    /// Bytes held back, about.
    held: AtomicUsize,
}

struct Row {
    slots: Vec<Slot>,
    free: Vec<usize>,
    first: usize,
}

#[derive(Default)]
struct Slot {
    before: Option<usize>,
    next: Option<usize>,
    closed: bool,
    held: Vec<Held>,
}

impl Transcript {
    /// A transcript of one passage.
    pub fn new() -> (Transcript, Passage) {
        let row = Row { slots: vec![Slot::default()], free: Vec::new(), first: 0 };
        (Transcript { row: Mutex::new(row), held: AtomicUsize::new(0) }, Passage(0))
    }

    /// A new passage right behind this one.
    pub fn insert_after(&self, passage: &Passage) -> Passage {
        let mut row = self.lock();
        let next = row.slots[passage.0].next;
        let slot = Slot { before: Some(passage.0), next, ..Slot::default() };
        let new = match row.free.pop() {
            Some(free) => {
                row.slots[free] = slot;
                free
            }
            None => {
                row.slots.push(slot);
                row.slots.len() - 1
            }
        };
        row.slots[passage.0].next = Some(new);
        if let Some(next) = next {
            row.slots[next].before = Some(new);
        }
        Passage(new)
    }

    /// Nothing more comes in this passage. If it was the live one, what the next ones held back is told now.
    pub fn close(&self, passage: Passage, observer: &dyn Observer) {
        let mut row = self.lock();
        row.slots[passage.0].closed = true;
        if row.first != passage.0 {
            row.join_to_earlier(passage.0);
            return;
        }
        while row.slots[row.first].closed {
            let done = row.first;
            // The last passage stays, for whoever writes next.
            let Some(next) = row.slots[done].next else { return };
            row.slots[done] = Slot::default();
            row.free.push(done);
            row.first = next;
            row.slots[next].before = None;
            for held in std::mem::take(&mut row.slots[next].held) {
                self.held.fetch_sub(held.size(), Ordering::Relaxed);
                held.tell(observer);
            }
        }
    }

    /// Tells the observer, now or when its turn comes.
    pub fn tell(&self, passage: &Passage, event: &Event<'_>, observer: &dyn Observer) {
        let mut row = self.lock();
        if row.first == passage.0 {
            observer.event(event);
        } else if let Some(held) = Held::of(event) {
            self.held.fetch_add(held.size(), Ordering::Relaxed);
            row.slots[passage.0].held.push(held);
        }
    }

    /// Whether so much is held back that the writer of this passage should wait for those before it.
    pub fn is_too_far_ahead(&self, passage: &Passage) -> bool {
        self.held.load(Ordering::Relaxed) > ENOUGH && self.lock().first != passage.0
    }

    fn lock(&self) -> MutexGuard<'_, Row> {
        // No step in between leaves the row inconsistent, and an observer that panics has lost its output anyway.
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Row {
    /// A closed passage that is empty, or comes right after another closed one, need not stay: their number is bounded by
    /// that of the open ones and of what is held back, not by what was copied.
    fn join_to_earlier(&mut self, passage: usize) {
        let Some(before) = self.slots[passage].before else { return };
        let mut held = std::mem::take(&mut self.slots[passage].held);
        if !held.is_empty() && !self.slots[before].closed {
            self.slots[passage].held = held;
            return;
        }
        self.slots[before].held.append(&mut held);
        let next = self.slots[passage].next;
        self.slots[before].next = next;
        if let Some(next) = next {
            self.slots[next].before = Some(before);
        }
        self.slots[passage] = Slot::default();
        self.free.push(passage);
    }
}

/// Counts the bytes that a thread moves.
pub(super) trait Meter: Sync {
    /// So many more.
    fn count(&self, bytes: u64);
}

/// One thread's way to the observer.
pub(super) struct Voice<'a> {
    observer: &'a dyn Observer,
    meter: Option<&'a dyn Meter>,
    transcript: Option<&'a Transcript>,
    passage: Mutex<Option<Passage>>,
}

impl<'a> Voice<'a> {
    /// A way that leads through the transcript.
    pub fn new(
        observer: &'a dyn Observer,
        transcript: &'a Transcript,
        passage: Option<Passage>,
        meter: &'a dyn Meter,
    ) -> Voice<'a> {
        Voice { observer, meter: Some(meter), transcript: Some(transcript), passage: Mutex::new(passage) }
    }

    /// The straight way, where there is one thread only.
    pub fn direct(observer: &'a dyn Observer) -> Voice<'a> {
        Voice { observer, meter: None, transcript: None, passage: Mutex::new(None) }
    }

    /// Goes on in another passage; the current one is closed.
    pub fn switch_to(&self, passage: Option<Passage>) {
        self.close(self.enter(passage));
    }

    /// Goes on in another passage and returns the current one, which stays open.
    pub fn enter(&self, passage: Option<Passage>) -> Option<Passage> {
        std::mem::replace(&mut *self.passage(), passage)
    }

    /// Nothing more comes in this passage.
    pub fn close(&self, passage: Option<Passage>) {
        if let (Some(transcript), Some(passage)) = (self.transcript, passage) {
            transcript.close(passage, self.observer);
        }
    }

    /// A new passage behind the current one.
    pub fn insert_after_current(&self) -> Option<Passage> {
        Some(self.transcript?.insert_after(self.passage().as_ref()?))
    }

    /// A new passage behind another one.
    pub fn insert_after(&self, passage: &Passage) -> Option<Passage> {
        Some(self.transcript?.insert_after(passage))
    }

    /// Goes on in a new passage behind the current one, and returns that, still open.
    pub fn split_current(&self) -> Option<Passage> {
        let behind = self.insert_after_current();
        self.enter(behind)
    }

    pub fn is_too_far_ahead(&self) -> bool {
        let (Some(transcript), Some(passage)) = (self.transcript, &*self.passage()) else { return false };
        transcript.is_too_far_ahead(passage)
    }

    fn passage(&self) -> MutexGuard<'_, Option<Passage>> {
        self.passage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Voice<'_> {
    fn event(&self, event: &Event<'_>) {
        if let (Event::Progress(moved), Some(meter)) = (event, self.meter) {
            meter.count(moved.total());
        }
        let in_order = match event {
            // Counters and the name on the progress bar know no order.
            Event::Progress(_) | Event::DataStarted { .. } => false,
            Event::Problem(_) | Event::Warning(_) => true,
            _ => self.observer.in_order(),
        };
        match (self.transcript.filter(|_| in_order), in_order.then(|| self.passage()).as_deref()) {
            (Some(transcript), Some(Some(passage))) => transcript.tell(passage, event, self.observer),
            _ => self.observer.event(event),
        }
    }

    fn in_order(&self) -> bool {
        self.observer.in_order()
    }
}

/// An event with everything that it refers to.
enum Held {
    Copying { source: PathBuf, dest: PathBuf, backup: Option<PathBuf> },
    Removed(PathBuf),
    UnBackedUp { backup: PathBuf, dest: PathBuf },
    ParentMade { source: PathBuf, dest: PathBuf },
    Skipped(PathBuf),
    Digest { dest: PathBuf, digest: String },
    DataDone(Box<Report>),
    Problem(Error),
    Warning(Error),
}

struct Report {
    source: PathBuf,
    dest: PathBuf,
    reasons: Vec<&'static str>,
    profile: Option<(Setting, String)>,
    tried: Vec<Tried>,
    holes: HoleSearch,
    moved: Moved,
    workers: usize,
    time: Duration,
    image: Option<ImageReport>,
}

impl Held {
    fn of(event: &Event<'_>) -> Option<Held> {
        let owned = |path: &Path| path.to_owned();
        Some(match event {
            Event::Copying { source, dest, backup } => {
                Held::Copying { source: owned(source), dest: owned(dest), backup: backup.map(owned) }
            }
            Event::Removed(path) => Held::Removed(owned(path)),
            Event::UnBackedUp { backup, dest } => Held::UnBackedUp { backup: owned(backup), dest: owned(dest) },
            Event::ParentMade { source, dest } => Held::ParentMade { source: owned(source), dest: owned(dest) },
            Event::Skipped(path) => Held::Skipped(owned(path)),
            Event::Digest { dest, digest } => Held::Digest { dest: owned(dest), digest: (*digest).to_owned() },
            Event::DataDone(report) => Held::DataDone(Box::new(Report {
                source: owned(report.source),
                dest: owned(report.dest),
                reasons: report.reasons.to_vec(),
                profile: report.profile.map(|(setting, origin)| (setting, origin.to_owned())),
                tried: report.tried.to_vec(),
                holes: report.holes,
                moved: report.moved,
                workers: report.workers,
                time: report.time,
                image: report.image.cloned(),
            })),
            Event::Problem(error) => Held::Problem((*error).clone()),
            Event::Warning(error) => Held::Warning((*error).clone()),
            Event::DataStarted { .. } | Event::Progress(_) => return None,
        })
    }

    fn tell(&self, observer: &dyn Observer) {
        match self {
            Held::Copying { source, dest, backup } => {
                observer.event(&Event::Copying { source, dest, backup: backup.as_deref() });
            }
            Held::Removed(path) => observer.event(&Event::Removed(path)),
            Held::UnBackedUp { backup, dest } => observer.event(&Event::UnBackedUp { backup, dest }),
            Held::ParentMade { source, dest } => observer.event(&Event::ParentMade { source, dest }),
            Held::Skipped(path) => observer.event(&Event::Skipped(path)),
            Held::Digest { dest, digest } => observer.event(&Event::Digest { dest, digest }),
            Held::DataDone(report) => observer.event(&Event::DataDone(&DataReport {
                source: &report.source,
                dest: &report.dest,
                reasons: &report.reasons,
                profile: report.profile.as_ref().map(|(setting, origin)| (*setting, origin.as_str())),
                tried: &report.tried,
                holes: report.holes,
                moved: report.moved,
                workers: report.workers,
                time: report.time,
                image: report.image.as_ref(),
            })),
            Held::Problem(error) => observer.event(&Event::Problem(error)),
            Held::Warning(error) => observer.event(&Event::Warning(error)),
        }
    }

    /// Bytes that it takes, about.
    fn size(&self) -> usize {
        let of = |path: &PathBuf| path.capacity();
        size_of::<Held>()
            + match self {
                Held::Copying { source, dest, backup } => of(source) + of(dest) + backup.as_ref().map_or(0, of),
                Held::UnBackedUp { backup: a, dest: b } | Held::ParentMade { source: a, dest: b } => of(a) + of(b),
                Held::Removed(path) | Held::Skipped(path) => of(path),
                Held::Digest { dest, digest } => of(dest) + digest.capacity(),
                Held::DataDone(report) => {
                    of(&report.source)
                        + of(&report.dest)
                        + size_of::<Report>()
                        + size_of_val(&report.tried[..])
                        + report.image.as_ref().map_or(0, ImageReport::memory)
                }
                Held::Problem(error) | Held::Warning(error) => of(&error.path) + of(&error.other),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Names(Mutex<Vec<PathBuf>>);

    impl Observer for Names {
        fn event(&self, event: &Event<'_>) {
            if let Event::Removed(path) = event {
                self.0.lock().unwrap().push(path.to_path_buf());
            }
        }
    }

    fn told(names: &Names) -> Vec<String> {
        names.0.lock().unwrap().iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn events_come_in_the_order_of_the_passages_whoever_wrote_first() {
        let names = Names::default();
        let (transcript, first) = Transcript::new();
        let third = transcript.insert_after(&first);
        let second = transcript.insert_after(&first);
        let say = |passage: &Passage, name: &str| transcript.tell(passage, &Event::Removed(Path::new(name)), &names);
        say(&third, "e");
        say(&second, "c");
        say(&first, "a");
        assert_eq!(told(&names), ["a"]);
        transcript.close(second, &names);
        say(&first, "b");
        assert_eq!(told(&names), ["a", "b"]);
        say(&third, "f");
        transcript.close(first, &names);
        assert_eq!(told(&names), ["a", "b", "c", "e", "f"]);
        say(&third, "g");
        assert_eq!(told(&names).last().map(String::as_str), Some("g"), "the last passage is live now");
        assert_eq!(transcript.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn passages_that_are_over_take_no_room_while_the_first_one_goes_on() {
        let names = Names::default();
        let (transcript, first) = Transcript::new();
        for number in 0..1000 {
            let passage = transcript.insert_after(&first);
            let later = transcript.insert_after(&passage);
            let name = number.to_string();
            transcript.tell(&passage, &Event::Removed(Path::new(&name)), &names);
            transcript.close(later, &names);
            transcript.close(passage, &names);
        }
        let mut at = transcript.insert_after(&first);
        for _ in 0..1000 {
            let next = transcript.insert_after(&at);
            transcript.tell(&at, &Event::Removed(Path::new("in order")), &names);
            transcript.close(std::mem::replace(&mut at, next), &names);
        }
        assert!(transcript.lock().slots.len() < 1010, "{}", transcript.lock().slots.len());
        transcript.close(at, &names);
        transcript.close(first, &names);
        let expected = (0..1000).rev().map(|number| number.to_string());
        let told = told(&names);
        assert_eq!(told[..1000], ["in order"; 1000]);
        assert!(told[1000..].iter().cloned().eq(expected));
    }

    #[test]
    fn a_writer_is_too_far_ahead_only_while_much_is_held_back_and_others_come_first() {
        let names = Names::default();
        let (transcript, first) = Transcript::new();
        let second = transcript.insert_after(&first);
        assert!(!transcript.is_too_far_ahead(&second));
        let long = PathBuf::from("x".repeat(1 << 20));
        for _ in 0..5 {
            transcript.tell(&second, &Event::Removed(&long), &names);
        }
        assert!(transcript.is_too_far_ahead(&second));
        assert!(!transcript.is_too_far_ahead(&first));
        transcript.close(first, &names);
        assert!(!transcript.is_too_far_ahead(&second));
    }
}
