//! `cargo xtask dist`: what a distribution, a packager or a user installs, made from one working tree.

mod auditable;
mod build;
mod debian;
mod layout;
mod made;
mod rpm;
mod trial;
mod wheel;

use build::{Recipe, Stamp};
use made::Made;

use crate::mpi::Mpi;
use crate::packages;
use crate::shell::{self, Checked, Result};

/// Makes everything in `dist/`, which is emptied first; with `--check` it tries everything out, too, and makes it again in
/// another folder. With `--trial` it does what [`check`] does.
///
/// # Errors
/// When a tool is missing, something could not be made, or what was made is not as it should be.
pub fn run(arguments: &[String]) -> Result {
    let checks = match arguments {
        [] => false,
        [argument] if argument == "--check" => true,
        [argument] if argument == "--trial" => {
            let checked = check(&Mpi::look())?;
            println!("{}\n{}", checked.done, checked.missing.unwrap_or_default());
            return Ok(());
        }
        _ => return Err("dist knows --check and --trial, and one of them at a time".into()),
    };
    println!("{}", packages::install_for_mpi()?);
    let recipe = Recipe {
        source: shell::root().to_owned(),
        target: shell::target().join("dist"),
        profile: "release",
        crossed: true,
        into: shell::root().join("dist"),
        stamp: Stamp::read()?,
    };
    let mpi = Mpi::look();
    let made = Made::make(&recipe, &mpi)?;
    for file in shell::entries(&recipe.into)? {
        println!("{}", file.display());
    }
    if checks {
        let checked = trial::check(&made, &recipe, &mpi)?;
        println!("{}\n{}", checked.done, checked.missing.unwrap_or_default());
    }
    if made.missing.is_empty() { Ok(()) } else { Err(made.missing.join("; ")) }
}

/// The same with less of optimization, tried out: a part of `cargo xtask test`.
///
/// # Errors
/// When what was made is not as it should be.
pub fn check(mpi: &Mpi) -> Result<Checked> {
    let target = shell::target().join("dist-trial");
    let (source, into) = (shell::root().to_owned(), target.join("made"));
    let recipe = Recipe { source, target, profile: "trial", crossed: true, into, stamp: Stamp::read()? };
    let made = Made::make(&recipe, mpi)?;
    trial::check(&made, &recipe, mpi)
}
