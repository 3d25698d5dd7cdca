//! What is to be reported, in the order of the walk. Answers come in any order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::error::Error;
use crate::walk::PathNode;

use super::difference::Difference;
use super::entry::Outcome;

/// Bytes of answers that wait for one before them: many thousands, so that one large file does not hold up all others.
const MOST_HELD: usize = 16 << 20;

/// What was found under one name, if that has to be reported or remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Compared {
    pub(super) source: Arc<PathNode>,
    pub(super) copy: Arc<PathNode>,
    pub(super) outcome: Outcome,
}

impl Compared {
    /// About, in bytes.
    fn weight(&self) -> usize {
        let problems: usize = self.outcome.problems.iter().map(weight).sum();
        let lists = self.outcome.differences.len() * size_of::<Difference>() + problems;
        size_of::<Compared>() + self.source.own_size() + self.copy.own_size() + lists
    }
}

/// What became of some names of a batch.
pub(super) struct Part {
    /// The position of the batch in the row.
    pub(super) slot: u64,
    /// How many names are done with.
    pub(super) names: usize,
    /// How many of them were looked at.
    pub(super) entries: u64,
    /// By the position in the batch.
    pub(super) reports: Vec<(usize, Compared)>,
    /// Those that are two directories, as in [`Place`]; of another process's part none are.
    pub(super) directories: u32,
}

/// What comes from those who compare.
pub(super) enum Answer {
    Part(Part),
    /// One of them has panicked.
    Broken,
}

/// A name of a batch that is looked at once more, after it was compared.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Its position in the batch.
    pub(super) at: usize,
    /// The positions of names that were two directories when they were compared, a bit for each.
    pub(super) directories: Arc<AtomicU32>,
}

impl Place {
    /// Whether it was two directories. Else what it was is reported, or is not compared.
    fn was_directories(&self) -> bool {
        self.directories.load(Ordering::Relaxed) & bit(self.at) != 0
    }
}

/// The bit of a position in a batch.
pub(super) fn bit(at: usize) -> u32 {
    u32::try_from(at).ok().and_then(|at| 1_u32.checked_shl(at)).unwrap_or(0)
}

/// Something to be reported.
pub(super) enum Slot {
    Error(Error),
    /// If the name was two directories when it was compared.
    Gone(Place, Error),
    /// With so many names of which nothing is known yet.
    Batch {
        left: usize,
        entries: u64,
        reports: Vec<(usize, Compared)>,
        directories: Arc<AtomicU32>,
    },
}

/// Batches and errors in the order of the walk.
pub(super) struct Row {
    slots: VecDeque<Slot>,
    /// The number of the first one.
    first: u64,
    /// Batches that are not answered.
    open: usize,
    /// Bytes of those that are.
    held: usize,
    answers: Receiver<Answer>,
    answer: Sender<Answer>,
    broken: bool,
}

impl Row {
    pub(super) fn new() -> Row {
        let (answer, answers) = channel();
        Row { slots: VecDeque::new(), first: 0, open: 0, held: 0, answers, answer, broken: false }
    }

    pub(super) fn answer(&self) -> Sender<Answer> {
        self.answer.clone()
    }

    pub(super) fn put_error(&mut self, error: Error) {
        self.held += weight(&error);
        self.slots.push_back(Slot::Error(error));
    }

    /// Two directories could not be entered together: one is gone, or is something else by now.
    pub(super) fn put_gone(&mut self, place: Place, error: Error) {
        self.held += weight(&error);
        self.slots.push_back(Slot::Gone(place, error));
    }

    /// A place for the answers about so many names, at least one. `directories` is that of [`Place`].
    pub(super) fn put_batch(&mut self, names: usize, directories: Arc<AtomicU32>) -> u64 {
        self.slots.push_back(Slot::Batch { left: names, entries: 0, reports: Vec::new(), directories });
        self.open += 1;
        self.first + self.slots.len() as u64 - 1
    }

    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Whether so much waits for an answer before it that no more should be asked for.
    pub(super) fn holds_much(&self) -> bool {
        self.held >= MOST_HELD
    }

    /// Somebody who compares has panicked, so not all answers come.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(super) fn take_in(&mut self) {
        while let Ok(answer) = self.answers.try_recv() {
            self.hear(answer);
        }
    }

    /// Waits for an answer, if one is to come.
    pub(super) fn wait(&mut self) {
        if self.open > 0
            && !self.broken
            && let Ok(answer) = self.answers.recv()
        {
            self.hear(answer);
            self.take_in();
        }
    }

    fn hear(&mut self, answer: Answer) {
        let Answer::Part(part) = answer else {
            self.broken = true;
            return;
        };
        let at = part.slot.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let Some(Slot::Batch { left, entries, reports, directories }) = at.and_then(|at| self.slots.get_mut(at)) else {
            return;
        };
        *left = left.saturating_sub(part.names);
        *entries += part.entries;
        self.held += part.reports.iter().map(|(_, one)| one.weight()).sum::<usize>();
        directories.fetch_or(part.directories, Ordering::Relaxed);
        reports.extend(part.reports);
        if *left == 0 {
            reports.sort_by_key(|(at, _)| *at);
            self.open -= 1;
            self.held += size_of::<Slot>();
        }
    }

    /// What comes next, if that is known.
    pub(super) fn next(&mut self) -> Option<Slot> {
        if let Slot::Batch { left: 1.., .. } = self.slots.front()? {
            return None;
        }
        self.first += 1;
        let next = self.slots.pop_front()?;
        let weight = match &next {
            Slot::Error(error) | Slot::Gone(_, error) => weight(error),
            Slot::Batch { reports, .. } => {
                size_of::<Slot>() + reports.iter().map(|(_, one)| one.weight()).sum::<usize>()
            }
        };
        self.held = self.held.saturating_sub(weight);
        match next {
            // The batch that it is of comes before it.
            Slot::Gone(place, _) if !place.was_directories() => self.next(),
            Slot::Gone(_, error) => Some(Slot::Error(error)),
            next => Some(next),
        }
    }
}

/// Bytes of an error that waits.
fn weight(error: &Error) -> usize {
    size_of::<Slot>() + error.path.as_os_str().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::What;

    fn node(name: &str) -> Arc<PathNode> {
        PathNode::root(name.as_ref())
    }

    fn compared(name: &str) -> Compared {
        let differences = vec![Difference::OnlyInCopy];
        Compared { source: node(name), copy: node(name), outcome: Outcome { differences, ..Outcome::default() } }
    }

    fn part(slot: u64, names: usize, reports: &[(usize, &str)]) -> Answer {
        let reports = reports.iter().map(|(at, name)| (*at, compared(name))).collect();
        Answer::Part(Part { slot, names, entries: names as u64, reports, directories: 0 })
    }

    fn all(row: &mut Row) -> Vec<String> {
        let mut said = Vec::new();
        while let Some(next) = row.next() {
            match next {
                Slot::Error(error) | Slot::Gone(_, error) => said.push(error.path.display().to_string()),
                Slot::Batch { reports, .. } => {
                    said.extend(reports.iter().map(|(_, one)| one.copy.path().display().to_string()))
                }
            }
        }
        said
    }

    fn batch(row: &mut Row, names: usize) -> u64 {
        row.put_batch(names, Arc::default())
    }

    #[test]
    fn of_what_cannot_be_entered_only_what_was_two_directories_is_reported() {
        let mut row = Row::new();
        let directories: Arc<AtomicU32> = Arc::default();
        let slot = row.put_batch(3, Arc::clone(&directories));
        for (at, name) in [(0, "not compared"), (1, "gone"), (2, "never there")] {
            row.put_gone(Place { at, directories: Arc::clone(&directories) }, Error::new(What::CannotAccess, name));
        }
        let reports = vec![(2, compared("never there"))];
        let part = Part { slot, names: 3, entries: 2, reports, directories: bit(1) };
        row.answer().send(Answer::Part(part)).expect("the row listens");
        row.wait();
        assert_eq!(all(&mut row), ["never there", "gone"]);
    }

    #[test]
    fn what_comes_in_any_order_is_reported_in_that_of_the_walk() {
        let mut row = Row::new();
        let first = batch(&mut row, 3);
        row.put_error(Error::new(What::Reading, "error"));
        let second = batch(&mut row, 1);
        for answer in [part(second, 1, &[(0, "d")]), part(first, 1, &[(2, "c")])] {
            row.answer().send(answer).expect("the row listens");
        }
        row.take_in();
        assert_eq!((all(&mut row), row.open()), (Vec::new(), 1), "the first batch is not whole");
        row.answer().send(part(first, 2, &[(0, "a"), (1, "b")])).expect("the row listens");
        row.wait();
        assert_eq!(all(&mut row), ["a", "b", "c", "error", "d"]);
        assert_eq!((row.open(), row.held), (0, 0));
        // Nothing is to come, so nobody waits.
        row.wait();
        let later = batch(&mut row, 1);
        row.answer().send(part(later, 1, &[(0, "e")])).expect("the row listens");
        row.wait();
        assert_eq!(all(&mut row), ["e"]);
    }

    #[test]
    fn one_who_panics_is_not_waited_for() {
        let mut row = Row::new();
        batch(&mut row, 3);
        row.answer().send(Answer::Broken).expect("the row listens");
        row.wait();
        assert!(row.is_broken() && row.open() == 1);
        row.wait();
    }

    #[test]
    fn much_that_waits_for_one_answer_is_noticed_and_weighs_nothing_once_it_is_reported() {
        let mut row = Row::new();
        let first = batch(&mut row, 1);
        let long = "x".repeat(4 << 20);
        let second = batch(&mut row, 2);
        row.answer().send(part(second, 2, &[(0, &long), (1, &long)])).expect("the row listens");
        row.wait();
        assert!(row.holds_much());
        row.answer().send(part(first, 1, &[])).expect("the row listens");
        row.wait();
        assert_eq!(all(&mut row).len(), 2);
        assert!(!row.holds_much() && row.held == 0);
    }
}
