//! The wheel of the Python package: for every Python from the oldest that its stable interface allows.

use std::path::{Path, PathBuf};

use super::auditable;
use super::build::{DYNAMIC, Recipe};
use crate::python;
use crate::shell::{self, Result};

/// Makes it. maturin says in its name which C library it needs.
///
/// # Errors
/// When maturin cannot be fetched, or the wheel does not build.
pub fn make(recipe: &Recipe) -> Result<PathBuf> {
    let mut build = shell::command(python::maturin()?);
    build.args(["build", "--locked", "--profile", recipe.profile, "--target", DYNAMIC.name]);
    build.args(["--interpreter", python::PYTHON, "--out"]).arg(&recipe.into);
    build.current_dir(recipe.source.join("crates/python"));
    recipe.hide_folders(&mut build, &DYNAMIC)?;
    let cargo = recipe.target.join("auditable");
    auditable::as_cargo(&cargo)?;
    let path = std::env::var("PATH").map_err(|error| format!("PATH: {error}"))?;
    build.env("CARGO", cargo.join("cargo")).env("PATH", format!("{}:{path}", cargo.display()));
    shell::run(&mut build)?;
    let made = shell::entries(&recipe.into)?;
    let mut wheels = made.into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "whl"));
    wheels.next().ok_or_else(|| "maturin made no wheel".to_owned())
}

/// Installs it into a fresh environment, and copies a tree by it.
///
/// # Errors
/// When pip refuses it, or the copy is not what it should be.
pub fn check(wheel: &Path, room: &Path) -> Result {
    let environment = room.join("environment");
    let python = python::installed(wheel, &environment)?;
    let mut find = shell::command("find");
    let module = shell::output(find.arg(&environment).args(["-name", "_haul_copy*.so"]))?;
    let listed = auditable::packages(Path::new(module.trim()))?;
    if !listed.iter().any(|line| line.starts_with("haul-copy ")) {
        return Err(format!("{} does not list the package haul-copy: {listed:?}", module.trim()));
    }
    let from = room.join("from");
    shell::make_dir(&from.join("sub"))?;
    shell::write(&from.join("sub/file"), "contents\n")?;
    let program = "import haul_copy, sys; print(haul_copy.copytree(sys.argv[1], sys.argv[2]))";
    shell::run(shell::command(&python).args(["-c", program]).arg(&from).arg(room.join("to")))?;
    shell::run(shell::command("diff").arg("-r").arg(&from).arg(room.join("to")))
}
