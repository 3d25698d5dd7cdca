//! `--parents`: the directories of the source path are made below the destination, and get the attributes of the
//! source's directories when the copy is done.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Kind};
use haul_sys::rustix::fs::{CWD, OFlags};

use crate::attributes::{HeldSide, Keep, OWNER};
use crate::context::Worker;
use crate::error::{Error, What};
use crate::events::{Action, Event, Planned};
use crate::finish::{directories, naming, resume};
use crate::links::{DestDir, duplicate};
use crate::meta::{self, NewEntries};
use crate::plan::ModeRule;
use crate::tree::walker::Walker;
use crate::tree::{access, walk};
use crate::walk::{Operand, Spot, joined, last_component, open_directory, renamed, without_trailing_slashes};
use crate::work::planned;

/// One directory of the source path and its counterpart.
struct Parent {
    source: HeldSide,
    dest: HeldSide,
    created: bool,
    /// By this run: nothing can be in it.
    fresh: bool,
}

impl Parent {
    fn keep(&self) -> Keep<'_> {
        Keep { source: self.source.side(), dest: self.dest.side(), created: self.created, entries: NewEntries::UNKNOWN }
    }
}

/// Copies an operand to the same path below `dir`.
pub(crate) fn copy_with_parents(walker: &mut Walker<'_>, target: &OsStr, dir: &OwnedFd, operand: &OsStr) {
    let bare = without_trailing_slashes(operand);
    let dest_path = joined(target, bare);
    let mut parents = Vec::new();
    let made = make_parents(&mut walker.worker, target, dir, bare, &mut parents);
    tell_planned(walker, &parents);
    if made {
        let holder = parents.last().map_or(dir, |parent: &Parent| &parent.dest.fd);
        let shown = renamed(&dest_path, OsStr::new("")).into_os_string();
        let root = duplicate(holder.as_fd()).and_then(|dir| DestDir::root_shown_as(Arc::new(dir), shown));
        // Nothing can stand in a directory that was just made, says cp, also of an operand like `made/.`.
        let missing = parents.last().is_some_and(|parent| parent.fresh);
        if let Ok(root) = walker.worker.report.check(root, What::Target, target) {
            let source = Operand::open(operand);
            let base = last_component(bare);
            let name = if base.is_empty() { OsStr::new(".") } else { base };
            let dest = Spot::new(holder.as_fd(), name, &dest_path);
            walk::copy_operand(walker, source, dest, missing, Some(&root));
        }
    }
    // GNU cp leaves the directories alone if all were there already, or if the way to the file ends in one that
    // cannot be made.
    let finish = made && !walker.worker.cx.plan.dry_run && parents.iter().any(|parent| parent.created);
    if finish {
        // A file that gets its name later would change the times, and may not be allowed to any more.
        naming::give_names(&mut walker.worker);
    }
    for parent in parents.iter().rev().filter(|_| finish) {
        if !finish_parent(&mut walker.worker, parent) {
            break;
        }
    }
}

/// Makes what is missing of the directories of `operand`.
fn make_parents(
    worker: &mut Worker<'_>,
    target: &OsStr,
    dir: &OwnedFd,
    operand: &OsStr,
    parents: &mut Vec<Parent>,
) -> bool {
    for (name, end) in directories_of(operand) {
        // As the user wrote it, double slashes too.
        let source_path = PathBuf::from(OsStr::from_bytes(&operand.as_bytes()[..end]));
        let opened = match parents.last() {
            Some(above) => open_directory(&above.source.fd, name),
            None => open_directory(CWD, &source_path),
        };
        let holder = parents.last().map_or(dir, |parent| &parent.dest.fd);
        let dest_path = joined(target, source_path.as_os_str());
        match make_parent(worker, opened, &source_path, Spot::new(holder.as_fd(), name, &dest_path)) {
            Some(parent) => parents.push(parent),
            None => return false,
        }
    }
    true
}

/// Makes one directory of the path, or opens the one that is there. `source` is the one that it gets its attributes from.
fn make_parent(
    worker: &mut Worker<'_>,
    source: Result<OwnedFd, Errno>,
    source_path: &Path,
    dest: Spot<'_>,
) -> Option<Parent> {
    let source = source.and_then(|fd| Ok((Inode::of(fd.as_fd())?, fd)));
    let (source_inode, source) = worker.report.check(source, What::ParentAttributes, source_path).ok()?;
    let mode = meta::parent_creation_mode(source_inode.permissions, &worker.cx.plan.preserve).mode;
    let found = find_or_make(worker, source_path, dest, mode)?;
    let fresh = found.is_none();
    let planned = fresh && worker.cx.plan.dry_run;
    let opened = if planned { planned_parent() } else { open_parent(dest, found) };
    let (dest_fd, mut dest_inode) = worker.report.check(opened, What::ParentAttributes, dest.path).ok()?;
    let created = fresh || resume::was_made_earlier(worker.cx, &dest_inode);
    if fresh && !planned {
        resume::promise_directory(worker, &dest_inode);
    } else if created && !fresh {
        // Only the owner's bits were added since.
        dest_inode.permissions &= mode | !OWNER;
    }
    if created && !planned && !directories::make_usable(&mut worker.report, &dest_fd, &dest_inode, dest.path) {
        return None;
    }
    Some(Parent {
        source: HeldSide { fd: source, path_only: true, inode: source_inode, path: source_path.to_owned() },
        dest: HeldSide { fd: dest_fd, path_only: true, inode: dest_inode, path: dest.path.to_owned() },
        created,
        fresh,
    })
}

/// The directory that stands there, or `Some(None)` if one was made. `None` if neither was possible, which was reported.
#[expect(clippy::option_option, reason = "as a result it would be one of an option")]
fn find_or_make(worker: &mut Worker<'_>, source_path: &Path, dest: Spot<'_>, mode: u32) -> Option<Option<FileId>> {
    match dest.inode_following() {
        Ok(inode) if inode.kind == Kind::Directory => return Some(Some(inode.id)),
        Ok(_) => {
            worker.report.problem(Error::new(What::ParentNotDirectory, dest.path));
            return None;
        }
        Err(_) => {}
    }
    if worker.cx.plan.dry_run {
        let may_make = if dest.inode().is_ok() { Err(Errno::EXIST) } else { access::may_make(dest) };
        worker.report.check(may_make, What::ParentMake, dest.path).ok()?;
        return Some(None);
    }
    worker.cx.wait_to_make();
    worker.report.check(dest.make_dir(mode), What::ParentMake, dest.path).ok()?;
    worker.report.tell(&Event::ParentMade { source: source_path.into(), dest: dest.path.into() });
    Some(None)
}

/// Says in a dry run which directories would be made, unless it was said for an earlier operand.
fn tell_planned(walker: &mut Walker<'_>, parents: &[Parent]) {
    for Parent { source, dest, .. } in parents.iter().filter(|parent| planned::is_planned(parent.dest.inode.id)) {
        if walker.operands.is_first_to_plan(&dest.path) {
            let (action, source, dest) = (Action::MakeDirectory, source.path.as_path(), dest.path.as_path());
            walker.worker.report.tell(&Event::Planned(Planned::new(action, source, dest)));
        }
    }
}

/// What stands for a directory that a dry run does not make.
fn planned_parent() -> Result<(OwnedFd, Inode), Errno> {
    Ok((planned::nowhere()?, planned::inode(Kind::Directory, false)))
}

/// Opens a directory of the destination, which must be the one that was found.
fn open_parent(dest: Spot<'_>, found: Option<FileId>) -> Result<(OwnedFd, Inode), Errno> {
    let no_follow = if found.is_none() { OFlags::NOFOLLOW } else { OFlags::empty() };
    let fd = dest.open(OFlags::PATH | OFlags::DIRECTORY | no_follow, 0)?;
    let inode = Inode::of(fd.as_fd())?;
    if found.is_none_or(|found| found == inode.id) { Ok((fd, inode)) } else { Err(Errno::STALE) }
}

/// Owner, mode and times of a parent directory. Extended attributes are not kept for these (nor does GNU cp).
fn finish_parent(worker: &mut Worker<'_>, parent: &Parent) -> bool {
    let preserve = &worker.cx.plan.preserve;
    let asked = preserve.ownership || preserve.timestamps || preserve.mode == ModeRule::Keep;
    if !parent.created && !asked {
        return true;
    }
    let keep = parent.keep();
    worker
        .report
        .attributes(keep.dest.path, |problem| meta::finish_parent(&worker.cx.attributes().request(&keep), problem))
}

/// The components of a path but for the last, and where each ends.
fn directories_of(path: &OsStr) -> Vec<(&OsStr, usize)> {
    let ends = path.as_bytes().split(|byte| *byte == b'/').scan(0, |at, name| {
        let end = *at + name.len();
        *at = end + 1;
        Some((OsStr::from_bytes(name), end))
    });
    let mut names: Vec<(&OsStr, usize)> = ends.filter(|(name, _)| !name.is_empty()).collect();
    names.pop();
    names
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::context::test_support::{Bench, Ran};
    use crate::tree::operands::copy_operands;
    use crate::tree::test_support::{alone, copy_into, make_dir, mode_of, plan, troubles};

    /// A file two directories below the source, to be copied with the whole path to it.
    fn bench() -> Bench {
        let mut bench = Bench::new(plan());
        // Such a mode no directory has by itself, whatever the umask is.
        make_dir(bench.source_path("one"), 0o1770);
        make_dir(bench.source_path("one/two"), 0o1711);
        fs::write(bench.source_path("one/two/file"), "contents").unwrap();
        copy_into(&mut bench, &["one/two/file"]);
        bench.plan.parents = true;
        bench
    }

    /// Where the copy of an entry of the source is.
    fn copy_of(bench: &Bench, name: &str) -> PathBuf {
        bench.dest_path("").join(bench.source_path(name).strip_prefix("/").unwrap())
    }

    fn copy(bench: &Bench) -> Ran<()> {
        alone(bench, copy_operands)
    }

    #[test]
    fn missing_parents_are_made_with_the_attributes_of_the_source() {
        let bench = bench();
        assert_eq!(troubles(&copy(&bench)), [""; 0]);
        assert_eq!(fs::read(copy_of(&bench, "one/two/file")).unwrap(), b"contents");
        assert_eq!(["one", "one/two"].map(|dir| mode_of(copy_of(&bench, dir))), [0o1770, 0o1711]);
    }

    #[test]
    fn parents_that_are_all_there_are_left_alone() {
        let bench = bench();
        fs::create_dir_all(copy_of(&bench, "one")).unwrap();
        make_dir(copy_of(&bench, "one/two"), 0o770);
        assert_eq!(troubles(&copy(&bench)), [""; 0]);
        assert_eq!(mode_of(copy_of(&bench, "one/two")), 0o770);
        assert_eq!(fs::read(copy_of(&bench, "one/two/file")).unwrap(), b"contents");
    }

    #[test]
    fn each_parent_that_is_made_is_reported() {
        let bench = bench();
        fs::create_dir_all(copy_of(&bench, "one")).unwrap();
        let ran = copy(&bench);
        let events: Vec<_> = ran.heard.iter().filter(|line| line.starts_with("ParentMade")).collect();
        assert_eq!(events.len(), 1, "{events:?}");
        assert!(events[0].starts_with(r#"ParentMade { source: "source/one/two", dest: "#), "{events:?}");
    }

    #[test]
    fn a_parent_that_is_a_file_is_an_error() {
        let bench = bench();
        fs::create_dir_all(copy_of(&bench, "one").parent().unwrap()).unwrap();
        fs::write(copy_of(&bench, "one"), "in the way").unwrap();
        let ran = copy(&bench);
        assert_eq!(troubles(&ran).len(), 1);
        assert!(troubles(&ran)[0].ends_with(r#"source/one" exists but is not a directory"#), "{:?}", ran.heard);
        assert_eq!(fs::read(copy_of(&bench, "one")).unwrap(), b"in the way");
    }

    #[test]
    fn nothing_is_made_of_a_path_that_leads_nowhere() {
        let mut bench = bench();
        copy_into(&mut bench, &["one/missing/file"]);
        let ran = copy(&bench);
        let error = format!(r#"error: failed to get attributes of "source/one/missing": {}"#, Errno::NOENT);
        assert_eq!(troubles(&ran), [error]);
        assert!(!copy_of(&bench, "one/missing").exists());
    }

    #[test]
    fn a_link_at_the_destination_is_followed_to_a_parent() {
        let bench = bench();
        make_dir(bench.path().join("elsewhere"), 0o755);
        fs::create_dir_all(copy_of(&bench, "one").parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(bench.path().join("elsewhere"), copy_of(&bench, "one")).unwrap();
        assert_eq!(troubles(&copy(&bench)), [""; 0]);
        assert_eq!(fs::read(bench.path().join("elsewhere/two/file")).unwrap(), b"contents");
    }

    #[test]
    fn the_parents_of_a_path_leave_its_last_name_out() {
        for (path, dirs) in
            [("a/b//c", &["a", "b"][..]), ("/a/b", &["a"]), ("a", &[]), ("/", &[]), ("a/./b", &["a", "."])]
        {
            let found = directories_of(OsStr::new(path));
            assert_eq!(found.iter().map(|(name, _)| *name).collect::<Vec<_>>(), dirs, "{path}");
            assert!(found.iter().all(|(name, end)| path[..*end].ends_with(name.to_str().unwrap())), "{path}");
        }
    }
}
