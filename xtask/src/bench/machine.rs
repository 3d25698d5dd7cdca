//! What the measurements were made on.

use std::path::Path;

use haul_measure::machine::Machine;

use crate::shell::{self, Result};

/// Processor, cores, memory, kernel.
pub fn hardware() -> String {
    let machine = Machine::here();
    format!(
        "{}, {} cores, {} MiB, Linux {}",
        machine.processor.as_deref().unwrap_or("unknown processor"),
        machine.cores,
        machine.memory >> 20,
        machine.kernel.as_deref().unwrap_or("of unknown release"),
    )
}

/// Of the sources; the name says where these have changed since.
pub fn commit() -> String {
    let mut git = shell::command("git");
    match shell::output(git.args(["describe", "--always", "--dirty", "--exclude=*"])) {
        Ok(commit) if !commit.trim().is_empty() => commit.trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// Lines that describe machine, kernel and programs.
pub fn describe(haul: &Path) -> Result<String> {
    let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let cp = first(shell::output(shell::command("cp").arg("--version"))?);
    let own = shell::output(shell::command(haul).arg("--version")).map(first)?;
    Ok(format!("{}; {own} (commit {}); {cp}", hardware(), commit()))
}
