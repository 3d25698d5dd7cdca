//! What is counted.

use super::message::Kind;
use crate::report::Flow;

/// Messages in each second.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Window {
    second: u64,
    count: u64,
    peak: u64,
    pub total: u64,
}

impl Window {
    pub fn add(&mut self, second: u64, count: u64) {
        if second != self.second {
            (self.second, self.count) = (second, 0);
        }
        self.count += count;
        self.total += count;
        self.peak = self.peak.max(self.count);
    }

    pub fn flow(&self) -> Flow {
        Flow { total: self.total, peak: self.peak }
    }
}

/// What the whole job has done.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub files: u64,
    pub large: u64,
    pub bytes: u64,
    pub directories: u64,
    pub copied_after: f64,
    pub at_rank_0: Window,
    /// Files of several names that were met, and those of them that were claimed.
    pub links: f64,
    pub claimed: u64,
    /// The same for errors.
    pub errors: f64,
    pub reported: u64,
    pub messages: [u64; 8],
}

impl Totals {
    pub fn count(&mut self, kind: Kind, weight: u64) {
        self.messages[kind as usize] += weight;
    }
}
