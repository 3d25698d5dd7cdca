//! The programs that haul is compared with: found, or installed once below the target directory.

use std::path::{Path, PathBuf};

use crate::packages;
use crate::shell::{self, Result};

/// Where a peer comes from.
enum Origin {
    /// A Debian package with this program.
    Debian { package: &'static str, program: &'static str },
    /// A crate of crates.io in this version, with this binary.
    Crate { name: &'static str, version: &'static str, binary: &'static str },
    /// This repository.
    Own,
}

/// Every peer: its name in `--programs`, where it comes from, and the words that make it print its version.
const PEERS: &[(&str, Origin, &[&str])] = &[
    ("cp", Origin::Debian { package: "coreutils", program: "cp" }, &["--version"]),
    ("haul", Origin::Own, &["--version"]),
    ("uutils", Origin::Crate { name: "uu_cp", version: "0.12.0", binary: "cp" }, &["--version"]),
    ("xcp", Origin::Crate { name: "xcp", version: "0.24.9", binary: "xcp" }, &["--version"]),
    ("cpz", Origin::Crate { name: "cpz", version: "3.2.1", binary: "cpz" }, &["--version"]),
    ("fcp", Origin::Crate { name: "fcp", version: "0.2.2", binary: "fcp" }, &["--version"]),
    ("rsync", Origin::Debian { package: "rsync", program: "rsync" }, &["--version"]),
    ("rclone", Origin::Debian { package: "rclone", program: "rclone" }, &["version"]),
    ("tar", Origin::Debian { package: "tar", program: "tar" }, &["--version"]),
    ("dd", Origin::Debian { package: "coreutils", program: "dd" }, &["--version"]),
    ("qemu-img", Origin::Debian { package: "qemu-utils", program: "qemu-img" }, &["--version"]),
    ("fio", Origin::Debian { package: "fio", program: "fio" }, &["--version"]),
];

/// The name of another build of haul, which gets the options of haul.
pub const BEFORE: &str = "before";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its name in `--programs`.
    pub name: &'static str,
    pub program: PathBuf,
    pub version: String,
    /// The words that make it print its version, which also bring it into memory.
    pub version_words: &'static [&'static str],
}

/// A program that there is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Its name in `--programs`.
    pub name: &'static str,
    /// Why it could not be installed.
    pub why: String,
}

pub fn names() -> Vec<&'static str> {
    PEERS.iter().map(|(name, ..)| *name).collect()
}

/// Finds or installs the wanted peers; `haul` is the program of this repository.
pub fn all(haul: &Path, wanted: &dyn Fn(&str) -> bool) -> (Vec<Peer>, Vec<Missing>) {
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for (name, origin, version_words) in PEERS.iter().filter(|(name, ..)| wanted(name)) {
        let found = program(origin, haul).and_then(|program| Ok((version(&program, version_words)?, program)));
        match found {
            Ok((version, program)) => there.push(Peer { name, program, version, version_words }),
            Err(why) => missing.push(Missing { name, why }),
        }
    }
    (there, missing)
}

/// Another build of haul as a peer of its own, [`BEFORE`].
pub fn before(program: &Path) -> Result<Peer> {
    let version_words = &["--version"];
    Ok(Peer { name: BEFORE, program: program.to_owned(), version: version(program, version_words)?, version_words })
}

/// Where the crates' programs are: one folder for each, since one of them is called cp.
fn home() -> PathBuf {
    shell::target().join("peers")
}

fn program(origin: &Origin, haul: &Path) -> Result<PathBuf> {
    match origin {
        Origin::Own => Ok(haul.to_owned()),
        Origin::Debian { package, program } => {
            if !shell::has(program) {
                eprintln!("installing the package {package} ...");
                packages::install_one(package)?;
            }
            shell::find(program).ok_or(format!("package {package} is installed but there is no {program}"))
        }
        Origin::Crate { name, version, binary } => {
            let root = home().join(format!("{name}-{version}"));
            let program = root.join("bin").join(binary);
            if !program.exists() {
                build(name, version, &root)?;
            }
            Ok(program)
        }
    }
}

/// One at a time and at low priority, since others may be working on the machine.
fn build(name: &str, version: &str, root: &Path) -> Result {
    eprintln!("building {name} {version} ...");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = shell::command("nice");
    command.args(["-n", "10"]).arg(cargo).args(["install", "--quiet", "--locked", name, "--version"]);
    command.arg(format!("={version}")).arg("--root").arg(root);
    // Without RUSTFLAGS of ours, and not in the directory of this workspace, whose settings would apply.
    command.env("CARGO_TARGET_DIR", home().join("build")).env_remove("RUSTFLAGS").current_dir("/");
    shell::run(&mut command)
}

/// The first word that starts with a digit, wherever it is said: fcp calls its version an error.
fn version(program: &Path, version_words: &[&str]) -> Result<String> {
    let output = shell::command(program).args(version_words).output();
    let output = output.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    let said = [output.stdout, output.stderr].concat();
    let word = String::from_utf8_lossy(&said).split_whitespace().find_map(number).map(str::to_owned);
    word.ok_or(format!("{} does not print its version", program.display()))
}

fn number(word: &str) -> Option<&str> {
    let word = word.trim_start_matches("fio-").trim_start_matches('v');
    word.starts_with(|first: char| first.is_ascii_digit()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_numbers_are_found_among_words() {
        let found = |text: &str| text.split_whitespace().find_map(number).map(str::to_owned);
        assert_eq!(found("cp (GNU coreutils) 9.1").as_deref(), Some("9.1"));
        assert_eq!(found("rclone v1.60.1-DEV").as_deref(), Some("1.60.1-DEV"));
        assert_eq!(found("fio-3.33").as_deref(), Some("3.33"));
        assert_eq!(found("no version"), None);
    }

    #[test]
    fn a_program_that_cannot_be_run_is_missing_with_a_reason() {
        let (there, missing) = all(Path::new("/nowhere/haul"), &|name| name == "haul");
        assert!(there.is_empty());
        assert!(missing[0].why.contains("haul"), "{}", missing[0].why);
    }
}
