//! The threads that move an image.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use haul_guest::ReadAt;
use haul_sys::Errno;
use md5::{Digest, Md5};

use crate::engine::Failure;
use crate::engine::hole;
use crate::pace::{self, Pace};

use super::pieces::{Kind, Piece};
use super::pool::{self, Buffer, Message};
use super::sink::{Done, Sink};
use super::stats::Counters;
use super::{Event, Observer};

/// A skipped range is cut into pieces of this many bytes if something is to be done to each byte of it, so that
/// progress shows and a request to stop is heard.
const STRIDE: u64 = 16 << 20;

/// Time between two reports.
const SECOND: Duration = Duration::from_secs(1);

/// Bytes that are written where nothing is read.
const TEST_DATA: u8 = 0xa5;

/// A stack is small: nothing here is recursive.
const STACK: usize = 256 << 10;

/// What is to be done.
pub(super) struct Work<'a> {
    /// Read from here; test data if there is nothing.
    pub(super) source: Option<&'a dyn ReadAt>,
    /// In order.
    pub(super) pieces: &'a mut (dyn Iterator<Item = Result<Piece, Errno>> + Send),
    /// Written here; nowhere if there is nothing.
    pub(super) sink: Option<&'a mut Sink>,
    pub(super) rules: Rules,
    pub(super) md5: Option<Md5>,
    pub(super) counters: &'a Counters,
    pub(super) stop: &'a (dyn Fn() -> bool + Sync),
    pub(super) pace: Option<&'a Pace>,
    pub(super) observer: &'a dyn Observer,
}

/// How it is to be done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Zeros are not written.
    pub(super) sparse: bool,
    pub(super) zero_scan: bool,
    pub(super) buffer_size: usize,
    pub(super) align: usize,
    /// In bytes; see [`Piece`].
    pub(super) granule: u32,
    /// The ranges were skipped before, as zeros, and counted: what is read now takes that back.
    pub(super) again: bool,
}

/// Why it ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Somebody asked for it.
    Cancelled,
    /// The source ended before its size.
    Ended,
    Reading(Errno),
    Failed(Failure),
    /// There are no threads.
    Threads(Errno),
}

/// Does the work; returns the MD5 with everything in it.
pub(super) fn run(work: Work<'_>) -> Result<Option<Md5>, Stop> {
    let Work { source, pieces, sink, rules, md5, counters, stop, pace, observer } = work;
    let (give, lease) = pool::pool(rules.buffer_size, rules.align);
    let (to_scan, scanned) = pool::queue(rules.buffer_size);
    let (to_write, written) = pool::queue(rules.buffer_size);
    let (alive, over) = channel::<()>();
    let cut = !rules.sparse || md5.is_some() || sink.as_ref().is_some_and(|sink| sink.holds_old);
    let stride = if cut { STRIDE } else { u64::MAX };
    let reader = Reader { source, rules, counters, stop, pace, lease, to_scan, stride };
    let scanner = Scanner { rules, counters, stop, md5, scanned, to_write };
    let writer = Writer { sink, rules, counters, stop, written, give };
    thread::scope(|scope| {
        // A thread that cannot be had drops its ends of the queues, and those that are there end by that.
        let reader = start(scope, alive.clone(), move || reader.run(pieces).map(|()| None));
        let scanner = start(scope, alive.clone(), move || scanner.run());
        let writer = start(scope, alive, move || writer.run().map(|()| None));
        watch(&over, counters, observer);
        // The writer's reason comes first: when it ends, the others end because of it.
        let (writer, scanner, reader) = (join(writer), join(scanner), join(reader));
        writer?;
        let md5 = scanner?;
        reader?;
        Ok(md5)
    })
}

type Handle<'scope> = io::Result<ScopedJoinHandle<'scope, Result<Option<Md5>, Stop>>>;

fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    alive: Sender<()>,
    work: impl FnOnce() -> Result<Option<Md5>, Stop> + Send + 'scope,
) -> Handle<'scope> {
    thread::Builder::new().stack_size(STACK).spawn_scoped(scope, move || {
        // Dropped at the end, however it comes.
        let _alive = alive;
        work()
    })
}

fn join(handle: Handle<'_>) -> Result<Option<Md5>, Stop> {
    let handle = handle.map_err(|error| Stop::Threads(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)))?;
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Does something that may take long in a thread of its own, so that reports go on.
pub(super) fn beside<T: Send>(
    counters: &Counters,
    observer: &dyn Observer,
    work: impl FnOnce() -> T + Send,
) -> Result<T, Stop> {
    let (alive, over) = channel::<()>();
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, move || {
            let _alive = alive;
            work()
        });
        watch(&over, counters, observer);
        let thread = thread.map_err(|error| Stop::Threads(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)))?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Reports at every full second until all threads have ended.
fn watch(over: &Receiver<()>, counters: &Counters, observer: &dyn Observer) {
    let mut next = counters.started + SECOND;
    loop {
        while next <= Instant::now() {
            next += SECOND;
        }
        match over.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => observer.event(&Event::Second(&counters.stats())),
            _ => return,
        }
    }
}

struct Reader<'a> {
    source: Option<&'a dyn ReadAt>,
    rules: Rules,
    counters: &'a Counters,
    stop: &'a (dyn Fn() -> bool + Sync),
    pace: Option<&'a Pace>,
    lease: Receiver<Box<Buffer>>,
    to_scan: SyncSender<Message>,
    stride: u64,
}

impl Reader<'_> {
    fn run(self, pieces: &mut dyn Iterator<Item = Result<Piece, Errno>>) -> Result<(), Stop> {
        for piece in pieces {
            let Piece { kind, offset, len } = piece.map_err(Stop::Reading)?;
            let stride = if kind == Kind::Data { self.rules.buffer_size as u64 } else { self.stride };
            let mut done = 0;
            while done < len {
                if (self.stop)() {
                    return Err(Stop::Cancelled);
                }
                let step = (len - done).min(stride);
                let sent = if kind == Kind::Data {
                    // At most the size of the buffer.
                    self.data(offset + done, step as usize)?
                } else {
                    self.skip(offset + done, step, kind)
                };
                if !sent {
                    return Ok(());
                }
                done += step;
            }
        }
        Ok(())
    }

    /// `false`: nobody listens any more, and has said why.
    fn data(&self, offset: u64, len: usize) -> Result<bool, Stop> {
        let counters = self.counters;
        let Ok(mut buffer) = counters.read_enqueue.time(|| self.lease.recv()) else { return Ok(false) };
        let bytes = &mut buffer.bytes()[..len];
        match self.source {
            Some(source) => {
                // A request to read it, and one to write it.
                let work = pace::Work { bytes: len as u64, operations: 2 };
                if let Some(pace) = self.pace {
                    let turn = pace.turn(work, &|| (self.stop)()).ok_or(Stop::Cancelled)?;
                    pace.settle(turn, work);
                }
                let read = counters.reading.time(|| source.read_exact_at(offset, bytes));
                read.map_err(|error| match error.kind() {
                    io::ErrorKind::UnexpectedEof => Stop::Ended,
                    _ => Stop::Reading(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
                })?;
                counters.read.add(len as u64);
                if self.rules.again {
                    counters.read_skipped.take_back(len as u64);
                    counters.free.take_back(len as u64);
                }
            }
            None => bytes.fill(TEST_DATA),
        }
        Ok(self.send(Message::Data { offset, len, buffer }))
    }

    fn skip(&self, offset: u64, len: u64, kind: Kind) -> bool {
        self.counters.read_skipped.add(len);
        if kind == Kind::Free {
            self.counters.free.add(len);
        }
        self.send(Message::Skip { offset, len })
    }

    fn send(&self, message: Message) -> bool {
        self.counters.read_enqueue.time(|| self.to_scan.send(message)).is_ok()
    }
}

struct Scanner<'a> {
    rules: Rules,
    counters: &'a Counters,
    stop: &'a (dyn Fn() -> bool + Sync),
    md5: Option<Md5>,
    scanned: Receiver<Message>,
    to_write: SyncSender<Message>,
}

impl Scanner<'_> {
    fn run(mut self) -> Result<Option<Md5>, Stop> {
        while let Ok(mut message) = self.counters.read_dequeue.time(|| self.scanned.recv()) {
            if (self.stop)() {
                return Err(Stop::Cancelled);
            }
            match &mut message {
                Message::Data { offset, len, buffer } => self.look_at(*offset, *len, buffer),
                Message::Skip { len, .. } => self.hash_zeros(*len),
            }
            if self.counters.write_enqueue.time(|| self.to_write.send(message)).is_err() {
                break;
            }
        }
        Ok(self.md5)
    }

    fn look_at(&mut self, offset: u64, len: usize, buffer: &mut Buffer) {
        let (bytes, runs) = buffer.parts();
        let bytes = &bytes[..len];
        runs.clear();
        if self.rules.zero_scan {
            self.counters.scan.time(|| runs.extend(hole::runs(bytes, offset, self.rules.granule)));
            let zeros = runs.iter().filter(|run| run.zero).map(|run| run.range.len() as u64).sum();
            self.counters.zeros.add(zeros);
        } else {
            runs.push(hole::Run { zero: false, range: 0..len });
        }
        if let Some(md5) = &mut self.md5 {
            self.counters.md5.time(|| md5.update(bytes));
        }
    }

    fn hash_zeros(&mut self, len: u64) {
        if let Some(md5) = &mut self.md5 {
            self.counters.md5.time(|| {
                let mut left = len;
                while left > 0 {
                    // At most the length of the array.
                    let step = left.min(ZEROS.len() as u64) as usize;
                    md5.update(&ZEROS[..step]);
                    left -= step as u64;
                }
            });
        }
    }
}

static ZEROS: [u8; 1 << 14] = [0; 1 << 14];

struct Writer<'a> {
    sink: Option<&'a mut Sink>,
    rules: Rules,
    counters: &'a Counters,
    stop: &'a (dyn Fn() -> bool + Sync),
    written: Receiver<Message>,
    give: SyncSender<Box<Buffer>>,
}

impl Writer<'_> {
    fn run(mut self) -> Result<(), Stop> {
        while let Ok(message) = self.counters.write_dequeue.time(|| self.written.recv()) {
            if (self.stop)() {
                return Err(Stop::Cancelled);
            }
            match message {
                Message::Data { offset, len, mut buffer } => {
                    self.put(offset, len, &mut buffer).map_err(Stop::Failed)?;
                    // The reader may have ended; then nobody needs it.
                    self.give.try_send(buffer).ok();
                }
                Message::Skip { offset, len } => self.zeros(offset, len).map_err(Stop::Failed)?,
            }
        }
        Ok(())
    }

    fn put(&mut self, offset: u64, len: usize, buffer: &mut Buffer) -> Result<(), Failure> {
        let (bytes, runs) = buffer.parts();
        let bytes = &bytes[..len];
        if !self.rules.sparse && !self.rules.again {
            self.write(offset, bytes)?;
            self.counters.copied.add(len as u64);
            return Ok(());
        }
        for run in runs {
            let (at, size) = (offset + run.range.start as u64, run.range.len() as u64);
            if run.zero {
                // Where it is the second time, zeros are there.
                if !self.rules.again {
                    self.zeros(at, size)?;
                }
                continue;
            }
            self.write(at, &bytes[run.range.clone()])?;
            if !self.rules.again {
                self.counters.copied.add(size);
            } else if self.rules.sparse {
                self.counters.copied.add(size);
                self.counters.write_skipped.take_back(size);
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.sink {
            Some(sink) => self.counters.writing.time(|| sink.write(offset, bytes)),
            None => Ok(()),
        }
    }

    /// Lets a range read as zeros.
    fn zeros(&mut self, offset: u64, len: u64) -> Result<(), Failure> {
        let sparse = self.rules.sparse;
        let done = match &mut self.sink {
            Some(sink) if sparse => self.counters.writing.time(|| sink.skip(offset, len))?,
            Some(sink) => {
                self.counters.writing.time(|| sink.zeros(offset, len))?;
                Done::Written
            }
            None if sparse => Done::Skipped,
            None => Done::Written,
        };
        match done {
            Done::Skipped => self.counters.write_skipped.add(len),
            Done::Written => self.counters.copied.add(len),
        }
        Ok(())
    }
}
