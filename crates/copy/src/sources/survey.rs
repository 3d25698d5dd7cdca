//! Listing what there is to copy, by the same rules as the copy itself, and by descriptors as everywhere.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Kind};
use haul_sys::rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};

use crate::decide::Wanted;
use crate::error::{Error, What};
use crate::events::Event;
use crate::list::{Entry, FileList, Index, Misplaced, Names, Root};
use crate::plan::{Dereference, Plan};
use crate::report::Session;
use crate::schedule::limits::open_levels;
use crate::sources::operands::{excluded_operands, operand_inode};
use crate::stats::Stats;
use crate::walk::{Descent, Entered, Operand, PathCursor, Spot, joined, path_below};

/// What a walk over the sources has found.
#[derive(Debug, Default)]
pub struct Survey {
    /// The list. It is of everything that could be looked at.
    pub list: FileList,
    /// Something could not be looked at, which was reported.
    pub failed: bool,
    /// How often that was.
    pub errors: u64,
    /// So many of the errors are names of the plan that lead to nothing: whoever looks again finds no more.
    pub(crate) missing: u64,
    /// How many entries each rule of the filter has decided about, and how many are excluded.
    pub(crate) filtered: Stats,
}

impl Survey {
    /// The list for a copy or a comparison by this plan, and what was found out with it: what the filter has said, and errors.
    ///
    /// # Errors
    /// How many errors there were, if they are the end: without names that are not there the others are copied, unless the
    /// plan stops at an error or there is nothing to put them into.
    pub fn settle(self, plan: &Plan) -> Result<(Arc<FileList>, Stats), u64> {
        if self.failed && (plan.names.is_none() || plan.fail_fast || self.list.is_empty()) {
            return Err(self.errors);
        }
        Ok((Arc::new(self.list), Stats { errors: self.errors, ..self.filtered }))
    }
}

/// Lists the sources of a plan as a copy by it would meet them. Nothing is written.
///
/// Errors are reported to the observer, one by one, and the walk goes on.
pub fn list(plan: &Plan, session: &Session<'_>) -> Survey {
    let mut objections = excluded_operands(plan);
    objections.extend(plan.against_lists().map(|what| Error::new(What::NotByList, "").detail(what)));
    if objections.is_empty() {
        return walk(plan, session, true);
    }
    let errors = objections.len() as u64;
    objections.into_iter().for_each(|error| session.observer.event(&Event::Problem(Cow::Owned(error))));
    Survey { failed: true, errors, ..Survey::default() }
}

/// The same; with `unreadable` directories that cannot be opened are reported, too.
pub(crate) fn walk(plan: &Plan, session: &Session<'_>, unreadable: bool) -> Survey {
    let source = OsStr::new("");
    let mut walk = Walk { plan, session, unreadable, source, open: open_levels(1), survey: Survey::default() };
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
    /// The operand that is being listed.
    source: &'a OsStr,
    /// Directories that may be held open.
    open: usize,
    survey: Survey,
}

/// A directory that is being listed, with its entry in the list.
type Level = Entered<Index>;

/// The way to a name below an operand.
struct Way<'n> {
    /// The operand and the directories that the way goes through.
    descent: Descent<Level>,
    /// The names of those below the operand.
    names: Vec<&'n OsStr>,
    /// So many of the directories are in the list.
    listed: usize,
    ids: HashSet<FileId>,
}

/// A step on the way to a name.
enum Step {
    /// Into a directory.
    Into(Level),
    /// To what the name stands for. Below it there is nothing to be found.
    Leaf(Inode, Why),
    /// Nowhere.
    Nothing(Why),
}

/// Why nothing is to be found below an entry.
enum Why {
    /// What is there is listed already, is not wanted, or was reported.
    Covered,
    /// It is a directory that is listed with all that is in it.
    Contents,
    /// The kernel says it, or would say it.
    Errno(Errno),
    /// It is a symbolic link.
    Link,
}

/// Looks whether there is an entry of this name, not through symbolic links.
fn look_for(dir: BorrowedFd<'_>, parts: &[&OsStr]) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let path = parts.join(OsStr::new("/"));
    match openat2(dir, &path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH) {
        // Before Linux 5.6, not allowed in a container, or too long for one call.
        Err(Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG) => look_for_each(dir, parts),
        found => found.map(drop),
    }
}

/// The same, one component after the other.
fn look_for_each(dir: BorrowedFd<'_>, parts: &[&OsStr]) -> Result<(), Errno> {
    let Some((last, way)) = parts.split_last() else { return Ok(()) };
    let mut held: Option<OwnedFd> = None;
    for part in way {
        let from = held.as_ref().map_or(dir, AsFd::as_fd);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        held = Some(openat(from, *part, flags, Mode::empty())?);
    }
    Inode::at(held.as_ref().map_or(dir, AsFd::as_fd), last).map(drop)
}

impl<'n> Way<'n> {
    fn enter(&mut self, level: Level, name: &'n OsStr) {
        self.descent.enter(level);
        self.names.push(name);
    }

    /// Leaves the directories that are not on the way to this name.
    fn go_back_to(&mut self, parts: &[&OsStr]) -> Result<(), Error> {
        let common = self.names.iter().zip(parts).take_while(|(here, part)| here == part).count();
        while self.names.len() > common {
            self.names.pop();
            let Some((done, reopened)) = self.descent.leave() else { return Ok(()) };
            self.listed = self.listed.min(self.names.len() + 1);
            self.ids.remove(&done.inode().id);
            // Without its parent the other names cannot be found.
            reopened.map_err(|why| Error::new(What::DirectoryMoved, done.path().path()).errno(why.errno()))?;
        }
        Ok(())
    }
}

impl<'a> Walk<'a> {
    fn wanted(&self) -> Wanted<'a> {
        Wanted::new(self.plan, &self.session.skip_files)
    }

    fn problem(&mut self, error: &Error) {
        self.survey.failed = true;
        self.survey.errors += 1;
        self.session.observer.event(&Event::Problem(Cow::Borrowed(error)));
    }

    fn operand(&mut self, source: &'a OsStr) {
        self.source = source;
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
            Ok(root) => match &self.plan.names {
                Some(names) => self.named(spot, follow, (inode, root), names),
                None if inode.kind == Kind::Directory => self.tree(spot, follow, inode, root),
                None => {}
            },
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

    /// Lists what has these names below the operand, and the directories on the way to what is there.
    fn named(&mut self, spot: Spot<'_>, follow: bool, (inode, root): (Inode, Index), names: &Names) {
        if names.are_everything() {
            self.tree(spot, follow, inode, root);
            return self.look_for_all(spot, follow, names);
        }
        let mut way = Way { descent: Descent::new(self.open), names: Vec::new(), listed: 1, ids: HashSet::new() };
        let top = Level::open(spot, follow, None, root);
        let Some(top) = self.enter(spot, top, inode, &mut way.ids) else { return };
        way.descent.enter(top);
        // Where the way to the last name ended: below that there is nothing to be found.
        let mut end: Option<(Vec<&OsStr>, Why)> = None;
        for parts in names.iter() {
            if self.session.cancel.is_cancelled() {
                self.survey.failed = true;
                return;
            }
            if let Err(error) = way.go_back_to(&parts) {
                return self.problem(&error);
            }
            end = end.filter(|(stop, _)| parts.starts_with(stop));
            let mut found = false;
            while end.is_none() && way.names.len() < parts.len() {
                let depth = way.names.len();
                let Some(parent) = way.descent.innermost() else { return };
                let why = match self.step(parent, parts[depth], depth + 1 == parts.len(), &mut way.ids) {
                    Step::Into(level) => {
                        way.enter(level, parts[depth]);
                        continue;
                    }
                    Step::Leaf(inode, why) => {
                        found = true;
                        self.leaf(&mut way, parts[depth], inode, matches!(why, Why::Contents));
                        why
                    }
                    Step::Nothing(why) => why,
                };
                end = Some((parts[..=depth].to_vec(), why));
            }
            match &end {
                None => _ = self.list_levels(&mut way),
                // What a filter leaves out may be there or not.
                Some((_, Why::Contents)) if !found && self.plan.filter.is_none() => {
                    let depth = way.names.len();
                    let dir = way.descent.innermost().and_then(|level| level.dir());
                    if let Some(Err(errno)) = dir.map(|dir| look_for(dir, &parts[depth..])) {
                        self.not_found(&parts, &[], &Why::Errno(errno));
                    }
                }
                Some((stop, why)) if !found => self.not_found(&parts, stop, why),
                Some(_) => {}
            }
        }
    }

    /// Reports which names are not there, below an operand that is listed with all its contents.
    fn look_for_all(&mut self, spot: Spot<'_>, follow: bool, names: &Names) {
        let no_follow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        if self.plan.filter.is_some() {
            return;
        }
        // If it cannot be opened that was reported.
        let Ok(dir) = spot.open(OFlags::PATH | OFlags::DIRECTORY | no_follow, 0) else { return };
        for parts in names.iter().filter(|parts| parts.iter().any(|part| !part.is_empty())) {
            if self.session.cancel.is_cancelled() {
                return;
            }
            if let Err(errno) = look_for(dir.as_fd(), &parts) {
                self.not_found(&parts, &[], &Why::Errno(errno));
            }
        }
    }

    /// The next step on the way to a name, of which this part may be the last.
    fn step(&mut self, parent: &mut Level, part: &OsStr, last: bool, ids: &mut HashSet<FileId>) -> Step {
        let path = parent.path().joined(part);
        let spot = parent.spot(part, &path);
        let inode = match spot.inode() {
            Ok(inode) => inode,
            Err(_) if self.is_excluded(spot, None) => return Step::Nothing(Why::Covered),
            Err(errno) => return Step::Nothing(Why::Errno(errno)),
        };
        if !self.wanted().entry(&inode) || self.is_excluded(spot, Some(&inode)) {
            return Step::Nothing(Why::Covered);
        }
        let with_contents = last && self.plan.names.as_ref().is_some_and(|names| names.with_contents());
        let why = match inode.kind {
            Kind::SymbolicLink => Why::Link,
            Kind::Directory if !self.wanted().contents(&inode, Some(parent.inode().id.device())) => {
                Why::Errno(Errno::XDEV)
            }
            // Mounted in itself.
            Kind::Directory if ids.contains(&inode.id) => Why::Errno(Errno::LOOP),
            Kind::Directory if with_contents => Why::Contents,
            Kind::Directory => match Level::open(spot, false, Some(parent.path()), 0) {
                Ok(level) => match self.enter(spot, Ok(level), inode, ids) {
                    Some(level) => return Step::Into(level),
                    None => return Step::Nothing(Why::Covered),
                },
                // The copy says so, or whatever is looked for in it.
                Err(errno) => Why::Errno(errno),
            },
            _ => Why::Errno(Errno::NOTDIR),
        };
        if last { Step::Leaf(inode, why) } else { Step::Nothing(why) }
    }

    /// Lists what a name stands for, with its contents if they are wanted.
    fn leaf(&mut self, way: &mut Way<'_>, name: &OsStr, inode: Inode, with_contents: bool) {
        if !self.list_levels(way) {
            return;
        }
        let Some(parent) = way.descent.innermost() else { return };
        let path = parent.path().joined(name);
        let spot = parent.spot(name, &path);
        match self.survey.list.add(parent.note, name, &entry_of(&inode, false)) {
            Ok(at) if with_contents && inode.kind == Kind::Directory => self.tree(spot, false, inode, at),
            Ok(_) => {}
            Err(why) => self.cannot_add(spot, why),
        }
    }

    /// Lists the directories on the way that are not listed yet: something was found in them.
    fn list_levels(&mut self, way: &mut Way<'_>) -> bool {
        let levels = way.descent.levels_mut();
        for depth in way.listed..levels.len() {
            let entry = entry_of(levels[depth].inode(), false);
            match self.survey.list.add(levels[depth - 1].note, way.names[depth - 1], &entry) {
                Ok(at) => levels[depth].note = at,
                Err(why) => {
                    let path = levels[depth].path().path();
                    self.cannot_add(Spot::unreachable(Errno::STALE, OsStr::new(""), &path), why);
                    return false;
                }
            }
        }
        way.listed = levels.len();
        true
    }

    /// Reports a name that leads to nothing, since the way to it ended at `stop`.
    fn not_found(&mut self, parts: &[&OsStr], stop: &[&OsStr], why: &Why) {
        let path = |parts: &[&OsStr]| joined(self.source, &parts.join(OsStr::new("/")));
        let error = match why {
            Why::Covered | Why::Contents => return,
            Why::Errno(errno) => Error::new(What::CannotStat, path(parts)).errno(*errno),
            Why::Link => Error::new(What::BelowLink, path(parts)).and(path(stop)),
        };
        let is_missing = match why {
            Why::Errno(errno) => {
                matches!(*errno, Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::XDEV | Errno::LOOP)
            }
            Why::Covered | Why::Contents | Why::Link => true,
        };
        self.survey.missing += u64::from(is_missing);
        self.problem(&error);
    }

    /// Lists what stands in a directory; gives the next level if it is a directory whose contents are wanted.
    fn child(&mut self, spot: Spot<'_>, parent: &Level, on_the_way: &mut HashSet<FileId>) -> Option<Level> {
        let inode = match spot.inode() {
            Ok(inode) => inode,
            Err(errno) => {
                if !self.is_excluded(spot, None) {
                    self.problem(&Error::new(What::CannotStat, spot.path).errno(errno));
                }
                return None;
            }
        };
        if !self.wanted().entry(&inode) || self.is_excluded(spot, Some(&inode)) {
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

    /// Without `inode` it cannot be looked at.
    fn is_excluded(&mut self, spot: Spot<'_>, inode: Option<&Inode>) -> bool {
        let (wanted, path) = (self.wanted(), || path_below(Path::new(self.source), spot.path));
        let verdict = match inode {
            Some(inode) => wanted.below(inode, spot.name, path),
            None => wanted.unseen(spot.name, path),
        };
        self.survey.filtered.count_verdict(verdict);
        verdict.excluded
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
            Ok(mut level) if level.inode().is_same_file_as(&inode) => {
                if self.wanted().excludes_caches() {
                    level.leave_cache_out();
                }
                Some(level)
            }
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
    use std::sync::Arc;

    use super::*;
    use crate::context::test_support::{Bench, Ran};
    use crate::filter::{Choice, Filter, Rule};

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
        bench.run(|worker| {
            let survey = walk(worker.cx.plan, worker.cx.session);
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
                let mut walk =
                    Walk { plan, session, unreadable: true, source: OsStr::new(""), open, survey: Survey::default() };
                walk.operand(&plan.sources[0]);
                walk.survey
            });
            ran.says(&[]);
            assert_eq!(ran.value.list.len(), 80);
        }
    }

    /// The paths that are listed for these names below `dir`, and what is said.
    fn named(names: &str, with_contents: bool, filter: &[&str]) -> (Vec<String>, Vec<String>) {
        let mut bench = bench(&["dir"]);
        symlink("sub", bench.source_path("dir/link")).unwrap();
        let rules = filter.iter().map(|pattern| Rule::exclude(*pattern)).collect();
        bench.plan.filter = Filter::new(Choice { rules, ..Choice::default() }).unwrap();
        bench.plan.names = Names::parse(names.as_bytes(), b'\n', with_contents).ok().map(Arc::new);
        let ran = listed(&bench);
        (paths(&ran.value.list), ran.heard)
    }

    #[test]
    fn names_are_listed_with_the_directories_on_the_way() {
        let listed = |names: &str| named(names, false, &[]).0;
        assert_eq!(listed("sub/below"), ["", "sub", "sub/below"]);
        assert_eq!(listed("sub/deep\nlink\nsub"), ["", "link", "sub", "sub/deep"]);
        assert_eq!(listed(""), [""]);
        let (mut paths, _) = named("sub", true, &[]);
        paths.sort();
        assert_eq!(paths, ["", "sub", "sub/below", "sub/deep"]);
    }

    #[test]
    fn a_name_that_is_not_there_lists_no_directory_on_the_way() {
        let (paths, heard) = named("sub/none/x\nsub/none/y\nlink/below\nsub/below/x", false, &[]);
        assert_eq!((paths, heard.len()), (vec![String::new()], 4), "each is reported");
        let (paths, heard) = named("sub/none\nsub/below", false, &[]);
        assert_eq!((&paths[..], heard.len()), (&["", "sub", "sub/below"].map(str::to_owned)[..], 1));
    }

    #[test]
    fn a_name_that_is_not_there_is_reported_below_what_is_listed_with_its_contents() {
        for (names, missing) in [
            ("sub\nsub/below\nsub/none", 1),
            ("sub\nsub/none/x\nsub/deep/x\nnone", 3),
            (".\nsub/below\nlink/below\nnone", 2),
            (".\nsub", 0),
        ] {
            let (paths, heard) = named(names, true, &[]);
            assert_eq!(heard.len(), missing, "{names}: {heard:?}");
            assert!(paths.contains(&"sub/below".to_owned()), "{names}");
        }
        let dir = haul_testbed::temp_dir();
        fs::create_dir_all(dir.path().join("a/b")).and_then(|()| fs::write(dir.path().join("a/b/c"), "")).unwrap();
        symlink("b", dir.path().join("a/link")).unwrap();
        let top = fs::File::open(dir.path()).unwrap();
        for (name, there) in
            [("a/b/c", true), ("a/link", true), ("a/link/c", false), ("a/b/c/d", false), ("none", false)]
        {
            let parts: Vec<&OsStr> = name.split('/').map(OsStr::new).collect();
            let found = [look_for, look_for_each].map(|look| look(top.as_fd(), &parts).is_ok());
            assert_eq!(found, [there; 2], "{name}");
        }
    }

    #[test]
    fn a_filter_leaves_names_out_in_silence() {
        let (paths, heard) = named("sub/below\nsub/deep\nlink", false, &["sub"]);
        assert_eq!((paths, heard.len()), (vec![String::new(), "link".to_owned()], 0));
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
