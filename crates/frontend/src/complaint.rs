//! Why a command line cannot be obeyed.

/// What is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The message, without the program's name.
    pub message: Vec<u8>,
    /// A reference to `--help` follows.
    pub hint: bool,
}

/// The user has misunderstood the options, so a reference to `--help` follows.
pub fn misuse(message: impl Into<Vec<u8>>) -> Complaint {
    Complaint { message: message.into(), hint: true }
}

/// The message says it all.
pub fn fatal(message: impl Into<Vec<u8>>) -> Complaint {
    Complaint { message: message.into(), hint: false }
}
