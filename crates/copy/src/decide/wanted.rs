//! Which entries of the sources are wanted: one answer for what copies them, lists them, compares them and counts them.

use std::ffi::OsStr;

use haul_sys::inode::{DeviceNumber, FileId, Inode, Kind};

use crate::error::{Error, What};
use crate::filter::Verdict;
use crate::plan::Plan;
use crate::walk::last_component;

/// Which entries of the sources a plan wants.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    plan: &'a Plan,
    skip_files: &'a [FileId],
}

impl<'a> Wanted<'a> {
    /// `skip_files`: files that are not copied wherever they are met.
    #[must_use]
    pub fn new(plan: &'a Plan, skip_files: &'a [FileId]) -> Wanted<'a> {
        Wanted { plan, skip_files }
    }

    /// Whether a file or directory is copied if it is met.
    #[must_use]
    pub fn entry(self, inode: &Inode) -> bool {
        !self.skip_files.contains(&inode.id)
    }

    /// What the filters say of an entry below an operand. `path` gives its path below the operand; it is asked only if a pattern
    /// is for paths.
    #[must_use]
    pub fn below<P: AsRef<OsStr>>(self, inode: &Inode, name: &OsStr, path: impl FnOnce() -> P) -> Verdict {
        let Some(filter) = &self.plan.filter else { return Verdict::WANTED };
        let verdict = filter.by_pattern(inode.kind, name, || Some(path()));
        match verdict.excluded {
            true => verdict,
            false => Verdict { excluded: filter.excludes_contents(inode), ..verdict },
        }
    }

    /// The same of an entry that cannot be looked at, of whatever type it is: a filter is what spares the user an error about it.
    #[must_use]
    pub(crate) fn unseen<P: AsRef<OsStr>>(self, name: &OsStr, path: impl Fn() -> P) -> Verdict {
        let Some(filter) = &self.plan.filter else { return Verdict::WANTED };
        let as_file = filter.by_pattern(Kind::Regular, name, || Some(path()));
        if as_file.excluded { as_file } else { filter.by_pattern(Kind::Directory, name, || Some(path())) }
    }

    /// The same of something that only a copy has: of its size and age, the source says nothing.
    pub(crate) fn only_in_copy<P: AsRef<OsStr>>(self, kind: Kind, name: &OsStr, path: impl FnOnce() -> P) -> bool {
        self.plan.filter.as_ref().is_none_or(|filter| !filter.by_pattern(kind, name, || Some(path())).excluded)
    }

    /// Why a source cannot be copied, if the filters exclude it. Patterns for paths are for what is below it, and one that has no
    /// name of its own (`.`, `/`) is matched by none.
    pub(crate) fn objection(self, inode: &Inode, source: &OsStr) -> Option<Error> {
        let filter = self.plan.filter.as_ref()?;
        let name = last_component(source);
        let rule = match name.to_str() {
            Some("" | "." | "..") => None,
            _ => filter.by_pattern(inode.kind, name, || None::<&OsStr>).excluding(),
        };
        let pattern = rule.and_then(|rule| filter.choice().rules.get(rule)).map(|rule| rule.pattern.to_string_lossy());
        let detail = match pattern {
            Some(pattern) => format!(
                "by the pattern {pattern:?}; a pattern with a slash, such as \"**/{}\", is only for what is below a source",
                pattern.trim_start_matches("**/")
            ),
            None if filter.excludes_contents(inode) => "by its size or its time".to_owned(),
            None => return None,
        };
        Some(Error::new(What::SourceExcluded, source).detail(detail))
    }

    /// Whether of directories that are tagged as caches only the tag is wanted.
    #[must_use]
    pub fn excludes_caches(self) -> bool {
        self.plan.filter.as_ref().is_some_and(|filter| filter.choice().exclude_caches)
    }

    /// Whether an operand is copied; without `recursive` a directory is not.
    #[must_use]
    pub fn operand(self, inode: &Inode) -> bool {
        self.plan.recursive || inode.kind != Kind::Directory
    }

    /// Whether what is in a directory is copied. `above` is the filesystem of the directory that it was found in, if it is no
    /// operand: with `one_file_system` a mounted one stays empty.
    #[must_use]
    pub fn contents(self, directory: &Inode, above: Option<DeviceNumber>) -> bool {
        let foreign = || above.is_some_and(|above| above != directory.id.device());
        directory.kind == Kind::Directory && !(self.plan.one_file_system && foreign())
    }
}

#[cfg(test)]
mod tests {
    use haul_sys::inode::Time;

    use super::*;
    use crate::filter::{Choice, Filter, Rule};

    fn inode(device: u32, kind: Kind) -> Inode {
        let id = FileId::new(DeviceNumber { major: 8, minor: device }, 7);
        Inode { id, kind, ..Inode::just_made(id.device()) }
    }

    #[test]
    fn a_mounted_filesystem_is_wanted_unless_the_plan_stays_on_one() {
        let plan = |one_file_system| Plan { one_file_system, ..Plan::default() };
        let mounted = inode(2, Kind::Directory);
        let above = Some(inode(1, Kind::Directory).id.device());
        assert!(Wanted::new(&plan(false), &[]).contents(&mounted, above));
        assert!(!Wanted::new(&plan(true), &[]).contents(&mounted, above));
        assert!(Wanted::new(&plan(true), &[]).contents(&mounted, Some(mounted.id.device())));
        assert!(Wanted::new(&plan(true), &[]).contents(&mounted, None), "an operand may be a mount point");
        assert!(!Wanted::new(&plan(false), &[]).contents(&inode(1, Kind::Regular), above));
    }

    #[test]
    fn what_is_left_out_is_not_wanted_wherever_it_is_met() {
        let plan = Plan::default();
        let file = inode(1, Kind::Regular);
        assert!(Wanted::new(&plan, &[]).entry(&file));
        assert!(!Wanted::new(&plan, &[file.id]).entry(&file));
    }

    #[test]
    fn a_directory_is_no_operand_unless_the_plan_is_recursive() {
        let plan = |recursive| Plan { recursive, ..Plan::default() };
        assert!(!Wanted::new(&plan(false), &[]).operand(&inode(1, Kind::Directory)));
        assert!(Wanted::new(&plan(true), &[]).operand(&inode(1, Kind::Directory)));
        assert!(Wanted::new(&plan(false), &[]).operand(&inode(1, Kind::Fifo)));
    }

    fn filtered(choice: Choice) -> Plan {
        Plan { filter: Filter::new(choice).unwrap(), ..Plan::default() }
    }

    #[test]
    fn sizes_and_ages_are_those_of_regular_files() {
        let at = |seconds| Time { seconds, nanoseconds: 5 };
        let plan =
            filtered(Choice { max_size: Some(10), min_size: Some(2), newer_than: Some(at(100)), ..Choice::default() });
        let excluded = |kind, size, modified| {
            let inode = Inode { size, modified, ..inode(1, kind) };
            Wanted::new(&plan, &[]).below(&inode, OsStr::new("a"), || "a").excluded
        };
        for (size, seconds, wanted) in
            [(2, 101, true), (10, 101, true), (1, 101, false), (11, 101, false), (5, 100, false), (5, 99, false)]
        {
            assert_eq!(excluded(Kind::Regular, size, at(seconds)), !wanted, "{size} bytes, {seconds} s");
            for kind in [Kind::Directory, Kind::SymbolicLink, Kind::Fifo, Kind::BlockDevice] {
                assert!(!excluded(kind, size, at(seconds)));
            }
        }
        assert!(!excluded(Kind::Regular, 5, Time { nanoseconds: 6, ..at(100) }));
    }

    #[test]
    fn an_included_file_has_to_have_the_size_all_the_same() {
        let plan = filtered(Choice { rules: vec![Rule::include("a")], max_size: Some(0), ..Choice::default() });
        let inode = Inode { size: 1, ..inode(1, Kind::Regular) };
        let verdict = Wanted::new(&plan, &[]).below(&inode, OsStr::new("a"), || "a");
        assert_eq!(verdict, Verdict { excluded: true, rule: Some(0) });
        assert!(Wanted::new(&plan, &[]).only_in_copy(Kind::Regular, OsStr::new("a"), || "a"));
    }

    #[test]
    fn a_path_is_made_only_for_patterns_that_need_it() {
        let plan = filtered(Choice { rules: vec![Rule::exclude("*.o")], ..Choice::default() });
        let path = || -> &OsStr { panic!("nobody needs it") };
        let file = inode(1, Kind::Regular);
        assert!(Wanted::new(&plan, &[]).below(&file, OsStr::new("a.o"), path).excluded);
        assert!(!Wanted::new(&Plan::default(), &[]).below(&file, OsStr::new("a.o"), path).excluded);
    }

    #[test]
    fn an_operand_without_a_name_is_excluded_by_none() {
        let plan = filtered(Choice { rules: vec![Rule::exclude("*")], ..Choice::default() });
        let dir = inode(1, Kind::Directory);
        for (name, excluded) in [("/", false), (".", false), ("a/..", false), ("a", true), ("./a//", true)] {
            assert_eq!(Wanted::new(&plan, &[]).objection(&dir, OsStr::new(name)).is_some(), excluded, "{name}");
        }
    }
}
