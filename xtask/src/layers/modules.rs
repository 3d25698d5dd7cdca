//! The modules of the library's crates and which may import from which.

use std::collections::BTreeSet;

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use super::paths::is_foreign;
use super::source::Source;
use super::violation::Violation;

/// The modules of one crate.
struct Plan {
    /// The folder of their files.
    folder: &'static str,
    /// From the bottom to the top. A file imports from modules further down only, or from its own.
    levels: &'static [&'static [&'static str]],
    /// The level of plain data, if there is one. These modules describe one another, so they may import sideways, but never
    /// in a circle.
    data: Option<usize>,
}

const PLANS: &[Plan] = &[
    Plan { folder: "crates/copy/src/", levels: LEVELS, data: Some(0) },
    Plan { folder: "crates/fs/src/", levels: FS_LEVELS, data: None },
    Plan { folder: "crates/image/src/", levels: IMAGE_LEVELS, data: None },
    Plan { folder: "crates/io/src/", levels: IO_LEVELS, data: None },
];

/// Those of haul-copy. What `lib.rs` re-exports of other crates of ours is below all of them.
const LEVELS: &[&[&str]] = &[
    &["plan", "filter", "list", "images", "stats", "events"],
    &["journal"],
    &["decide"],
    &["compare"],
    // From a whole file to its name.
    &["publish"],
    // What a run says, and the threads that it has; neither knows a tree.
    &["report", "schedule"],
    &["attributes", "recorded_progress"],
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

/// Those of haul-image.
const IMAGE_LEVELS: &[&[&str]] = &[
    &["options", "pieces", "stats", "system"],
    &["memory"],
    &["neighbours"],
    // Who uses an image, and whether it has changed.
    &["layers", "processes", "suspended", "overlays"],
    &["in_use"],
    &["changes"],
    &["found", "source"],
    &["dest", "sink"],
    &["steps", "task"],
    &["keep"],
    &["container", "io_mode"],
    &["punch", "threads"],
    // The two ways in which the pieces are copied.
    &["pipeline", "workers"],
    &["image"],
    &["lib"],
];

/// Those of haul-io.
const IO_LEVELS: &[&[&str]] = &[
    &["moved", "tuner", "facts"],
    // It is asked before each step, and knows nothing of what it slows.
    &["pace"],
    &["engine", "control"],
    &["ranges", "profile"],
    &["options", "probe", "verify"],
    &["strategy"],
    &["transfer"],
    &["lib"],
];

/// Those of haul-fs.
const FS_LEVELS: &[&[&str]] =
    &[&["error", "mounts", "preserve", "temporary"], &["walk", "meta", "links"], &["offline", "layout"], &["lib"]];

impl Plan {
    fn level(&self, module: &str) -> Option<usize> {
        self.levels.iter().position(|modules| modules.contains(&module))
    }

    fn is_data(&self, level: usize) -> bool {
        self.data == Some(level)
    }

    /// The file's module: `engine/direct.rs` stands in the module `engine`. `None` for a file of another crate.
    fn module_of<'a>(&self, source: &'a Source) -> Option<&'a str> {
        source.file.strip_prefix(self.folder)?.split(['/', '.']).next()
    }

    /// The modules that the crate's root re-exports of other crates of ours.
    fn foreign(&self, sources: &[Source]) -> BTreeSet<String> {
        let root = sources.iter().find(|source| source.file == format!("{}lib.rs", self.folder));
        let names = root.into_iter().flat_map(Source::reexports);
        let foreign = names.filter(|(_, origin)| origin.first().is_some_and(|first| first.starts_with("haul_")));
        foreign.filter_map(|(name, _)| name.into_iter().next()).collect()
    }
}

/// One import within the crate.
struct Import<'a> {
    from: &'a str,
    to: String,
    source: &'a Source,
    line: usize,
}

/// Checks every file of these crates.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    PLANS.iter().flat_map(|plan| check_crate(plan, sources)).collect()
}

fn check_crate(plan: &Plan, sources: &[Source]) -> Vec<Violation> {
    let foreign = plan.foreign(sources);
    let mut found = Vec::new();
    let mut sideways = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test) {
        let Some(from) = plan.module_of(source) else { continue };
        let Some(level) = plan.level(from) else {
            let modules = plan.levels.concat().join(", ");
            found.push(source.violation(1, format!("{from} is not a module of the house plan; those are {modules}")));
            continue;
        };
        for path in source.paths(false) {
            let first = path.path.first().map_or("lib", String::as_str);
            if is_foreign(first) || foreign.contains(first) {
                continue;
            }
            let to = if plan.level(first).is_some() { first.to_owned() } else { "lib".to_owned() };
            let import = Import { from, to, source, line: path.line };
            match objection(plan, &import) {
                Some(why) => found.push(source.violation(import.line, why)),
                None if plan.is_data(level) && import.to != from => sideways.push(import),
                None => {}
            }
        }
    }
    found.extend(circles(&sideways));
    found
}

fn objection(plan: &Plan, import: &Import<'_>) -> Option<String> {
    let (from, to) = (import.from, import.to.as_str());
    let (above, below) = (plan.level(from)?, plan.level(to)?);
    if from == to || below < above || (above == below && plan.is_data(above)) {
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
