//! Amounts of work, and how much of it is allowed in a second.

/// What a run may do in a second. `None` is without limit; 0 counts as 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// Bytes of data.
    pub bytes: Option<u64>,
    /// Requests for data and files made.
    pub operations: Option<u64>,
}

impl Limit {
    /// No limit at all.
    pub const NONE: Limit = Limit { bytes: None, operations: None };

    /// Whether anything is limited.
    pub fn is_none(&self) -> bool {
        *self == Limit::NONE
    }

    /// The stricter of both, each for its own.
    #[must_use]
    pub fn and(self, other: Limit) -> Limit {
        let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Limit { bytes: least(self.bytes, other.bytes), operations: least(self.operations, other.operations) }
    }
}

/// An amount of work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes of data.
    pub bytes: u64,
    /// Requests for data and files made.
    pub operations: u64,
}
