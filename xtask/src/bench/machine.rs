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

/// Lines that describe machine, kernel and programs.
pub fn describe(haul: &Path) -> Result<String> {
    let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let cp = first(shell::output(shell::command("cp").arg("--version"))?);
    let own = shell::output(shell::command(haul).arg("--version")).map(first)?;
    let commit = shell::output(shell::command("git").args(["rev-parse", "--short", "HEAD"])).unwrap_or_default();
    let commit = if commit.is_empty() { "unknown" } else { commit.trim() };
    Ok(format!("{}; {own} (commit {commit}); {cp}", hardware()))
}
