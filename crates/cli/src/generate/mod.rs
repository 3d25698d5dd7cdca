//! The man page and the completions of the shells, made from the table of options.

mod bash;
mod fish;
mod man;
mod zsh;

use crate::flags::{Argument, FLAGS, Flag};
use crate::smartcp;

/// A command that these files are about.
struct Program {
    name: &'static str,
    flags: &'static [Flag],
    /// The man page before and after the options.
    head: &'static str,
    tail: &'static str,
}

const HAUL: Program = Program { name: "haul", flags: FLAGS, head: man::HEAD, tail: man::TAIL };

const SMARTCP: Program =
    Program { name: "smartcp", flags: smartcp::flags::FLAGS, head: smartcp::manual::HEAD, tail: smartcp::manual::TAIL };

/// The files that are made from the tables: their names in the folder `generated`, and their contents.
pub fn files() -> [(&'static str, String); 8] {
    [
        ("haul.1", man::page(&HAUL)),
        ("haul.bash", bash::completion(&HAUL)),
        ("_haul", zsh::completion(&HAUL)),
        ("haul.fish", fish::completion(&HAUL)),
        ("smartcp.1", man::page(&SMARTCP)),
        ("smartcp.bash", bash::completion(&SMARTCP)),
        ("_smartcp", zsh::completion(&SMARTCP)),
        ("smartcp.fish", fish::completion(&SMARTCP)),
    ]
}

/// What to do about a file that is made and not written.
const NOTE: &str = "Made from the table of options in crates/cli/src; do not edit.";

/// Whether the option can be followed by `=`.
fn takes_argument(flag: &Flag) -> bool {
    flag.argument != Argument::None
}

/// The words of the option, without their synonyms.
fn words(flag: &Flag) -> Vec<&'static str> {
    flag.values.choices().iter().map(|choice| choice.name).collect()
}
