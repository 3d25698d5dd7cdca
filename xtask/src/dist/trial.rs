//! What was made, installed where nothing else is, used, and removed.

mod fresh;
mod static_programs;

use std::path::{Path, PathBuf};

use super::auditable;
use super::build::Recipe;
use super::made::Made;
use super::wheel;
use crate::mpi::Mpi;
use crate::shell::{self, Checked, Result};

/// Tries everything out.
///
/// # Errors
/// When something is not as it should be. What cannot be tried here is said.
pub fn check(made: &Made, recipe: &Recipe, mpi: &Mpi) -> Result<Checked> {
    let room = recipe.target.join("trial");
    shell::remove(&room)?;
    shell::make_dir(&room)?;
    let mut missing = made.missing.clone();
    shell::run(shell::command("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&recipe.into))?;
    for (target, archive) in &made.archives {
        missing.extend(static_programs::check(target, archive, &recipe.stamp, &room)?);
    }
    if let Some(programs) = &made.programs {
        says_what_it_consists_of(programs)?;
    }
    wheel::check(&made.wheel, &room)?;
    if shell::is_root() {
        fresh::debian(&made.debian, &room)?;
        fresh::rpm(&made.rpm, &room)?;
    } else {
        missing.push("NOT CHECKED: installing the packages, which needs root".into());
    }
    let mut lintian = shell::command("lintian");
    shell::run(lintian.args(["--fail-on", "error", "--display-level", "error", "--allow-root"]).args(&made.debian))?;
    again_elsewhere(recipe, mpi)?;
    shell::remove(&room)?;
    let count = made.archives.len() + made.debian.len() + made.rpm.len() + 1;
    let done =
        format!("{count} archives and packages, installed, used and removed; the same bytes from another folder");
    Ok(Checked { done, missing: (!missing.is_empty()).then(|| missing.join("; ")) })
}

/// The list of packages in the program is the one that it was built from.
fn says_what_it_consists_of(programs: &Path) -> Result {
    let program = programs.join("haul");
    let listed = auditable::packages(&program)?;
    let locked = std::fs::read_to_string(shell::root().join("Cargo.lock")).map_err(shell::at(&program))?;
    for package in ["haul-cli", "haul-sys", "blake3", "io-uring", "mimalloc"] {
        if !listed.iter().any(|line| line.split(' ').next() == Some(package)) {
            return Err(format!("{} does not list the package {package}: {listed:?}", program.display()));
        }
    }
    for line in &listed {
        let (name, version) = line.split_once(' ').unwrap_or((line, ""));
        if !locked.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")) {
            return Err(format!("{} lists {line}, which Cargo.lock does not have", program.display()));
        }
    }
    Ok(())
}

/// Makes all again from a copy of the sources in another folder, and compares; in a trial without the programs for other
/// processors, which take another compiler and the same recipe.
fn again_elsewhere(recipe: &Recipe, mpi: &Mpi) -> Result {
    let elsewhere = recipe.target.join("elsewhere");
    shell::remove(&elsewhere)?;
    let source = elsewhere.join("source");
    copy_sources(&recipe.source, &source)?;
    let again = Recipe {
        source,
        target: elsewhere.join("target"),
        profile: recipe.profile,
        crossed: recipe.profile == "release",
        into: elsewhere.join("made"),
        stamp: recipe.stamp.clone(),
    };
    Made::make(&again, mpi)?;
    let sums = |dir: &PathBuf| std::fs::read_to_string(dir.join("SHA256SUMS")).map_err(shell::at(dir));
    let (first, second) = (sums(&recipe.into)?, sums(&again.into)?);
    let made_twice = |line: &&str| again.crossed || second.lines().any(|again| name_of(again) == name_of(line));
    if !first.lines().filter(made_twice).eq(second.lines()) || second.is_empty() {
        return Err(format!("{} differs from {}:\n{first}{second}", recipe.into.display(), again.into.display()));
    }
    shell::remove(&elsewhere)
}

/// The file of a line of SHA256SUMS.
fn name_of(line: &str) -> &str {
    line.split_whitespace().next_back().unwrap_or_default()
}

/// What git knows or would add.
fn copy_sources(from: &Path, to: &Path) -> Result {
    shell::make_dir(to)?;
    let script = "git ls-files -z --cached --others --exclude-standard | \
                  tar --create --null --files-from=- --ignore-failed-read | tar --extract --directory \"$0\"";
    shell::run(shell::command("sh").args(["-c", script]).arg(to).current_dir(from))
}
