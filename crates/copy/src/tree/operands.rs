//! From the operands of the command to single copies.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::CWD;

use crate::context::{RunContext, Worker};
use crate::error::{Error, What};
use crate::finish::{moved, naming, resume};
use crate::links::DestDir;
use crate::plan::{Backup, Destination, Plan};
use crate::publish::backup;
use crate::report::{Reported, Reporter};
use crate::sources::operands::{operand_inode, reaches, ways_up};
use crate::tree::walker::Walker;
use crate::tree::{parents, walk};
use crate::walk::{Operand, Spot, joined, last_component, open_directory, renamed, without_trailing_slashes};

pub(crate) fn copy_operands(walker: &mut Walker<'_>) {
    let plan = walker.worker.cx.plan;
    let against_moving = plan.against_moving().or(walker.worker.cx.peers.map(|_| "copies by several processes"));
    if let Some(what) = against_moving.filter(|_| plan.moves) {
        walker.worker.report.problem(Error::new(What::NotByMove, "").detail(what));
        return;
    }
    if let Some(path) = plan.ambiguous_destination() {
        walker.worker.report.problem(Error::new(What::AmbiguousDestination, path));
        return;
    }
    if let Some(error) = against_deletion(walker.worker.cx) {
        walker.worker.report.problem(error);
        return;
    }
    let (path, what, may_be_copy) = match &plan.destination {
        Destination::Exactly(path) => return copy_to(walker, path),
        Destination::Directory(path) => (path, What::TargetDirectory, false),
        Destination::Guess(path) => (path, What::Target, plan.sources.len() <= 1),
    };
    match open_directory(CWD, path) {
        Err(_) if may_be_copy => copy_to(walker, path),
        opened => {
            let Ok(dir) = walker.worker.report.check(opened, what, path) else { return };
            copy_into(walker, path, dir);
        }
    }
}

/// Why nothing can be removed that the sources do not have, if that is asked for.
fn against_deletion(cx: RunContext<'_>) -> Option<Error> {
    let plan = cx.plan;
    plan.delete?;
    let what = plan.against_deletion().or(cx.peers.map(|_| "copies by several processes"));
    if let Some(what) = what {
        return Some(Error::new(What::NotWithDeletion, "").detail(what));
    }
    // Then all that is in the directory would go, which the user has named as one that copies go into.
    let is_nameless = |source: &&OsString| name_in(OsStr::new(""), strip(cx, source)).0 == ".";
    let whole = plan.sources.iter().find(is_nameless);
    let whole = whole.filter(|_| !matches!(plan.destination, Destination::Exactly(_)))?;
    Some(Error::new(What::DeletionWhole, whole))
}

/// One source, one name.
fn copy_to(walker: &mut Walker<'_>, path: &OsStr) {
    let cx = walker.worker.cx;
    let plan = cx.plan;
    let [source] = plan.sources.as_slice() else { return };
    if plan.parents {
        walker.worker.report.problem(Error::new(What::ParentsNeedDirectory, path));
        return;
    }
    let same_name = source == path;
    let source = Operand::open(source);
    let dest = Operand::open(path);
    if plan.force && plan.backup != Backup::None && same_name {
        // cp --force --backup NAME NAME makes a backup of NAME.
        if dest.spot().inode_following().is_ok_and(|inode| inode.kind == Kind::Regular) {
            copy_to_backup(walker, source, &dest);
            return;
        }
    }
    let above = if plan.recursive { dest.spot().dir().and_then(ways_up).unwrap_or_default() } else { Vec::new() };
    if would_be_in_itself(cx, source.spot(), &above) {
        walker.worker.report.problem(Error::new(What::IntoItself, source.path()).and(dest.path()));
        return;
    }
    if let Ok(dir) = dest.spot().dir() {
        let last = last_component(dest.spot().name);
        let shown = renamed(dest.path(), OsStr::new(""));
        if !resume::begin_progress(&mut walker.worker, dir, last, shown.as_os_str()) {
            return;
        }
    }
    let Ok(root) = root_of(&mut walker.worker.report, &dest) else { return };
    walk::copy_operand(walker, source, dest.spot(), false, root.as_ref());
}

/// The directory that is to hold the copy, if it could be opened.
fn root_of(report: &mut Reporter<'_>, dest: &Operand) -> Result<Option<Arc<DestDir>>, Reported> {
    let Some(parent) = dest.parent() else { return Ok(None) };
    let prefix = renamed(dest.path(), OsStr::new("")).into_os_string();
    let root = DestDir::root_shown_as(Arc::clone(parent), prefix);
    report.check(root, What::CannotAccess, dest.path()).map(Some)
}

fn copy_to_backup(walker: &mut Walker<'_>, source: Operand, dest: &Operand) {
    let cx = walker.worker.cx;
    let report = &mut walker.worker.report;
    let name = backup::backup_name(dest.spot(), cx.plan, None);
    let Ok((name, _)) = report.check(name, What::CannotBackup, dest.path()) else { return };
    let Ok(root) = root_of(report, dest) else { return };
    let path = renamed(dest.path(), &name);
    let plan = Plan { backup: Backup::None, ..cx.plan.clone() };
    let cx = RunContext { plan: &plan, peers: None, ..cx };
    let mut inner = Walker::alone(cx, walker.sink, walker.do_task);
    walk::copy_operand(&mut inner, source, dest.spot().beside(&name, &path), false, root.as_ref());
    naming::give_names(&mut inner.worker);
    inner.worker.cx.attributes().seal(std::mem::take(&mut inner.worker.deferred), &mut inner.worker.report);
    walker.worker.report.add(inner.worker.report);
}

/// All sources into one directory.
fn copy_into(walker: &mut Walker<'_>, target: &OsStr, dir: OwnedFd) {
    let cx = walker.worker.cx;
    let plan = cx.plan;
    let dir = Arc::new(dir);
    // Before anything is made, for any of them.
    let refused: Vec<bool> = would_be_in_themselves(cx, &dir);
    if !refused.contains(&false) {
        plan.sources.iter().for_each(|operand| refuse_into_itself(&mut walker.worker, target, operand, None));
        return;
    }
    if !resume::begin_progress(&mut walker.worker, dir.as_fd(), OsStr::new(""), target) {
        return;
    }
    let shown = joined(target, OsStr::new("")).into_os_string();
    let root = DestDir::root_shown_as(Arc::clone(&dir), shown);
    let Ok(root) = walker.worker.report.check(root, What::Target, target) else { return };
    for (number, operand) in plan.sources.iter().enumerate() {
        if cx.cancelled() {
            return;
        }
        walker.operands.current = number;
        if refused[number] {
            refuse_into_itself(&mut walker.worker, target, operand, Some(&root));
            continue;
        }
        let operand = strip(cx, operand);
        if plan.parents {
            parents::copy_with_parents(walker, target, &dir, operand);
        } else {
            let (name, path) = name_in(target, operand);
            let dest = Spot::new(dir.as_fd(), name, &path);
            walk::copy_operand(walker, Operand::open(operand), dest, false, Some(&root));
        }
    }
}

/// Which operands are directories that are copied into themselves.
fn would_be_in_themselves(cx: RunContext<'_>, target: &OwnedFd) -> Vec<bool> {
    let above = if cx.plan.recursive { ways_up(target.as_fd()).unwrap_or_default() } else { Vec::new() };
    let refused = |operand: &OsString| {
        let operand = strip(cx, operand);
        let is_target = !cx.plan.parents && matches!(last_component(operand).as_bytes(), b"." | b".." | b"");
        let above = if is_target { above.get(1..).unwrap_or_default() } else { &above };
        would_be_in_itself(cx, Operand::open(operand).spot(), above)
    };
    cx.plan.sources.iter().map(refused).collect()
}

/// Whether a directory would be copied into itself: into the first of these directories, of which each is in the next.
/// What a list names need not lead there, and behind a link at the destination it may be elsewhere.
fn would_be_in_itself(cx: RunContext<'_>, source: Spot<'_>, above: &[Inode]) -> bool {
    let plan = cx.plan;
    plan.recursive
        && !plan.keep_directory_symlink
        && cx.services.selection.is_none()
        && !above.is_empty()
        && operand_inode(source, plan).is_ok_and(|inode| inode.kind == Kind::Directory && reaches(&inode, above, plan))
}

/// It stays, also of a move. `root` is the directory that it was to go into, if anything goes there.
fn refuse_into_itself(worker: &mut Worker<'_>, target: &OsStr, operand: &OsStr, root: Option<&Arc<DestDir>>) {
    let operand = strip(worker.cx, operand);
    let dest = match worker.cx.plan.parents {
        true => joined(target, without_trailing_slashes(operand)),
        false => name_in(target, operand).1,
    };
    worker.report.problem(Error::new(What::IntoItself, operand).and(dest));
    if let Ok(inode) = Operand::open(operand).spot().inode() {
        moved::let_stay(worker, &inode, root);
    }
}

/// The operand as it is used: with `--strip-trailing-slashes` without them. cp does this only for copies into a
/// directory, where the slashes would hide the name.
pub(super) fn strip<'o>(cx: RunContext<'_>, operand: &'o OsStr) -> &'o OsStr {
    if cx.plan.strip_trailing_slashes { without_trailing_slashes(operand) } else { operand }
}

/// The name of an operand's copy in a directory, and its path.
pub(super) fn name_in<'o>(target: &OsStr, operand: &'o OsStr) -> (&'o OsStr, PathBuf) {
    let base = last_component(operand);
    // A copy of `x/..` goes into the directory itself, not into its parent.
    match base.as_bytes() {
        b".." => (OsStr::new("."), joined(target, OsStr::new("."))),
        b"" => (OsStr::new("."), joined(target, base)),
        _ => (base, joined(target, base)),
    }
}

#[cfg(test)]
#[path = "operands_tests.rs"]
mod tests;
