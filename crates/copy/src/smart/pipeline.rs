//! The threads that move an image.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use haul_guest::ReadAt;
use haul_sys::Errno;
use haul_sys::kernel::{Fd, Kernel};
use md5::{Digest, Md5};

use crate::engine::Failure;
use crate::pace::Pace;

use super::lanes;
use super::pieces::{Kind, Piece};
use super::pool::{self, Buffer, Message};
use super::sink::Sink;
use super::stats::Counters;
use super::steps::{Reading, Rules, Writing, scan};
use super::way::Way;
use super::{Event, Observer};

/// Time between two reports.
const SECOND: Duration = Duration::from_secs(1);

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
    /// Through the page cache or past it, by how many threads.
    pub(super) way: &'a Way,
    /// The source's own file, if its bytes are those of the image: it can be read ahead.
    pub(super) file: Option<(&'a dyn Kernel, Fd<'a>)>,
    pub(super) counters: &'a Counters,
    pub(super) stop: &'a (dyn Fn() -> bool + Sync),
    pub(super) pace: Option<&'a Pace>,
    pub(super) observer: &'a dyn Observer,
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
    if work.way.queued { run_queued(work) } else { lanes::run(work).map(|()| None) }
}

/// Does it by three threads and two queues.
fn run_queued(work: Work<'_>) -> Result<Option<Md5>, Stop> {
    let Work { source, pieces, sink, rules, md5, counters, stop, pace, observer, .. } = work;
    let (give, lease) = pool::pool(rules.buffer_size, rules.align);
    let (to_scan, scanned) = pool::queue(rules.buffer_size);
    let (to_write, written) = pool::queue(rules.buffer_size);
    let (alive, over) = channel::<()>();
    let cut = !rules.sparse || md5.is_some() || sink.as_ref().is_some_and(|sink| sink.holds_old);
    let reader = Reader { reading: Reading { source, rules, counters, stop, pace, cut }, lease, to_scan };
    let scanner = Scanner { rules, counters, stop, md5, scanned, to_write };
    let writer = Writer { writing: Writing { sink, rules, counters }, stop, written, give };
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

/// A thread of a copy, if it could be had.
pub(super) type Handle<'scope> = io::Result<ScopedJoinHandle<'scope, Result<Option<Md5>, Stop>>>;

/// Starts one. It is over when `alive` and all its clones are gone.
pub(super) fn start<'scope>(
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

/// Waits for one.
pub(super) fn join(handle: Handle<'_>) -> Result<Option<Md5>, Stop> {
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
pub(super) fn watch(over: &Receiver<()>, counters: &Counters, observer: &dyn Observer) {
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
    reading: Reading<'a>,
    lease: Receiver<Box<Buffer>>,
    to_scan: SyncSender<Message>,
}

impl Reader<'_> {
    fn run(self, pieces: &mut dyn Iterator<Item = Result<Piece, Errno>>) -> Result<(), Stop> {
        for piece in pieces {
            let piece = piece.map_err(Stop::Reading)?;
            let Piece { kind, offset, len } = piece;
            let stride = self.reading.stride(&piece);
            let mut done = 0;
            while done < len {
                self.reading.check()?;
                let step = (len - done).min(stride);
                let sent = if kind == Kind::Data {
                    // At most the size of the buffer.
                    self.data(offset + done, step as usize)?
                } else {
                    self.reading.skip(step, kind);
                    self.send(Message::Skip { offset: offset + done, len: step })
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
        let counters = self.reading.counters;
        let Ok(mut buffer) = counters.read_enqueue.time(|| self.lease.recv()) else { return Ok(false) };
        self.reading.read(offset, &mut buffer.bytes()[..len])?;
        Ok(self.send(Message::Data { offset, len, buffer }))
    }

    fn send(&self, message: Message) -> bool {
        self.reading.counters.read_enqueue.time(|| self.to_scan.send(message)).is_ok()
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
        scan(&self.rules, self.counters, offset, bytes, runs);
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
    writing: Writing<'a>,
    stop: &'a (dyn Fn() -> bool + Sync),
    written: Receiver<Message>,
    give: SyncSender<Box<Buffer>>,
}

impl Writer<'_> {
    fn run(mut self) -> Result<(), Stop> {
        let counters = self.writing.counters;
        while let Ok(message) = counters.write_dequeue.time(|| self.written.recv()) {
            if (self.stop)() {
                return Err(Stop::Cancelled);
            }
            match message {
                Message::Data { offset, len, mut buffer } => {
                    let (bytes, runs) = buffer.parts();
                    self.writing.put(offset, &bytes[..len], runs).map_err(Stop::Failed)?;
                    // The reader may have ended; then nobody needs it.
                    self.give.try_send(buffer).ok();
                }
                Message::Skip { offset, len } => self.writing.zeros(offset, len).map_err(Stop::Failed)?,
            }
        }
        Ok(())
    }
}
