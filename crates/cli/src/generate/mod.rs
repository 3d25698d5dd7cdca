//! The man page and the completions of the shells, made from the table of options.

mod completions;
mod man;

use haul_frontend::options::FLAGS;
use haul_frontend::options::draft::Draft;

use crate::smartcp;

use man::Program;

static HAUL: Program<Draft> = Program { name: "haul", flags: &FLAGS, head: man::HEAD, tail: man::TAIL };

static SMARTCP: Program<smartcp::options::Draft> = Program {
    name: "smartcp",
    flags: &smartcp::options::FLAGS,
    head: smartcp::manual::HEAD,
    tail: smartcp::manual::TAIL,
};

/// The files that are made from the tables: their names in the folder `generated`, and their contents.
pub fn files() -> Vec<(String, String)> {
    [files_about(&HAUL), files_about(&SMARTCP)].concat()
}

fn files_about<D>(program: &Program<D>) -> [(String, String); 4] {
    let name = program.name;
    [
        (format!("{name}.1"), man::page(program)),
        (format!("{name}.bash"), completions::bash(program)),
        (format!("_{name}"), completions::zsh(program)),
        (format!("{name}.fish"), completions::fish(program)),
    ]
}
