//! Keeps short what is dirty for a slow device.
//!
//! The kernel lets programs fill a fifth of the available memory with dirty pages (vm.dirty_ratio) before they have to wait. For
//! a stick that writes 20 MB/s that is minutes: the copy seems to be done, umount(8) takes them, and whoever syncs beside
//! it waits behind it. So write-back of the first megabytes for a device is begun early and timed. Where it is slow,
//! that of all further data is begun at once, by sync_file_range(2), and who is more than [`LATEST`] ahead waits. This is
//! about memory: no journal is committed, and no cache of the device is emptied.
//!
//! For block devices only: servers and FUSE have all of a file at its close, and tell what they could not write there.
//!
//! A quick device has 8 MiB of each GiB written early, for which a thread waits; but for small copies, which are over by then.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use haul_sys::Errno;
use haul_sys::inode::DeviceNumber;
use haul_sys::page_cache;
use haul_sys::rustix::process::{Resource, getrlimit};
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

use crate::control::Cancel;
use crate::moved::Moved;
use crate::probe;

/// Write-back is begun for so much at a time; smaller files come together.
pub(super) const PIECE: u64 = 1 << 20;
/// So much is written and timed to know how quick a device is.
const SAMPLE: u64 = 8 << 20;
/// The copy may be so far ahead while that is being found out: a device of 500 MB/s takes 8 MiB while 64 are copied at 4 GB/s.
const AHEAD: u64 = 64 << 20;
/// What is no longer than this in all is over before a sample is written: it is left to the kernel.
const WORTH_TIMING: u64 = 64 << 20;
/// A quick device is timed again after so much: caches of flash storage fill up.
const AGAIN: u64 = 1 << 30;
/// A device that writes fewer bytes a second is slow: less than a disk with heads does in order. What it writes for others counts,
/// where it has statistics (a filesystem of several devices, as btrfs, has none).
const QUICK: f64 = 100e6;
/// What a slow device takes this time for may wait in memory. Metadata come to it, and what was written before it was known to
/// be slow.
const LATEST: Duration = Duration::from_millis(1500);
/// The rate of a slow device is that of so much time.
const WINDOW: Duration = Duration::from_secs(4);
/// It must have been quick for so long to count as quick again.
const CERTAIN: Duration = Duration::from_secs(1);
/// Files that are open at most until they are written; fewer where few descriptors are allowed.
const OPEN: u64 = 64;
/// Whoever waits looks at least this often whether the run was cancelled.
const LOOK: Duration = Duration::from_millis(250);

/// What a run has left unwritten, for each device.
#[derive(Debug, Default)]
pub struct Unwritten {
    /// `None`: nobody sees to it there.
    devices: RwLock<BTreeMap<DeviceNumber, Option<Arc<Device>>>>,
    open: Arc<Open>,
}

impl Unwritten {
    /// Whether files of any size may count somewhere. While no large one was copied, none does.
    pub(super) fn is_asked_of_all(&self) -> bool {
        self.devices.read().values().flatten().any(|device| device.counts_all())
    }

    /// The device that `file` is on.
    pub(super) fn device(&self, number: DeviceNumber, file: BorrowedFd<'_>) -> Option<Arc<Device>> {
        if let Some(known) = self.devices.read().get(&number) {
            return known.clone();
        }
        let storage = probe::writes_back_on_demand(number, file).then(|| Box::new(Kernel::new(number)));
        let device = storage.map(|storage| Arc::new(Device::new(storage, Arc::clone(&self.open))));
        self.devices.write().entry(number).or_insert(device).clone()
    }

    /// Waits until little is left for slow devices. The first error of the data, if a device has refused any.
    pub(super) fn settle(&self, cancelled: &dyn Fn() -> bool) -> Option<Errno> {
        let devices = mem::take(&mut *self.devices.write());
        devices.into_values().flatten().fold(None, |failed, device| failed.or(device.settle(cancelled)))
    }
}

/// Open files of all devices, and how many there may be, once somebody has asked.
#[derive(Debug, Default)]
struct Open {
    now: AtomicUsize,
    most: OnceLock<usize>,
}

impl Open {
    fn is_full(&self) -> bool {
        let most = self.most.get_or_init(|| {
            let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
            usize::try_from((allowed / 16).clamp(1, OPEN)).unwrap_or(1)
        });
        self.now.load(Ordering::Relaxed) >= *most
    }
}

/// An open file of its own for an inode. The kernel tells each open file once of an error, and that of the copy is left to who
/// syncs it.
struct Reopened {
    fd: OwnedFd,
    open: Arc<Open>,
}

impl Reopened {
    fn of(file: &OwnedFd, open: &Arc<Open>) -> Option<Arc<Reopened>> {
        if open.is_full() {
            return None;
        }
        let fd = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?.into();
        open.now.fetch_add(1, Ordering::Relaxed);
        Some(Arc::new(Reopened { fd, open: Arc::clone(open) }))
    }
}

impl Drop for Reopened {
    fn drop(&mut self) {
        self.open.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Has data written to a device.
trait Storage: Send + Sync {
    /// Begins to write a range of a file.
    fn begin(&self, file: BorrowedFd<'_>, range: (u64, u64)) -> Result<(), Errno>;

    /// Waits until a piece is written.
    fn wait(&self, piece: &Piece) -> Result<(), Errno>;

    /// Time since some fixed point.
    fn now(&self) -> Duration;

    /// Bytes that the device has written for everybody since some fixed point, if it tells.
    fn written(&self) -> Option<u64>;
}

struct Kernel {
    started: Instant,
    statistics: String,
}

impl Kernel {
    fn new(device: DeviceNumber) -> Kernel {
        let statistics = format!("/sys/dev/block/{}:{}/stat", device.major, device.minor);
        Kernel { started: Instant::now(), statistics }
    }
}

impl Storage for Kernel {
    fn begin(&self, file: BorrowedFd<'_>, (offset, len): (u64, u64)) -> Result<(), Errno> {
        page_cache::write_back(file, offset, len, false)
    }

    fn wait(&self, piece: &Piece) -> Result<(), Errno> {
        page_cache::write_back(piece.file.fd.as_fd(), piece.range.0, piece.range.1, true)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn written(&self) -> Option<u64> {
        written_of(&fs::read_to_string(&self.statistics).ok()?)
    }
}

/// Bytes written, by the seventh field of a block device's `stat` (Documentation/block/stat.rst of the kernel), in sectors of 512.
fn written_of(statistics: &str) -> Option<u64> {
    statistics.split_ascii_whitespace().nth(6)?.parse::<u64>().ok()?.checked_mul(512)
}

/// A range of a file that is being written.
#[derive(Clone)]
struct Piece {
    file: Arc<Reopened>,
    /// Offset and length.
    range: (u64, u64),
    /// Bytes that were copied to it, and to files that were begun just before it.
    bytes: u64,
    /// When write-back was begun, if it was.
    begun: Option<Duration>,
}

/// What is known of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// Too little was written to it.
    Unknown,
    /// A sample is being written.
    Measuring,
    /// The kernel writes as it likes.
    Quick,
    /// Everything is written at once and waited for.
    Slow,
}

/// One device, and what is on its way there.
pub(super) struct Device {
    storage: Box<dyn Storage>,
    open: Arc<Open>,
    /// That of the queue, to be asked without its lock.
    phase: AtomicU8,
    /// Bytes since it was found quick.
    since: AtomicU64,
    /// Bytes of small files since the last piece.
    small: AtomicU64,
    queue: Mutex<Queue>,
    changed: Condvar,
}

struct Queue {
    phase: Phase,
    /// How often it was left to the kernel: whoever waits for a piece of before is not counted any more.
    epoch: u64,
    /// Oldest first.
    pieces: VecDeque<Piece>,
    /// Bytes of them, and of those that somebody just waits for.
    ahead: u64,
    rate: Rate,
    failed: Option<Errno>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("phase", &self.phase).finish_non_exhaustive()
    }
}

impl Device {
    fn new(storage: Box<dyn Storage>, open: Arc<Open>) -> Device {
        let queue = Queue {
            phase: Phase::Unknown,
            epoch: 0,
            pieces: VecDeque::new(),
            ahead: 0,
            rate: Rate::default(),
            failed: None,
        };
        Device {
            storage,
            open,
            phase: AtomicU8::new(Phase::Unknown as u8),
            since: AtomicU64::new(0),
            small: AtomicU64::new(0),
            queue: Mutex::new(queue),
            changed: Condvar::new(),
        }
    }

    fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    /// Whether files of any size count: where it is slow, or that is being found out. Small files alone do not show it.
    pub(super) fn counts_all(&self) -> bool {
        self.is(Phase::Slow) || self.is(Phase::Measuring)
    }

    /// The most bytes that should be copied at a time, before it is asked again.
    fn job(&self) -> u64 {
        match () {
            () if self.is(Phase::Quick) => u64::MAX,
            () if self.is(Phase::Slow) => (self.queue.lock().rate.latest() / 4 / PIECE).max(1) * PIECE,
            () => SAMPLE,
        }
    }

    /// So many bytes were copied to this range of a file of about `of` bytes, and are dirty for now. `reopen` gives an open
    /// file to wait with.
    fn left(
        self: &Arc<Self>,
        file: &OwnedFd,
        (range, bytes, of): ((u64, u64), u64, u64),
        (cancel, reopen): (&Cancel, impl FnOnce() -> Option<Arc<Reopened>>),
    ) {
        if self.is(Phase::Quick) {
            if self.since.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) >= AGAIN {
                self.measure_again();
            }
            return;
        }
        let slow = self.is(Phase::Slow);
        let begun = slow.then(|| self.storage.now());
        if slow {
            self.note(self.storage.begin(file.as_fd(), range));
            self.wait_while(&|| self.open.is_full() && !cancel.is_cancelled());
        }
        let Some(file) = reopen() else { return };
        let mut queue = self.queue.lock();
        if queue.phase == Phase::Quick {
            drop(queue);
            return;
        }
        queue.ahead += bytes;
        queue.pieces.push_back(Piece { file, range, bytes, begun });
        let much = queue.ahead.max(of) >= WORTH_TIMING || self.open.is_full();
        if queue.phase == Phase::Unknown && queue.ahead >= SAMPLE && much {
            self.enter(&mut queue, Phase::Measuring);
            let (mut sample, mut in_it) = (Vec::new(), 0);
            while in_it < SAMPLE
                && let Some(piece) = queue.pieces.pop_front()
            {
                in_it += piece.bytes;
                sample.push(piece);
            }
            drop(queue);
            self.begin_to_measure(sample);
        }
    }

    fn measure_again(&self) {
        let mut queue = self.queue.lock();
        if queue.phase == Phase::Quick {
            self.since.store(0, Ordering::Relaxed);
            self.enter(&mut queue, Phase::Unknown);
        }
    }

    fn begin_to_measure(self: &Arc<Self>, sample: Vec<Piece>) {
        let device = Arc::clone(self);
        let started = thread::Builder::new().name("haul-sample".into()).spawn(move || device.measure(sample));
        if started.is_err() {
            // Nobody can tell.
            self.leave_to_kernel(self.queue.lock());
        }
    }

    /// Waits until the copy is not too far ahead of the device.
    fn let_follow(&self, cancelled: &dyn Fn() -> bool) {
        if !self.is(Phase::Quick) {
            self.wait_until_near(cancelled);
        }
    }

    fn wait_until_near(&self, cancelled: &dyn Fn() -> bool) {
        while !cancelled() {
            let queue = self.queue.lock();
            match queue.phase {
                Phase::Unknown | Phase::Quick => return,
                Phase::Measuring if queue.ahead <= AHEAD && !self.open.is_full() => return,
                Phase::Measuring => self.look_later(queue),
                Phase::Slow if queue.ahead <= queue.rate.latest() => return,
                Phase::Slow => self.wait_for_oldest(queue),
            }
        }
    }

    /// Waits for pieces as long as there are some and this holds.
    fn wait_while(&self, holds: &dyn Fn() -> bool) {
        loop {
            let queue = self.queue.lock();
            if queue.pieces.is_empty() || !holds() {
                return;
            }
            self.wait_for_oldest(queue);
        }
    }

    fn look_later(&self, mut queue: MutexGuard<'_, Queue>) {
        self.changed.wait_for(&mut queue, LOOK);
    }

    fn wait_for_oldest(&self, mut queue: MutexGuard<'_, Queue>) {
        let Some(piece) = queue.pieces.pop_front() else { return self.look_later(queue) };
        let epoch = queue.epoch;
        drop(queue);
        let written = self.storage.wait(&piece);
        let now = self.storage.now();
        let Piece { file, bytes, begun, .. } = piece;
        drop(file);
        self.note(written);
        let mut queue = self.queue.lock();
        if queue.epoch == epoch {
            queue.ahead = queue.ahead.saturating_sub(bytes);
            queue.rate.add(begun.unwrap_or_default(), now, bytes);
            if queue.phase == Phase::Slow && queue.rate.is_quick() {
                self.leave_to_kernel(queue);
            }
        }
        self.changed.notify_all();
    }

    /// Writes a sample, and finds out how long that takes.
    fn measure(&self, sample: Vec<Piece>) {
        let (begun, written_before) = (self.storage.now(), self.storage.written());
        let mut result = Ok(());
        for piece in &sample {
            result = result.and(self.storage.begin(piece.file.fd.as_fd(), piece.range));
        }
        for piece in &sample {
            result = result.and(self.storage.wait(piece));
        }
        let now = self.storage.now();
        let bytes: u64 = sample.iter().map(|piece| piece.bytes).sum();
        drop(sample);
        // What it wrote for others shows how quick it is, too.
        let for_all =
            self.storage.written().zip(written_before).map_or(0, |(after, before)| after.saturating_sub(before));
        let quick = bytes.max(for_all) as f64 / now.saturating_sub(begun).as_secs_f64().max(1e-9) >= QUICK;
        let failed = result.is_err();
        // Before anybody hears that it is over.
        self.note(result);
        let mut queue = self.queue.lock();
        if queue.phase != Phase::Measuring {
            return;
        }
        queue.ahead = queue.ahead.saturating_sub(bytes);
        if quick || failed {
            self.leave_to_kernel(queue);
        } else {
            queue.rate = Rate::default();
            queue.rate.add(begun, now, bytes);
            self.enter(&mut queue, Phase::Slow);
            let mut rest = Vec::new();
            for piece in &mut queue.pieces {
                piece.begun = Some(now);
                rest.push(piece.clone());
            }
            drop(queue);
            for piece in rest {
                self.note(self.storage.begin(piece.file.fd.as_fd(), piece.range));
            }
        }
        self.changed.notify_all();
    }

    fn leave_to_kernel(&self, mut queue: MutexGuard<'_, Queue>) {
        self.enter(&mut queue, Phase::Quick);
        self.since.store(0, Ordering::Relaxed);
        queue.epoch += 1;
        queue.ahead = 0;
        let closed = mem::take(&mut queue.pieces);
        drop(queue);
        drop(closed);
        self.changed.notify_all();
    }

    fn enter(&self, queue: &mut Queue, phase: Phase) {
        queue.phase = phase;
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Keeps an error of the data. A file that cannot be written on demand is no failure.
    fn note(&self, result: Result<(), Errno>) {
        match result {
            Ok(()) => {}
            Err(Errno::SPIPE | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::BADF) => {
                self.leave_to_kernel(self.queue.lock());
            }
            Err(errno) => {
                let mut queue = self.queue.lock();
                queue.failed = queue.failed.or(Some(errno));
            }
        }
    }

    /// Lets go of a file that is going to be removed.
    fn forget(&self, file: &Arc<Reopened>) {
        let mut queue = self.queue.lock();
        let (forgotten, kept): (VecDeque<Piece>, VecDeque<Piece>) =
            mem::take(&mut queue.pieces).into_iter().partition(|piece| Arc::ptr_eq(&piece.file, file));
        queue.pieces = kept;
        queue.ahead = queue.ahead.saturating_sub(forgotten.iter().map(|piece| piece.bytes).sum());
        drop(queue);
        drop(forgotten);
        self.changed.notify_all();
    }

    /// Nothing more will be written: waits until little of it is left.
    fn settle(&self, cancelled: &dyn Fn() -> bool) -> Option<Errno> {
        while self.is(Phase::Measuring) && !cancelled() {
            let queue = self.queue.lock();
            if queue.phase == Phase::Measuring {
                self.look_later(queue);
            }
        }
        self.let_follow(cancelled);
        let mut queue = self.queue.lock();
        let (left, failed) = (mem::take(&mut queue.pieces), queue.failed);
        drop(queue);
        drop(left);
        failed
    }
}

/// How quick a device was lately, while it had something to write.
#[derive(Debug, Default)]
struct Rate {
    /// When the last piece was written.
    last: Duration,
    /// When a piece was written, how long the device was busy with it, and how many bytes it had.
    pieces: VecDeque<(Duration, Duration, u64)>,
}

impl Rate {
    /// A piece of so many bytes, begun then, was written by `now`.
    fn add(&mut self, begun: Duration, now: Duration, bytes: u64) {
        let busy = now.saturating_sub(begun.max(self.last));
        self.last = self.last.max(now);
        self.pieces.push_back((now, busy, bytes));
        while self.pieces.len() > 1 && self.pieces.front().is_some_and(|(at, ..)| now.saturating_sub(*at) > WINDOW) {
            self.pieces.pop_front();
        }
    }

    fn busy(&self) -> Duration {
        self.pieces.iter().map(|(_, busy, _)| *busy).sum()
    }

    fn bytes_a_second(&self) -> Option<f64> {
        let bytes: u64 = self.pieces.iter().map(|(.., bytes)| bytes).sum();
        let busy = self.busy();
        (!busy.is_zero()).then(|| bytes as f64 / busy.as_secs_f64())
    }

    /// Whether it was quick for long enough.
    fn is_quick(&self) -> bool {
        self.busy() >= CERTAIN && self.bytes_a_second().is_some_and(|rate| rate >= QUICK)
    }

    /// Bytes that the device writes in [`LATEST`].
    fn latest(&self) -> u64 {
        let rate = self.bytes_a_second().unwrap_or(QUICK);
        ((rate * LATEST.as_secs_f64()) as u64).max(PIECE)
    }
}

/// One file on its way to a device.
pub(super) struct Sending {
    device: Arc<Device>,
    dest: Arc<OwnedFd>,
    /// How long it will be, as far as anybody knows.
    len: u64,
    cancel: Cancel,
    /// The copy has come so far, and has moved so many bytes that are not queued yet.
    reached: AtomicU64,
    bytes: AtomicU64,
    /// Up to here it was queued.
    queued: Mutex<u64>,
    /// An open file to wait with, once there was reason to have one.
    reopened: OnceLock<Arc<Reopened>>,
}

impl Sending {
    /// The file from byte `start` to about `len`.
    pub fn new(device: Arc<Device>, dest: &Arc<OwnedFd>, (start, len): (u64, u64), cancel: &Cancel) -> Sending {
        Sending {
            device,
            dest: Arc::clone(dest),
            len,
            cancel: cancel.clone(),
            reached: AtomicU64::new(start),
            bytes: AtomicU64::new(0),
            queued: Mutex::new(start),
            reopened: OnceLock::new(),
        }
    }

    /// The most bytes that should be copied at a time.
    pub fn job(&self) -> u64 {
        self.device.job()
    }

    /// More was moved. Quick.
    pub fn moved(&self, more: Moved) {
        self.bytes.fetch_add(more.written + more.offloaded, Ordering::Relaxed);
    }

    /// The copy has come up to this offset. Quick.
    pub fn reached(&self, to: u64) {
        self.reached.fetch_max(to, Ordering::Relaxed);
    }

    /// Has what was copied written, and waits until the copy is not too far ahead of the device.
    pub fn let_follow(&self) {
        self.enqueue(PIECE);
        self.device.let_follow(&|| self.cancel.is_cancelled());
    }

    /// The whole file is copied.
    pub fn end(&self) {
        self.enqueue(1);
    }

    /// So many bytes of a small file, which is whole.
    pub fn small(&self, bytes: u64) {
        if self.device.counts_all() {
            // One of them stands for all that come with it.
            self.device.note(self.device.storage.begin(self.dest.as_fd(), (0, bytes)));
        }
        if self.device.small.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) >= PIECE {
            // Of two threads that come to this the second one may find little left.
            let together = self.device.small.swap(0, Ordering::Relaxed);
            let reopen = || Reopened::of(&self.dest, &self.device.open);
            self.device.left(&self.dest, ((0, bytes), together, bytes), (&self.cancel, reopen));
        }
        self.device.let_follow(&|| self.cancel.is_cancelled());
    }

    /// The copy has failed: what is left of it will be removed.
    pub fn abandon(&self) {
        if let Some(file) = self.reopened.get() {
            self.device.forget(file);
        }
    }

    fn enqueue(&self, least: u64) {
        let (range, bytes) = {
            let mut queued = self.queued.lock();
            let bytes = self.bytes.load(Ordering::Relaxed);
            let (from, to) = (*queued, self.reached.load(Ordering::Relaxed));
            if bytes < least || to <= from {
                return;
            }
            *queued = to;
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            ((from, to - from), bytes)
        };
        self.left(range, bytes);
    }

    fn left(&self, range: (u64, u64), bytes: u64) {
        let reopen = || match self.reopened.get() {
            Some(known) => Some(Arc::clone(known)),
            None => {
                let reopened = Reopened::of(&self.dest, &self.device.open)?;
                Some(Arc::clone(self.reopened.get_or_init(|| reopened)))
            }
        };
        self.device.left(&self.dest, (range, bytes, self.len), (&self.cancel, reopen));
    }
}

/// What a thread writes to a file, wherever in it that is, on its way to a device. A clone is for another thread, and begins with
/// nothing.
pub struct Scattered {
    file: Arc<Sending>,
    /// From the first byte that is not queued yet to behind the last one, and how many of these bytes were written.
    range: (u64, u64),
    bytes: u64,
}

impl std::fmt::Debug for Scattered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scattered").field("range", &self.range).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Clone for Scattered {
    fn clone(&self) -> Scattered {
        Scattered::new(Arc::clone(&self.file))
    }
}

impl Scattered {
    pub(super) fn new(file: Arc<Sending>) -> Scattered {
        Scattered { file, range: (u64::MAX, 0), bytes: 0 }
    }

    /// So many bytes were written to this range (offset and length) by way of the page cache. Waits until the file is not too far
    /// ahead of the device.
    pub fn wrote(&mut self, (offset, len): (u64, u64), bytes: u64) {
        self.range = (self.range.0.min(offset), self.range.1.max(offset + len));
        self.bytes += bytes;
        if self.bytes >= PIECE {
            self.end();
        }
    }

    /// The thread writes no more for now.
    pub fn end(&mut self) {
        let (from, to) = std::mem::replace(&mut self.range, (u64::MAX, 0));
        let bytes = std::mem::take(&mut self.bytes);
        if bytes > 0 {
            self.file.left((from, to - from), bytes);
            self.file.device.let_follow(&|| self.file.cancel.is_cancelled());
        }
    }

    /// The copy has failed: what is left of it will be removed.
    pub fn abandon(&self) {
        self.file.abandon();
    }
}

#[cfg(test)]
#[path = "unwritten_tests.rs"]
mod tests;
