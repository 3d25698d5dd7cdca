//! The queue of events, in the order of time; what happens at one moment, in the order in which it was planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nanoseconds since the beginning.
pub(crate) type Nanos = u64;

/// As nanoseconds.
pub(crate) fn nanos(seconds: f64) -> Nanos {
    (seconds * 1e9).round() as Nanos
}

/// As seconds.
pub(crate) fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

/// Events to come.
#[derive(Debug)]
pub(crate) struct Clock<E> {
    heap: BinaryHeap<Reverse<(Nanos, u64, E)>>,
    planned: u64,
}

impl<E: Ord> Clock<E> {
    pub fn new() -> Clock<E> {
        Clock { heap: BinaryHeap::new(), planned: 0 }
    }

    pub fn at(&mut self, when: Nanos, event: E) {
        self.planned += 1;
        self.heap.push(Reverse((when, self.planned, event)));
    }

    pub fn next(&mut self) -> Option<(Nanos, E)> {
        self.heap.pop().map(|Reverse((when, _, event))| (when, event))
    }

    /// How many were ever planned.
    pub fn planned(&self) -> u64 {
        self.planned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_planning() {
        let mut clock = Clock::new();
        for (when, event) in [(5, 'c'), (1, 'z'), (5, 'a'), (0, 'm')] {
            clock.at(when, event);
        }
        let order: Vec<(u64, char)> = std::iter::from_fn(|| clock.next()).collect();
        assert_eq!(order, [(0, 'm'), (1, 'z'), (5, 'c'), (5, 'a')]);
    }
}
