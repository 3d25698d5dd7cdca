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
    /// Parallel workers. None where the image goes through queues.
    pub workers: u64,
    /// Time since the source was open.
    pub elapsed: Duration,
    /// Where the time went.
    pub times: Times,
}

impl Stats {
    /// How far the copy is, in bytes.
    pub fn processed(&self) -> u64 {
        self.copied + self.write_skipped
    }

    /// The shares of the time of all parallel workers, from 0 to 1, that went into reading and into writing. None where
    /// there are no workers.
    ///
    /// A call takes its time whether it waits for a device or copies from the page cache: beside the CPU time of the process
    /// they show which of it is.
    pub fn shares(&self) -> Option<(f64, f64)> {
        let all = self.times.workers.as_secs_f64();
        let share = |time: Duration| time.as_secs_f64() / all;
        (all > 0.0).then(|| (share(self.times.read), share(self.times.write)))
    }
}

/// Where the time went. The threads work at the same time, so the sum may exceed the elapsed time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Opening the destination and preparing it.
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
    /// In calls that read, or that ask the kernel to read ahead.
    pub read: Duration,
    /// In calls that write, or that make zeros.
    pub write: Duration,
    /// All parallel workers: their number times the time that they took together. The rest of it, beyond `read`, `scan` and
    /// `write`, is mostly that of workers that had nothing left to do.
    pub workers: Duration,
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
        self.add(start.elapsed());
        result
    }

    pub(super) fn add(&self, time: Duration) {
        // Fits for 584 years.
        self.0.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// A number of bytes, or of workers, in the same way.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// There are so many, if there were not more before.
    pub(super) fn at_least(&self, number: u64) {
        self.0.fetch_max(number, Ordering::Relaxed);
    }

    /// Takes back what turned out otherwise; never more than was added.
    pub(super) fn take_back(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the threads of a copy share: for each number of [`Stats`] the one that they count with.
macro_rules! counters {
    ($($count:ident)*; $($time:ident $clock:ident)*) => {
        #[derive(Debug)]
        pub(super) struct Counters {
            pub(super) started: Instant,
            pub(super) total: u64,
            /// The memory of a hibernated system was in what was read.
            pub(super) asleep: AtomicBool,
            $(pub(super) $count: Count,)*
            $(pub(super) $clock: Clock,)*
        }

        impl Counters {
            pub(super) fn new(total: u64) -> Counters {
                Counters {
                    started: Instant::now(),
                    total,
                    asleep: AtomicBool::default(),
                    $($count: Count::default(),)*
                    $($clock: Clock::default(),)*
                }
            }

            pub(super) fn stats(&self) -> Stats {
                let times = Times { $($time: self.$clock.get(),)* };
                Stats { total: self.total, elapsed: self.started.elapsed(), times, $($count: self.$count.get(),)* }
            }
        }
    };
}

counters! {
    copied write_skipped read_skipped free read zeros workers;
    open open map map copy copy close close scan scan md5 md5 read reading write writing workers working
    read_enqueue read_enqueue read_dequeue read_dequeue write_enqueue write_enqueue write_dequeue write_dequeue
}
