//! Names of what could not be copied, for another run to copy (`--failures`, `--files-from`).

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use haul_copy::error::Error;
use haul_copy::plan::{Destination, Plan};

use crate::files::ListFile;

/// The source itself, in a list of names: all that is in it, with `-r`.
const ALL: &[u8] = b".";

/// Finds the name of each failure, and passes it on.
pub struct Failures {
    source: PathBuf,
    copy: PathBuf,
    to: To,
}

/// What passes a name on to another process.
type PassOn = dyn Fn(&[u8]) + Send + Sync;

enum To {
    /// A byte ends each name.
    List(Mutex<ListFile>, u8),
    /// Another process writes the list.
    Process(Box<PassOn>),
}

impl Failures {
    /// Of a plan with one source, in this list, in which a zero byte or a line break ends each name.
    pub fn listed(plan: &Plan, list: ListFile, zero: bool) -> Failures {
        Failures::of(plan, To::List(Mutex::new(list), if zero { 0 } else { b'\n' }))
    }

    /// The same, where another process writes the list.
    pub fn passed_on(plan: &Plan, to: Box<PassOn>) -> Failures {
        Failures::of(plan, To::Process(to))
    }

    fn of(plan: &Plan, to: To) -> Failures {
        let source = plan.sources.first().map(PathBuf::from).unwrap_or_default();
        let copy = copy_of(&source, &plan.destination);
        Failures { source, copy, to }
    }

    /// Something failed. What is about no entry of the source may have kept any of them from being copied.
    pub fn hear(&self, error: &Error) {
        let name = self.name(&error.path).or_else(|| self.name(&error.other));
        self.add(name.map_or(ALL, |name| name.as_os_str().as_bytes()));
    }

    /// What is at this path, on either side, is not all that it must be, and there is no error that says so.
    pub(crate) fn hear_of(&self, path: &Path) {
        self.add(self.name(path).map_or(ALL, |name| name.as_os_str().as_bytes()));
    }

    /// Below the source or the copy, where one may be in the other.
    fn name<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        let below = |base: &PathBuf| path.strip_prefix(base).ok();
        let name =
            [&self.source, &self.copy].into_iter().filter_map(below).min_by_key(|name| name.as_os_str().len())?;
        Some(if name.as_os_str().is_empty() { Path::new(".") } else { name })
    }

    /// Adds a name.
    pub fn add(&self, name: &[u8]) {
        match &self.to {
            To::Process(to) => to(name),
            To::List(list, end) if name.contains(end) => {
                lock(list).fail(io::Error::other("a name has a line break in it: -0 (--from0) is needed"));
            }
            To::List(list, end) => lock(list).write(&[name, &[*end]].concat()),
        }
    }

    /// Ends the list, if it is here; with `durable` when it is on the device.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub fn finish(&self, durable: bool) -> io::Result<()> {
        match &self.to {
            To::List(list, _) => lock(list).finish(durable),
            To::Process(_) => Ok(()),
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while it was held can have cost a name; then nobody reads the list either.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the copy of a source is.
fn copy_of(source: &Path, destination: &Destination) -> PathBuf {
    let path = Path::new(destination.path());
    let into = match destination {
        Destination::Directory(_) => true,
        Destination::Exactly(_) => false,
        Destination::Guess(_) => path.is_dir(),
    };
    // What ends in . or .. goes into the directory itself.
    let is_named = !matches!(source.as_os_str().as_bytes(), b"." | [.., b'/', b'.']);
    match source.file_name() {
        Some(name) if into && is_named => path.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::sync::Arc;

    use haul_copy::error::What;

    use super::*;

    fn names(source: &str, destination: Destination, errors: &[Error]) -> Vec<String> {
        let plan = Plan { sources: vec![source.into()], destination, ..Plan::default() };
        let heard = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&heard);
        let failures = Failures::passed_on(
            &plan,
            Box::new(move |name| lock(&keep).push(String::from_utf8_lossy(name).into_owned())),
        );
        errors.iter().for_each(|error| failures.hear(error));
        let heard = lock(&heard);
        heard.clone()
    }

    fn at(path: &str) -> Error {
        Error::new(What::ReadingAcl, Path::new(path))
    }

    fn exactly(path: &str) -> Destination {
        Destination::Exactly(OsString::from(path))
    }

    #[test]
    fn a_failure_has_the_name_of_the_entry_whichever_side_of_the_copy_failed() {
        assert_eq!(names("src/", exactly("dst"), &[at("src/a/b"), at("dst/a/c"), at("src")]), ["a/b", "a/c", "."]);
        let into = Destination::Directory("dst".into());
        assert_eq!(names("in/src", into.clone(), &[at("dst/src/x"), at("in/src/src")]), ["x", "src"]);
        assert_eq!(names("src/.", into, &[at("dst/src/x")]), ["src/x"]);
    }

    #[test]
    fn a_copy_inside_its_source_and_the_other_way_round_are_told_apart() {
        assert_eq!(names("a", exactly("a/b"), &[at("a/b/x"), at("a/x")]), ["x", "x"]);
        assert_eq!(names("a/b", exactly("a"), &[at("a/b/x"), at("a/x")]), ["x", "x"]);
    }

    #[test]
    fn what_is_about_no_entry_counts_for_all() {
        assert_eq!(names("src", exactly("dst"), &[at(".haul-resume-0"), at("")]), [".", "."]);
    }
}
