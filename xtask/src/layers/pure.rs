//! Modules that do no I/O: they compute answers from values, so that tests are tables and nothing can block or fail.

use std::collections::BTreeSet;

use super::circles::Modules;
use super::paths::is_foreign;
use super::source::{Source, by_crate};
use super::violation::Violation;

/// The files and folders that do no I/O. What is read by a parser or written by a format comes through a trait.
const PURE: &[&str] = &[
    "crates/cluster/src/wire.rs",
    "crates/copy/src/decide/",
    "crates/copy/src/events.rs",
    "crates/copy/src/filter.rs",
    "crates/copy/src/images.rs",
    "crates/copy/src/journal/record.rs",
    "crates/copy/src/list/",
    "crates/copy/src/plan.rs",
    "crates/copy/src/schedule/ordered.rs",
    "crates/copy/src/shards/record.rs",
    "crates/copy/src/stats.rs",
    "crates/fs/src/error.rs",
    "crates/fs/src/preserve.rs",
    "crates/guest/src/",
    "crates/io/src/control.rs",
    "crates/io/src/moved.rs",
    "crates/io/src/options.rs",
    "crates/io/src/pace/backoff.rs",
    "crates/io/src/pace/bucket.rs",
    "crates/io/src/pace/limit.rs",
    "crates/io/src/pace/pressure.rs",
    "crates/io/src/profile.rs",
    "crates/io/src/profile/",
    "crates/io/src/strategy.rs",
    "crates/io/src/strategy/",
    "crates/io/src/tuner.rs",
    "crates/measure/src/stats.rs",
    "crates/measure/src/turns.rs",
    "crates/measure/src/values.rs",
    "crates/mpi/src/name.rs",
    "crates/mpi/src/talk.rs",
];

/// Files of those folders that are not.
const NOT_PURE: &[&str] = &[
    "crates/guest/src/image.rs", // the trait by which all others read, and files
];

/// What talks to the kernel, though it stands below something that is allowed.
const BANNED: &[&[&str]] = &[
    &["haul_sys"],
    &["libc"],
    &["rustix"],
    &["std", "env"],
    &["std", "fs"],
    &["std", "io"],
    &["std", "net"],
    &["std", "os"],
    &["std", "process"],
    &["std", "thread"],
    &["std", "time", "Instant", "now"],
    &["std", "time", "SystemTime", "now"],
];

/// What of that is plain data, or a trait for others to implement.
const ALLOWED: &[&[&str]] = &[
    &["haul_sys", "Errno"],
    &["haul_sys", "inode"],
    &["std", "io", "BufRead"],
    &["std", "io", "Error"],
    &["std", "io", "ErrorKind"],
    &["std", "io", "Read"],
    &["std", "io", "Result"],
    &["std", "io", "Seek"],
    &["std", "io", "Write"],
    &["std", "io", "sink"],
    &["std", "os", "unix", "ffi"],
    &["std", "thread", "panicking"],
];

/// Whether a file is one of the pure ones.
fn is_pure(file: &str) -> bool {
    let stands_in = |place: &&str| file == *place || (place.ends_with('/') && file.starts_with(*place));
    PURE.iter().any(stands_in) && !NOT_PURE.contains(&file)
}

fn starts_with(path: &[String], start: &[&str]) -> bool {
    path.len() >= start.len() && path.iter().zip(start).all(|(word, wanted)| word == wanted)
}

fn is_banned(path: &[String]) -> bool {
    BANNED.iter().any(|start| starts_with(path, start)) && !ALLOWED.iter().any(|start| starts_with(path, start))
}

/// All that pure files name and may not.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for sources in by_crate(sources).values() {
        let modules = Modules::of(sources);
        for source in sources.iter().filter(|source| is_pure(&source.file)) {
            found.extend(doors(source).into_iter().map(|(line, what)| {
                source.violation(line, format!("a module without I/O names {what} (xtask/src/layers/pure.rs)"))
            }));
            found.extend(helpers(source, &modules));
        }
    }
    found
}

/// The ways to the kernel that a file names.
fn doors(source: &Source) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    // These modules by themselves bring in nothing; what is named below them counts.
    let is_name = |path: &[String]| path.len() == 2 && matches!(path[1].as_str(), "io" | "thread");
    let paths = source.paths(false).into_iter().filter(|found| is_banned(&found.path) && !is_name(&found.path));
    found.extend(paths.map(|found| (found.line, found.path.join("::"))));
    for (path, line) in source.heads(&BTreeSet::from(["io", "thread", "Instant", "SystemTime"])) {
        let parent: &[&str] = if path[0].starts_with(char::is_uppercase) { &["std", "time"] } else { &["std"] };
        let whole: Vec<String> = parent.iter().map(|word| (*word).to_owned()).chain(path).collect();
        if is_banned(&whole) {
            found.push((line, whole.join("::")));
        }
    }
    found
}

/// The functions and modules that a file takes from one of the same crate that is not pure. Types, traits and constants are
/// fine.
fn helpers(source: &Source, modules: &Modules<'_>) -> Vec<Violation> {
    let paths = source.paths(false).into_iter().filter(|found| {
        let is_function = |word: &String| word.starts_with(|first: char| first.is_lowercase());
        found.path.first().is_some_and(|first| !is_foreign(first)) && found.path.iter().all(is_function)
    });
    let mut found = Vec::new();
    for path in paths {
        let name = path.path.join("::");
        if let Some(file) = modules.file(path.path).filter(|file| !is_pure(&file.file)) {
            let why = format!("a module without I/O uses {name} of {}, which may do some", file.file);
            found.push(source.violation(path.line, why));
        }
    }
    found
}

/// Entries of the tables above that name no file any more: the rule would hold for nothing.
pub fn outdated(sources: &[Source]) -> Vec<Violation> {
    let is_gone = |place: &&&str| !sources.iter().any(|source| source.file.starts_with(**place));
    let gone = PURE.iter().chain(NOT_PURE).filter(is_gone);
    gone.map(|place| Violation {
        file: "xtask/src/layers/pure.rs".to_owned(),
        line: 1,
        why: format!("{place} is not there; name the new place"),
    })
    .collect()
}
