//! Three threads with queues between them move an image: one reads, one scans and hashes, one writes.

use std::sync::mpsc::{Receiver, SyncSender, channel};
use std::thread;

use haul_sys::Errno;
use md5::{Digest, Md5};

use super::pieces::{Kind, Piece};
use super::pool::{self, Buffer, Message};
use super::stats::Counters;
use super::steps::{Reading, Rules, Writing, scan};
use super::stop::Stop;
use super::threads::{join, start, watch};
use super::work::Work;

/// Does the work by three threads and two queues; returns the MD5 with everything in it.
pub(super) fn run(work: Work<'_>) -> Result<Option<Md5>, Stop> {
    let Work { reading, pieces, sink, md5, observer, .. } = work;
    let Reading { rules, counters, stop, .. } = reading;
    let (give, lease) = pool::pool(rules.buffer_size, rules.align);
    let (to_scan, scanned) = pool::queue(rules.buffer_size);
    let (to_write, written) = pool::queue(rules.buffer_size);
    let (alive, over) = channel::<()>();
    let reader = Reader { reading, lease, to_scan };
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
        self.reading.read(offset, &mut buffer.memory.bytes()[..len])?;
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
        let bytes = &buffer.memory.bytes()[..len];
        scan(&self.rules, self.counters, offset, bytes, &mut buffer.runs);
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
                    self.writing.put(offset, &buffer.memory.bytes()[..len], &buffer.runs).map_err(Stop::Failed)?;
                    // The reader may have ended; then nobody needs it.
                    self.give.try_send(buffer).ok();
                }
                Message::Skip { offset, len } => self.writing.zeros(offset, len).map_err(Stop::Failed)?,
            }
        }
        Ok(())
    }
}
