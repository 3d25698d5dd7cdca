//! From the operands of the command to single copies.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::rustix::fs::{CWD, Mode, OFlags, openat};

use super::context::RunContext;
use super::within::{operand_inode, reaches, ways_up};
use super::{Reported, Run};
use crate::error::{Error, What};
use crate::facts::{Inode, Kind};
use crate::links::DestDir;
use crate::plan::{Backup, Destination, Plan};
use crate::publish::backup;
use crate::walk::{Operand, Spot, joined, last_component, renamed, without_trailing_slashes};

/// What the destination of this plan is at this moment: a directory to copy into, or the copy itself. To be asked by one of
/// several processes before any of them has made something there.
#[must_use]
pub fn settle_destination(plan: &Plan) -> Destination {
    let Destination::Guess(path) = &plan.destination else { return plan.destination.clone() };
    match open_directory(path) {
        // Rank 0 says why that does not go.
        _ if plan.ambiguous_destination().is_some() => plan.destination.clone(),
        Err(_) if plan.sources.len() > 1 => plan.destination.clone(),
        Ok(_) => Destination::Directory(path.clone()),
        Err(_) => Destination::Exactly(path.clone()),
    }
}

impl Run<'_> {
    /// Copies all operands.
    pub(super) fn copy_operands(&mut self) {
        let plan = self.cx.plan;
        if let Some(path) = plan.ambiguous_destination() {
            self.worker.report.problem(Error::new(What::AmbiguousDestination, path));
            return;
        }
        match &plan.destination {
            Destination::Directory(path) => match open_directory(path) {
                Ok(dir) => self.copy_into(path, dir),
                Err(errno) => {
                    self.worker.report.problem(Error::new(What::TargetDirectory, path).errno(errno));
                }
            },
            Destination::Exactly(path) => self.copy_to(path),
            Destination::Guess(path) => match open_directory(path) {
                Ok(dir) => self.copy_into(path, dir),
                Err(errno) if plan.sources.len() > 1 => {
                    self.worker.report.problem(Error::new(What::Target, path).errno(errno));
                }
                Err(_) => self.copy_to(path),
            },
        }
    }

    /// One source, one name.
    fn copy_to(&mut self, path: &OsStr) {
        let plan = self.cx.plan;
        let [source] = plan.sources.as_slice() else { return };
        if plan.parents {
            self.worker.report.problem(Error::new(What::ParentsNeedDirectory, path));
            return;
        }
        let same_name = source == path;
        let source = Operand::open(source);
        let dest = Operand::open(path);
        if plan.force && plan.backup != Backup::None && same_name {
            // cp --force --backup NAME NAME makes a backup of NAME.
            if dest.spot().inode_following().is_ok_and(|inode| inode.kind == Kind::Regular) {
                self.copy_to_backup(source, &dest);
                return;
            }
        }
        let above = dest.spot().dir().and_then(ways_up).unwrap_or_default();
        if self.would_be_in_itself(source.spot(), &above) {
            self.worker.report.problem(Error::new(What::IntoItself, source.path()).and(dest.path()));
            return;
        }
        if let Ok(dir) = dest.spot().dir() {
            let last = last_component(dest.spot().name);
            let shown = renamed(dest.path(), OsStr::new(""));
            if !self.begin_progress(dir, last, shown.as_os_str()) {
                return;
            }
        }
        let Ok(root) = self.root_of(&dest) else { return };
        self.copy_operand(source, dest.spot(), false, root.as_ref());
    }

    /// The directory that is to hold the copy, if it could be opened.
    fn root_of(&mut self, dest: &Operand) -> Result<Option<Arc<DestDir>>, Reported> {
        let Some(parent) = dest.parent() else { return Ok(None) };
        let prefix = renamed(dest.path(), OsStr::new("")).into_os_string();
        let root = DestDir::root_shown_as(Arc::clone(parent), prefix);
        root.map(Some)
            .map_err(|errno| self.worker.report.fail(Error::new(What::CannotAccess, dest.path()).errno(errno)))
    }

    fn copy_to_backup(&mut self, source: Operand, dest: &Operand) {
        match backup::backup_name(dest.spot(), self.cx.plan) {
            Ok((name, _)) => {
                let Ok(root) = self.root_of(dest) else { return };
                let path = renamed(dest.path(), &name);
                let plan = Plan { backup: Backup::None, ..self.cx.plan.clone() };
                let mut inner = Run::new(RunContext { plan: &plan, ..self.cx }, self.sink);
                inner.copy_operand(source, dest.spot().beside(&name, &path), false, root.as_ref());
                inner.give_names();
                inner.cx.attributes().seal(std::mem::take(&mut inner.worker.deferred), &mut inner.worker.report);
                self.worker.report.add(inner.worker.report);
            }
            Err(errno) => {
                self.worker.report.problem(Error::new(What::CannotBackup, dest.path()).errno(errno));
            }
        }
    }

    /// All sources into one directory.
    fn copy_into(&mut self, target: &OsStr, dir: OwnedFd) {
        let plan = self.cx.plan;
        let dir = Arc::new(dir);
        // Before anything is made, for any of them.
        let refused: Vec<bool> = self.would_be_in_themselves(&dir);
        if !refused.contains(&false) {
            plan.sources.iter().for_each(|operand| self.refuse_into_itself(target, operand));
            return;
        }
        if !self.begin_progress(dir.as_fd(), OsStr::new(""), target) {
            return;
        }
        let shown = joined(target, OsStr::new("")).into_os_string();
        let root = match DestDir::root_shown_as(Arc::clone(&dir), shown) {
            Ok(root) => root,
            Err(errno) => {
                self.worker.report.problem(Error::new(What::Target, target).errno(errno));
                return;
            }
        };
        for (number, operand) in plan.sources.iter().enumerate() {
            if self.cx.cancelled() {
                return;
            }
            self.operands.current = number;
            if refused[number] {
                self.refuse_into_itself(target, operand);
                continue;
            }
            let operand = self.strip(operand);
            if plan.parents {
                self.copy_with_parents(target, &dir, operand);
            } else {
                self.copy_below(target, &dir, &root, operand);
            }
        }
    }

    /// Which operands are directories that are copied into themselves.
    fn would_be_in_themselves(&self, target: &OwnedFd) -> Vec<bool> {
        let above = if self.cx.plan.recursive { ways_up(target.as_fd()).unwrap_or_default() } else { Vec::new() };
        let refused = |operand: &OsString| {
            let operand = self.strip(operand);
            let is_target = !self.cx.plan.parents && matches!(last_component(operand).as_bytes(), b"." | b".." | b"");
            let above = if is_target { above.get(1..).unwrap_or_default() } else { &above };
            self.would_be_in_itself(Operand::open(operand).spot(), above)
        };
        self.cx.plan.sources.iter().map(refused).collect()
    }

    /// Whether a directory would be copied into itself: into the first of these directories, of which each is in the next.
    /// What a list names need not lead there, and behind a link at the destination it may be elsewhere.
    fn would_be_in_itself(&self, source: Spot<'_>, above: &[Inode]) -> bool {
        let plan = self.cx.plan;
        plan.recursive
            && !plan.keep_directory_symlink
            && self.cx.services.selection.is_none()
            && !above.is_empty()
            && operand_inode(source, plan)
                .is_ok_and(|inode| inode.kind == Kind::Directory && reaches(&inode, above, plan))
    }

    fn refuse_into_itself(&mut self, target: &OsStr, operand: &OsStr) {
        let operand = self.strip(operand);
        let dest = match self.cx.plan.parents {
            true => joined(target, without_trailing_slashes(operand)),
            false => name_in(target, operand).1,
        };
        self.worker.report.problem(Error::new(What::IntoItself, operand).and(dest));
    }

    fn copy_below(&mut self, target: &OsStr, dir: &OwnedFd, root: &Arc<DestDir>, operand: &OsStr) {
        let source = Operand::open(operand);
        let (name, path) = name_in(target, operand);
        let dest = Spot::new(dir.as_fd(), name, &path);
        self.copy_operand(source, dest, false, Some(root));
    }

    /// The operand as it is used: with `--strip-trailing-slashes` without them. cp does this only for copies into a
    /// directory, where the slashes would hide the name.
    fn strip<'o>(&self, operand: &'o OsStr) -> &'o OsStr {
        if self.cx.plan.strip_trailing_slashes { without_trailing_slashes(operand) } else { operand }
    }
}

/// The name of an operand's copy in a directory, and its path.
fn name_in<'o>(target: &OsStr, operand: &'o OsStr) -> (&'o OsStr, PathBuf) {
    let base = last_component(operand);
    // A copy of `x/..` goes into the directory itself, not into its parent.
    match base.as_bytes() {
        b".." => (OsStr::new("."), joined(target, OsStr::new("."))),
        b"" => (OsStr::new("."), joined(target, base)),
        _ => (base, joined(target, base)),
    }
}

fn open_directory(path: &OsStr) -> Result<OwnedFd, Errno> {
    openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}
