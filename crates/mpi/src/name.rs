//! What the program is called.

/// In messages, statistics and the help.
pub const NAME: &str = "haul-mpi";
