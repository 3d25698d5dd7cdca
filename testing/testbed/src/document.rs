//! What haul's documentation says, for the tests that hold the programs to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The page `name` of `docs/`, as it is now. It is read while a test runs, because no package may include a file that
/// lies outside of it.
///
/// # Panics
/// If it cannot be read.
pub fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The sections of `json.md` by their headings (an event, or a field whose words are listed), each with the words in the first
/// column of its tables.
///
/// # Panics
/// If the page cannot be read, or a heading has no text.
pub fn json_events() -> BTreeMap<String, BTreeSet<String>> {
    let sections = document("json.md");
    let sections = sections.split("\n### ").skip(1).map(|section| {
        let (heading, text) = section.split_once('\n').expect("a heading and a text");
        let cells = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
        let words = cells.flat_map(|cell| cell.split('`').step_by(2)).map(str::to_owned).collect();
        (heading.trim_matches('`').to_owned(), words)
    });
    sections.collect()
}

/// What a page gives to a shell, as one script: its blocks marked `sh`. A block that no test can run is marked
/// `sh,not-run`, and one that needs the machines of a cluster `sh,cluster`.
///
/// # Panics
/// If the page cannot be read.
pub fn script(page: &str) -> String {
    script_marked(page, "sh")
}

/// The same of the blocks with this mark.
///
/// # Panics
/// If the page cannot be read.
pub fn script_marked(page: &str, mark: &str) -> String {
    let mut script = String::new();
    let mut inside = false;
    for line in document(page).lines() {
        match line {
            line if line.strip_prefix("```") == Some(mark) => inside = true,
            "```" => inside = false,
            line if inside => script += &format!("{line}\n"),
            _ => {}
        }
    }
    script
}

/// The commands of that script that begin with this program, wherever it lies, each with what continues it in further
/// lines.
pub fn commands(page: &str, program: &str) -> Vec<String> {
    let script = script(page).replace("\\\n", " ");
    script.lines().filter(|line| named(line) == Some(program)).map(str::to_owned).collect()
}

/// The program that a line of a script begins with, without directories; `None` for a comment or an empty line.
pub fn named(line: &str) -> Option<&str> {
    let word = line.split_whitespace().find(|word| !word.contains('='))?;
    (!word.starts_with('#')).then(|| word.rsplit('/').next().unwrap_or(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_its_program() {
        for (line, program) in [
            ("haul -a x y", Some("haul")),
            ("target/release/haul-lab map", Some("haul-lab")),
            ("A='b' HAUL=1 docs/run.sh", Some("run.sh")),
            ("# haul", None),
            ("", None),
        ] {
            assert_eq!(named(line), program, "{line}");
        }
    }
}
