//! `cargo xtask start-order`: the functions that a start of haul calls, as a linker script that puts them side by side. A copy
//! of one small file calls 250 functions of 12,000; where they stand apart, each 64 KiB of the program that has one costs a
//! page fault.

use std::collections::BTreeSet;
use std::path::Path;

use crate::bench::surroundings;
use crate::leftovers::Scratch;
use crate::shell::{self, Result};

/// What is copied while it is watched: to a new name, with all attributes, and over an old copy.
const COPIES: [&[&str]; 3] = [&["source", "new"], &["-a", "source", "same"], &["-a", "source", "same"]];

const SCRIPT: &str = "crates/cli/start.ld";

/// Copies under callgrind, and writes [`SCRIPT`].
///
/// # Errors
/// When haul cannot be built, or valgrind cannot watch it.
pub fn run() -> Result {
    let haul = surroundings::haul(None)?;
    let scratch = Scratch::new()?;
    let seen = watch(&haul, scratch.path());
    scratch.finish()?;
    let patterns: BTreeSet<String> = seen?.iter().filter_map(|name| pattern(name)).collect();
    if patterns.is_empty() {
        return Err("valgrind has seen no function of haul: has it symbols?".into());
    }
    let into = shell::root().join(SCRIPT);
    shell::write(&into, &script(&patterns))?;
    println!("{}: {} functions", into.display(), patterns.len());
    Ok(())
}

/// The names of all functions that were called.
fn watch(haul: &Path, place: &Path) -> Result<BTreeSet<String>> {
    shell::write(&place.join("source"), &"a small file\n".repeat(300))?;
    let profile = place.join("profile");
    let mut names = BTreeSet::new();
    for arguments in COPIES {
        let mut valgrind = shell::command("valgrind");
        valgrind.args(["--quiet", "--tool=callgrind", "--demangle=no"]);
        valgrind.arg(format!("--callgrind-out-file={}", profile.display()));
        shell::run(valgrind.arg(haul).args(arguments).current_dir(place))?;
        let text = std::fs::read_to_string(&profile).map_err(shell::at(&profile))?;
        names.extend(text.lines().filter_map(function).map(str::to_owned));
    }
    Ok(names)
}

/// The function that a line of callgrind's format names, if it names one for the first time.
fn function(line: &str) -> Option<&str> {
    let numbered = line.strip_prefix("fn=(").or_else(|| line.strip_prefix("cfn=("))?;
    let (_, name) = numbered.split_once(") ")?;
    // A recursive call.
    Some(name.split('\'').next().unwrap_or(name))
}

/// The sections of a function of Rust, whatever the build adds to its name: hashes of crates (`Cs...` in the names of the new
/// mangling), of instances (`17h...`), and of parts of the link (`.llvm.`).
fn pattern(name: &str) -> Option<String> {
    let name = name.split(".llvm.").next().unwrap_or(name);
    let section = if let Some((path, _)) = name.split_once("17h").filter(|_| name.starts_with("_ZN")) {
        format!("{path}17h*")
    } else if name.starts_with("_R") {
        let mut parts = name.split("Cs");
        let first = parts.next().unwrap_or_default().to_owned();
        let rest = parts.map(|part| match part.split_once('_') {
            Some((hash, rest)) if hash.bytes().all(|byte| byte.is_ascii_alphanumeric()) => format!("Cs*_{rest}"),
            _ => format!("Cs{part}"),
        });
        rest.fold(first, |pattern, part| pattern + &part) + "*"
    } else {
        return None;
    };
    // It has a meaning in linker scripts.
    Some(format!(".text.{}", section.replace('$', "?")))
}

fn script(patterns: &BTreeSet<String>) -> String {
    let lines: String = patterns.iter().map(|pattern| format!("    *({pattern})\n")).collect();
    format!(
        "/* By `cargo xtask start-order`: what a start calls stands side by side. What is not there is left out. */\n\
         SECTIONS\n{{\n  .text.start :\n  {{\n{lines}  }}\n}}\nINSERT BEFORE .text;\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_known_by_their_first_line() {
        assert_eq!(
            function("fn=(12) _ZN4haul3app4main17h0123456789abcdefE"),
            Some("_ZN4haul3app4main17h0123456789abcdefE")
        );
        assert_eq!(function("cfn=(3) _RNvC1a1b'2"), Some("_RNvC1a1b"));
        assert_eq!(function("cfn=(12)"), None);
        assert_eq!(function("calls=1 0"), None);
    }

    #[test]
    fn a_pattern_has_nothing_of_one_build() {
        for (name, expected) in [
            ("_ZN4haul3app4main17h0123456789abcdefE", Some(".text._ZN4haul3app4main17h*")),
            ("_ZN1a6B$LT$C$GT$1d17h0123456789abcdefE.llvm.123", Some(".text._ZN1a6B?LT?C?GT?1d17h*")),
            (
                "_RNvMNtCsjrHSEGnQ3l9_3std4timeNtB2_7Instant7elapsed",
                Some(".text._RNvMNtCs*_3std4timeNtB2_7Instant7elapsed*"),
            ),
            ("_RNvNtCsa1_4core3Cssz.llvm.5", Some(".text._RNvNtCs*_4core3Cssz*")),
            ("memcpy", None),
            ("(below main)", None),
        ] {
            assert_eq!(pattern(name).as_deref(), expected, "{name}");
        }
    }
}
