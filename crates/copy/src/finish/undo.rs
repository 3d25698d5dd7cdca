//! The one place that undoes: what becomes of a copy that failed, and of what stood at its name before.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};

use haul_sys::Errno;

use crate::context::RunContext;
use crate::error::{Error, What};
use crate::events::Event;
use crate::facts::{Inode, Kind};
use crate::report::Reporter;
use crate::transfer::Broken;
use crate::verify::Mismatch;
use crate::walk::{Spot, renamed};
use crate::work::dest_state::DestState;
use crate::work::unfinished::Unfinished;

/// Names for copies that are not like their sources are tried up to this number.
const MOST_MARKED: u32 = 1000;

/// Nothing happens to what stands there; a new file is removed.
pub(crate) fn refuse(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    place: Spot<'_>,
    (dest, inode): (&OwnedFd, &Inode),
    (created, unfinished): (bool, &Unfinished),
    error: Error,
) {
    if created {
        let inode = Inode::of(dest.as_fd()).unwrap_or(*inode);
        give_up(cx, report, place, &inode, (created, unfinished), Broken { error: Some(error) });
        cx.session.partials.done();
    } else {
        report.problem(error);
    }
}

/// A destination that cannot be looked at: a new one must not stay behind empty.
pub(crate) fn give_up_unseen(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    place: Spot<'_>,
    dest: &OwnedFd,
    (created, unfinished): (bool, &Unfinished),
    error: Error,
) {
    match Inode::of(dest.as_fd()) {
        Ok(inode) if created => {
            give_up(cx, report, place, &inode, (created, unfinished), Broken { error: Some(error) });
        }
        _ => {
            report.problem(error);
            if created {
                report.damage(place.path);
            }
        }
    }
}

/// The data could not be moved whole: a new file is removed, an overwritten one is named as damaged.
pub(crate) fn give_up(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    dest: Spot<'_>,
    inode: &Inode,
    (created, unfinished): (bool, &Unfinished),
    broken: Broken,
) {
    if let Some(error) = broken.error {
        report.problem(error);
    } else {
        report.failed = true;
    }
    if created && inode.kind == Kind::Regular {
        if !cx.plan.remove_partial || unfinished.left {
            return;
        }
        let removed = match dest.inode() {
            Ok(now) if now.is_same_file_as(inode) => dest.unlink(),
            // Made through a link, or moved: the name is not the file's.
            Ok(_) | Err(Errno::NOENT) => return report.damage(dest.path),
            Err(errno) => Err(errno),
        };
        if let Err(errno) = removed {
            report.problem(Error::new(What::CannotRemovePartial, dest.path).errno(errno));
        }
    } else if inode.kind == Kind::Regular {
        report.damage(dest.path);
    }
}

/// Removes a whole file that cannot get its name. Always `false`.
pub(crate) fn withdraw(report: &mut Reporter<'_>, spot: Spot<'_>, error: Error) -> bool {
    report.problem(error);
    if let Err(errno) = spot.unlink() {
        report.problem(Error::new(What::CannotRemovePartial, spot.path).errno(errno));
    }
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

/// Undoes a backup after a failure. What was removed cannot be put back: the user is told.
pub(crate) fn put_back(report: &mut Reporter<'_>, state: &DestState, dest: Spot<'_>) {
    if state.removed && dest.inode().is_err_and(|errno| errno == Errno::NOENT) {
        report.warning(&Error::new(What::Lost, dest.path));
    }
    let Some(name) = &state.backup else { return };
    let path = renamed(dest.path, name);
    let backup = dest.beside(name, &path);
    let put_back = backup.rename_to(dest.name);
    if state.backup_is_link && put_back.is_ok() {
        // A rename from one name of a file to another does nothing: the old file has never lost its own.
        backup.unlink().ok();
    }
    match put_back {
        Ok(()) => report.tell(&Event::UnBackedUp { backup: &path, dest: dest.path }),
        Err(errno) => {
            report.problem(Error::new(What::CannotUnBackup, dest.path).errno(errno));
        }
    }
}

fn marked(spot: Spot<'_>, last: &OsStr) -> Result<OsString, Errno> {
    for number in 1..=MOST_MARKED {
        let mut name = last.to_owned();
        name.push(if number == 1 { ".haul-mismatch".to_owned() } else { format!(".haul-mismatch-{number}") });
        match crate::publish::replace::rename_to_free(spot, &name) {
            Ok(()) => return Ok(name),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}
