//! What the measurements were made on.

use std::path::Path;

use haul_measure::machine::Machine;

use crate::shell::{self, Result};

/// Lines that describe machine, kernel and programs.
pub fn describe(haul: &Path) -> Result<String> {
    let machine = Machine::here();
    let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let cp = first(shell::output(shell::command("cp").arg("--version"))?);
    let own = shell::output(shell::command(haul).arg("--version")).map(first)?;
    let commit = shell::output(shell::command("git").args(["rev-parse", "--short", "HEAD"])).unwrap_or_default();
    Ok(format!(
        "{}, {} cores, {} MiB, Linux {}; {own} (commit {}); {cp}",
        machine.processor.as_deref().unwrap_or("unknown processor"),
        machine.cores,
        machine.memory >> 20,
        machine.kernel.as_deref().unwrap_or("of unknown release"),
        if commit.is_empty() { "unknown" } else { commit.trim() },
    ))
}
