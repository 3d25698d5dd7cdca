//! Inherent impls stand in the module of their type: whoever reads a type finds there what it can do.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, by_crate};
use super::violation::Violation;

/// Each inherent impl outside the module of its type.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for sources in by_crate(sources).values() {
        let mut homes: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for source in sources {
            for name in source.types() {
                homes.entry(name).or_default().insert(&source.file);
            }
        }
        for source in sources {
            for (name, line) in source.inherent_impls() {
                // A name of several types may be any of them, and one that is not here is somebody else's.
                let elsewhere = homes.get(&name).filter(|homes| !homes.contains(source.file.as_str()));
                if let Some(home) = elsewhere.and_then(|homes| homes.first()) {
                    found.push(source.violation(line, format!("an inherent impl of {name} outside {home}")));
                }
            }
        }
    }
    found
}
