//! How the bytes of an image go from one side to the other: through the page cache or past it, by how many threads.
//!
//! What is large goes to the device, by the rule that `strategy` has for all files. Runs of 256 KiB and more are
//! written with O_DIRECT, and read so where less than half is in the page cache, by up to four workers with buffers of
//! 8 MiB, or one where heads move. Shorter runs, and zeros that are written, go through the page cache.

use std::os::fd::AsFd;
use std::sync::Arc;

use haul_guest::ExtentSet;
use haul_io::engine::switch::grain;
use haul_io::facts::Surroundings;
use haul_io::probe::{Probe, filesystem_of};
use haul_io::strategy::{Large, WORTH_ASKING, goes_to_device};
use haul_sys::inode::{Inode, Kind};

use haul_io::options::CacheUse;

use super::dest::Dest;
use super::options::{GRANULE, Mode, Options};
use super::source::{Direct, Source};
use super::task::{Event, Task};

/// Shorter runs go through the page cache, where a large image goes past it: a request to the device takes a tenth of a
/// millisecond, whatever its length.
const LONG_RUN: usize = 256 << 10;

/// Bytes of data that a worker takes at a time: enough to be read in one sweep, so little that all workers end together. A
/// multiple of the largest folio (2 MiB, on machines with pages of 4 KiB).
pub(super) const SHARE: u64 = 8 << 20;

/// Most workers. Beyond that memory and device are busy, and nobody has measured whether it helps.
const MOST_WORKERS: usize = 4;

#[derive(Debug, Clone)]
pub(super) struct IoMode {
    /// Past the page cache of the source.
    pub(super) source: Option<Direct>,
    /// Past the page cache of the destination.
    pub(super) dest: Option<Direct>,
    /// Through queues, each side by a thread of its own.
    pub(super) queued: bool,
    /// Without queues: so many threads at most.
    pub(super) workers: usize,
    pub(super) buffer_size: usize,
    /// What buffers, and with direct I/O requests, are multiples of.
    pub(super) align: usize,
    /// Because it is large: the copy goes to the device.
    pub(super) large: bool,
}

impl IoMode {
    /// Through the page cache and, with what queues are good for, through those.
    pub(super) fn new(options: &Options, buffer_size: usize) -> IoMode {
        let queued = options.queued || options.direct || options.md5 || options.mode != Mode::Copy;
        IoMode { source: None, dest: None, queued, workers: 1, buffer_size, align: grain(), large: false }
    }

    /// As it is best for what is to be copied, when it is known what is free.
    pub(super) fn for_task(self, task: &Task<'_>, dest: Option<&Dest>, free: &ExtentSet) -> IoMode {
        match dest {
            _ if task.options.direct => self.direct_as_asked(task, dest),
            Some(dest) if !self.queued && task.source.total() >= WORTH_ASKING => self.by_facts(task, dest, free),
            _ => self,
        }
    }

    /// Past the page cache on each side that can, as the user says.
    fn direct_as_asked(mut self, task: &Task<'_>, dest: Option<&Dest>) -> IoMode {
        let source = task.source;
        let open = |side: Option<(_, &Inode, _)>| {
            let (file, inode, path) = side?;
            match task.kernel.reopen_direct(file) {
                Ok(fd) => Some(Direct { fd: Arc::new(fd), align: align_of(inode), at_least: 0, only_cold: false }),
                Err(_) => {
                    task.observer.event(&Event::NotDirect(path));
                    None
                }
            }
        };
        self.source = open(source.disk.is_none().then(|| (source.file(), &source.inode, &*source.path)));
        self.dest = open(dest.map(|dest| (dest.file.as_fd(), &dest.inode, &*dest.path)));
        let needs = [&self.source, &self.dest].into_iter().flatten().map(|direct| direct.align);
        self.align = needs.fold(self.align, usize::max);
        self.buffer_size = self.buffer_size.next_multiple_of(self.align);
        self
    }

    /// As facts say.
    fn by_facts(mut self, task: &Task<'_>, dest: &Dest, free: &ExtentSet) -> IoMode {
        let (source, kernel, cache) = (task.source, &task.kernel, task.options.cache);
        let known = task.given.as_ref().and_then(|given| given.around);
        let ask = || Probe::default().look((source.file(), &source.inode), (dest.file.as_fd(), &dest.inode));
        let around = known.unwrap_or_else(ask);
        self.workers = workers(&around, false);
        let amount = amount(source, free, task.options.sparse);
        let on = (dest.inode.kind, filesystem_of(dest.file.as_fd()));
        let large = Large::image(source.total(), amount, on, &around);
        // A limit wants small steps.
        let limited = task.pace.is_some_and(|pace| pace.piece() < SHARE);
        if limited || !goes_to_device(&large, cache) {
            return self;
        }
        let open = |file, inode: &Inode| {
            // Where the kernel says what it needs, or the user wants it; and pieces of an image are multiples of that.
            let said = (inode.direct.0 > 0 && inode.direct.1 > 0) || cache == CacheUse::Drop;
            let fits = said && align_of(inode) as u64 <= GRANULE;
            let fd = if fits { kernel.reopen_direct(file).ok()? } else { return None };
            Some(Direct { fd: Arc::new(fd), align: align_of(inode), at_least: LONG_RUN, only_cold: true })
        };
        self.dest = open(dest.file.as_fd(), &dest.inode);
        if self.dest.is_some() {
            self.source = source.disk.is_none().then(|| open(source.file(), &source.inode)).flatten();
            self.workers = workers(&around, true);
            self.buffer_size = SHARE as usize;
            self.large = true;
        }
        self
    }

    pub(super) fn close(&mut self) {
        (self.source, self.dest) = (None, None);
    }
}

fn align_of(inode: &Inode) -> usize {
    grain().max(inode.direct.0 as usize).max(inode.direct.1 as usize)
}

/// Bytes that will be written, about: not more than are stored, nor than are not free.
fn amount(source: &Source, free: &ExtentSet, sparse: bool) -> u64 {
    let total = source.total();
    match &source.disk {
        _ if !sparse => total,
        Some(disk) => total.saturating_sub(disk.zeros.union(&disk.holes).union(free).bytes()),
        None => {
            let used = total.saturating_sub(free.bytes());
            if source.inode.kind == Kind::Regular { used.min(source.inode.allocated) } else { used }
        }
    }
}

fn workers(around: &Surroundings, direct: bool) -> usize {
    if around.rotational == Some(true) {
        return 1; // The heads of the disk move.
    }
    if !direct {
        return around.cores.clamp(1, MOST_WORKERS);
    }
    // They wait for the device and not for a processor; each has a buffer.
    let fit = around.memory.map_or(MOST_WORKERS as u64, |memory| memory / 8 / SHARE);
    fit.clamp(1, MOST_WORKERS as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_free_and_a_hole_too_is_counted_once() {
        let dir = std::env::temp_dir();
        let file = Arc::new(std::fs::File::open(&dir).unwrap().into());
        let inode = Inode { kind: Kind::Regular, allocated: 10 << 20, ..Inode::just_made(inode_of(&file).id.device()) };
        let source = Source::given(file, inode, Path::new("image"), 100 << 20);
        let free = ExtentSet::of(0..90 << 20);
        assert_eq!(amount(&source, &free, true), 10 << 20);
        assert_eq!(amount(&source, &ExtentSet::of(0..95 << 20), true), 5 << 20);
        assert_eq!(amount(&source, &ExtentSet::new(), true), 10 << 20);
        assert_eq!(amount(&source, &free, false), 100 << 20, "zeros are written");
    }

    fn inode_of(file: &Arc<std::os::fd::OwnedFd>) -> Inode {
        Inode::of(file.as_fd()).unwrap()
    }
}
