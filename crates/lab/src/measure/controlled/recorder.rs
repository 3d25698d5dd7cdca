//! A hook that writes down what is asked of the kernel, by kinds of calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use haul_io::engine::wrap::{Call, Hook};
use haul_sys::Errno;
use haul_sys::kernel::{Fd, Kernel, Linux};
use haul_sys::map::Mapping;
use haul_sys::queue::QueueKind;
use parking_lot::Mutex;

use crate::names::named;

named! {
    /// What a call does.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Act {
        Read = "read",
        Write = "write",
        /// A part of a file is mapped.
        Map = "mmap",
        /// The same with MAP_PRIVATE.
        MapPrivate = "mmap-private",
        /// Bytes are written from a mapping.
        WriteMapped = "write-mapped",
        CopyRange = "copy_file_range",
        Splice = "splice",
        QueueRead = "queued-read",
        QueueWrite = "queued-write",
        /// Any other call that moves or shares bytes.
        Other = "other",
        Allocate = "fallocate",
        ReadAhead = "readahead",
    }
}

/// All calls of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Count {
    pub(super) calls: f64,
    /// That the kernel says it moved.
    pub(super) bytes: f64,
    /// Most bytes that one call asked for.
    pub(super) largest: f64,
    /// Bytes that went past the page cache.
    pub(super) direct: f64,
}

impl Count {
    /// What was reported of an act.
    pub(super) fn reported(act: Act, reported: &BTreeMap<String, f64>) -> Count {
        let of = |what: &str| reported.get(&format!("calls.{}.{what}", act.name())).copied().unwrap_or_default();
        Count { calls: of("count"), bytes: of("bytes"), largest: of("largest"), direct: of("direct") }
    }
}

/// The record, which all clones write.
#[derive(Debug, Clone, Default)]
pub(super) struct Recorder {
    counts: Arc<Mutex<BTreeMap<Act, Count>>>,
    /// Mappings are private.
    private: bool,
}

/// What is reported if an asynchronous interface was used.
pub(super) fn queue_name(kind: QueueKind) -> &'static str {
    match kind {
        QueueKind::PosixAio => "queue.posix-aio",
        QueueKind::LinuxAio => "queue.linux-aio",
        QueueKind::IoUring => "queue.io-uring",
    }
}

impl Recorder {
    pub(super) fn new(private: bool) -> Recorder {
        Recorder { private, ..Recorder::default() }
    }

    /// Adds `calls.ACT.count`, `.bytes`, `.largest`, `.direct`, and the threads that this process has now.
    pub(super) fn report(&self, reported: &mut BTreeMap<String, f64>) {
        for (act, count) in &*self.counts.lock() {
            let all =
                [("count", count.calls), ("bytes", count.bytes), ("largest", count.largest), ("direct", count.direct)];
            reported.extend(all.map(|(what, value)| (format!("calls.{}.{what}", act.name()), value)));
        }
        let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
        reported.insert("threads".to_owned(), threads as f64);
    }

    /// Notes a call of a file, and whether that has O_DIRECT on now.
    pub(super) fn note(&self, act: Act, fd: Fd<'_>, asked: u64, moved: u64) {
        let direct = Linux.is_direct(fd).unwrap_or(false);
        let mut counts = self.counts.lock();
        let count = counts.entry(act).or_default();
        count.calls += 1.0;
        count.largest = count.largest.max(asked as f64);
        count.bytes += moved as f64;
        count.direct += if direct { moved as f64 } else { 0.0 };
    }
}

impl Hook for Recorder {
    fn before(&self, _call: Call) -> Result<usize, Errno> {
        Ok(usize::MAX)
    }

    fn after(&self, call: Call, fd: Fd<'_>, asked: u64, moved: u64) {
        let act = match call {
            Call::Read | Call::Pread => Act::Read,
            Call::Write | Call::Pwrite => Act::Write,
            Call::Map if self.private => Act::MapPrivate,
            Call::Map => Act::Map,
            Call::WriteMapped => Act::WriteMapped,
            Call::CopyFileRange => Act::CopyRange,
            Call::SpliceIn | Call::SpliceOut => Act::Splice,
            Call::Allocate => Act::Allocate,
            Call::Fadvise => Act::ReadAhead,
            _ => Act::Other,
        };
        self.note(act, fd, asked, moved);
    }

    fn map(&self, fd: Fd<'_>, offset: u64, len: usize) -> Result<Mapping, Errno> {
        if self.private { Mapping::private(fd, offset, len) } else { Mapping::new(fd, offset, len) }
    }
}
