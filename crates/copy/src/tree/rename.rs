//! Moves an entry by giving it another name, where the filesystem can (`--move`): nothing is read, and nothing is to be done
//! afterwards.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use haul_sys::Errno;
use haul_sys::inode::Kind;

use crate::context::Worker;
use crate::decide::Existing;
use crate::error::{Error, What};
use crate::events::Event;
use crate::finish::{moved, undo, written};
use crate::plan::Durable;
use crate::publish::replace::rename_to_other;
use crate::tree::look_ahead;
use crate::tree::walker::Walker;
use crate::walk::{Spot, last_component, renamed, sync_directory, tagged_cache};
use crate::work::entry::{DestState, Subject};

/// Renames the entry. False if it has to be copied; true if nothing is left to do, also after an error, which was reported.
pub(crate) fn instead_of_copying(walker: &mut Walker<'_>, subject: &Subject<'_>, state: &DestState) -> bool {
    let source = match name_to_move(subject.source) {
        Ok(name) => name,
        Err(errno) => return fail(&mut walker.worker, subject, state, errno),
    };
    // Of operands the kernel tells; below them a look at each directory is enough.
    let one_filesystem = subject.level.ancestors.last().is_none_or(|above| {
        let [source, dest] = above.devices();
        source == dest
    });
    match may_be_renamed(walker, subject, one_filesystem && state.existing.is_none()) {
        Ok(true) => {}
        Ok(false) => return false,
        // Were it copied, it would be no other name of a file that is renamed elsewhere.
        Err(errno) => return fail(&mut walker.worker, subject, state, errno),
    }
    if state.replaces {
        match may_be_another_name(subject) {
            Ok(false) => {}
            // A copy would replace what was renamed, too.
            Ok(true) => return fail(&mut walker.worker, subject, state, Errno::EXIST),
            Err(errno) => return fail(&mut walker.worker, subject, state, errno),
        }
    }
    if !is_noted(walker, subject) {
        return leave(&mut walker.worker, subject, state);
    }
    // Only of a directory may the name end in slashes.
    let dest = match subject.inode.kind {
        Kind::Directory => last_component(subject.dest.name),
        _ => subject.dest.name,
    };
    match rename_to_other((subject.source, source), (subject.dest, dest), state.replaces) {
        // Two names of one file: then nothing was done.
        Ok(()) if state.replaces && stands(subject, source) => {
            let error = Error::new(What::SameFile, subject.source.path).and(subject.dest.path);
            walker.worker.report.problem(error);
            leave(&mut walker.worker, subject, state)
        }
        Ok(()) => {
            finish(walker, subject, state);
            true
        }
        // Other filesystems, or mounts; or one that cannot.
        Err(Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP) => false,
        // It stays as a mount point, and what is in it is copied, as on other filesystems.
        Err(Errno::BUSY) if !subject.is_operand() && subject.source.is_mount_point() => false,
        Err(errno) => fail(&mut walker.worker, subject, state, errno),
    }
}

/// The name of an entry that is renamed or removed, without slashes.
///
/// # Errors
/// EBUSY for a directory that has no name here (`.`, `..`, `/`), ENOTDIR for a symbolic link with a slash behind it: as the
/// kernel says.
pub(crate) fn name_to_move(source: Spot<'_>) -> Result<&OsStr, Errno> {
    let name = last_component(source.name);
    if matches!(name.as_bytes(), b"" | b"." | b"..") {
        return Err(Errno::BUSY);
    }
    let is_plain = name.len() == source.name.len();
    match is_plain || source.beside(name, source.path).inode()?.kind == Kind::Directory {
        true => Ok(name),
        false => Err(Errno::NOTDIR),
    }
}

/// Whether nobody has to look at it, or at what is in it. `is_free`: both names are on one filesystem, and nothing at the
/// destination is written into or entered.
pub(crate) fn may_be_renamed(walker: &Walker<'_>, subject: &Subject<'_>, is_free: bool) -> Result<bool, Errno> {
    let plan = walker.worker.cx.plan;
    let wanted = match subject.inode.kind {
        Kind::Directory => plan.renames_trees(),
        _ => plan.renames(),
    };
    let may = wanted && is_free && !is_tag_of_cache(walker, subject);
    if may && !is_alone(walker, subject) { has_known_names(subject) } else { Ok(may) }
}

/// Whether it marks the directory that it is in as a cache, which stays.
fn is_tag_of_cache(walker: &Walker<'_>, subject: &Subject<'_>) -> bool {
    walker.worker.cx.wanted().excludes_caches()
        && !subject.is_operand()
        && subject.inode.kind == Kind::Regular
        // Nothing else of a cache is met.
        && subject.source.dir().is_ok_and(|dir| tagged_cache(dir).is_some())
}

/// Whether nothing else goes into the directory of its new name in this run.
fn is_alone(walker: &Walker<'_>, subject: &Subject<'_>) -> bool {
    subject.is_operand() && !walker.operands.several
}

/// Whether another name is another entry there, as far as that can be known. Elsewhere a second source could replace the first one.
fn has_known_names(subject: &Subject<'_>) -> Result<bool, Errno> {
    let dir = match subject.level.dir.filter(|_| subject.level.missing) {
        // In a dry run it is not there yet, and will be as the directories above it.
        Some(dir) => dir.top()?,
        None => subject.dest.dir()?,
    };
    Ok(look_ahead::exactness(dir)?.is_some())
}

/// Notes that this is going to be moved by its name, so that nothing replaces it or goes into it: there may be another way to its
/// directory, or another spelling. False if it cannot be noted, which was reported.
fn is_noted(walker: &mut Walker<'_>, subject: &Subject<'_>) -> bool {
    let Some(dir) = subject.level.dir.filter(|_| !is_alone(walker, subject)) else { return true };
    let noted = walker.worker.cx.services.renamed.note((&subject.inode).into(), dir);
    let error = |errno| Error::new(What::CannotMove, subject.source.path).and(subject.dest.path).errno(errno);
    noted.map_err(|errno| walker.worker.report.problem(error(errno))).is_ok()
}

/// Whether what stands at the destination is a source that this run has renamed. Then this one stays, which is reported.
pub(crate) fn is_taken(worker: &mut Worker<'_>, subject: &Subject<'_>, existing: &Existing) -> bool {
    if !worker.cx.plan.moves {
        return false;
    }
    let error = match worker.cx.services.renamed.has((&existing.entry).into()) {
        // It may be the other name of a file: that is reported elsewhere.
        Ok(found) if !found || existing.entry.id == subject.inode.id => return false,
        Ok(_) => Error::new(What::JustCreated, subject.dest.path).and(subject.source.path),
        Err(errno) => Error::new(What::CannotMove, subject.source.path).and(subject.dest.path).errno(errno),
    };
    worker.report.problem(error);
    moved::let_stay(worker, &subject.inode, subject.level.dir);
    true
}

/// Whether what is to be replaced may have its name by that of another entry of the source, which was moved a moment ago: where
/// upper and lower case are alike. A copy may replace a copy; what was renamed would be lost.
pub(crate) fn may_be_another_name(subject: &Subject<'_>) -> Result<bool, Errno> {
    if subject.is_operand() {
        // Those were remembered.
        return Ok(false);
    }
    match look_ahead::exactness(subject.dest.dir()?)? {
        Some(true) => Ok(false),
        _ => looks_like_another_name(subject.dest),
    }
}

/// The same of what stands under this name, by a look at it in other letters.
fn looks_like_another_name(dest: Spot<'_>) -> Result<bool, Errno> {
    let name = dest.name.as_bytes();
    let swapped: Vec<u8> =
        name.iter().map(|byte| if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { *byte }).collect();
    if swapped == name {
        return Ok(!name.is_ascii());
    }
    match dest.beside(OsStr::from_bytes(&swapped), dest.path).inode() {
        Ok(other) => Ok(dest.inode()?.id == other.id),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Whether the source is still there.
fn stands(subject: &Subject<'_>, name: &OsStr) -> bool {
    let now = subject.source.beside(name, subject.source.path).inode();
    now.is_ok_and(|now| now.is_same_file_as(&subject.inode))
}

fn finish(walker: &mut Walker<'_>, subject: &Subject<'_>, state: &DestState) {
    let worker = &mut walker.worker;
    let (source, dest) = (subject.source, subject.dest);
    worker.report.stats.renamed += 1;
    let backup = state.backup.as_ref().map(|name| renamed(dest.path, name));
    worker.report.tell(&Event::Renamed {
        source: source.path.into(),
        dest: dest.path.into(),
        backup: backup.map(Cow::Owned),
    });
    // A filesystem that is synced as a whole is synced at the end of the run.
    let is_asked = worker.cx.plan.durable != Durable::None;
    if is_asked && written::syncs_alone(worker.cx, subject.inode.id.device()) {
        for (dir, path) in [(dest.dir(), dest.path), (source.dir(), source.path)] {
            worker.report.check(dir.and_then(sync_directory), What::Syncing, path).ok();
        }
    }
    if subject.is_operand() {
        worker.cx.services.operands.lock().insert(walker.operands.current, None);
        walker.operands.remember(dest, Some(subject.inode.id));
    }
}

fn fail(worker: &mut Worker<'_>, subject: &Subject<'_>, state: &DestState, errno: Errno) -> bool {
    let error = Error::new(What::CannotMove, subject.source.path).and(subject.dest.path);
    worker.report.problem(error.errno(errno));
    leave(worker, subject, state)
}

/// It stays where it is, and so does what stands at the destination. Always true.
fn leave(worker: &mut Worker<'_>, subject: &Subject<'_>, state: &DestState) -> bool {
    moved::let_stay(worker, &subject.inode, subject.level.dir);
    undo::put_back(&mut worker.report, state, subject.dest);
    true
}

#[cfg(test)]
#[path = "rename_tests.rs"]
mod tests;
