//! What the arguments of options may be.

/// Since when cp has an option or a word. An abbreviation is looked up in the oldest generation that knows it, so that new
/// options never take a shorthand away from a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// GNU cp 9.1 and older.
    Cp,
    /// GNU cp 9.2 to 9.10.
    LaterCp,
    /// haul only.
    Haul,
}

/// One of the words that an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The word.
    pub name: &'static str,
    /// Another word for the same.
    pub synonym: Option<&'static str>,
    /// What it means.
    pub help: &'static str,
    /// Words that cp does not know are neither abbreviated nor listed in its messages.
    pub origin: Origin,
}

/// A word of cp.
pub(crate) const fn of_cp(name: &'static str, help: &'static str) -> Choice {
    Choice { name, synonym: None, help, origin: Origin::Cp }
}

/// Two words of cp for the same.
pub(crate) const fn either(name: &'static str, synonym: &'static str, help: &'static str) -> Choice {
    Choice { name, synonym: Some(synonym), help, origin: Origin::Cp }
}

/// A word of haul.
pub const fn own(name: &'static str, help: &'static str) -> Choice {
    Choice { name, synonym: None, help, origin: Origin::Haul }
}

/// What an argument may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Anything.
    Any,
    /// The name of a directory.
    Directory,
    /// The name of a file.
    File,
    /// One of these words.
    One(&'static [Choice]),
    /// A list of these words with commas between them.
    List(&'static [Choice]),
}

impl Values {
    /// The words, if there are any.
    pub fn choices(self) -> &'static [Choice] {
        match self {
            Values::One(choices) | Values::List(choices) => choices,
            Values::Any | Values::Directory | Values::File => &[],
        }
    }
}
