//! What the destination that the user named stands for.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;

use haul_sys::Errno;
use haul_sys::rustix::fs::CWD;

use crate::links::duplicate;
use crate::plan::{Destination, Plan};
use crate::walk::{Operand, last_component, open_directory, renamed};

/// What the destination of this plan is at this moment: a directory to copy into, or the copy itself. To be asked by one of
/// several processes before any of them has made something there.
#[must_use]
pub fn settle_destination(plan: &Plan) -> Destination {
    let Destination::Guess(path) = &plan.destination else { return plan.destination.clone() };
    match open_directory(CWD, path) {
        // Rank 0 says why that does not go.
        _ if plan.ambiguous_destination().is_some() => plan.destination.clone(),
        Err(_) if plan.sources.len() > 1 => plan.destination.clone(),
        Ok(_) => Destination::Directory(path.clone()),
        Err(_) => Destination::Exactly(path.clone()),
    }
}

/// The directory that holds what is copied to a destination, the name that the copy has there (empty if copies go into it), and
/// what users know the directory by.
pub(crate) fn holder_of(destination: &Destination) -> Result<(OwnedFd, OsString, OsString), Errno> {
    match destination {
        Destination::Directory(path) => Ok((open_directory(CWD, path)?, OsString::new(), path.clone())),
        Destination::Exactly(path) | Destination::Guess(path) => {
            let operand = Operand::open(path);
            let spot = operand.spot();
            let shown = renamed(operand.path(), OsStr::new("")).into_os_string();
            Ok((duplicate(spot.dir()?)?, last_component(spot.name).to_owned(), shown))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::context::test_support::Bench;

    /// What this name at the destination stands for, for so many sources.
    fn settled(bench: &Bench, name: &str, sources: usize, resume: bool) -> Destination {
        let path: OsString = bench.dest_path(name).into();
        let sources = vec!["a".into(); sources];
        settle_destination(&Plan { sources, destination: Destination::Guess(path), resume, ..Plan::default() })
    }

    #[test]
    fn only_a_directory_is_copied_into() {
        let bench = Bench::new(Plan::default()).dest("file", "");
        symlink(".", bench.dest_path("link")).unwrap();
        let path = |name: &str| bench.dest_path(name).into();
        assert_eq!(settled(&bench, "", 1, false), Destination::Directory(path("")));
        assert_eq!(settled(&bench, "link", 1, false), Destination::Directory(path("link")));
        assert_eq!(settled(&bench, "file", 1, false), Destination::Exactly(path("file")));
        assert_eq!(settled(&bench, "missing", 1, false), Destination::Exactly(path("missing")));
    }

    #[test]
    fn several_sources_have_no_one_copy() {
        let bench = Bench::new(Plan::default());
        assert_eq!(settled(&bench, "missing", 2, false), Destination::Guess(bench.dest_path("missing").into()));
        assert_eq!(settled(&bench, "", 2, false), Destination::Directory(bench.dest_path("").into()));
    }

    #[test]
    fn what_is_ambiguous_stays_so_for_the_run_to_refuse() {
        let bench = Bench::new(Plan::default());
        assert_eq!(settled(&bench, "", 1, true), Destination::Guess(bench.dest_path("").into()));
    }

    #[test]
    fn what_is_named_exactly_needs_no_look() {
        let destination = Destination::Exactly("/".into());
        let plan = Plan { destination: destination.clone(), ..Plan::default() };
        assert_eq!(settle_destination(&plan), destination);
    }
}
