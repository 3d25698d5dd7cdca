//! `cargo xtask dist`: what a packager or a user needs, in one folder.

use std::fs;
use std::path::Path;

use crate::shell::{self, Result};

/// Files of the workspace and where they go below `dist/`.
const FILES: &[(&str, &str)] = &[
    ("generated/haul.1", "man/man1/haul.1"),
    ("generated/haul.bash", "completions/bash/haul"),
    ("generated/_haul", "completions/zsh/_haul"),
    ("generated/haul.fish", "completions/fish/haul.fish"),
    ("generated/smartcp.1", "man/man1/smartcp.1"),
    ("generated/smartcp.bash", "completions/bash/smartcp"),
    ("generated/_smartcp", "completions/zsh/_smartcp"),
    ("generated/smartcp.fish", "completions/fish/smartcp.fish"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("README.md", "README.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
];

/// Builds the release binary and lays everything out in `dist/`, which is emptied first.
///
/// # Errors
/// When the build fails or a file is missing.
pub fn run() -> Result {
    shell::run(shell::cargo().args(["build", "--release", "--locked", "--package", "haul", "--bin", "haul"]))?;
    let dist = shell::root().join("dist");
    if dist.exists() {
        fs::remove_dir_all(&dist).map_err(|error| format!("cannot empty {}: {error}", dist.display()))?;
    }
    place(&shell::target().join("release/haul"), &dist.join("bin/haul"))?;
    for (from, to) in FILES {
        place(&shell::root().join(from), &dist.join(to))?;
    }
    println!("{} holds:", dist.display());
    println!("  bin/haul");
    for (_, to) in FILES {
        println!("  {to}");
    }
    Ok(())
}

fn place(from: &Path, to: &Path) -> Result {
    if let Some(dir) = to.parent() {
        fs::create_dir_all(dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    }
    // Keeps the permission bits, so the binary stays executable.
    fs::copy(from, to).map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))?;
    Ok(())
}
