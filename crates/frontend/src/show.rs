//! What the user wants to see of a run.

/// When something optional is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum When {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How totals are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// What the user wants to see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Show {
    /// Each file as it is copied.
    pub verbose: bool,
    /// How each file was copied, as GNU cp says it.
    pub debug: bool,
    /// How each file was copied, and why.
    pub explain: bool,
    /// Nothing that only informs: no progress, no summary, no hints.
    pub quiet: bool,
    /// The progress bar.
    pub progress: When,
    /// Events for programs, and nothing else on standard output.
    pub json: bool,
    /// Totals at the end.
    pub stats: Option<StatsFormat>,
}
