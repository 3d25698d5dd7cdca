//! Gives whole files their names: at once, or when they are on their device (`--durable=file`).

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use haul_io::transfer::STEP;
use haul_io::verify::{Checked, Finding, compare_with_device};
use haul_sys::Errno;
use haul_sys::inode::{DeviceNumber, FileId};
use haul_sys::rustix::fs::sync;
use haul_sys::rustix::io::retry_on_intr;

use crate::context::name_queue::{Item, MOST_FILES};
use crate::context::{RunContext, Worker};
use crate::error::{Error, What};
use crate::events::{Event, Stage};
use crate::finish::{directories, resume, undo};
use crate::links::Made;
use crate::plan::Writeback;
use crate::publish::filesystems::Synced;
use crate::publish::ready::{ParentDirectory, Ready, Replaceable};
use crate::publish::replace::{link_to, rename_to_free};
use crate::report::Reporter;
use crate::schedule::limits::descriptors;
use crate::walk::{Spot, last_component};
use crate::work::directory::FullDirectory;
use crate::work::entry::Subject;

/// Finished files that another run would not know of if this one is killed.
const MOST_UNWRITTEN: usize = 64;

/// From this size in bytes on the device begins with a file as soon as it is whole.
const LARGE: u64 = 1 << 20;

/// Puts a whole file in its place, where that is free or what stands there is to be replaced. If that fails, it goes away again.
pub(crate) fn publish(
    report: &mut Reporter<'_>,
    spot: Spot<'_>,
    last: &OsStr,
    (replaces, stands): (bool, Option<&Replaceable>),
) -> bool {
    let published = may_replace(spot, last, (replaces, stands)).and_then(|replaces| {
        let renamed = if replaces { spot.rename_to(last) } else { rename_to_free(spot, last) };
        renamed.map_err(|errno| not_published(spot, last, errno))
    });
    published.map_err(|error| undo::withdraw(report, spot, error)).is_ok()
}

/// Whether a file replaces what stands at its name: not where only what was seen there may be replaced, and that has gone.
///
/// # Errors
/// Where something else stands there now.
fn may_replace(spot: Spot<'_>, last: &OsStr, (replaces, stands): (bool, Option<&Replaceable>)) -> Result<bool, Error> {
    let Some(stands) = stands.filter(|_| replaces) else { return Ok(replaces) };
    match spot.beside(last, spot.path).inode_now(false) {
        Ok(now) if stands.is(&now) => Ok(true),
        Ok(_) => Err(Error::new(What::ReplacedWhileCopied, spot.path)),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(not_published(spot, last, errno)),
    }
}

fn not_published(spot: Spot<'_>, last: &OsStr, errno: Errno) -> Error {
    match errno {
        // The name was free as far as following links has shown.
        Errno::EXIST if spot.beside(last, spot.path).read_link().is_ok() => Error::new(What::DanglingLink, spot.path),
        Errno::EXIST => Error::new(What::CannotCreateRegular, spot.path).errno(errno),
        errno => Error::new(What::CannotPublish, spot.path).errno(errno),
    }
}

/// Lets a whole file wait for its name.
pub(crate) fn wait_for_device(worker: &mut Worker<'_>, ready: Ready) {
    let cx = worker.cx;
    let size = ready.size;
    if size >= LARGE {
        // An error of the data is met when it is waited for.
        cx.kernel.write_back(ready.file.as_fd(), false).ok();
    }
    let ready = Arc::new(ready);
    if !cx.plan.resume || size < STEP {
        cx.session.partials.keep(&ready);
    }
    enqueue(worker, Item::File(ready), size);
}

/// Gives everything its name if one of these is that of the entry: an operand that comes now must find it.
pub(crate) fn give_names_if_one_is(worker: &mut Worker<'_>, dest: Spot<'_>) {
    let name = last_component(dest.name);
    let waits = worker.cx.services.name_queue.waiting.lock().items.iter().any(|item| match item {
        Item::File(ready) => ready.last == name,
        Item::Link { last, .. } => last == name,
        Item::Directory(_) => false,
    });
    if waits {
        give_names(worker);
    }
}

/// Makes the entry another name of what was made, when that has its own.
pub(crate) fn link_later(
    worker: &mut Worker<'_>,
    made: &Made,
    subject: &Subject<'_>,
    replaces: bool,
) -> Result<(), Errno> {
    let parent = ParentDirectory::of(subject.dest, subject.sides)?;
    let last = subject.dest.name.to_owned();
    enqueue(worker, Item::Link { made: made.clone(), parent, last, follow: subject.follow(), replaces }, 0);
    Ok(())
}

/// A directory is full. It gets its attributes when everything in it has its name.
pub(crate) fn directory_is_full(worker: &mut Worker<'_>, directory: FullDirectory) {
    if worker.cx.plan.names_wait() {
        enqueue(worker, Item::Directory(directory), 0);
    } else {
        directories::finish_directory(worker, &directory);
    }
}

fn enqueue(worker: &mut Worker<'_>, item: Item, bytes: u64) {
    // Each has a descriptor of its own, and maybe two of a directory.
    let most = (descriptors() / 16).clamp(1, MOST_FILES);
    if worker.cx.services.name_queue.push(item, bytes, most) {
        give_names(worker);
    }
}

/// Gives everything that waits its name, once it is on the device.
pub(crate) fn give_names(worker: &mut Worker<'_>) {
    let cx = worker.cx;
    if !cx.plan.names_wait() {
        return;
    }
    let shared = cx.services;
    let errors = worker.report.failures_of_copying();
    let (items, turn) = shared.name_queue.take();
    let started = Instant::now();
    if !items.is_empty() {
        worker.report.tell(&Event::Stage(Stage::Syncing));
    }
    let synced = sync_filesystems(cx, &items);
    worker.report.stats.sync_time += started.elapsed();
    for item in items {
        match item {
            Item::File(ready) => {
                let (replaces, failures) = (ready.replaces, worker.report.failures_of_copying());
                give_name(worker, &ready, &synced);
                cx.session.partials.release(&ready);
                close(&mut worker.report, ready);
                if replaces && worker.report.failures_of_copying() > failures {
                    // A move could take the old file for its copy, and it is not known here of which source.
                    shared.stays.lose();
                }
            }
            Item::Link { made, parent, last, follow, replaces } => {
                let path = parent.path(&last);
                let dest = Spot::new(parent.as_fd(), &last, &path);
                if let Err(errno) = link_now(worker, &made, dest, None, (follow, replaces)) {
                    worker.report.problem(Error::new(What::CannotHardLink, &path).and(made.path()).errno(errno));
                    if errno == Errno::EXIST {
                        // As above.
                        shared.stays.lose();
                    }
                }
            }
            Item::Directory(directory) => directories::finish_directory(worker, &directory),
        }
        if worker.finished.len() >= MOST_UNWRITTEN {
            resume::promise_all_finished(worker);
        }
    }
    resume::promise_all_finished(worker);
    drop(turn);
    worker.report.errors_of_waiting += worker.report.failures_of_copying() - errors;
}

/// Brings the filesystems of the files to their devices, and says how that went. A filesystem that is not named was not
/// synced as a whole: its files are, one by one.
fn sync_filesystems(cx: RunContext<'_>, items: &[Item]) -> Synced {
    let mut files: Vec<(DeviceNumber, usize)> = Vec::new();
    for item in items {
        let Item::File(ready) = item else { continue };
        let device = ready.id.device();
        match files.iter_mut().find(|(known, _)| *known == device) {
            Some((_, count)) => *count += 1,
            None => files.push((device, 1)),
        }
    }
    // For one or two, syncs of their own are no more, and wait for nobody else's data.
    files.retain(|(_, count)| *count > 2);
    let devices: Vec<DeviceNumber> = files.into_iter().map(|(device, _)| device).collect();
    cx.services.filesystems.sync(&devices, &|fd| retry_on_intr(|| cx.kernel.sync_filesystem(fd)))
}

fn give_name(worker: &mut Worker<'_>, ready: &Ready, synced: &[(DeviceNumber, Result<(), Errno>)]) {
    let cx = worker.cx;
    let device = ready.id.device();
    let synced = match synced.iter().find(|(known, _)| *known == device) {
        // Everything is there, unless an error says which file is not. It costs no flush of the device, as fsync does.
        Some((_, Ok(()))) => match retry_on_intr(|| cx.kernel.write_back(ready.file.as_fd(), true)) {
            // Only that it cannot be asked in this way: a sandbox, a kernel without the call.
            Err(Errno::INVAL | Errno::NOSYS | Errno::PERM) => retry_on_intr(|| cx.kernel.sync(ready.file.as_fd())),
            written => written,
        },
        // Which file it was nobody can tell: the kernel reports an error of a filesystem once.
        Some((_, Err(errno))) => Err(*errno),
        None => retry_on_intr(|| cx.kernel.sync(ready.file.as_fd())),
    };
    match synced {
        Ok(()) => give_synced_name(worker, ready),
        // Never asked twice: the second answer would be that all is well, though the data is lost.
        Err(errno) => {
            let path = ready.path();
            undo::withdraw(&mut worker.report, ready.spot(&path), Error::new(What::Syncing, &path).errno(errno));
        }
    }
}

pub(crate) fn close(report: &mut Reporter<'_>, ready: Arc<Ready>) {
    let Some(Ready { file, parent, last, .. }) = Arc::into_inner(ready) else { return };
    if let Err(errno) = haul_sys::close(file) {
        report.problem(Error::new(What::Closing, parent.path(&last)).errno(errno));
    }
}

/// It is on the device. What has to be read from there is read now.
fn give_synced_name(worker: &mut Worker<'_>, ready: &Ready) {
    let path = ready.path();
    let spot = ready.spot(&path);
    let blocks = ready.checked.blocks.as_ref();
    if blocks.is_some() {
        worker.report.tell(&Event::Stage(Stage::Comparing));
    }
    match blocks.map(|blocks| compare_with_device(worker.cx.kernel, ready.file.as_fd(), blocks, true)).transpose() {
        Ok(None | Some(Finding::Same)) => {}
        Ok(Some(Finding::Differs(mismatch))) => {
            undo::set_aside(&mut worker.report, spot, &ready.last, mismatch);
            return;
        }
        // As far as anybody can tell it is good.
        Ok(Some(Finding::NoMedium)) => {
            worker.report.problem(Error::new(What::NoMedium, &path));
        }
        Err(errno) => {
            undo::withdraw(&mut worker.report, spot, Error::new(What::ReadingBack, &path).errno(errno));
            return;
        }
    }
    if publish(&mut worker.report, spot, &ready.last, (ready.replaces, ready.stands.as_deref())) {
        worker.report.tell(&Event::Secured(ready.size));
        if let Some(source) = ready.source {
            resume::promise_finished(worker, source, ready.file.as_fd(), &ready.checked);
        }
        tell_digest(&worker.report, &path, &ready.checked);
    }
}

/// Makes the entry another name of what was made, in the place of what stands there if it `replaces` that. `here` is its directory,
/// if that is known.
pub(crate) fn link_now(
    worker: &mut Worker<'_>,
    made: &Made,
    dest: Spot<'_>,
    here: Option<FileId>,
    (follow, replaces): (bool, bool),
) -> Result<(), Errno> {
    if link_to(made, dest, here, follow, worker.cx.names_if(replaces))? {
        worker.report.tell(&Event::Removed(dest.path.into()));
    }
    worker.report.stats.hard_links += 1;
    Ok(())
}

/// Waits where a slow device has more left to write than it should. It promises nothing, but what a device has refused is said.
fn settle_unwritten(worker: &mut Worker<'_>) {
    let cx = worker.cx;
    if cx.plan.data.writeback == Writeback::Kernel {
        return;
    }
    let started = Instant::now();
    let settled = cx.services.transfers.settle_unwritten(&cx.session.cancel);
    worker.report.check(settled, What::NotDurable, cx.plan.destination.path()).ok();
    worker.report.stats.sync_time += started.elapsed();
}

/// The last thing of a run: what was written is on its device afterwards, or an error is reported.
pub(crate) fn sync_everything(worker: &mut Worker<'_>) {
    let cx = worker.cx;
    give_names(worker);
    settle_unwritten(worker);
    // A run that a signal has stopped promises nothing, and does not wait for a sync that is under way.
    if !cx.plan.syncs() || (cx.cancelled() && !cx.plan.fail_fast) {
        return;
    }
    worker.report.tell(&Event::Stage(Stage::Syncing));
    let started = Instant::now();
    let failed_early = cx.services.background_sync.end();
    for filesystem in cx.services.filesystems.take() {
        let synced = match &filesystem.fd {
            Some(fd) if filesystem.syncs_whole => retry_on_intr(|| cx.kernel.sync_filesystem(fd.as_fd())),
            // What was made below has been synced; this is what the operands were made in.
            Some(fd) => retry_on_intr(|| cx.kernel.sync_filesystem(fd.as_fd()))
                .and_then(|()| retry_on_intr(|| cx.kernel.sync(fd.as_fd()))),
            None => {
                sync();
                Ok(())
            }
        };
        // The kernel reports that one once, and this sync has not heard of it.
        let early = failed_early.iter().find(|(device, _)| *device == filesystem.device);
        let synced = early.map_or(synced, |(_, errno)| Err(*errno));
        worker.report.check(synced, What::NotDurable, &filesystem.path).ok();
    }
    worker.report.stats.sync_time += started.elapsed();
}

/// Tells the digest of a file whose copy has its name.
pub(crate) fn tell_digest(report: &Reporter<'_>, dest: &Path, checked: &Checked) {
    if let Some(digest) = &checked.digest {
        report.tell(&Event::Digest { dest: dest.into(), digest: digest.into() });
    }
}

#[cfg(test)]
#[path = "naming_tests.rs"]
mod tests;
