//! How a copy in a process of its own fails.

/// What went wrong, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// What is wanted is not to be had here.
    Refused(String),
    Failed(String),
}
