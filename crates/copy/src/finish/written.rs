//! Notes the filesystems that are written to, and has them synced while files are still copied.

use std::os::fd::BorrowedFd;
use std::path::Path;

use haul_sys::rustix::fs::syncfs;
use haul_sys::rustix::io::retry_on_intr;

use crate::context::RunContext;
use crate::context::Worker;
use crate::facts::{DeviceNumber, Inode};
use crate::plan::Durable;
use crate::walk::Spot;

/// Notes that something is going to be written to this filesystem.
pub(crate) fn will_write_to(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    device: DeviceNumber,
    path: &Path,
    fd: BorrowedFd<'_>,
) {
    if cx.plan.durable == Durable::None || worker.writes_to == Some(device) {
        return;
    }
    if cx.services.filesystems.note(device, path, fd) {
        worker.writes_to = Some(device);
    }
}

/// Whether a file on this filesystem has to be synced by itself if the copy has to be durable.
pub(crate) fn syncs_alone(cx: RunContext<'_>, device: DeviceNumber) -> bool {
    cx.plan.durable != Durable::None && cx.services.filesystems.syncs_alone(device)
}

/// The same for the directory of an entry, if that is known.
pub(crate) fn will_write_beside(cx: RunContext<'_>, worker: &mut Worker<'_>, dest: Spot<'_>) {
    if cx.plan.durable == Durable::None {
        return;
    }
    let found = dest.dir().and_then(|dir| Ok((Inode::of(dir)?.id.device(), dir)));
    if let Ok((device, dir)) = found {
        will_write_to(cx, worker, device, dest.path, dir);
    }
}

/// Has the filesystem of a file that was just copied synced from time to time while others are copied, where the run ends
/// with that. Not where a disk is known to have heads, which have enough to do with reading.
pub(crate) fn sync_early(cx: RunContext<'_>, worker: &mut Worker<'_>, dest: &Inode) {
    let bytes = worker.mover.take_left_in_cache();
    let (services, device) = (cx.services, dest.id.device());
    // Where names wait, files are synced before they get them.
    if bytes == 0 || cx.plan.durable != Durable::Flush || cx.names_wait() || !services.background.left(bytes) {
        return;
    }
    let fd = services.filesystems.get(device).filter(|filesystem| filesystem.syncs_early);
    let fd = fd.and_then(|filesystem| filesystem.fd);
    match fd.filter(|_| !cx.services.transfers.probe.has_heads([device; 2])) {
        Some(fd) => services.background.begin(device, move || retry_on_intr(|| syncfs(&fd))),
        None => services.background.count_anew(),
    }
}
