//! What operands stand for at this moment: the destination, and whether something is in a source. Directories are known by
//! their identity, not by paths.

use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::CWD;

use crate::decide::Wanted;
use crate::error::Error;
use crate::links::duplicate;
use crate::plan::{Dereference, Destination, Plan};
use crate::walk::{Operand, Spot, last_component, open_directory, renamed, upwards};

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

/// The source of this plan that a file is, or that it stands in; the file itself need not exist yet.
///
/// What a copy would reach only through a symbolic link in a source is not in it.
#[must_use]
pub fn source_of<'p>(plan: &'p Plan, file: &Path) -> Option<&'p OsStr> {
    let file = Operand::open(file.as_os_str());
    let found = file.spot().inode_following().ok();
    // What cannot be looked at cannot be copied either.
    let dirs = file.spot().dir().and_then(ways_up).unwrap_or_default();
    let holds = |source: &&std::ffi::OsString| {
        let Ok(inode) = operand_inode(Operand::open(source).spot(), plan) else { return false };
        match inode.kind {
            Kind::Directory => plan.recursive && reaches(&inode, &dirs, plan),
            _ => found.is_some_and(|found| found.is_same_file_as(&inode)),
        }
    };
    plan.sources.iter().find(holds).map(|source| source.as_os_str())
}

/// Whether a copy of the directory `source` comes to the first of these directories, of which each is in the next.
pub(crate) fn reaches(source: &Inode, dirs: &[Inode], plan: &Plan) -> bool {
    let Some(at) = dirs.iter().position(|dir| dir.is_same_file_as(source)) else { return false };
    let wanted = Wanted::new(plan, &[]);
    dirs[..=at].windows(2).all(|pair| wanted.contents(&pair[0], Some(pair[1].id.device())))
}

/// A directory and all that it is in.
pub(crate) fn ways_up(from: BorrowedFd<'_>) -> Result<Vec<Inode>, Errno> {
    upwards(from).collect()
}

/// The attributes of an operand, links followed or not as the plan says.
pub(crate) fn operand_inode(spot: Spot<'_>, plan: &Plan) -> Result<Inode, Errno> {
    if plan.dereference == Dereference::Never { spot.inode() } else { spot.inode_following() }
}

/// The sources that the filter excludes itself, as errors. What cannot be looked at is reported elsewhere.
pub(crate) fn excluded_operands(plan: &Plan) -> Vec<Error> {
    if plan.filter.is_none() {
        return Vec::new();
    }
    let excluded = |source: &OsString| {
        let inode = operand_inode(Operand::open(source).spot(), plan).ok()?;
        Wanted::new(plan, &[]).objection(&inode, source)
    };
    plan.sources.iter().filter_map(excluded).collect()
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

#[cfg(test)]
mod within_tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    use haul_sys::inode::{DeviceNumber, FileId};

    use super::*;
    use crate::context::test_support::Bench;

    /// `dir/sub` and `file` in the source, which are both copied.
    fn bench(plan: Plan) -> Bench {
        let mut bench = Bench::new(plan).source("file", "");
        fs::create_dir_all(bench.source_path("dir/sub")).unwrap();
        bench.plan.sources = vec![bench.source_path("dir").into(), bench.source_path("file").into()];
        bench
    }

    fn recursive() -> Plan {
        Plan { recursive: true, dereference: Dereference::Never, ..Plan::default() }
    }

    /// The bare name of the source that this file of the source's directory is in.
    fn source_of_name(bench: &Bench, name: &str) -> Option<String> {
        let source = source_of(&bench.plan, &bench.source_path(name))?;
        Some(Path::new(source).file_name()?.to_str()?.to_owned())
    }

    #[test]
    fn a_file_is_in_the_source_that_holds_its_directory() {
        let bench = bench(recursive());
        for (name, source) in [
            ("dir/sub/new", Some("dir")),
            ("dir/new", Some("dir")),
            ("file", Some("file")),
            ("new", None),
            ("../dest/new", None),
            ("dir/sub/../../new", None),
        ] {
            assert_eq!(source_of_name(&bench, name).as_deref(), source, "{name}");
        }
    }

    #[test]
    fn nothing_is_in_a_directory_that_is_not_copied() {
        let bench = bench(Plan { recursive: false, ..recursive() });
        assert_eq!(source_of_name(&bench, "dir/new"), None);
        assert_eq!(source_of_name(&bench, "file").as_deref(), Some("file"));
    }

    #[test]
    fn another_name_of_a_source_is_that_source() {
        let bench = bench(recursive());
        fs::hard_link(bench.source_path("file"), bench.source_path("other")).unwrap();
        symlink("file", bench.source_path("link")).unwrap();
        assert_eq!(source_of_name(&bench, "other").as_deref(), Some("file"));
        assert_eq!(source_of_name(&bench, "link").as_deref(), Some("file"));
    }

    #[test]
    fn ways_up_end_at_the_root() {
        let bench = bench(recursive());
        let dir = File::open(bench.source_path("dir/sub")).unwrap();
        let ways = ways_up(dir.as_fd()).unwrap();
        let expected: Vec<_> = bench
            .source_path("dir/sub")
            .ancestors()
            .map(|dir| Inode::of(File::open(dir).unwrap().as_fd()).unwrap().id)
            .collect();
        assert_eq!(ways.iter().map(|inode| inode.id).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_copy_that_stays_on_its_filesystem_reaches_no_other() {
        let directory = |device: u32, inode: u64| {
            let id = FileId::new(DeviceNumber { major: 8, minor: device }, inode);
            Inode { id, kind: Kind::Directory, ..Inode::just_made(id.device()) }
        };
        let (source, mounted) = (directory(1, 2), directory(2, 2));
        let dirs = [mounted, source, directory(1, 1)];
        assert!(reaches(&source, &dirs, &recursive()));
        assert!(!reaches(&source, &dirs, &Plan { one_file_system: true, ..recursive() }));
        assert!(reaches(&source, &dirs[1..], &Plan { one_file_system: true, ..recursive() }));
        assert!(!reaches(&directory(3, 3), &dirs, &recursive()));
    }

    #[test]
    fn a_link_is_followed_where_the_plan_says_so() {
        let bench = bench(recursive());
        symlink("dir", bench.source_path("link")).unwrap();
        let kind = |dereference| operand_inode(bench.from("link"), &Plan { dereference, ..recursive() }).unwrap().kind;
        assert_eq!(kind(Dereference::Never), Kind::SymbolicLink);
        assert_eq!(kind(Dereference::Operands), Kind::Directory);
        assert_eq!(kind(Dereference::Always), Kind::Directory);
    }
}
