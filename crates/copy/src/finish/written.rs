//! Notes the filesystems that are written to, and has them synced while files are still copied.

use std::os::fd::BorrowedFd;
use std::path::Path;

use haul_sys::inode::{DeviceNumber, Inode};
use haul_sys::rustix::fs::syncfs;
use haul_sys::rustix::io::retry_on_intr;

use crate::context::{RunContext, Worker};
use crate::plan::Durable;
use crate::walk::Spot;

/// Notes that something is going to be written to this filesystem.
pub(crate) fn will_write_to(worker: &mut Worker<'_>, device: DeviceNumber, path: &Path, fd: BorrowedFd<'_>) {
    if !worker.cx.plan.syncs() || worker.writes_to == Some(device) {
        return;
    }
    if worker.cx.services.filesystems.note(device, path, fd) {
        worker.writes_to = Some(device);
    }
}

/// Whether a file on this filesystem has to be synced by itself if the copy has to be durable.
pub(crate) fn syncs_alone(cx: RunContext<'_>, device: DeviceNumber) -> bool {
    cx.plan.syncs() && cx.services.filesystems.syncs_alone(device)
}

/// The same for the directory of an entry, if that is known.
pub(crate) fn will_write_beside(worker: &mut Worker<'_>, dest: Spot<'_>) {
    if !worker.cx.plan.syncs() {
        return;
    }
    let found = dest.dir().and_then(|dir| Ok((Inode::of(dir)?.id.device(), dir)));
    if let Ok((device, dir)) = found {
        will_write_to(worker, device, dest.path, dir);
    }
}

/// Has the filesystem of a file that was just copied synced from time to time while others are copied, where the run ends
/// with that. Not where a disk is known to have heads, which have enough to do with reading.
pub(crate) fn sync_early(worker: &mut Worker<'_>, dest: &Inode) {
    let cx = worker.cx;
    let bytes = worker.mover.take_left_in_cache();
    let (services, device) = (cx.services, dest.id.device());
    // Where names wait, files are synced before they get them.
    if bytes == 0 || cx.plan.durable != Durable::Flush || cx.plan.names_wait() || !services.background_sync.left(bytes)
    {
        return;
    }
    let fd = services.filesystems.get(device).filter(|filesystem| filesystem.syncs_early);
    let fd = fd.and_then(|filesystem| filesystem.fd);
    match fd.filter(|_| !cx.services.transfers.probe.has_heads([device; 2])) {
        Some(fd) => services.background_sync.begin(device, move || retry_on_intr(|| syncfs(&fd))),
        None => services.background_sync.count_anew(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsFd, OwnedFd};
    use std::path::PathBuf;

    use haul_sys::Errno;

    use super::*;
    use crate::context::test_support::{Bench, file_data};
    use crate::plan::{Plan, Verify};

    fn bench(durable: Durable) -> Bench {
        Bench::new(Plan { durable, ..Plan::default() })
    }

    /// Which filesystems are noted after something was written beside this entry.
    fn noted_beside(bench: &Bench, dest: Spot<'_>) -> Vec<PathBuf> {
        bench.run(|worker| will_write_beside(worker, dest)).says(&[]);
        bench.services.filesystems.take().into_iter().map(|filesystem| filesystem.path).collect()
    }

    #[test]
    fn filesystems_are_noted_where_copies_must_be_durable() {
        for (durable, noted) in [(Durable::None, vec![]), (Durable::Flush, vec!["b"]), (Durable::File, vec!["b"])] {
            let bench = bench(durable);
            let noted: Vec<PathBuf> = noted.into_iter().map(PathBuf::from).collect();
            assert_eq!(noted_beside(&bench, bench.to("b")), noted, "{durable:?}");
        }
    }

    #[test]
    fn a_directory_that_cannot_be_opened_is_not_noted() {
        let dest = Spot::unreachable(Errno::ACCESS, "b".as_ref(), Path::new("b"));
        assert!(noted_beside(&bench(Durable::Flush), dest).is_empty());
    }

    #[test]
    fn a_thread_asks_once_for_each_filesystem() {
        let bench = bench(Durable::Flush);
        let dir = bench.to("b").dir().unwrap();
        let device = Inode::of(dir).unwrap().id.device();
        bench.run(|worker| {
            // What is known already, of which a thread need not ask again.
            for asked in [None, Some(device)] {
                will_write_to(worker, device, Path::new("dest"), dir);
                assert_eq!(worker.writes_to, asked);
            }
            assert_eq!(worker.cx.services.filesystems.take().len(), 1);
            will_write_to(worker, device, Path::new("dest"), dir);
            assert_eq!(worker.cx.services.filesystems.take().len(), 0, "it did not ask");
        });
    }

    /// Copies a file when enough for a sync was left in memory. Whether that is counted anew since, as where a sync begins or
    /// is of no use.
    fn counts_anew(plan: Plan) -> bool {
        let bench = Bench::new(plan).source("a", "new").dest("b", "");
        // It is of no use on this filesystem, so that nobody waits for the data of all programs.
        bench.writes_to_filesystem(false);
        assert!(bench.services.background_sync.left(128 << 20));
        let sides = [File::open(bench.source_path("a")), File::create(bench.dest_path("b"))];
        let sides: [OwnedFd; 2] = sides.map(|file| file.unwrap().into());
        let inodes = sides.each_ref().map(|fd| Inode::of(fd.as_fd()).unwrap());
        bench.run(|worker| {
            assert!(worker.move_and_report(&file_data(sides, inodes.each_ref())).is_ok());
            sync_early(worker, &inodes[1]);
        });
        !bench.services.background_sync.left(0)
    }

    #[test]
    fn filesystems_are_synced_early_where_a_run_ends_with_that() {
        let flush = Plan { durable: Durable::Flush, ..Plan::default() };
        assert!(counts_anew(flush.clone()));
        assert!(!counts_anew(Plan::default()));
        assert!(!counts_anew(Plan { verify: Verify::Device, ..flush }), "files are synced before they get their names");
    }

    #[test]
    fn files_are_synced_alone_only_where_that_matters() {
        for (durable, syncs_whole, alone) in
            [(Durable::None, false, false), (Durable::Flush, false, true), (Durable::Flush, true, false)]
        {
            let bench = bench(durable);
            let device = bench.writes_to_filesystem(syncs_whole);
            assert_eq!(bench.run(|worker| syncs_alone(worker.cx, device)).value, alone, "{durable:?} {syncs_whole}");
        }
    }
}
