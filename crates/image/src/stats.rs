//! What a smart copy did, in numbers: counted by its threads, looked at by the one that reports.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes and times. At the end `copied + write_skipped == total`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Size of the image in bytes.
    pub total: u64,
    /// Bytes written; those that would be written, if nothing is.
    pub copied: u64,
    /// Bytes not written, because they read as zeros already: free space, holes and blocks of zeros. None if zeros are
    /// to be written.
    pub write_skipped: u64,
    /// Bytes not read: free space and holes. Part of `write_skipped` if that counts.
    pub read_skipped: u64,
    /// Bytes of `read_skipped` that the guests' own maps prove free. The others are holes of the source.
    pub free: u64,
    /// Bytes read, those of the maps not counted.
    pub read: u64,
    /// Bytes of zeros found in what was read.
    pub zeros: u64,
    /// Time since the beginning, in which both sides were opened.
    pub elapsed: Duration,
    /// Where the time went.
    pub times: Times,
}

impl Stats {
    /// How far the copy is, in bytes.
    pub fn processed(&self) -> u64 {
        self.copied + self.write_skipped
    }
}

/// Where the time went. The threads work at the same time, so the sum may exceed the elapsed time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Opening both sides and looking at them.
    pub open: Duration,
    /// Reading the guests' maps, and reading again what they were made from.
    pub map: Duration,
    /// From the first byte to the last.
    pub copy: Duration,
    /// Setting the size and closing the destination.
    pub close: Duration,
    /// Looking for zeros.
    pub scan: Duration,
    /// MD5.
    pub md5: Duration,
    /// Reading.
    pub read: Duration,
    /// Writing.
    pub write: Duration,
    /// The reader, waiting for a free buffer and for room in the read queue.
    pub read_enqueue: Duration,
    /// The scanner, waiting for the read queue to have something.
    pub read_dequeue: Duration,
    /// The scanner, waiting for room in the write queue.
    pub write_enqueue: Duration,
    /// The writer, waiting for the write queue to have something.
    pub write_dequeue: Duration,
}

/// A time that one thread adds to and another looks at.
#[derive(Debug, Default)]
pub(super) struct Clock(AtomicU64);

impl Clock {
    /// Does something and adds the time that it took.
    pub(super) fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        // Fits for 584 years.
        self.0.fetch_add(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        result
    }

    fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// A number of bytes, in the same way.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes back what turned out otherwise; never more than was added.
    pub(super) fn take_back(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the threads of a copy share.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) started: Instant,
    pub(super) total: u64,
    pub(super) copied: Count,
    pub(super) write_skipped: Count,
    pub(super) read_skipped: Count,
    pub(super) free: Count,
    pub(super) read: Count,
    pub(super) zeros: Count,
    /// The memory of a hibernated system was in what was read.
    pub(super) asleep: AtomicBool,
    pub(super) open: Clock,
    pub(super) map: Clock,
    pub(super) copy: Clock,
    pub(super) close: Clock,
    pub(super) scan: Clock,
    pub(super) md5: Clock,
    pub(super) reading: Clock,
    pub(super) writing: Clock,
    pub(super) read_enqueue: Clock,
    pub(super) read_dequeue: Clock,
    pub(super) write_enqueue: Clock,
    pub(super) write_dequeue: Clock,
}

impl Counters {
    pub(super) fn new(total: u64) -> Counters {
        Counters {
            started: Instant::now(),
            total,
            copied: Count::default(),
            write_skipped: Count::default(),
            read_skipped: Count::default(),
            free: Count::default(),
            read: Count::default(),
            zeros: Count::default(),
            asleep: AtomicBool::default(),
            open: Clock::default(),
            map: Clock::default(),
            copy: Clock::default(),
            close: Clock::default(),
            scan: Clock::default(),
            md5: Clock::default(),
            reading: Clock::default(),
            writing: Clock::default(),
            read_enqueue: Clock::default(),
            read_dequeue: Clock::default(),
            write_enqueue: Clock::default(),
            write_dequeue: Clock::default(),
        }
    }

    /// What they say now.
    pub(super) fn stats(&self) -> Stats {
        Stats {
            total: self.total,
            copied: self.copied.get(),
            write_skipped: self.write_skipped.get(),
            read_skipped: self.read_skipped.get(),
            free: self.free.get(),
            read: self.read.get(),
            zeros: self.zeros.get(),
            elapsed: self.started.elapsed(),
            times: Times {
                open: self.open.get(),
                map: self.map.get(),
                copy: self.copy.get(),
                close: self.close.get(),
                scan: self.scan.get(),
                md5: self.md5.get(),
                read: self.reading.get(),
                write: self.writing.get(),
                read_enqueue: self.read_enqueue.get(),
                read_dequeue: self.read_dequeue.get(),
                write_enqueue: self.write_enqueue.get(),
                write_dequeue: self.write_dequeue.get(),
            },
        }
    }
}
