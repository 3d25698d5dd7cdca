//! What a comparison needs besides the plan, and what it returns.

use crate::error::Error;
use crate::meta::XattrRules;

use super::board::Board;
use super::difference::Found;

/// Hears what is found, in the order of the walk.
pub trait Observer {
    /// The two differ.
    fn differs(&self, found: &Found);
    /// Something could not be looked at.
    fn problem(&self, error: &Error);
}

/// What a comparison needs besides the plan.
pub struct Session<'a> {
    /// Hears everything.
    pub observer: &'a dyn Observer,
    /// Which extended attributes are not copied, so that nobody misses them.
    pub rules: &'a XattrRules,
    /// Whether to stop. Whoever brings names to helpers stops those, too: what they have is waited for.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// From where other processes get names to compare, if there are any.
    pub board: Option<&'a Board>,
}

/// What was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Names on either side.
    pub entries: u64,
    /// Differences that were reported.
    pub differences: u64,
    /// What could not be looked at.
    pub errors: u64,
    /// It was stopped before the end.
    pub stopped: bool,
}

impl Summary {
    /// Whether everything was looked at and is the same.
    pub fn is_same(&self) -> bool {
        self.differences == 0 && self.errors == 0 && !self.stopped
    }
}
