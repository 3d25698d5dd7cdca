//! The graph of crates.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::source::{FOR_TESTS, Source};
use super::violation::Violation;
use crate::shell::{self, Result};

/// What each crate of ours may import of ours, by the names of their folders.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("cli", &["copy", "frontend", "guest", "image", "io", "sys"]),
    ("lab", &["copy", "guest", "image", "io", "measure", "sys"]),
    // It has the options of the command, read by the same code.
    ("mpi", &["copy", "frontend", "io", "sys"]),
    ("python", &["copy", "io", "sys"]),
    ("frontend", &["copy", "io", "sys"]),
    // It may be in the way of nothing that it measures, so it shares nothing but the raw edge with it.
    ("measure", &["sys"]),
    ("copy", &["cluster", "fs", "guest", "image", "io", "sys"]),
    ("cluster", &["fs", "sys"]),
    ("image", &["fs", "guest", "io", "sys"]),
    ("fs", &["sys"]),
    ("io", &["sys"]),
    ("guest", &[]),
    ("sys", &[]),
    ("testbed", &["copy", "guest", "sys"]),
    ("agree", &["copy", "guest", "sys"]),
    ("forge", &["guest"]),
    ("vmlab", &["io", "testbed"]),
];

/// By what name others import the library of a crate, from its folder (`crates/sys`).
pub fn library(folder: &str) -> String {
    match folder.rsplit('/').next().unwrap_or(folder) {
        "cli" => "haul".to_owned(),
        name => format!("haul_{name}"),
    }
}

/// The folder of a package, or of a library, of ours.
fn folder_of(package: &str) -> Option<&'static str> {
    if package == "haul-cli" {
        return Some("cli"); // its library is called as the command
    }
    let library = package.replace('-', "_");
    MAY_IMPORT.iter().map(|(folder, _)| *folder).find(|folder| self::library(folder) == library)
}

fn allowed(folder: &str) -> Option<&'static [&'static str]> {
    MAY_IMPORT.iter().find(|(name, _)| *name == folder).map(|(_, allowed)| *allowed)
}

/// Why crate `folder` may not import the package `dependency`, if it may not; `in_tests` if only its tests do.
pub fn objection(folder: &str, dependency: &str, in_tests: bool) -> Option<String> {
    let target = folder_of(dependency)?;
    if folder == target {
        return None; // integration tests name their own crate
    }
    if FOR_TESTS.contains(&target) && (in_tests || FOR_TESTS.contains(&folder)) {
        return None;
    }
    match allowed(folder) {
        None => Some(format!("crate {folder} is not in the house plan (xtask/src/layers/crates.rs)")),
        Some(allowed) if allowed.contains(&target) => None,
        Some(allowed) => {
            let may = if allowed.is_empty() { "nothing of ours".to_owned() } else { allowed.join(", ") };
            Some(format!("crate {folder} may not import crate {target}; it may import {may}"))
        }
    }
}

/// Checks the dependencies that the manifests declare.
pub fn check_manifests(root: &Path) -> Result<Vec<Violation>> {
    let text = shell::output(shell::cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let Some(manifest) = package["manifest_path"].as_str().map(Path::new) else { continue };
        let Ok(relative) = manifest.strip_prefix(root) else { continue };
        let below = relative.strip_prefix("crates").or_else(|_| relative.strip_prefix("testing"));
        let folder = match below.ok().and_then(|path| path.iter().next()) {
            Some(folder) => folder.to_string_lossy(),
            None => continue, // xtask stands beside the house
        };
        let text = fs::read_to_string(manifest).map_err(shell::at(manifest))?;
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let name = dependency["name"].as_str().unwrap_or_default();
            if let Some(why) = objection(&folder, name, dependency["kind"] == "dev") {
                let line = text.lines().position(|line| line.trim_start().starts_with(name)).map_or(1, |at| at + 1);
                found.push(Violation { file: relative.to_string_lossy().into_owned(), line, why });
            }
        }
    }
    Ok(found)
}

/// Checks the paths in one file, so that a violation has a line.
pub fn check_paths(source: &Source) -> Vec<Violation> {
    let Some(folder) = source.crate_folder() else { return Vec::new() };
    let foreign = |path: &[String]| path.first().filter(|first| first.starts_with("haul_")).cloned();
    // Whether a path to a crate for tests is in a test needs no look here: cargo knows dev-dependencies.
    source
        .paths(true)
        .into_iter()
        .filter_map(|found| Some((found.line, objection(folder, &foreign(&found.path)?, true)?)))
        .map(|(line, why)| source.violation(line, why))
        .collect()
}
