//! The man page and the completions of the shells, made from the table of options.

mod bash;
mod fish;
mod man;
mod zsh;

use crate::flags::{Argument, Flag};

/// A file that is made from the table: its name in the folder `generated`, and its contents.
pub fn files() -> [(&'static str, String); 4] {
    [
        ("haul.1", man::page()),
        ("haul.bash", bash::completion()),
        ("_haul", zsh::completion()),
        ("haul.fish", fish::completion()),
    ]
}

/// What to do about a file that is made and not written.
const NOTE: &str = "Made from the table of options in crates/cli/src/flags.rs; do not edit.";

/// Whether the option can be followed by `=`.
fn takes_argument(flag: &Flag) -> bool {
    flag.argument != Argument::None
}

/// The words of the option, without their synonyms.
fn words(flag: &Flag) -> Vec<&'static str> {
    flag.values.choices().iter().map(|choice| choice.name).collect()
}
