//! What the files about a command are made from.

use haul_frontend::flags::{Argument, Flag};

/// A command that has files about it.
pub(super) struct Program<D: 'static> {
    pub name: &'static str,
    pub flags: &'static [Flag<D>],
    /// The man page before the options.
    pub head: &'static str,
    /// And after them.
    pub tail: &'static str,
}

/// What to do about a file that is made and not written.
pub(super) const NOTE: &str = "Made from the table of options by crates/cli/src/generate; do not edit.";

/// Whether the option can be followed by `=`.
pub(super) fn takes_argument<D>(flag: &Flag<D>) -> bool {
    flag.argument != Argument::None
}

/// The words of the option, without their synonyms.
pub(super) fn words<D>(flag: &Flag<D>) -> Vec<&'static str> {
    flag.values.choices().iter().map(|choice| choice.name).collect()
}
