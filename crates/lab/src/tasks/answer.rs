//! What a command has to say at its end.

/// What is shown of a command that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// For standard output.
    pub text: String,
    /// Everything that was asked for was done.
    pub done: bool,
}

impl Answer {
    /// Everything was done, and this is to be said.
    pub fn done(text: String) -> Answer {
        Answer { text, done: true }
    }
}

/// How a command line is wrong, or what went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Complaint {
    /// A hint at `--help` helps.
    Usage(String),
    /// It does not.
    Failed(String),
    /// The user stopped it.
    Stopped,
    /// An engine refused, for the process that started this one.
    Refused(String),
}

impl From<String> for Complaint {
    fn from(why: String) -> Complaint {
        Complaint::Failed(why)
    }
}

/// A command line that is wrong.
pub fn usage(why: impl Into<String>) -> Complaint {
    Complaint::Usage(why.into())
}
