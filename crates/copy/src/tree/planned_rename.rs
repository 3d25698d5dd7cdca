//! What a dry run finds out about an entry that a move would rename (`--move`): the same conditions as those of `rename`, and what
//! the kernel would refuse as far as looking shows.

use std::borrow::Cow;
use std::path::Path;

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::Access;

use crate::error::{Error, What};
use crate::events::{Action, Event, Planned, Reason};
use crate::plan::Overwrite;
use crate::tree::access::{are_on_two_mounts, is_on_other_filesystem, may, may_change, may_make};
use crate::tree::rename::{may_be_another_name, may_be_renamed, name_to_move};
use crate::tree::walker::Walker;
use crate::walk::{Spot, last_component};
use crate::work::entry::Subject;
use crate::work::planned;

/// What stands at the destination, and what becomes of it.
pub(crate) struct Standing<'p> {
    pub inode: Inode,
    /// It is written into, or entered.
    pub stays: bool,
    pub reason: Reason,
    /// Where it would go.
    pub backup: Option<Cow<'p, Path>>,
}

/// Says that the entry would be renamed, or why it could not be. False if it would be copied.
pub(crate) fn instead_of_copying(walker: &mut Walker<'_>, subject: &Subject<'_>, stands: Option<Standing<'_>>) -> bool {
    let (source, dest) = (subject.source, subject.dest);
    let error = |what: What| Error::new(what, source.path).and(dest.path);
    let found = would_be_renamed(walker, subject, stands.as_ref());
    let plan = walker.worker.cx.plan;
    let report = &mut walker.worker.report;
    match found {
        Ok(false) => return false,
        Ok(true) => {}
        Err(errno) => {
            report.problem(error(What::CannotMove).errno(errno));
            return true;
        }
    }
    if stands.as_ref().is_some_and(|old| old.backup.is_none() && old.inode.is_same_file_as(&subject.inode)) {
        // Two names of one file: rename(2) would do nothing.
        report.problem(error(What::SameFile));
        return true;
    }
    report.stats.renamed += 1;
    // Who is asked, is asked first.
    let asks = stands.is_some() && plan.overwrite == Overwrite::Ask;
    let action = if asks { Action::Ask } else { Action::Rename };
    let (reason, backup) = stands.map_or((None, None), |old| (Some(old.reason), old.backup));
    report.tell(&Event::Planned(Planned { reason, backup, ..Planned::new(action, source.path, dest.path) }));
    if subject.is_operand() {
        walker.operands.remember_planned(dest, planned::renamed().id);
    }
    true
}

fn would_be_renamed(walker: &Walker<'_>, subject: &Subject<'_>, stands: Option<&Standing<'_>>) -> Result<bool, Errno> {
    let source = subject.source;
    let name = name_to_move(source)?;
    let is_elsewhere = is_on_other_filesystem(subject) || are_on_two_mounts(subject);
    let is_free = !stands.is_some_and(|old| old.stays) && !is_elsewhere;
    if !may_be_renamed(walker, subject, is_free)? {
        return Ok(false);
    }
    if stands.is_some_and(|old| old.backup.is_none()) && may_be_another_name(subject)? {
        return Err(Errno::EXIST);
    }
    let is_directory = subject.inode.kind == Kind::Directory;
    if is_directory && source.beside(name, source.path).is_mount_point() {
        return if subject.is_operand() { Err(Errno::BUSY) } else { Ok(false) };
    }
    let plain = last_component(subject.dest.name);
    let is_slashed = plain.len() < subject.dest.name.len();
    if is_slashed && stands.is_none() && subject.dest.beside(plain, subject.dest.path).read_link().is_ok() {
        // A link that leads nowhere has the name.
        return Err(Errno::EXIST);
    }
    if is_slashed && !is_directory {
        return Err(subject.dest.dir().err().unwrap_or(Errno::NOTDIR));
    }
    may_change(source)?;
    if !subject.level.missing {
        may_make(subject.dest)?;
    }
    if is_directory && !is_one_directory(source, subject.dest) {
        // Its entry for the directory above is written, too.
        may(Access::WRITE_OK, source, name, false)?;
    }
    Ok(true)
}

/// Whether both names are known to be in the same directory.
fn is_one_directory(source: Spot<'_>, dest: Spot<'_>) -> bool {
    let holder = |spot: Spot<'_>| Some(Inode::of(spot.dir().ok()?).ok()?.id);
    holder(source).is_some_and(|id| holder(dest) == Some(id))
}
