//! Three threads with queues between them move an image: one reads, one scans and hashes, one writes.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use haul_io::engine::buffer::AlignedBuffer;
use haul_io::engine::hole::Run;
use md5::{Digest, Md5};

use super::pieces::{Kind, PieceSource};
use super::sink::Sink;
use super::steps::{Reading, Stop, Writing, scan};
use super::task::Observer;
use super::threads::{join, start, watch};

/// All buffers together, in bytes, unless three of them are more.
const MEMORY: usize = 16 << 20;

/// Most buffers; more in flight make nothing faster.
const MOST: usize = 64;

static ZEROS: [u8; 1 << 14] = [0; 1 << 14];

/// A buffer, and what was found in it. It goes round: leased by the reader, given back by the writer.
struct Buffer {
    memory: AlignedBuffer,
    /// Runs of zero blocks and of others, in order, without gaps.
    runs: Vec<Run>,
}

enum Message {
    /// The first `len` bytes of the buffer stand at `offset`.
    Data {
        offset: u64,
        len: usize,
        buffer: Box<Buffer>,
    },
    Skip {
        offset: u64,
        len: u64,
    },
}

/// Does the work by three threads and two queues; returns the MD5 with everything in it.
pub(super) fn run(
    reading: Reading<'_>,
    pieces: &mut PieceSource<'_>,
    sink: Option<&mut Sink>,
    md5: Option<Md5>,
    observer: &dyn Observer,
) -> Result<Option<Md5>, Stop> {
    let Reading { rules, counters, .. } = reading;
    let count = (MEMORY / rules.buffer_size.max(1)).clamp(3, MOST);
    let (give, lease) = sync_channel(count);
    for _ in 0..count {
        let memory = AlignedBuffer::new(rules.buffer_size, rules.align);
        // There is room for all, and the other end is in this function.
        give.try_send(Box::new(Buffer { memory, runs: Vec::new() })).ok();
    }
    // Half as many messages as buffers: the reader and the writer each may be that far apart from the scanner.
    let (to_scan, scanned) = sync_channel(count.div_ceil(2));
    let (to_write, written) = sync_channel(count.div_ceil(2));
    let (alive, over) = channel::<()>();
    let writing = Writing { sink, rules, counters };
    thread::scope(|scope| {
        // A thread that cannot be had drops its ends of the queues, and those that are there end by that.
        let reader = start(scope, alive.clone(), move || read(reading, pieces, &lease, &to_scan));
        let scanner = start(scope, alive.clone(), move || look_through(reading, md5, &scanned, &to_write));
        let writer = start(scope, alive, move || write(reading, writing, &written, &give));
        watch(&over, counters, observer);
        // The writer's reason comes first: when it ends, the others end because of it.
        let (writer, scanner, reader) = (join(writer), join(scanner), join(reader));
        writer?;
        let md5 = scanner?;
        reader?;
        Ok(md5)
    })
}

/// Reads the pieces. Ends as if all was well where nobody listens any more, who has said why.
fn read(
    reading: Reading<'_>,
    pieces: &mut PieceSource<'_>,
    lease: &Receiver<Box<Buffer>>,
    to_scan: &SyncSender<Message>,
) -> Result<(), Stop> {
    let waiting = &reading.counters.read_enqueue;
    for piece in pieces {
        let piece = piece.map_err(Stop::Reading)?;
        for (offset, len) in reading.parts(&piece) {
            reading.check()?;
            let message = if piece.kind == Kind::Data {
                let Ok(mut buffer) = waiting.time(|| lease.recv()) else { return Ok(()) };
                // At most the size of the buffer.
                let _turn = reading.turn_to_copy(len)?;
                let len = len as usize;
                reading.read(offset, &mut buffer.memory.bytes()[..len])?;
                Message::Data { offset, len, buffer }
            } else {
                // Another thread writes: it is to be done at this time, not to be waited for.
                drop(reading.skip(len, piece.kind)?);
                Message::Skip { offset, len }
            };
            if waiting.time(|| to_scan.send(message)).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Scans and hashes what was read.
fn look_through(
    reading: Reading<'_>,
    mut md5: Option<Md5>,
    scanned: &Receiver<Message>,
    to_write: &SyncSender<Message>,
) -> Result<Option<Md5>, Stop> {
    let Reading { rules, counters, .. } = reading;
    while let Ok(mut message) = counters.read_dequeue.time(|| scanned.recv()) {
        reading.check()?;
        match &mut message {
            Message::Data { offset, len, buffer } => {
                let Buffer { memory, runs } = &mut **buffer;
                let bytes = &memory.bytes()[..*len];
                scan(&rules, counters, *offset, bytes, runs);
                if let Some(md5) = &mut md5 {
                    counters.md5.time(|| md5.update(bytes));
                }
            }
            Message::Skip { len, .. } => {
                if let Some(md5) = &mut md5 {
                    counters.md5.time(|| hash_zeros(md5, *len));
                }
            }
        }
        if counters.write_enqueue.time(|| to_write.send(message)).is_err() {
            break;
        }
    }
    Ok(md5)
}

fn hash_zeros(md5: &mut Md5, len: u64) {
    for at in (0..len).step_by(ZEROS.len()) {
        // At most the length of the array.
        md5.update(&ZEROS[..(len - at).min(ZEROS.len() as u64) as usize]);
    }
}

/// Writes what was looked through.
fn write(
    reading: Reading<'_>,
    mut writing: Writing<'_>,
    written: &Receiver<Message>,
    give: &SyncSender<Box<Buffer>>,
) -> Result<(), Stop> {
    while let Ok(message) = reading.counters.write_dequeue.time(|| written.recv()) {
        reading.check()?;
        match message {
            Message::Data { offset, len, mut buffer } => {
                writing.put(offset, &buffer.memory.bytes()[..len], &buffer.runs).map_err(Stop::Failed)?;
                // The reader may have ended; then nobody needs it.
                give.try_send(buffer).ok();
            }
            Message::Skip { offset, len } => writing.zeros(offset, len).map_err(Stop::Failed)?,
        }
    }
    if let Some(sink) = writing.sink {
        sink.end();
    }
    Ok(())
}
