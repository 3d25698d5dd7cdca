//! `O_DIRECT` on each side that allows it, buffered on the other.
//!
//! The flag is switched on and off with fcntl on the open files that the job brings, and at the end of a job it is as it
//! was. What cannot be direct (an unaligned head, the tail, a short count's remainder) goes through the page cache; the
//! kernel keeps the two coherent as long as they are not at work at the same time, and one job is one thread.

use std::os::fd::AsFd;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::kernel::Kernel;

use super::buffer::{AlignedBuffer, is_aligned};
use super::hole;
use super::transfer::{Transfer, again, failed, write_some};
use super::{Caps, End, Engine, FailedOn, Job, Refusal, Side, Submitted, Tuning, USEFUL_JOB};
use crate::plan::EngineName;

/// Large requests keep a device busy without a queue of our own.
const BUFFER: usize = 4 << 20;
/// Whole pages even where the device takes sectors: smaller pieces would share a page with buffered neighbours, and ext4
/// takes its slow path for direct writes that are no whole blocks.
const GRAIN: usize = 4096;

/// Moves bytes past the page cache.
pub(super) struct Direct {
    kernel: Arc<dyn Kernel>,
    len: usize,
    align: usize,
    buffer: AlignedBuffer,
}

impl Direct {
    pub(super) fn new(kernel: Arc<dyn Kernel>, tuning: &Tuning) -> Direct {
        let len = tuning.buffer_size_or(BUFFER);
        Direct { kernel, len, align: GRAIN, buffer: AlignedBuffer::new(len.next_multiple_of(GRAIN), GRAIN) }
    }

    /// Makes sure that the buffer suits this alignment.
    fn suit(&mut self, align: usize) {
        if align > self.align {
            self.align = align;
            self.buffer = AlignedBuffer::new(self.len.next_multiple_of(align), align);
        }
    }
}

impl Engine for Direct {
    fn caps(&self) -> Caps {
        Caps {
            name: EngineName::Direct,
            sees_bytes: true,
            keeps_holes: false,
            shares_extents: false,
            needs_alignment: false,
            streams: false,
            max_job: USEFUL_JOB.max(self.len as u64),
        }
    }

    fn submit(&mut self, job: Job) -> Submitted {
        // The buffer suits both sides, whichever of them will be direct.
        self.suit(align_of(&job.source).max(align_of(&job.dest)));
        let mut transfer = Transfer::new(&*self.kernel, &job);
        let end = copy(&mut transfer, self.buffer.bytes());
        Submitted::Done(transfer.outcome(end))
    }
}

/// What a side's offsets, lengths and buffers are multiples of.
fn align_of(side: &Side) -> usize {
    side.direct.map_or(GRAIN, |align| GRAIN.max(align.memory as usize).max(align.offset as usize))
}

fn copy(transfer: &mut Transfer<'_>, buffer: &mut [u8]) -> End {
    let kernel = transfer.kernel;
    let opened = Switch::new(kernel, &transfer.job.source)
        .map_err(|errno| failed(FailedOn::Read, errno))
        .and_then(|source| Ok((source, Switch::new(kernel, &transfer.job.dest).map_err(write_failed)?)));
    let (mut source, mut dest) = match opened {
        Ok(sides) => sides,
        Err(end) => return end,
    };
    let end = match move_bytes(transfer, &mut source, &mut dest, buffer) {
        Ok(end) | Err(end) => end,
    };
    // A side left direct would make the next engine fail with EINVAL, so this is not passed over.
    let restored = source.restore(kernel).map_err(|errno| failed(FailedOn::Read, errno));
    let restored = restored.and(dest.restore(kernel).map_err(write_failed));
    match (end, restored) {
        (End::Failed(_), _) | (_, Ok(())) => end,
        (_, Err(failure)) => failure,
    }
}

fn write_failed(errno: Errno) -> End {
    failed(FailedOn::Write, errno)
}

fn move_bytes(
    transfer: &mut Transfer<'_>,
    source: &mut Switch<'_>,
    dest: &mut Switch<'_>,
    buffer: &mut [u8],
) -> Result<End, End> {
    while transfer.left() > 0 {
        if !source.capable && !dest.capable {
            return Ok(End::Refused(source.refusal.or(dest.refusal).unwrap_or(Refusal::NoDirectIo)));
        }
        let (at, left) = (transfer.at(), transfer.left());
        // Up to the next aligned offset first; then whole buffers. Reading more than the job wants keeps the length
        // aligned, and the surplus is dropped; a stream would lose it.
        let align = source.align.max(dest.align) as u64;
        let to_aligned = (align - at % align) % align;
        let want = if to_aligned > 0 { to_aligned.min(left) as usize } else { transfer.left_within(buffer.len()) };
        let count = source.read(transfer, buffer, want)?.min(want);
        if count == 0 {
            return Ok(End::SourceEnd);
        }
        let Some(block) = transfer.hole_block() else {
            dest.write(transfer, &buffer[..count])?;
            continue;
        };
        for run in hole::runs(&buffer[..count], at, block) {
            if !(run.zero && transfer.leave_hole(run.range.len() as u64)?) {
                dest.write(transfer, &buffer[run.range])?;
            }
        }
    }
    Ok(End::Complete)
}

/// One side with its flag.
struct Switch<'a> {
    side: &'a Side,
    /// It can still be direct.
    capable: bool,
    align: usize,
    memory: usize,
    was_on: bool,
    on: bool,
    /// What it said when it turned out that it cannot.
    refusal: Option<Refusal>,
}

impl<'a> Switch<'a> {
    fn new(kernel: &dyn Kernel, side: &'a Side) -> Result<Switch<'a>, Errno> {
        let on = kernel.is_direct(side.as_fd())?;
        let capable = side.seekable && side.direct.is_some();
        let memory = side.direct.map_or(1, |align| align.memory.max(1) as usize);
        Ok(Switch { side, capable, align: align_of(side), memory, was_on: on, on, refusal: None })
    }

    fn turn(&mut self, kernel: &dyn Kernel, on: bool) -> Result<(), Errno> {
        if self.on != on {
            kernel.set_direct(self.side.as_fd(), on)?;
            self.on = on;
        }
        Ok(())
    }

    /// Turns it on for what is aligned, off for the rest. A filesystem that refuses is buffered from then on.
    fn turn_for(&mut self, kernel: &dyn Kernel, aligned: bool) -> Result<bool, Errno> {
        if self.capable && aligned {
            match self.turn(kernel, true) {
                Ok(()) => return Ok(true),
                Err(Errno::INVAL) => self.give_up(Errno::INVAL),
                Err(errno) => return Err(errno),
            }
        }
        self.turn(kernel, false)?;
        Ok(false)
    }

    fn give_up(&mut self, errno: Errno) {
        self.capable = false;
        self.refusal = Some(Refusal::Unsupported(errno));
    }

    fn restore(&mut self, kernel: &dyn Kernel) -> Result<(), Errno> {
        self.turn(kernel, self.was_on)
    }

    fn is_aligned(&self, at: u64, bytes: &[u8]) -> bool {
        at.is_multiple_of(self.align as u64) && is_aligned(bytes, self.memory)
    }

    /// Reads once, at least one byte unless the source ends; perhaps more than wanted.
    fn read(&mut self, transfer: &Transfer<'_>, buffer: &mut [u8], want: usize) -> Result<usize, End> {
        let kernel = transfer.kernel;
        let read_failed = |errno| failed(FailedOn::Read, errno);
        let whole = want.next_multiple_of(self.align);
        let aligned = whole <= buffer.len() && self.is_aligned(transfer.at(), buffer);
        if self.turn_for(kernel, aligned).map_err(read_failed)? {
            match again(|| kernel.pread(self.side.as_fd(), &mut buffer[..whole], transfer.at())) {
                Ok(count) => return Ok(count),
                Err(Errno::INVAL) => {
                    self.give_up(Errno::INVAL);
                    self.turn(kernel, false).map_err(read_failed)?;
                }
                Err(errno) => return Err(read_failed(errno)),
            }
        }
        transfer.read(&mut buffer[..want])
    }

    /// Writes all the bytes at the place where the job stands.
    fn write(&mut self, transfer: &mut Transfer<'_>, bytes: &[u8]) -> Result<(), End> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = transfer.at();
            let whole = rest.len() - rest.len() % self.align;
            let direct =
                self.turn_for(transfer.kernel, whole > 0 && self.is_aligned(at, rest)).map_err(write_failed)?;
            let piece = if direct { whole } else { self.buffered_piece(at, rest.len()) };
            match write_some(transfer.kernel, self.side, &rest[..piece], at) {
                Ok(count) => {
                    transfer.moved.written += count as u64;
                    rest = &rest[count..];
                }
                Err(Errno::INVAL) if direct => self.give_up(Errno::INVAL),
                Err(errno) => return Err(write_failed(errno)),
            }
        }
        Ok(())
    }

    /// How much goes through the page cache: up to where direct I/O can go on.
    fn buffered_piece(&self, at: u64, len: usize) -> usize {
        let to_aligned = self.align - (at % self.align as u64) as usize;
        if self.capable { len.min(to_aligned) } else { len }
    }
}
