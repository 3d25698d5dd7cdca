//! The attributes of directories: while they are filled, and when they are full.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use crate::context::RunContext;
use crate::context::Worker;
use crate::error::{Error, What};
use crate::facts::{Inode, Kind};
use crate::finish::{resume, shard, written};
use crate::meta::{self, NewEntries, Object};
use crate::report::Reporter;
use crate::work::directory::{FullDirectory, sync_directory};

/// Permissions of the owner.
const OWNER: u32 = 0o700;

/// A directory of an earlier run as that made it, as far as this matters for its attributes.
pub(crate) fn as_it_was_made(cx: RunContext<'_>, found: Inode, source: &Inode, entries: &NewEntries) -> Inode {
    let creation = meta::creation_mode(Kind::Directory, source, entries, &cx.plan.preserve, cx.services.caller);
    // Only the owner's bits were added since.
    Inode { permissions: found.permissions & (creation.mode | !OWNER), ..found }
}

/// A new directory must let us in, whatever the umask made of it; its final mode is set when it is full.
pub(crate) fn make_usable(report: &mut Reporter<'_>, dest: &OwnedFd, inode: &Inode, path: &Path) -> bool {
    match meta::open_up(Object { fd: dest.as_fd(), path_only: true }, inode) {
        Ok(()) => true,
        Err(errno) => report.problem(Error::new(What::SettingPermissions, path).errno(errno)),
    }
}

/// The same for one that was found.
pub(crate) fn entries_of_found(cx: RunContext<'_>, dest: &OwnedFd, inode: &Inode) -> NewEntries {
    new_entries(cx, dest, inode, None)
}

/// What is known of entries that we make in a directory, itself just made where `above` is known or found there.
pub(crate) fn new_entries(cx: RunContext<'_>, dest: &OwnedFd, inode: &Inode, above: Option<&NewEntries>) -> NewEntries {
    if !NewEntries::matter(&cx.plan.preserve) {
        return NewEntries::UNKNOWN;
    }
    let object = Object { fd: dest.as_fd(), path_only: true };
    match above {
        Some(above) => above.of_made(object, inode, cx.services.caller, &cx.services.memory),
        None => NewEntries::of_found(object, inode, cx.services.caller, &cx.services.memory),
    }
}

/// Sets the attributes of a directory whose contents are complete.
pub(crate) fn finish_directory(cx: RunContext<'_>, worker: &mut Worker<'_>, directory: &FullDirectory) {
    let [mut source_path, mut dest_path] = std::mem::take(&mut worker.paths);
    let shown = [source_path.of(&directory.place.source_path), dest_path.of(&directory.place.dest_path)];
    if let Some(keep) = directory.keep(shown).filter(|keep| !shard::leave_to_last_shard(cx, directory, keep)) {
        let started = Instant::now();
        if !directory.place.fresh {
            resume::tidy(cx, keep.dest.fd, false);
        }
        cx.attributes().set(&keep, &mut worker.report);
        let (dest, inode) = (keep.dest.fd, keep.dest_inode);
        if written::syncs_alone(cx, inode.id.device())
            && let Err(errno) = sync_directory(dest)
        {
            worker.report.problem(Error::new(What::Syncing, keep.dest_path).errno(errno));
        }
        worker.report.stats.metadata_time += started.elapsed();
    }
    worker.paths = [source_path, dest_path];
}
