//! The one place that undoes: what becomes of a copy that failed, and of what stood at its name before.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};

use haul_io::verify::Mismatch;
use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};

use crate::context::Worker;
use crate::error::{Error, What};
use crate::events::Event;
use crate::publish::replace::rename_to_free;
use crate::report::Reporter;
use crate::walk::{Spot, renamed};
use crate::work::entry::{DestState, Unfinished};
use crate::work::file_data::Broken;

/// Names for copies that are not like their sources are tried up to this number.
const MOST_MARKED: u32 = 1000;

/// Nothing happens to what stands there; a new file is removed. `seen` is what it was, if it could be looked at.
pub(crate) fn refuse(
    worker: &mut Worker<'_>,
    place: Spot<'_>,
    (dest, seen): (&OwnedFd, Option<Inode>),
    (created, unfinished): (bool, &Unfinished),
    error: Error,
) {
    let inode = Inode::of(dest.as_fd()).ok().or(seen);
    match inode.filter(|_| created) {
        Some(inode) => give_up(worker, place, &inode, (created, unfinished), Broken::by(error)),
        None => {
            worker.report.problem(error);
            if created {
                worker.report.damage(place.path);
            }
        }
    }
    worker.cx.session.partials.done();
}

/// The data could not be moved whole: a new file is removed, an overwritten one is named as damaged.
pub(crate) fn give_up(
    worker: &mut Worker<'_>,
    dest: Spot<'_>,
    inode: &Inode,
    (created, unfinished): (bool, &Unfinished),
    broken: Broken,
) {
    if let Some(error) = broken.error {
        worker.report.problem(error);
    } else {
        worker.report.failed = true;
    }
    if created && inode.kind == Kind::Regular {
        if !worker.cx.plan.remove_partial || unfinished.left {
            return;
        }
        let removed = match dest.inode() {
            Ok(now) if now.is_same_file_as(inode) => dest.unlink(),
            // Made through a link, or moved: the name is not the file's.
            Ok(_) | Err(Errno::NOENT) => return worker.report.damage(dest.path),
            Err(errno) => Err(errno),
        };
        worker.report.check(removed, What::CannotRemovePartial, dest.path).ok();
    } else if inode.kind == Kind::Regular {
        worker.report.damage(dest.path);
    }
}

/// Removes a whole file that cannot get its name. Always `false`.
pub(crate) fn withdraw(report: &mut Reporter<'_>, spot: Spot<'_>, error: Error) -> bool {
    report.problem(error);
    report.check(spot.unlink(), What::CannotRemovePartial, spot.path).ok();
    false
}

/// Gives a copy that is not like its source a name that says so. Always `false`.
pub(crate) fn set_aside(report: &mut Reporter<'_>, spot: Spot<'_>, last: &OsStr, mismatch: Mismatch) -> bool {
    let error = Error::new(What::Mismatch, spot.path).detail(mismatch.describe());
    match marked(spot, last) {
        Ok(name) => report.problem(error.and(renamed(spot.path, &name))),
        // It stays where it is, under the temporary name.
        Err(_) => report.problem(error.and(renamed(spot.path, spot.name))),
    }
}

/// Undoes a backup after a failure. What was removed cannot be put back, which is reported; nor can a backup where somebody else
/// has made something of its old name meanwhile.
pub(crate) fn put_back(report: &mut Reporter<'_>, state: &DestState, dest: Spot<'_>) {
    if state.removed && dest.inode().is_err_and(|errno| errno == Errno::NOENT) {
        report.warning(&Error::new(What::Lost, dest.path));
    }
    let Some(name) = &state.backup else { return };
    let path = renamed(dest.path, name);
    let backup = dest.beside(name, &path);
    let put_back = match dest.inode() {
        Err(Errno::NOENT) => rename_to_free(backup, dest.name),
        Err(errno) => Err(errno),
        // The old file has never lost its own name.
        Ok(now) if state.backup_is_link && backup.inode().is_ok_and(|kept| kept.is_same_file_as(&now)) => {
            backup.unlink()
        }
        Ok(now) if state.made.get() == Some(&now.id) => backup.rename_to(dest.name),
        Ok(_) => Err(Errno::EXIST),
    };
    if report.check(put_back, What::CannotUnBackup, dest.path).is_ok() {
        report.tell(&Event::UnBackedUp { backup: path.into(), dest: dest.path.into() });
    }
}

fn marked(spot: Spot<'_>, last: &OsStr) -> Result<OsString, Errno> {
    for number in 1..=MOST_MARKED {
        let mut name = last.to_owned();
        name.push(if number == 1 { ".haul-mismatch".to_owned() } else { format!(".haul-mismatch-{number}") });
        match rename_to_free(spot, &name) {
            Ok(()) => return Ok(name),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}

#[cfg(test)]
#[path = "undo_tests.rs"]
mod tests;
