//! What `--version` says of the build: commit, target, compiler.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=HAUL_COMMIT");
    let release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = if release { commit() } else { None };
    println!("cargo::rustc-env=HAUL_BUILD_COMMIT={}", commit.unwrap_or_default());
    println!("cargo::rustc-env=HAUL_BUILD_TARGET={}", env::var("TARGET").unwrap_or_default());
    let compiler = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    println!("cargo::rustc-env=HAUL_BUILD_COMPILER={}", said(Command::new(compiler).arg("-V")).unwrap_or_default());
}

/// What HAUL_COMMIT says, the commit of the archive of a package, or that of the working tree, with a plus sign where files
/// are changed. Only for releases: who develops would build all commands again after each commit.
fn commit() -> Option<String> {
    if let Ok(given) = env::var("HAUL_COMMIT") {
        return Some(given);
    }
    // cargo-package(1): the archive says where it comes from.
    if let Ok(text) = fs::read_to_string(".cargo_vcs_info.json") {
        let commit = text.split_once("\"sha1\": \"")?.1.split('"').next()?;
        let changed = if text.contains("\"dirty\": true") { "+" } else { "" };
        return Some(format!("{}{changed}", commit.get(..12)?));
    }
    let workspace = Path::new("../..");
    if !workspace.join(".git").exists() {
        return None;
    }
    for watched in [".git/logs/HEAD", "crates", "Cargo.toml", "Cargo.lock"].map(|name| workspace.join(name)) {
        // Cargo takes a file that is not there for changed, and would build all again each time.
        if watched.exists() {
            println!("cargo::rerun-if-changed={}", watched.display());
        }
    }
    let git = |arguments: &[&str]| said(Command::new("git").args(arguments).current_dir(workspace));
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(format!("{commit}{}", if changes.is_empty() { "" } else { "+" }))
}

fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
