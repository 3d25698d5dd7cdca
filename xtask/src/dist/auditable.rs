//! The software bill of materials: cargo-auditable puts the list of packages into a program, and scanners read it there.

use std::path::Path;
use std::process::Command;

use auditable_info::audit_info_from_file;

use crate::shell::{self, Result};

/// Pinned, as cargo-deny is.
const VERSION: &str = "0.7.7";

/// Cargo that does this.
///
/// # Errors
/// When cargo-auditable cannot be built: 20 s, once.
pub fn cargo() -> Result<Command> {
    let home = shell::target().join(format!("tools/cargo-auditable-{VERSION}"));
    let program = home.join("bin/cargo-auditable");
    if !program.exists() {
        println!("building cargo-auditable {VERSION} (once)");
        let mut install = shell::cargo();
        install.args(["install", "--quiet", "--locked", "--version", VERSION, "cargo-auditable", "--root"]).arg(&home);
        shell::run(&mut install)?;
    }
    let mut cargo = shell::command(program);
    cargo.arg("auditable");
    Ok(cargo)
}

/// The packages that a program says it consists of, as `name version`.
///
/// # Errors
/// When it says nothing.
pub fn packages(program: &Path) -> Result<Vec<String>> {
    let info = audit_info_from_file(program, Default::default()).map_err(shell::at(program))?;
    Ok(info.packages.into_iter().map(|package| format!("{} {}", package.name, package.version)).collect())
}
