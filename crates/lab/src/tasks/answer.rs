//! What a command has to say at its end.

/// What is shown of a command that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub text: String,
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
    Failed(String),
    Stopped,
    /// An engine refused, for the process that started this one.
    Refused(String),
}

impl From<String> for Complaint {
    fn from(why: String) -> Complaint {
        Complaint::Failed(why)
    }
}

pub fn usage(why: impl ToString) -> Complaint {
    Complaint::Usage(why.to_string())
}
