//! The man page and the completions of the shells, made from the table of options.

mod bash;
mod fish;
mod man;
mod program;
mod zsh;

use haul_frontend::options::draft::Draft;
use haul_frontend::options::table;

use crate::smartcp;

use program::Program;

static HAUL: Program<Draft> = Program { name: "haul", flags: table::FLAGS, head: man::HEAD, tail: man::TAIL };

static SMARTCP: Program<smartcp::draft::Draft> =
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
