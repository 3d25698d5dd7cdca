//! `cargo xtask layers`: the house plan, checked.
//!
//! * crates: front ends -> haul-copy -> haul-guest, haul-io, haul-fs -> haul-sys; front ends never import each other; the
//!   measuring kit is for the laboratory and the benchmarks only, and knows nothing of copying
//! * `unsafe` only in crates/sys, and every other crate forbids it
//! * modules of haul-copy and haul-fs: imports go down, never up or sideways
//! * no circle of files in any crate
//! * inherent impls stand in the module of their type
//! * modules that compute do no I/O, and call nothing that may (the list is in pure.rs)
//! * what a crate shows is used by others (the crates that are checked are in public.rs)
//! * the libraries neither print, nor exit, nor read the environment
//! * tests start processes by haul_testbed::Command, which gives each a deadline
//! * files of at most 700 lines, functions of at most 80

mod circles;
mod crates;
mod impls;
mod modules;
mod paths;
mod public;
mod pure;
mod source;
mod violation;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::PathBuf;

use crate::shell::{self, Result};
use source::Source;
use violation::Violation;

/// Checks and prints, as a task of its own.
pub fn run() -> Result {
    check().map(|summary| println!("{summary}"))
}

/// Checks the whole workspace and prints each violation.
///
/// # Errors
/// When there are violations; the message is their number.
pub fn check() -> Result<String> {
    let mut found = crates::check_manifests(shell::root())?;
    let sources = sources()?;
    let count = sources.len();
    found.extend(judge(&sources));
    found.extend(pure::outdated(&sources));
    found.sort();
    found.dedup();
    for violation in &found {
        println!("{violation}");
    }
    match found.len() {
        0 => Ok(format!("{count} files keep the plan")),
        many => Err(format!("{many} violations of the house plan")),
    }
}

/// All rules that look at sources.
fn judge(sources: &[Source]) -> Vec<Violation> {
    let mut found: Vec<Violation> = sources.iter().flat_map(Source::check).collect();
    found.extend(sources.iter().flat_map(crates::check_paths));
    found.extend(modules::check(sources));
    found.extend(circles::check(sources));
    found.extend(impls::check(sources));
    found.extend(pure::check(sources));
    found.extend(public::check(sources));
    found
}

/// Every Rust file of the workspace, parsed.
pub fn sources() -> Result<Vec<Source>> {
    let root = shell::root();
    let mut sources = Vec::new();
    let mut paths: Vec<PathBuf> =
        ["crates", "testing", "xtask", "tests", "fuzz"].iter().map(|dir| root.join(dir)).collect();
    paths.retain(|path| path.is_dir());
    while let Some(path) = paths.pop() {
        if path.is_dir() && !path.is_symlink() {
            paths.extend(shell::entries(&path)?.into_iter().filter(|path| !path.ends_with("target")));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).map_err(shell::at(&path))?;
            let file = path.strip_prefix(root).map_err(|error| error.to_string())?;
            sources.push(Source::parse(&file.to_string_lossy(), &text)?);
        }
    }
    sources.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(sources)
}
