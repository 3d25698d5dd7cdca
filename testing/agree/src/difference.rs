//! One difference between two outcomes.

use std::fmt;

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// A word for the sort of difference; failures with the same words are taken for the same bug.
    pub sort: String,
    /// The file, or empty.
    pub path: Vec<u8>,
    /// How it is in the reference.
    pub reference: String,
    /// How it is after the program under test.
    pub tested: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.escape_ascii();
        write!(f, "{} {path}\n    cp:   {}\n    haul: {}", self.sort, self.reference, self.tested)
    }
}
