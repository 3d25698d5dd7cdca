//! Whether something is in a source: by the identity of directories, not by paths.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::path::Path;

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};

use crate::decide::Wanted;
use crate::plan::{Dereference, Plan};
use crate::walk::{Operand, Spot, upwards};

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

#[cfg(test)]
mod tests {
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
