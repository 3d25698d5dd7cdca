//! The software bill of materials: cargo-auditable puts the list of packages into a program, and scanners read it there.

use std::path::Path;
use std::process::Command;

use auditable_info::audit_info_from_file;

use crate::shell::{self, Result};
use crate::tools::Tool;

const TOOL: Tool = Tool { name: "cargo-auditable", version: "0.7.7", arguments: &[] };

/// Cargo that does this.
///
/// # Errors
/// When cargo-auditable cannot be built.
pub fn cargo() -> Result<Command> {
    let mut cargo = shell::command(TOOL.program()?);
    cargo.arg("auditable");
    Ok(cargo)
}

/// A folder with the same under the name `cargo`, for programs that look for that.
///
/// # Errors
/// When cargo-auditable cannot be built.
pub fn as_cargo(into: &Path) -> Result {
    shell::make_dir(into)?;
    let script = into.join("cargo");
    let (real, tool) = (shell::cargo().get_program().to_owned(), TOOL.program()?);
    // It starts what CARGO names, which must not be this script.
    let text = format!("#!/bin/sh\nCARGO='{}' exec '{}' auditable \"$@\"\n", real.display(), tool.display());
    shell::write(&script, &text)?;
    shell::make_executable(&script)
}

/// The packages that a program says it consists of, as `name version`.
///
/// # Errors
/// When it says nothing.
pub fn packages(program: &Path) -> Result<Vec<String>> {
    let info = audit_info_from_file(program, Default::default()).map_err(shell::at(program))?;
    Ok(info.packages.into_iter().map(|package| format!("{} {}", package.name, package.version)).collect())
}
