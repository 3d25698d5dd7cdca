//! The attributes of directories: while they are filled, and when they are full.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use haul_sys::inode::{Inode, Kind};

use crate::attributes::{Keep, OTHERS, OWNER};
use crate::context::{RunContext, Worker};
use crate::error::What;
use crate::finish::{deletion, moved, resume, shard, written};
use crate::meta::{self, NewEntries, Object};
use crate::plan::ModeRule;
use crate::report::Reporter;
use crate::walk::sync_directory;
use crate::work::directory::FullDirectory;

/// A directory of an earlier run as that made it, as far as this matters for its attributes.
pub(crate) fn as_it_was_made(cx: RunContext<'_>, found: Inode, source: &Inode, entries: &NewEntries) -> Inode {
    let mode = cx.creation_mode(Kind::Directory, source, entries);
    // Only the owner's bits were added since.
    Inode { permissions: found.permissions & (mode | !OWNER), ..found }
}

/// A new directory must let us in, whatever the umask made of it; its final mode is set when it is full.
pub(crate) fn make_usable(report: &mut Reporter<'_>, dest: &OwnedFd, inode: &Inode, path: &Path) -> bool {
    let opened_up = meta::open_up(Object { fd: dest.as_fd(), path_only: true }, inode);
    report.check(opened_up, What::SettingPermissions, path).is_ok()
}

/// A directory that was there must not let others do more than its source while it is filled: that alone may close what comes
/// into it. Its mode is set when it is full. As with a file that is overwritten, only the owner is let in where one of the two
/// has an ACL, or another owner.
pub(crate) fn close_to_others(cx: RunContext<'_>, sides: [Object<'_>; 2], [source, found]: [&Inode; 2]) {
    let (preserve, caller) = (&cx.plan.preserve, cx.services.caller);
    let is_wider = found.permissions & !source.permissions & OTHERS != 0;
    // Anybody else may reach it by no more than the rights that would be taken away.
    let is_ours = caller.privileged() || caller.user == found.user;
    if preserve.mode != ModeRule::Keep || !is_wider || !is_ours {
        return;
    }
    let changes_hands = preserve.ownership && (found.user, found.group) != (source.user, source.group);
    let alone = changes_hands || sides.into_iter().any(meta::has_acl);
    let others = if alone { 0 } else { found.permissions & source.permissions & OTHERS };
    // Where this is not possible, neither is what follows, which reports it.
    sides[1].set_mode(found.permissions & !OTHERS | others).ok();
}

/// What is known of entries that we make in a directory, itself just made where `above` is known, else found there.
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
pub(crate) fn finish_directory(worker: &mut Worker<'_>, directory: &FullDirectory) {
    let FullDirectory { place, sides } = directory;
    if sides.is_none() {
        moved::let_stay(worker, &place.source_inode, Some(&place.dir));
    }
    moved::let_stay_if_it_fails(worker, (place.source_inode, Some(&place.dir)), |worker| set_last(worker, directory));
}

fn set_last(worker: &mut Worker<'_>, directory: &FullDirectory) {
    let cx = worker.cx;
    let [mut source_path, mut dest_path] = std::mem::take(&mut worker.paths);
    let shown = [source_path.of(&directory.place.source_path), dest_path.of(&directory.place.dest_path)];
    if let Some(keep) = directory.keep(shown).filter(|keep| !shard::leave_to_last_shard(cx, directory, keep)) {
        let started = Instant::now();
        if !directory.place.fresh {
            resume::tidy(cx, keep.dest.object.fd, false);
            if !cx.plan.deletes_at_last() {
                deletion::delete_extra(worker, directory);
            }
        }
        set_attributes(worker, &keep);
        worker.report.stats.metadata_time += started.elapsed();
    }
    worker.paths = [source_path, dest_path];
}

/// Gives a full directory its attributes, and brings it to its device if that is for the run to do.
pub(crate) fn set_attributes(worker: &mut Worker<'_>, keep: &Keep<'_>) {
    let cx = worker.cx;
    cx.attributes().set_of_directory(keep, &mut worker.report);
    let (dest, inode) = (keep.dest.object.fd, keep.dest.inode);
    if written::syncs_alone(cx, inode.id.device()) {
        worker.report.check(sync_directory(dest), What::Syncing, keep.dest.path).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::context::test_support::Bench;
    use crate::plan::{Plan, Preserve};

    fn set_mode(path: impl AsRef<Path>, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode_of(path: impl AsRef<Path>) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_full_directory_gets_its_attributes() {
        let preserve = Preserve { mode: ModeRule::Keep, timestamps: true, ..Preserve::default() };
        let bench = Bench::new(Plan { preserve, ..Plan::default() });
        set_mode(bench.source_path(""), 0o750);
        set_mode(bench.dest_path(""), 0o700);
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        File::open(bench.source_path("")).unwrap().set_modified(long_ago).unwrap();
        bench.run(|worker| finish_directory(worker, &bench.full_directory())).says(&[]);
        assert_eq!(mode_of(bench.dest_path("")), 0o750);
        assert_eq!(fs::metadata(bench.dest_path("")).unwrap().mtime(), 1000);
    }

    #[test]
    fn a_directory_that_is_not_open_stays_as_it_is() {
        let preserve = Preserve { mode: ModeRule::Keep, ..Preserve::default() };
        let bench = Bench::new(Plan { preserve, ..Plan::default() });
        set_mode(bench.source_path(""), 0o750);
        set_mode(bench.dest_path(""), 0o700);
        let closed = FullDirectory { sides: None, ..bench.full_directory() };
        bench.run(|worker| finish_directory(worker, &closed)).says(&[]);
        assert_eq!(mode_of(bench.dest_path("")), 0o700);
    }

    #[test]
    fn a_new_directory_lets_its_owner_in() {
        let bench = Bench::new(Plan::default());
        for (made, usable) in [(0o055, 0o755), (0o500, 0o700), (0o711, 0o711)] {
            set_mode(bench.dest_path(""), made);
            let spot = bench.to(".");
            let (fd, inode) =
                (bench.sides().dest, Inode { permissions: made, ..Inode::of(spot.dir().unwrap()).unwrap() });
            let ran = bench.run(|worker| make_usable(&mut worker.report, &fd, &inode, Path::new("dest")));
            ran.says(&[]);
            assert_eq!((ran.value, mode_of(bench.dest_path(""))), (true, usable), "{made:o}");
        }
    }

    #[test]
    fn what_a_run_added_for_its_owner_is_taken_back() {
        let bench = Bench::new(Plan::default());
        let directory = Inode::of(bench.to(".").dir().unwrap()).unwrap();
        let source = Inode { permissions: 0o555, ..directory };
        let found = Inode { permissions: 0o775, ..directory };
        let made = bench.run(|worker| as_it_was_made(worker.cx, found, &source, &NewEntries::UNKNOWN)).value;
        assert_eq!(made.permissions, 0o575, "only for its owner does a run add the right to write");
    }

    #[test]
    fn nothing_is_asked_about_entries_whose_attributes_nobody_keeps() {
        let bench = Bench::new(Plan::default());
        let inode = Inode::of(bench.to(".").dir().unwrap()).unwrap();
        let entries = bench.run(|worker| new_entries(worker.cx, &bench.sides().dest, &inode, None)).value;
        assert_eq!(entries, NewEntries::UNKNOWN);
    }
}
