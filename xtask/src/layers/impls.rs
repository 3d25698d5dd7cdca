//! Inherent impls stand in the module of their type: whoever reads a type finds there what it can do.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, by_crate};
use super::violation::Violation;

/// How many inherent impls of each crate still stand elsewhere. These numbers only become smaller; a crate that is not here has
/// none.
const LEFT: &[(&str, usize)] = &[];

/// An inherent impl outside the module of its type.
struct Stray<'a> {
    source: &'a Source,
    line: usize,
    name: String,
    home: String,
}

fn find<'a>(sources: &'a [Source]) -> BTreeMap<&'a str, Vec<Stray<'a>>> {
    let mut found = BTreeMap::new();
    for (folder, sources) in by_crate(sources) {
        let mut homes: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for source in &sources {
            for name in source.types() {
                homes.entry(name).or_default().insert(&source.file);
            }
        }
        let mut strays = Vec::new();
        for source in sources {
            for (name, line) in source.inherent_impls() {
                // A name of several types may be any of them, and one that is not here is somebody else's.
                let elsewhere = homes.get(&name).filter(|homes| !homes.contains(source.file.as_str()));
                if let Some(home) = elsewhere.and_then(|homes| homes.first()) {
                    strays.push(Stray { source, line, name, home: (*home).to_owned() });
                }
            }
        }
        if !strays.is_empty() {
            found.insert(folder, strays);
        }
    }
    found
}

fn left(folder: &str) -> usize {
    LEFT.iter().find(|(known, _)| *known == folder).map_or(0, |(_, left)| *left)
}

/// Those of each crate that has more than are written down here.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let found = find(sources);
    let more = found.into_iter().filter(|(folder, strays)| strays.len() > left(folder));
    let why = |stray: &Stray<'_>, folder: &str, count: usize| {
        let (name, home, left) = (&stray.name, &stray.home, left(folder));
        format!("an inherent impl of {name} outside {home} ({count} impls of {folder} stand elsewhere, {left} may)")
    };
    more.flat_map(|(folder, strays)| {
        let count = strays.len();
        strays.into_iter().map(move |stray| stray.source.violation(stray.line, why(&stray, folder, count)))
    })
    .collect()
}

/// Numbers in this file that have become smaller.
pub fn outdated(sources: &[Source]) -> Vec<Violation> {
    let found = find(sources);
    let now = |folder: &str| found.get(folder).map_or(0, Vec::len);
    let fewer = LEFT.iter().filter(|(folder, left)| now(folder) < *left);
    fewer
        .map(|(folder, left)| Violation {
            file: "xtask/src/layers/impls.rs".to_owned(),
            line: 1,
            why: format!("{} impls of {folder} stand elsewhere now, not {left}: write that down in LEFT", now(folder)),
        })
        .collect()
}
