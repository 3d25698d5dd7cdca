//! A kernel that writes down what is asked of it, by kinds of calls.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::kernel::{Fd, Kernel, Linux};
use haul_sys::map::Mapping;
use haul_sys::queue::{Completion, Queue, QueueKind, Request};
use parking_lot::Mutex;

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Act {
    Read,
    Write,
    /// A part of a file is mapped.
    Map,
    /// Bytes are written from a mapping.
    WriteMapped,
    CopyRange,
    Splice,
    QueueRead,
    QueueWrite,
    /// Any other call that moves or shares bytes.
    Other,
    Allocate,
    ReadAhead,
}

impl Act {
    pub(super) const ALL: [Act; 11] = [
        Act::Read,
        Act::Write,
        Act::Map,
        Act::WriteMapped,
        Act::CopyRange,
        Act::Splice,
        Act::QueueRead,
        Act::QueueWrite,
        Act::Other,
        Act::Allocate,
        Act::ReadAhead,
    ];

    /// The name in reports and messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Act::Read => "read",
            Act::Write => "write",
            Act::Map => "mmap",
            Act::WriteMapped => "write-mapped",
            Act::CopyRange => "copy_file_range",
            Act::Splice => "splice",
            Act::QueueRead => "queued-read",
            Act::QueueWrite => "queued-write",
            Act::Other => "other",
            Act::Allocate => "fallocate",
            Act::ReadAhead => "readahead",
        }
    }
}

/// All calls of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Count {
    pub(super) calls: f64,
    /// That the kernel says it moved; with requests of a queue, that were asked of it.
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
pub(super) struct Recorder(Arc<Mutex<Record>>);

#[derive(Debug, Default)]
struct Record {
    counts: BTreeMap<Act, Count>,
    /// Open files with O_DIRECT on.
    direct: BTreeSet<RawFd>,
    /// Asynchronous interfaces that were used.
    queues: BTreeSet<&'static str>,
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
    /// Adds `calls.ACT.count`, `.bytes`, `.largest`, `.direct`, and the threads that this process has now.
    pub(super) fn report(&self, reported: &mut BTreeMap<String, f64>) {
        let record = self.0.lock();
        reported.extend(record.queues.iter().map(|name| ((*name).to_owned(), 1.0)));
        for (act, count) in &record.counts {
            let all =
                [("count", count.calls), ("bytes", count.bytes), ("largest", count.largest), ("direct", count.direct)];
            reported.extend(all.map(|(what, value)| (format!("calls.{}.{what}", act.name()), value)));
        }
        let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
        reported.insert("threads".to_owned(), threads as f64);
    }

    fn note(&self, act: Act, asked: u64, moved: u64, fd: RawFd) {
        {
            let mut record = self.0.lock();
            let count = record.counts.entry(act).or_default();
            count.calls += 1.0;
            count.largest = count.largest.max(asked as f64);
        }
        self.moved(act, moved, fd);
    }

    /// Notes a call, and gives its result.
    fn noted(&self, act: Act, asked: usize, fd: Fd<'_>, result: Result<usize, Errno>) -> Result<usize, Errno> {
        self.note(act, asked as u64, *result.as_ref().unwrap_or(&0) as u64, fd.as_raw_fd());
        result
    }

    /// Adds bytes that a call has moved which was noted before.
    fn moved(&self, act: Act, bytes: u64, fd: RawFd) {
        let mut record = self.0.lock();
        let direct = record.direct.contains(&fd);
        let count = record.counts.entry(act).or_default();
        count.bytes += bytes as f64;
        count.direct += if direct { bytes as f64 } else { 0.0 };
    }

    fn turned(&self, fd: RawFd, on: bool) {
        let mut record = self.0.lock();
        if on {
            record.direct.insert(fd)
        } else {
            record.direct.remove(&fd)
        };
    }
}

impl Kernel for Recorder {
    fn read(&self, fd: Fd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
        let asked = buffer.len();
        self.noted(Act::Read, asked, fd, Linux.read(fd, buffer))
    }

    fn write(&self, fd: Fd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        self.noted(Act::Write, bytes.len(), fd, Linux.write(fd, bytes))
    }

    fn pread(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let asked = buffer.len();
        self.noted(Act::Read, asked, fd, Linux.pread(fd, buffer, offset))
    }

    fn pwrite(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.noted(Act::Write, bytes.len(), fd, Linux.pwrite(fd, bytes, offset))
    }

    fn pread_dontcache(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let asked = buffer.len();
        self.noted(Act::Other, asked, fd, Linux.pread_dontcache(fd, buffer, offset))
    }

    fn pwrite_dontcache(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.noted(Act::Other, bytes.len(), fd, Linux.pwrite_dontcache(fd, bytes, offset))
    }

    fn copy_file_range(&self, source: Fd<'_>, dest: Fd<'_>, offset: u64, len: usize) -> Result<usize, Errno> {
        self.noted(Act::CopyRange, len, dest, Linux.copy_file_range(source, dest, offset, len))
    }

    fn clone_file(&self, source: Fd<'_>, dest: Fd<'_>) -> Result<(), Errno> {
        self.note(Act::Other, 0, 0, dest.as_raw_fd());
        Linux.clone_file(source, dest)
    }

    fn clone_range(&self, source: Fd<'_>, dest: Fd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
        self.note(Act::Other, len, len, dest.as_raw_fd());
        Linux.clone_range(source, dest, offset, len)
    }

    fn splice(&self, source: (Fd<'_>, Option<u64>), dest: (Fd<'_>, Option<u64>), len: usize) -> Result<usize, Errno> {
        self.noted(Act::Splice, len, dest.0, Linux.splice(source, dest, len))
    }

    fn map(&self, fd: Fd<'_>, offset: u64, len: usize) -> Result<Mapping, Errno> {
        self.note(Act::Map, len as u64, len as u64, fd.as_raw_fd());
        Linux.map(fd, offset, len)
    }

    fn write_mapped(
        &self,
        fd: Fd<'_>,
        mapping: &Mapping,
        from: usize,
        len: usize,
        offset: Option<u64>,
    ) -> Result<usize, Errno> {
        self.noted(Act::WriteMapped, len, fd, Linux.write_mapped(fd, mapping, from, len, offset))
    }

    fn read_ahead(&self, fd: Fd<'_>, offset: u64, len: NonZeroU64) -> Result<(), Errno> {
        self.note(Act::ReadAhead, len.get(), len.get(), fd.as_raw_fd());
        Linux.read_ahead(fd, offset, len)
    }

    fn allocate(&self, fd: Fd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
        self.note(Act::Allocate, len, len, fd.as_raw_fd());
        Linux.allocate(fd, offset, len)
    }

    fn set_direct(&self, fd: Fd<'_>, on: bool) -> Result<(), Errno> {
        Linux.set_direct(fd, on)?;
        self.turned(fd.as_raw_fd(), on);
        Ok(())
    }

    fn reopen_direct(&self, fd: Fd<'_>) -> Result<OwnedFd, Errno> {
        let again = Linux.reopen_direct(fd)?;
        self.turned(again.as_raw_fd(), true);
        Ok(again)
    }

    fn queue(&self, kind: QueueKind) -> Result<Box<dyn Queue>, Errno> {
        self.0.lock().queues.insert(queue_name(kind));
        Ok(Box::new(Recorded {
            inner: Linux.queue(kind)?,
            recorder: self.clone(),
            files: Vec::new(),
            at_work: BTreeMap::new(),
        }))
    }
}

/// A queue whose requests are written down.
#[derive(Debug)]
struct Recorded {
    inner: Box<dyn Queue>,
    recorder: Recorder,
    files: Vec<RawFd>,
    /// What the slots do, and to which file.
    at_work: BTreeMap<usize, (Act, RawFd)>,
}

impl Queue for Recorded {
    fn shape(&mut self, block: usize, slots: usize) -> Result<(), Errno> {
        self.inner.shape(block, slots)
    }

    fn open(&mut self, files: &[Arc<OwnedFd>]) -> Result<(), Errno> {
        self.files = files.iter().map(AsRawFd::as_raw_fd).collect();
        self.inner.open(files)
    }

    fn close(&mut self) -> Result<(), Errno> {
        self.inner.close()
    }

    fn buffer(&mut self, slot: usize) -> Result<&mut [u8], Errno> {
        self.inner.buffer(slot)
    }

    fn push(&mut self, request: &Request) -> Result<(), Errno> {
        self.inner.push(request)?;
        let act = if request.write { Act::QueueWrite } else { Act::QueueRead };
        let fd = *self.files.get(request.file).ok_or(Errno::INVAL)?;
        self.recorder.note(act, request.len as u64, 0, fd);
        self.at_work.insert(request.slot, (act, fd));
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> Result<(), Errno> {
        let before = done.len();
        self.inner.wait(done)?;
        for completion in &done[before..] {
            if let (Some((act, fd)), Ok(count)) = (self.at_work.remove(&completion.slot), completion.result) {
                self.recorder.moved(act, count as u64, fd);
            }
        }
        Ok(())
    }
}
