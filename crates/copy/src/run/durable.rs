//! What has to be on the device before a file gets its name, or before the run ends (`--durable`).
//!
//! Whole files wait in one queue for all threads, with everything that must not happen before they have their names: hard
//! links to them, and the attributes of their directories. Whoever makes the queue long enough empties it: one syncfs(2)
//! for each filesystem, then everything in the order in which it came. So a tree of small files costs a few syncs, and not
//! one for each file, each of which waits for the journal of the filesystem and for the cache of the device.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use haul_sys::Errno;
use haul_sys::kernel::{Kernel, Linux};
use haul_sys::page_cache::write_back;
use haul_sys::rustix::fs::{sync, syncfs};
use haul_sys::rustix::io::retry_on_intr;

use super::entry::Subject;
use super::tree::Frame;
use super::{Run, descriptors};
use crate::error::{Error, What};
use crate::events::Event;
use crate::facts::{DeviceNumber, FileId, Inode};
use crate::links::{Made, duplicate, link_to};
use crate::plan::Durable;
use crate::publish::background_sync::BackgroundSync;
use crate::publish::filesystems::{Filesystems, Synced};
use crate::publish::ready::{ParentDirectory, Ready};
use crate::publish::replace::Replaced;
use crate::transfer::STEP;
use crate::verify::{Finding, compare_with_device};
use crate::walk::{Spot, last_component};

/// Files in the queue: enough that a sync of some ten milliseconds does not count beside making them.
const MOST_FILES: usize = 1024;
/// Bytes in the queue: a second or two of a quick device.
const MOST_BYTES: u64 = 1 << 30;
/// Finished files that another run would not know of if this one is killed.
const MOST_UNWRITTEN: usize = 64;
/// From this size in bytes on the device begins with a file as soon as it is whole.
const LARGE: u64 = 1 << 20;

/// What waits.
enum Item {
    File(Arc<Ready>),
    /// Another name for a file that may wait itself.
    Link {
        made: Made,
        parent: ParentDirectory,
        last: OsString,
        follow: bool,
    },
    /// A directory that is full, and gets its attributes.
    Directory(Box<Frame>),
}

/// What the threads of a run have for each other to make durable.
#[derive(Default)]
pub(super) struct Ledger {
    filesystems: Filesystems,
    queue: Queue,
    background: BackgroundSync,
}

/// What waits for its name, and who gives them: one thread at a time, since what comes later depends on what came before.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// Nobody gives names any more.
    free: Condvar,
}

#[derive(Default)]
struct Waiting {
    items: Vec<Item>,
    bytes: u64,
    /// A thread gives names.
    taken: bool,
}

impl Queue {
    /// True if there is so much now that it should be emptied.
    fn push(&self, item: Item, bytes: u64, most: usize) -> bool {
        let mut waiting = lock(&self.waiting);
        waiting.items.push(item);
        waiting.bytes += bytes;
        waiting.items.len() >= most || waiting.bytes >= MOST_BYTES
    }

    /// Everything that waits, once nobody else gives names. Others go on to add to the queue until the turn is dropped.
    fn take(&self) -> (Vec<Item>, Turn<'_>) {
        let mut waiting = lock(&self.waiting);
        while waiting.taken {
            waiting = self.free.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.taken = true;
        waiting.bytes = 0;
        (std::mem::take(&mut waiting.items), Turn(self))
    }
}

/// The right to give names. No lock: who has it waits for devices.
struct Turn<'a>(&'a Queue);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.0.waiting).taken = false;
        self.0.free.notify_one();
    }
}

impl Run<'_> {
    /// Notes that something is going to be written to this filesystem.
    pub(super) fn will_write_to(&mut self, device: DeviceNumber, path: &Path, fd: BorrowedFd<'_>) {
        if self.cx.plan.durable == Durable::None || self.worker.writes_to == Some(device) {
            return;
        }
        if self.cx.services.ledger.filesystems.note(device, path, fd) {
            self.worker.writes_to = Some(device);
        }
    }

    /// Whether a file on this filesystem has to be synced by itself if the copy has to be durable.
    pub(super) fn syncs_alone(&self, device: DeviceNumber) -> bool {
        self.cx.plan.durable != Durable::None && self.cx.services.ledger.filesystems.syncs_alone(device)
    }

    /// The same for the directory of an entry, if that is known.
    pub(super) fn will_write_beside(&mut self, dest: Spot<'_>) {
        if self.cx.plan.durable == Durable::None {
            return;
        }
        let found = dest.dir().and_then(|dir| Ok((Inode::of(dir)?.id.device(), dir)));
        if let Ok((device, dir)) = found {
            self.will_write_to(device, dest.path, dir);
        }
    }

    /// Has the filesystem of a file that was just copied synced from time to time while others are copied, where the run ends
    /// with that. Not where a disk is known to have heads, which have enough to do with reading.
    pub(super) fn sync_early(&mut self, dest: &Inode) {
        let bytes = self.worker.mover.take_left_in_cache();
        let (ledger, device) = (&self.cx.services.ledger, dest.id.device());
        // Where names wait, files are synced before they get them.
        if bytes == 0
            || self.cx.plan.durable != Durable::Flush
            || self.cx.names_wait()
            || !ledger.background.left(bytes)
        {
            return;
        }
        let fd = ledger.filesystems.get(device).filter(|filesystem| filesystem.syncs_early);
        let fd = fd.and_then(|filesystem| filesystem.fd);
        match fd.filter(|_| !self.cx.services.transfers.probe.has_heads([device; 2])) {
            Some(fd) => ledger.background.begin(device, move || retry_on_intr(|| syncfs(&fd))),
            None => ledger.background.count_anew(),
        }
    }

    /// Lets a whole file wait for its name.
    pub(super) fn wait_for_device(&mut self, ready: Ready) {
        let size = ready.size;
        if size >= LARGE {
            // An error of the data is met when it is waited for.
            write_back(ready.file.as_fd(), 0, 0, false).ok();
        }
        let ready = Arc::new(ready);
        if !self.cx.plan.resume || size < STEP {
            self.cx.session.partials.keep(&ready);
        }
        self.enqueue(Item::File(ready), size);
    }

    /// Gives everything its name if one of these is that of the entry: an operand that comes now must find it.
    pub(super) fn give_names_if_one_is(&mut self, dest: Spot<'_>) {
        let name = last_component(dest.name);
        let waits = lock(&self.cx.services.ledger.queue.waiting).items.iter().any(|item| match item {
            Item::File(ready) => ready.last == name,
            Item::Link { last, .. } => last == name,
            Item::Directory(_) => false,
        });
        if waits {
            self.give_names();
        }
    }

    /// Makes the entry another name of what was made, when that has its own.
    pub(super) fn link_later(&mut self, made: &Made, subject: &Subject<'_>) -> Result<(), Errno> {
        let parent = match subject.sides {
            Some(sides) => ParentDirectory::Shared(Arc::clone(sides)),
            None => ParentDirectory::Own(duplicate(subject.dest.dir()?)?, subject.dest.path.to_owned()),
        };
        let last = subject.dest.name.to_owned();
        self.enqueue(Item::Link { made: made.clone(), parent, last, follow: subject.follow }, 0);
        Ok(())
    }

    /// A directory is full. It gets its attributes when everything in it has its name.
    pub(super) fn directory_is_full(&mut self, frame: Box<Frame>) {
        if let Some(reply) = frame.reply {
            self.report_part(reply);
        } else if self.cx.names_wait() {
            self.enqueue(Item::Directory(frame), 0);
        } else {
            self.finish_directory(&frame);
        }
    }

    fn enqueue(&mut self, item: Item, bytes: u64) {
        // Each has a descriptor of its own, and maybe two of a directory.
        let most = (descriptors() / 16).clamp(1, MOST_FILES);
        if self.cx.services.ledger.queue.push(item, bytes, most) {
            self.give_names();
        }
    }

    /// Gives everything that waits its name, once it is on the device.
    pub(super) fn give_names(&mut self) {
        if !self.cx.names_wait() {
            return;
        }
        let shared = self.cx.services;
        let (items, turn) = shared.ledger.queue.take();
        let started = Instant::now();
        let synced = self.sync_filesystems(&items);
        self.worker.report.stats.sync_time += started.elapsed();
        for item in items {
            match item {
                Item::File(ready) => {
                    self.give_name(&ready, &synced);
                    self.cx.session.partials.release(&ready);
                    self.close(ready);
                }
                Item::Link { made, parent, last, follow } => {
                    let path = parent.path(&last);
                    if let Err(errno) = self.link_now(&made, Spot::new(parent.as_fd(), &last, &path), None, follow) {
                        self.worker
                            .report
                            .problem(Error::new(What::CannotHardLink, &path).and(made.path()).errno(errno));
                    }
                }
                Item::Directory(frame) => self.finish_directory(&frame),
            }
            if self.worker.finished.len() >= MOST_UNWRITTEN {
                self.promise_all_finished();
            }
        }
        self.promise_all_finished();
        drop(turn);
    }

    /// Brings the filesystems of the files to their devices, and says how that went. A filesystem that is not named was not
    /// synced as a whole: its files are, one by one.
    fn sync_filesystems(&self, items: &[Item]) -> Synced {
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
        self.cx.services.ledger.filesystems.sync(&devices, &|fd| retry_on_intr(|| syncfs(fd)))
    }

    fn give_name(&mut self, ready: &Ready, synced: &[(DeviceNumber, Result<(), Errno>)]) {
        let device = ready.id.device();
        let synced = match synced.iter().find(|(known, _)| *known == device) {
            // Everything is there, unless an error says which file is not. It costs no flush of the device, as fsync does.
            Some((_, Ok(()))) => match retry_on_intr(|| write_back(ready.file.as_fd(), 0, 0, true)) {
                // Only that it cannot be asked in this way: a sandbox, a kernel without the call.
                Err(Errno::INVAL | Errno::NOSYS | Errno::PERM) => retry_on_intr(|| Linux.sync(ready.file.as_fd())),
                written => written,
            },
            // Which file it was nobody can tell: that of a sync of the filesystem is told once.
            Some((_, Err(errno))) => Err(*errno),
            None => retry_on_intr(|| Linux.sync(ready.file.as_fd())),
        };
        match synced {
            Ok(()) => self.give_synced_name(ready),
            // Never asked twice: the second answer would be that all is well, though the data is lost.
            Err(errno) => {
                let path = ready.path();
                self.withdraw(ready.spot(&path), Error::new(What::Syncing, &path).errno(errno));
            }
        }
    }

    fn close(&mut self, ready: Arc<Ready>) {
        let Some(Ready { file, parent, last, .. }) = Arc::into_inner(ready) else { return };
        if let Err(errno) = haul_sys::close(file) {
            self.worker.report.problem(Error::new(What::Closing, parent.path(&last)).errno(errno));
        }
    }

    /// It is on the device. What has to be read from there is read now.
    fn give_synced_name(&mut self, ready: &Ready) {
        let path = ready.path();
        let spot = ready.spot(&path);
        let blocks = ready.checked.blocks.as_ref();
        match blocks.map(|blocks| compare_with_device(&Linux, ready.file.as_fd(), blocks, true)).transpose() {
            Ok(None | Some(Finding::Same)) => {}
            Ok(Some(Finding::Differs(mismatch))) => {
                self.set_aside(spot, &ready.last, mismatch);
                return;
            }
            // As far as anybody can tell it is good.
            Ok(Some(Finding::NoMedium)) => {
                self.worker.report.problem(Error::new(What::NoMedium, &path));
            }
            Err(errno) => {
                self.withdraw(spot, Error::new(What::ReadingBack, &path).errno(errno));
                return;
            }
        }
        if self.publish(spot, &ready.last, ready.replaces) {
            if let Some(source) = ready.source {
                self.promise_finished(source, ready.file.as_fd(), &ready.checked);
            }
            self.tell_digest(&path, &ready.checked);
        }
    }

    /// Makes the entry another name of what was made. `here` is its directory, if that is known.
    pub(super) fn link_now(
        &mut self,
        made: &Made,
        dest: Spot<'_>,
        here: Option<FileId>,
        follow: bool,
    ) -> Result<(), Errno> {
        if link_to(made, dest, here, follow, self.cx.temporary_names())? == Replaced::Something {
            self.worker.report.tell(&Event::Removed(dest.path));
        }
        self.worker.report.stats.hard_links += 1;
        Ok(())
    }

    /// The last thing of a run: what was written is on its device afterwards, or that is told.
    pub(super) fn sync_everything(&mut self) {
        self.give_names();
        // Who was told to stop by a signal has nothing to promise, and does not wait for a sync that is under way.
        if self.cx.plan.durable == Durable::None || (self.cx.cancelled() && !self.cx.plan.fail_fast) {
            return;
        }
        let started = Instant::now();
        let failed_early = self.cx.services.ledger.background.end();
        for filesystem in self.cx.services.ledger.filesystems.take() {
            let synced = match &filesystem.fd {
                Some(fd) if filesystem.syncs_whole => retry_on_intr(|| syncfs(fd)),
                // What was made below has been synced; this is what the operands were made in.
                Some(fd) => retry_on_intr(|| syncfs(fd)).and_then(|()| retry_on_intr(|| Linux.sync(fd.as_fd()))),
                None => {
                    sync();
                    Ok(())
                }
            };
            // That one is told once, and this sync has not heard of it.
            let early = failed_early.iter().find(|(device, _)| *device == filesystem.device);
            let synced = early.map_or(synced, |(_, errno)| Err(*errno));
            if let Err(errno) = synced {
                self.worker.report.problem(Error::new(What::NotDurable, &filesystem.path).errno(errno));
            }
        }
        self.worker.report.stats.sync_time += started.elapsed();
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while it was held cannot have left it inconsistent.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
