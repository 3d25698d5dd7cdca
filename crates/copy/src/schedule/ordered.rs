//! Messages of many threads in the order of a serial copy.
//!
//! Ordered events are a row of segments in the order in which one thread would have written them. Each segment has one
//! writer. The first one is live: its events go to the observer at once. Those of the others are held back until every
//! segment before them is closed.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::events::{Event, Observer};

/// Bytes held back (about) from which on writers of later segments wait for the first one.
const ENOUGH: usize = 4 << 20;

/// A segment, for its one writer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Segment(usize);

/// The row of segments.
pub(crate) struct OrderedEvents {
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
    held: Vec<Event<'static>>,
}

impl OrderedEvents {
    /// Ordered events of one segment.
    pub fn new() -> (OrderedEvents, Segment) {
        let row = Row { slots: vec![Slot::default()], free: Vec::new(), first: 0 };
        (OrderedEvents { row: Mutex::new(row), held: AtomicUsize::new(0) }, Segment(0))
    }

    /// A new segment right behind this one.
    pub fn insert_after(&self, segment: &Segment) -> Segment {
        let mut row = self.row.lock();
        let next = row.slots[segment.0].next;
        let slot = Slot { before: Some(segment.0), next, ..Slot::default() };
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
        row.slots[segment.0].next = Some(new);
        if let Some(next) = next {
            row.slots[next].before = Some(new);
        }
        Segment(new)
    }

    /// Nothing more comes in this segment. If it was the live one, what the next ones held back is passed on now.
    pub fn close(&self, segment: Segment, observer: &dyn Observer) {
        let mut row = self.row.lock();
        row.slots[segment.0].closed = true;
        if row.first != segment.0 {
            row.join_to_earlier(segment.0);
            return;
        }
        while row.slots[row.first].closed {
            let done = row.first;
            // The last segment stays, for whoever writes next.
            let Some(next) = row.slots[done].next else { return };
            row.slots[done] = Slot::default();
            row.free.push(done);
            row.first = next;
            row.slots[next].before = None;
            for held in std::mem::take(&mut row.slots[next].held) {
                self.held.fetch_sub(held.memory(), Ordering::Relaxed);
                observer.event(&held);
            }
        }
    }

    /// Tells the observer, now or when its turn comes.
    pub fn tell(&self, segment: &Segment, event: &Event<'_>, observer: &dyn Observer) {
        let mut row = self.row.lock();
        if row.first == segment.0 {
            observer.event(event);
        } else {
            let held = event.clone().into_owned();
            self.held.fetch_add(held.memory(), Ordering::Relaxed);
            row.slots[segment.0].held.push(held);
        }
    }

    /// Whether everything before it is said, and so done.
    pub fn is_first(&self, segment: &Segment) -> bool {
        self.row.lock().first == segment.0
    }

    /// Whether so much is held back that the writer of this segment should wait for those before it.
    pub fn is_too_far_ahead(&self, segment: &Segment) -> bool {
        self.held.load(Ordering::Relaxed) > ENOUGH && !self.is_first(segment)
    }
}

impl Row {
    /// A closed segment that is empty, or comes right after another closed one, need not stay: their number is bounded by
    /// that of the open ones and of what is held back, not by what was copied.
    fn join_to_earlier(&mut self, segment: usize) {
        let Some(before) = self.slots[segment].before else { return };
        let mut held = std::mem::take(&mut self.slots[segment].held);
        if !held.is_empty() && !self.slots[before].closed {
            self.slots[segment].held = held;
            return;
        }
        self.slots[before].held.append(&mut held);
        let next = self.slots[segment].next;
        self.slots[before].next = next;
        if let Some(next) = next {
            self.slots[next].before = Some(before);
        }
        self.slots[segment] = Slot::default();
        self.free.push(segment);
    }
}

/// Counts the bytes that a thread moves.
pub(crate) trait Meter: Sync {
    /// So many more.
    fn count(&self, bytes: u64);

    /// What comes before somebody's turn may be done.
    fn turn_may_have_come(&self) {}
}

/// One thread's way to the observer.
pub(crate) struct EventSink<'a> {
    observer: &'a dyn Observer,
    meter: &'a dyn Meter,
    ordered: &'a OrderedEvents,
    segment: Mutex<Option<Segment>>,
}

impl<'a> EventSink<'a> {
    /// A way that leads through ordered events.
    pub fn new(
        observer: &'a dyn Observer,
        ordered: &'a OrderedEvents,
        segment: Option<Segment>,
        meter: &'a dyn Meter,
    ) -> EventSink<'a> {
        EventSink { observer, meter, ordered, segment: Mutex::new(segment) }
    }

    /// Goes on in another segment; the current one is closed.
    pub fn switch_to(&self, segment: Option<Segment>) {
        self.close(self.enter(segment));
    }

    /// Goes on in another segment and returns the current one, which stays open.
    pub fn enter(&self, segment: Option<Segment>) -> Option<Segment> {
        std::mem::replace(&mut *self.segment.lock(), segment)
    }

    /// Nothing more comes in this segment.
    pub fn close(&self, segment: Option<Segment>) {
        if let Some(segment) = segment {
            self.ordered.close(segment, self.observer);
            self.meter.turn_may_have_come();
        }
    }

    /// A new segment behind the current one.
    pub fn insert_after_current(&self) -> Option<Segment> {
        Some(self.ordered.insert_after(self.segment.lock().as_ref()?))
    }

    /// A new segment behind another one.
    pub fn insert_after(&self, segment: &Segment) -> Segment {
        self.ordered.insert_after(segment)
    }

    /// Goes on in a new segment behind the current one, and returns that, still open.
    pub fn split_current(&self) -> Option<Segment> {
        let behind = self.insert_after_current();
        self.enter(behind)
    }

    /// Whether everything is done that comes before in a serial copy.
    pub fn is_first(&self) -> bool {
        self.segment.lock().as_ref().is_none_or(|segment| self.ordered.is_first(segment))
    }

    pub fn is_too_far_ahead(&self) -> bool {
        self.segment.lock().as_ref().is_some_and(|segment| self.ordered.is_too_far_ahead(segment))
    }
}

impl Observer for EventSink<'_> {
    fn event(&self, event: &Event<'_>) {
        if let Event::Progress(moved) = event {
            self.meter.count(moved.total());
        }
        let in_order = match event {
            // Counters and the name on the progress bar know no order.
            Event::Progress(_)
            | Event::Spared { .. }
            | Event::Secured(_)
            | Event::Stage(_)
            | Event::DataStarted { .. } => false,
            Event::Problem(_) | Event::Warning(_) => true,
            _ => self.observer.in_order(),
        };
        match in_order.then(|| self.segment.lock()).as_deref() {
            Some(Some(segment)) => self.ordered.tell(segment, event, self.observer),
            _ => self.observer.event(event),
        }
    }

    fn in_order(&self) -> bool {
        self.observer.in_order()
    }

    fn follows_data(&self) -> bool {
        self.observer.follows_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    #[derive(Default)]
    struct Names(Mutex<Vec<PathBuf>>);

    impl Observer for Names {
        fn event(&self, event: &Event<'_>) {
            if let Event::Removed(path) = event {
                self.0.lock().push(path.to_path_buf());
            }
        }
    }

    fn reported(names: &Names) -> Vec<String> {
        names.0.lock().iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn events_come_in_the_order_of_the_passages_whoever_wrote_first() {
        let names = Names::default();
        let (ordered, first) = OrderedEvents::new();
        let third = ordered.insert_after(&first);
        let second = ordered.insert_after(&first);
        let say =
            |segment: &Segment, name: &str| ordered.tell(segment, &Event::Removed(Path::new(name).into()), &names);
        say(&third, "e");
        say(&second, "c");
        say(&first, "a");
        assert_eq!(reported(&names), ["a"]);
        ordered.close(second, &names);
        say(&first, "b");
        assert_eq!(reported(&names), ["a", "b"]);
        say(&third, "f");
        ordered.close(first, &names);
        assert_eq!(reported(&names), ["a", "b", "c", "e", "f"]);
        say(&third, "g");
        assert_eq!(reported(&names).last().map(String::as_str), Some("g"), "the last segment is live now");
        assert_eq!(ordered.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn passages_that_are_over_take_no_room_while_the_first_one_goes_on() {
        let names = Names::default();
        let (ordered, first) = OrderedEvents::new();
        for number in 0..1000 {
            let segment = ordered.insert_after(&first);
            let later = ordered.insert_after(&segment);
            let name = number.to_string();
            ordered.tell(&segment, &Event::Removed(Path::new(&name).into()), &names);
            ordered.close(later, &names);
            ordered.close(segment, &names);
        }
        let mut at = ordered.insert_after(&first);
        for _ in 0..1000 {
            let next = ordered.insert_after(&at);
            ordered.tell(&at, &Event::Removed(Path::new("in order").into()), &names);
            ordered.close(std::mem::replace(&mut at, next), &names);
        }
        assert!(ordered.row.lock().slots.len() < 1010, "{}", ordered.row.lock().slots.len());
        ordered.close(at, &names);
        ordered.close(first, &names);
        let expected = (0..1000).rev().map(|number| number.to_string());
        let reported = reported(&names);
        assert_eq!(reported[..1000], ["in order"; 1000]);
        assert!(reported[1000..].iter().cloned().eq(expected));
    }

    #[test]
    fn a_writer_is_too_far_ahead_only_while_much_is_held_back_and_others_come_first() {
        let names = Names::default();
        let (ordered, first) = OrderedEvents::new();
        let second = ordered.insert_after(&first);
        assert!(!ordered.is_too_far_ahead(&second));
        let long = PathBuf::from("x".repeat(1 << 20));
        for _ in 0..5 {
            ordered.tell(&second, &Event::Removed((&long).into()), &names);
        }
        assert!(ordered.is_too_far_ahead(&second));
        assert!(!ordered.is_too_far_ahead(&first));
        ordered.close(first, &names);
        assert!(!ordered.is_too_far_ahead(&second));
    }
}
