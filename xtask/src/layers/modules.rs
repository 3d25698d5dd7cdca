//! The modules of crates/copy/src and which may import from which.

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use super::paths::is_foreign;
use super::source::Source;
use super::violation::Violation;

/// The modules from the bottom to the top. A file imports from modules further down only, or from its own.
const LEVELS: &[&[&str]] = &[
    &["moved", "tuner"],
    // What moves bytes between two open files knows no plan. `plan` and what is counted name engines by its table.
    &["engine"],
    &["plan", "list", "facts", "images", "stats", "events", "error", "wire"],
    // `pace` knows nothing of what it paces: the run asks it before each step.
    &["walk", "meta", "ranges", "journal", "pace", "probe"],
    &["strategy", "decide", "control"],
    // `smart` moves a disk image by a pipeline of its own, made of what engines are made of.
    &["smart", "compare", "verify"],
    // The byte mover: two open files, no names.
    &["transfer"],
    // From a whole file to its name; then what was made, to be found again.
    &["publish"],
    &["links"],
    // What a run says, and the threads that it has; neither knows a tree.
    &["report", "schedule"],
    &["attributes", "messages", "progress"],
    // What is copied, as values.
    &["work"],
    &["peers", "sources"],
    &["shards"],
    // What every stage may use, and then the stages: a name, a file, a tree.
    &["context"],
    &["finish"],
    &["file"],
    &["tree"],
    &["run"],
    // The front door.
    &["front"],
    &["lib"],
];

/// The modules of plain data describe one another, so they may import sideways, but never in a circle.
const DATA: usize = 2;

fn level(module: &str) -> Option<usize> {
    LEVELS.iter().position(|modules| modules.contains(&module))
}

/// One import within the crate.
struct Import<'a> {
    from: &'a str,
    to: String,
    source: &'a Source,
    line: usize,
}

/// Checks every file of crates/copy/src.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut sideways = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test) {
        let Some(from) = source.file.strip_prefix("crates/copy/src/").map(module_of_file) else { continue };
        if level(from).is_none() {
            let modules = LEVELS.concat().join(", ");
            found.push(source.violation(1, format!("{from} is not a module of the house plan; those are {modules}")));
            continue;
        }
        for path in source.paths(false) {
            if path.path.first().is_some_and(|first| is_foreign(first)) {
                continue;
            }
            let to = path.path.first().filter(|first| level(first).is_some()).map_or("lib", String::as_str).to_owned();
            let import = Import { from, to, source, line: path.line };
            match objection(&import) {
                Some(why) => found.push(source.violation(import.line, why)),
                None if level(from) == Some(DATA) && import.to != from => sideways.push(import),
                None => {}
            }
        }
    }
    found.extend(circles(&sideways));
    found
}

/// `engine/direct.rs` stands in the module `engine`.
fn module_of_file(file: &str) -> &str {
    file.split(['/', '.']).next().unwrap_or(file)
}

fn objection(import: &Import<'_>) -> Option<String> {
    let (from, to) = (import.from, import.to.as_str());
    let (above, below) = (level(from)?, level(to)?);
    if from == to || below < above || (above == below && above == DATA) {
        None
    } else if to == "lib" {
        Some(format!("{from} imports from the root of the crate, which stands above it; name the module"))
    } else if above == below {
        Some(format!("{from} imports sideways from {to}; what both need belongs below, what joins them above"))
    } else {
        Some(format!("{from} imports upwards from {to}"))
    }
}

/// Every import that closes a circle among the modules of data.
fn circles(imports: &[Import<'_>]) -> Vec<Violation> {
    let graph: DiGraphMap<&str, ()> = imports.iter().map(|import| (import.from, import.to.as_str())).collect();
    let circles = tarjan_scc(&graph);
    let is_in_one = |import: &&Import<'_>| {
        circles.iter().any(|circle| circle.contains(&import.from) && circle.contains(&import.to.as_str()))
    };
    let why = |import: &Import<'_>| {
        format!("{} imports {} and, perhaps by others, the other way round", import.from, import.to)
    };
    imports.iter().filter(is_in_one).map(|import| import.source.violation(import.line, why(import))).collect()
}
