//! Circles of files: one imports from another, and that one, perhaps by others, from the first. Files in a circle can only be
//! understood, tested and moved together.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use super::paths::is_foreign;
use super::source::{Source, by_crate};
use super::violation::Violation;

/// One import of a file of the same crate.
struct Import<'a> {
    from: &'a Source,
    to: &'a Source,
    line: usize,
}

/// The modules of a crate, and what they re-export from others.
pub struct Modules<'a> {
    files: BTreeMap<Vec<String>, &'a Source>,
    reexports: BTreeMap<Vec<String>, Vec<String>>,
}

impl<'a> Modules<'a> {
    /// The modules that these files of one crate are.
    pub fn of(sources: &[&'a Source]) -> Modules<'a> {
        let files: BTreeMap<_, _> = sources.iter().map(|source| (source.module(), *source)).collect();
        let reexports = sources.iter().flat_map(|source| source.reexports()).collect();
        Modules { files, reexports }
    }

    /// The file that a path leads to, through re-exports: an import by them needs that file, and not the one between.
    pub fn file(&self, mut path: Vec<String>) -> Option<&'a Source> {
        for _ in 0..8 {
            if path.first().is_some_and(|first| is_foreign(first)) {
                return None;
            }
            let len = (0..=path.len()).rev().find(|len| self.files.contains_key(&path[..*len]))?;
            let name = path.get(..=len).and_then(|name| self.reexports.get(name));
            match name {
                Some(origin) => path = [origin, &path[len + 1..]].concat(),
                None => return self.files.get(&path[..len]).copied(),
            }
        }
        None
    }

    /// The names of the modules below one.
    fn children(&self, module: &[String]) -> BTreeSet<&str> {
        let below = self.files.keys().filter(|other| other.len() == module.len() + 1 && other.starts_with(module));
        below.filter_map(|module| module.last()).map(String::as_str).collect()
    }
}

/// The imports of all files of a crate from one another.
fn imports<'a>(sources: &[&'a Source]) -> Vec<Import<'a>> {
    let modules = Modules::of(sources);
    let mut found = Vec::new();
    for from in sources {
        let own = from.module();
        let below = from.heads(&modules.children(&own)).into_iter().map(|(mut path, line)| {
            path.splice(..0, own.iter().cloned());
            (path, line)
        });
        let paths = from.paths(false).into_iter().map(|found| (found.path, found.line)).chain(below);
        for (path, line) in paths {
            if let Some(to) = modules.file(path).filter(|to| to.file != from.file) {
                found.push(Import { from, to, line });
            }
        }
    }
    found
}

/// The circles of each crate: for each file in one, an import of it that stays in the circle.
fn find<'a>(sources: &'a [Source]) -> Vec<Import<'a>> {
    let mut found = Vec::new();
    for sources in by_crate(sources).values() {
        let imports = imports(sources);
        let graph: DiGraphMap<&str, ()> =
            imports.iter().map(|import| (import.from.file.as_str(), import.to.file.as_str())).collect();
        for circle in tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > 1) {
            let within = |source: &Source| circle.contains(&source.file.as_str());
            let mut named = BTreeSet::new();
            let inner = imports.iter().filter(|import| within(import.from) && within(import.to));
            let first = inner.filter(|import| named.insert(import.from.file.as_str()));
            found.extend(first.map(|Import { from, to, line }| Import { from, to, line: *line }));
        }
    }
    found
}

/// Each file in a circle.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let why = |to: &Source| format!("imports {}, which imports it, perhaps by others", to.file);
    find(sources).iter().map(|import| import.from.violation(import.line, why(import.to))).collect()
}
