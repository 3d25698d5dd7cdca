//! What the three asynchronous engines share: a job is a buffered head up to the first aligned offset, a flight of many
//! requests, and a buffered tail that ends where read says that the source ends.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use haul_sys::kernel::Kernel;
use haul_sys::queue::{Queue, QueueKind};
use haul_sys::rustix::param::page_size;
use haul_sys::{Errno, close};

use super::caps::{Caps, Needs, PageCache};
use super::contract::{End, Engine, FailedOn, Job, Side, Zeros};
use super::flight::{Flight, Landing, Route};
use super::shape::Shapes;
use super::transfer::{Transfer, engine_of, failed};
use super::tuning::{Tuning, whole_buffers};
use crate::moved::Refusal;

/// Fewer bytes than this are read and written at once: one request has nothing to wait for.
const SMALL: u64 = 128 << 10;
/// For what is read and written at once.
const BUFFER: usize = 256 << 10;
/// At the end of a job the queue runs empty, so jobs are long against what is in flight.
const JOB: u64 = 128 << 20;

pub(super) const CAPS: Caps = Caps { queued: true, page_cache: PageCache::Bypassed, ..Caps::BUFFERED };
/// The same of Linux AIO, which is asynchronous for direct requests only; the others gain from those, but do without.
pub(super) const CAPS_OF_LINUX_AIO: Caps = Caps { needs: Needs::Direct, ..CAPS };

/// io_uring: registered memory and files, one ring for each engine and so for each thread.
pub(super) fn io_uring(kernel: Arc<dyn Kernel>, tuning: &Tuning) -> Box<dyn Engine> {
    engine(kernel, CAPS, QueueKind::IoUring, tuning)
}

/// Linux AIO with O_DIRECT: what is left of asynchronous requests where a container refuses io_uring.
pub(super) fn linux_aio(kernel: Arc<dyn Kernel>, tuning: &Tuning) -> Box<dyn Engine> {
    engine(kernel, CAPS_OF_LINUX_AIO, QueueKind::LinuxAio, tuning)
}

/// POSIX AIO: `aio_read` and `aio_write` of the C library, waited for with `aio_suspend`.
pub(super) fn posix_aio(kernel: Arc<dyn Kernel>, tuning: &Tuning) -> Box<dyn Engine> {
    engine(kernel, CAPS, QueueKind::PosixAio, tuning)
}

/// An engine that keeps many requests in flight within one job.
fn engine(kernel: Arc<dyn Kernel>, caps: Caps, kind: QueueKind, tuning: &Tuning) -> Box<dyn Engine> {
    let mut queued = Queued {
        kernel: Arc::clone(&kernel),
        needs_direct: caps.needs == Needs::Direct,
        kind,
        queue: None,
        unavailable: None,
        shapes: Shapes::new(tuning),
        allocates: !tuning.no_preallocation,
        buffer: vec![0; BUFFER],
    };
    let caps = Caps { max_job: whole_buffers(JOB, queued.shapes.asked()), ..caps };
    engine_of(kernel, caps, move |transfer| queued.copy(transfer))
}

struct Queued {
    kernel: Arc<dyn Kernel>,
    needs_direct: bool,
    kind: QueueKind,
    /// Made for the first job; `None` again when it broke down.
    queue: Option<Box<dyn Queue>>,
    /// What the kernel said when it was asked for one, where it would say so again.
    unavailable: Option<Errno>,
    shapes: Shapes,
    allocates: bool,
    buffer: Vec<u8>,
}

/// The descriptors of one flight.
struct Direct {
    source: Option<Arc<OwnedFd>>,
    dest: Option<Arc<OwnedFd>>,
    /// What was said where one of the sides should have been direct and is not.
    errno: Option<Errno>,
}

impl Queued {
    fn copy(&mut self, transfer: &mut Transfer<'_>) -> Result<End, End> {
        let job = transfer.job;
        transfer.need_offsets()?;
        if transfer.left() == 0 {
            return Ok(End::Complete);
        }
        if self.needs_direct && job.source.direct.is_none() && job.dest.direct.is_none() {
            return Ok(End::Refused(Refusal::NoDirectIo));
        }
        if let Err(errno) = self.make_queue() {
            return Ok(End::Refused(Refusal::Unsupported(errno)));
        }
        if let Some((start, end)) = self.range(transfer)? {
            if self.repeats_wrongly(job) {
                return Ok(End::Refused(Refusal::Unsupported(Errno::OPNOTSUPP)));
            }
            if start > transfer.at() {
                self.move_head(transfer, start)?;
            }
            self.fly(transfer, start, end)?;
        }
        transfer.through(&mut self.buffer)
    }

    /// Whether the kernel may move wrong bytes. io_uring goes on by itself after a short count, at the position that the
    /// filesystem has advanced; FUSE does not advance it for files past the page cache (Linux 6.18), and the beginning of
    /// the block is moved twice.
    fn repeats_wrongly(&self, job: &Job) -> bool {
        let is_fuse = |side: &Side| self.kernel.is_fuse(side.as_fd()).unwrap_or(false);
        self.kind == QueueKind::IoUring && (is_fuse(&job.source) || is_fuse(&job.dest))
    }

    fn make_queue(&mut self) -> Result<(), Errno> {
        if let Some(errno) = self.unavailable {
            return Err(errno);
        }
        if self.queue.is_none() {
            let made = self.kernel.queue(self.kind);
            if let Err(errno @ (Errno::NOSYS | Errno::PERM | Errno::ACCESS)) = made {
                self.unavailable = Some(errno);
            }
            self.queue = Some(made?);
        }
        Ok(())
    }

    /// The aligned part of the job that the source seems to have, if it is worth a flight.
    fn range(&self, transfer: &Transfer<'_>) -> Result<Option<(u64, u64)>, End> {
        let job = transfer.job;
        let align = align_of(&job.source).max(align_of(&job.dest)) as u64;
        let size = self.kernel.size(job.source.as_fd()).map_err(|errno| failed(FailedOn::Read, errno))?;
        let end = job.offset.saturating_add(job.len).min(size) / align * align;
        let start = transfer.at().checked_next_multiple_of(align);
        Ok(start.filter(|start| end.saturating_sub(*start) >= SMALL).map(|start| (start, end)))
    }

    /// Moves what comes before the first aligned offset, through the page cache.
    fn move_head(&mut self, transfer: &mut Transfer<'_>, start: u64) -> Result<(), End> {
        while transfer.at() < start {
            let len = usize::try_from(start - transfer.at()).map_or(BUFFER, |len| len.min(BUFFER));
            let count = transfer.fill(&mut self.buffer[..len])?;
            if count == 0 {
                return Err(End::SourceEnd);
            }
            transfer.put(&self.buffer[..count])?;
        }
        Ok(())
    }

    fn fly(&mut self, transfer: &mut Transfer<'_>, start: u64, end: u64) -> Result<(), End> {
        let job = transfer.job;
        let direct = Direct::open(&*self.kernel, job);
        let needs_direct = self.needs_direct;
        if needs_direct && direct.source.is_none() && direct.dest.is_none() {
            return Err(End::Refused(direct.errno.map_or(Refusal::NoDirectIo, Refusal::Unsupported)));
        }
        let Some(queue) = &mut self.queue else { return Err(End::Refused(Refusal::Unsupported(Errno::NOSYS))) };
        let align = align_of(&job.source).max(align_of(&job.dest));
        let (block, slots) = self.shapes.choose(end - start, align);
        let (source, dest) = (&job.source.fd, &job.dest.fd);
        let files = [source, direct.source.as_ref().unwrap_or(source), dest, direct.dest.as_ref().unwrap_or(dest)];
        if let Err(errno) = queue.shape(block, slots).and_then(|()| queue.open(&files.map(Arc::clone))) {
            // Nothing was asked of it yet, so nothing is lost.
            self.queue = None;
            return Err(End::Refused(Refusal::Unsupported(errno)));
        }
        let grows = self.allocates && direct.dest.is_some();
        let growth = grows.then(|| Growth::new(&*self.kernel, job, start, end)).flatten();
        let route = Route {
            start,
            end,
            align,
            block,
            slots,
            source_direct: direct.source.is_some(),
            dest_direct: direct.dest.is_some(),
            needs_direct,
        };
        let started = Instant::now();
        let landing = Flight::new(transfer, &mut **queue, route).run();
        let arrived = matches!(landing, Landing::Arrived);
        let mut result = self.leave(landing);
        if arrived {
            self.shapes.learn(end - start, started.elapsed());
        }
        if let Some(growth) = growth {
            result = first_failure(result, growth.undo(&*self.kernel, job, transfer.at()));
        }
        first_failure(result, direct.close())
    }

    /// Lets the queue go from the files of a flight. One that may still have requests, or that kept a file, is not used again.
    fn leave(&mut self, landing: Landing) -> Result<(), End> {
        let closed = match (&landing, &mut self.queue) {
            (Landing::Arrived | Landing::Early(_), Some(queue)) => queue.close(),
            _ => Err(Errno::IO),
        };
        let result = match landing {
            Landing::Arrived => Ok(()),
            Landing::Early(end) => Err(end),
            Landing::Broken(errno) => Err(failed(FailedOn::Copy, errno)),
        };
        if closed.is_err() {
            self.queue = None;
        }
        first_failure(result, closed)
    }
}

/// A failure of the destination that is reported when all is done, unless there was another before.
fn first_failure(before: Result<(), End>, then: Result<(), Errno>) -> Result<(), End> {
    match (before, then) {
        (Err(End::Failed(_)), _) | (_, Ok(())) => before,
        (_, Err(errno)) => Err(failed(FailedOn::Write, errno)),
    }
}

/// What a side's offsets, lengths and memory are multiples of: whole pages even where the device takes sectors, since
/// smaller pieces would share a page with buffered neighbours.
fn align_of(side: &Side) -> usize {
    let demanded = side.direct.map_or(1, |align| align.offset as usize);
    if suits(side) { page_size().max(demanded) } else { page_size() }
}

/// Whether the side can be direct with page-aligned memory and blocks of reasonable size.
fn suits(side: &Side) -> bool {
    side.direct.is_some_and(|align| {
        align.memory as usize <= page_size() && align.offset.is_power_of_two() && align.offset as usize <= BUFFER / 2
    })
}

impl Direct {
    /// Opens both sides once more with O_DIRECT, as far as they can. A side that cannot goes through the page cache.
    fn open(kernel: &dyn Kernel, job: &Job) -> Direct {
        let mut errno = None;
        let mut open = |side: &Side| {
            let opened = if suits(side) { kernel.reopen_direct(side.as_fd()) } else { return None };
            opened.map(Arc::new).map_err(|error| errno = Some(error)).ok()
        };
        let (source, dest) = (open(&job.source), open(&job.dest));
        Direct { source, dest, errno }
    }

    /// Closes them; for the destination, network filesystems may say here that a write failed.
    fn close(self) -> Result<(), Errno> {
        // If a queue that broke down still shares it, it stays open, and the job has failed.
        self.dest.and_then(Arc::into_inner).map_or(Ok(()), close)
    }
}

/// A destination that was made longer, with its blocks allocated: only then are direct writes asynchronous (ext4 and XFS;
/// extending ones take the lock of the inode, one after the other).
struct Growth {
    old_size: u64,
    new_size: u64,
}

impl Growth {
    /// Allocates the range. `None` if the file has its size already, or nothing was gained.
    fn new(kernel: &dyn Kernel, job: &Job, start: u64, end: u64) -> Option<Growth> {
        if job.zeros != Zeros::Write {
            return None;
        }
        let old_size = kernel.size(job.dest.as_fd()).ok()?;
        let growth = (old_size < end).then_some(Growth { old_size, new_size: end });
        match kernel.allocate(job.dest.as_fd(), start, end - start) {
            Ok(()) => growth,
            // Writes go on without, and will tell if there is no space; but what was allocated must not lengthen the file. What
            // is behind the range somebody else has written.
            Err(_) => growth.and_then(|growth| {
                let size = kernel.size(job.dest.as_fd()).ok()?;
                (size > old_size).then_some(Growth { new_size: size.min(end), ..growth })
            }),
        }
    }

    /// Gives back what lies behind `at`, the first byte that was not moved.
    fn undo(&self, kernel: &dyn Kernel, job: &Job, at: u64) -> Result<(), Errno> {
        let size = self.old_size.max(at);
        // A file that others have made longer meanwhile has the size that they need.
        if size < self.new_size && kernel.size(job.dest.as_fd())? == self.new_size {
            kernel.set_size(job.dest.as_fd(), size)?;
        }
        Ok(())
    }
}
