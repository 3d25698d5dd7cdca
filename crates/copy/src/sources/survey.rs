//! Listing what there is to copy, by the same rules as the copy itself, and by descriptors as everywhere.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsStr;

use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Kind};

use crate::decide::Wanted;
use crate::error::{Error, What};
use crate::events::Event;
use crate::list::{Entry, FileList, Index, Misplaced, Root};
use crate::plan::{Dereference, Plan};
use crate::report::Session;
use crate::schedule::limits::open_levels;
use crate::sources::operands::operand_inode;
use crate::walk::{Descent, Entered, Operand, PathCursor, Spot};

/// What a walk over the sources has found.
#[derive(Debug, Default)]
pub struct Survey {
    /// The list. It is of everything that could be looked at.
    pub list: FileList,
    /// Something could not be looked at, which was reported.
    pub failed: bool,
    /// How often that was.
    pub errors: u64,
}

/// Lists the sources of a plan as a copy by it would meet them. Nothing is written.
///
/// Errors are reported to the observer, one by one, and the walk goes on.
pub fn list(plan: &Plan, session: &Session<'_>) -> Survey {
    match plan.against_lists() {
        None => walk(plan, session, true),
        Some(what) => {
            session.observer.event(&Event::Problem(Cow::Owned(Error::new(What::NotByList, "").detail(what))));
            Survey { failed: true, errors: 1, ..Survey::default() }
        }
    }
}

/// The same; with `unreadable` directories that cannot be opened are reported, too.
pub(crate) fn walk(plan: &Plan, session: &Session<'_>, unreadable: bool) -> Survey {
    let mut walk = Walk { plan, session, unreadable, open: open_levels(1), survey: Survey::default() };
    for source in &plan.sources {
        if session.cancel.is_cancelled() {
            walk.survey.failed = true;
            break;
        }
        walk.operand(source);
    }
    walk.survey
}

/// Which file an operand is, if that is known.
pub(crate) fn root_of(inode: &Inode) -> Option<Root> {
    inode.born.map(|born| Root { inode: inode.id.inode(), born })
}

struct Walk<'a> {
    plan: &'a Plan,
    session: &'a Session<'a>,
    unreadable: bool,
    /// Directories that may be held open.
    open: usize,
    survey: Survey,
}

/// A directory that is being listed, with its entry in the list.
type Level = Entered<Index>;

impl<'a> Walk<'a> {
    fn wanted(&self) -> Wanted<'a> {
        Wanted::new(self.plan, &self.session.skip_files)
    }

    fn problem(&mut self, error: &Error) {
        self.survey.failed = true;
        self.survey.errors += 1;
        self.session.observer.event(&Event::Problem(Cow::Borrowed(error)));
    }

    fn operand(&mut self, source: &OsStr) {
        let operand = Operand::open(source);
        let spot = operand.spot();
        let inode = match operand_inode(spot, self.plan) {
            Ok(inode) => inode,
            Err(errno) => {
                self.survey.list.add_operand(source, None);
                return self.problem(&Error::new(What::CannotStat, source).errno(errno));
            }
        };
        self.survey.list.add_operand(source, root_of(&inode));
        if !self.wanted().operand(&inode) {
            return self.problem(&Error::new(What::OmittingDirectory, source));
        }
        let follow = self.plan.dereference != Dereference::Never;
        // Two links may lead to one file.
        let entry = entry_of(&inode, follow);
        match self.survey.list.add_root(&entry) {
            Ok(root) if inode.kind == Kind::Directory => self.tree(spot, follow, inode, root),
            Ok(_) => {}
            Err(why) => self.cannot_add(spot, why),
        }
    }

    fn cannot_add(&mut self, spot: Spot<'_>, why: Misplaced) {
        let errno = if why == Misplaced::Full { Errno::OVERFLOW } else { Errno::ILSEQ };
        self.problem(&Error::new(What::CannotAccess, spot.path).errno(errno));
    }

    fn tree(&mut self, spot: Spot<'_>, follow: bool, inode: Inode, root: Index) {
        let mut cursor = PathCursor::default();
        let mut on_the_way = HashSet::new();
        let mut descent = Descent::new(self.open);
        let top = Level::open(spot, follow, None, root);
        self.enter(spot, top, inode, &mut on_the_way).into_iter().for_each(|top| descent.enter(top));
        while let Some(level) = descent.innermost() {
            if self.session.cancel.is_cancelled() {
                self.survey.failed = true;
                return;
            }
            let listed = match level.next_name() {
                Ok(listed) => listed,
                Err(errno) => {
                    self.problem(&Error::new(What::CannotAccess, level.path().path()).errno(errno));
                    None
                }
            };
            let Some(listed) = listed else {
                let Some((done, reopened)) = descent.leave() else { return };
                on_the_way.remove(&done.inode().id);
                if let Err(why) = reopened {
                    // Without its parent the rest of the tree cannot be found.
                    return self.problem(&Error::new(What::DirectoryMoved, done.path().path()).errno(why.errno()));
                }
                continue;
            };
            let child = level.spot(&listed.name, cursor.entry(level.path(), &listed.name));
            if let Some(next) = self.child(child, level, &mut on_the_way) {
                descent.enter(next);
            }
        }
    }

    /// Lists what stands in a directory; gives the next level if it is a directory whose contents are wanted.
    fn child(&mut self, spot: Spot<'_>, parent: &Level, on_the_way: &mut HashSet<FileId>) -> Option<Level> {
        let inode = match spot.inode() {
            Ok(inode) => inode,
            Err(errno) => {
                self.problem(&Error::new(What::CannotStat, spot.path).errno(errno));
                return None;
            }
        };
        if !self.wanted().entry(&inode) {
            return None;
        }
        let at = match self.survey.list.add(parent.note, spot.name, &entry_of(&inode, false)) {
            Ok(at) => at,
            Err(why) => {
                self.cannot_add(spot, why);
                return None;
            }
        };
        if !self.wanted().contents(&inode, Some(parent.inode().id.device())) {
            return None;
        }
        self.enter(spot, Level::open(spot, false, Some(parent.path()), at), inode, on_the_way)
    }

    /// A directory that was opened, if it is the one that was seen (`inode`).
    fn enter(
        &mut self,
        spot: Spot<'_>,
        opened: Result<Level, Errno>,
        inode: Inode,
        on_the_way: &mut HashSet<FileId>,
    ) -> Option<Level> {
        match opened {
            // Mounted in itself: the copy says so.
            Ok(_) if !on_the_way.insert(inode.id) => None,
            Ok(level) if level.inode().is_same_file_as(&inode) => Some(level),
            Ok(_) => {
                self.problem(&Error::new(What::ReplacedWhileCopied, spot.path));
                None
            }
            Err(Errno::ACCESS | Errno::PERM) if !self.unreadable => None,
            Err(errno) => {
                self.problem(&Error::new(What::CannotAccess, spot.path).errno(errno));
                None
            }
        }
    }
}

fn entry_of(inode: &Inode, may_be_met_again: bool) -> Entry {
    let several = inode.kind != Kind::Directory && (inode.links > 1 || may_be_met_again);
    let size = if matches!(inode.kind, Kind::Regular | Kind::SymbolicLink) { inode.size } else { 0 };
    let (kind, modified, changed) = (inode.kind, inode.modified, inode.changed);
    Entry { kind, size, modified, changed, id: several.then_some(inode.id) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::context::test_support::{Bench, Ran};

    /// These entries of the source are to be listed.
    fn bench(operands: &[&str]) -> Bench {
        let mut bench = Bench::new(Plan { recursive: true, dereference: Dereference::Never, ..Plan::default() })
            .source("file", "abc");
        fs::create_dir_all(bench.source_path("dir/sub/deep")).unwrap();
        fs::write(bench.source_path("dir/sub/below"), "").unwrap();
        bench.plan.sources = operands.iter().map(|name| bench.source_path(name).into()).collect();
        bench
    }

    fn listed_by(bench: &Bench, walk: impl FnOnce(&Plan, &Session<'_>) -> Survey) -> Ran<Survey> {
        bench.run(|cx, worker| {
            let survey = walk(cx.plan, cx.session);
            worker.report.stats.errors += survey.errors;
            worker.report.failed |= survey.failed;
            survey
        })
    }

    fn listed(bench: &Bench) -> Ran<Survey> {
        listed_by(bench, list)
    }

    /// The paths of all entries below their operands, in the order of the list.
    fn paths(list: &FileList) -> Vec<String> {
        let all = 0..Index::try_from(list.len()).unwrap();
        let path = |at| list.names_to(at).iter().map(|name| name.to_str().unwrap()).collect::<Vec<_>>().join("/");
        all.map(path).collect()
    }

    #[test]
    fn what_is_in_a_directory_comes_behind_it() {
        let bench = bench(&["dir", "file"]);
        let ran = listed(&bench);
        ran.says(&[]);
        let mut paths = paths(&ran.value.list);
        assert_eq!((&paths[0][..], &paths[1][..], &paths[4][..]), ("", "sub", ""));
        paths[2..4].sort();
        assert_eq!(paths[2..4], ["sub/below", "sub/deep"]);
        let operands: Vec<_> = ran.value.list.operands().map(|(_, _, root)| root).collect();
        assert_eq!(operands, [Some(0), Some(4)]);
    }

    #[test]
    fn an_entry_is_listed_with_size_kind_and_times() {
        let bench = bench(&["file"]);
        let entry = listed(&bench).value.list.entry(0);
        let inode = bench.from("file").inode().unwrap();
        let expected =
            Entry { kind: Kind::Regular, size: 3, modified: inode.modified, changed: inode.changed, id: None };
        assert_eq!(entry, expected);
    }

    #[test]
    fn only_files_that_may_be_met_again_are_listed_by_identity() {
        let mut bench = bench(&["file"]);
        let id = bench.from("file").inode().unwrap().id;
        assert_eq!(listed(&bench).value.list.entry(0).id, None);
        bench.plan.dereference = Dereference::Operands;
        assert_eq!(listed(&bench).value.list.entry(0).id, Some(id), "another link may lead to it");
        bench.plan.dereference = Dereference::Never;
        fs::hard_link(bench.source_path("file"), bench.source_path("other")).unwrap();
        assert_eq!(listed(&bench).value.list.entry(0).id, Some(id));
    }

    #[test]
    fn a_link_of_an_operand_is_followed_if_asked() {
        let mut bench = bench(&["link"]);
        symlink("dir", bench.source_path("link")).unwrap();
        assert_eq!(listed(&bench).value.list.kind(0), Kind::SymbolicLink);
        bench.plan.dereference = Dereference::Operands;
        let list = listed(&bench).value.list;
        assert_eq!((list.kind(0), list.len()), (Kind::Directory, 4));
    }

    #[test]
    fn any_depth_is_listed_with_few_open_levels() {
        let bench = bench(&["deep"]);
        let mut path = bench.source_path("deep");
        for _ in 0..40 {
            fs::create_dir(&path).unwrap();
            fs::write(path.join("file"), "").unwrap();
            path.push("d");
        }
        for open in [1, 2, 100] {
            let ran = listed_by(&bench, |plan, session| {
                let mut walk = Walk { plan, session, unreadable: true, open, survey: Survey::default() };
                walk.operand(&plan.sources[0]);
                walk.survey
            });
            ran.says(&[]);
            assert_eq!(ran.value.list.len(), 80);
        }
    }

    #[test]
    fn a_missing_source_is_listed_without_entries() {
        let bench = bench(&["missing", "file"]);
        let ran = listed(&bench);
        let path = bench.source_path("missing");
        ran.says(&[&format!("error: cannot stat {path:?}: {}", Errno::NOENT)]);
        let operands: Vec<_> = ran.value.list.operands().map(|(_, _, root)| root).collect();
        assert_eq!(operands, [None, Some(0)]);
    }

    #[test]
    fn a_directory_is_omitted_unless_the_plan_is_recursive() {
        let mut bench = bench(&["dir"]);
        bench.plan.recursive = false;
        let ran = listed(&bench);
        ran.says(&[&format!("error: -r not specified; omitting directory {:?}", bench.source_path("dir"))]);
        assert!(ran.value.list.is_empty());
    }

    #[test]
    fn options_that_go_against_lists_list_nothing() {
        let mut bench = bench(&["dir"]);
        bench.plan.parents = true;
        let ran = listed(&bench);
        ran.says(&["error: file lists and shards do not go with --parents"]);
        assert!(ran.value.list.is_empty() && ran.value.failed);
    }

    #[test]
    fn a_cancelled_survey_has_failed() {
        let bench = bench(&["dir"]);
        bench.cancel.cancel();
        let ran = listed(&bench);
        assert!(ran.value.failed && ran.value.list.is_empty() && ran.heard.is_empty());
    }
}
