//! What the engines share: where a job stands, and reading and writing that completes every count.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::kernel::Kernel;

use super::calls::{again, write_some};
use super::caps::Caps;
use super::contract::{End, Engine, FailedOn, Failure, Job, Outcome, Zeros};
use super::hole::{self, Hole};
use crate::moved::{Moved, Refusal};

/// An engine that does its jobs by this function. A job ends with whatever that gives, as an error too.
pub(super) fn engine_of<W>(kernel: Arc<dyn Kernel>, caps: Caps, work: W) -> Box<dyn Engine>
where
    W: FnMut(&mut Transfer<'_>) -> Result<End, End> + Send + 'static,
{
    Box::new(Working { kernel, caps, work })
}

struct Working<W> {
    kernel: Arc<dyn Kernel>,
    caps: Caps,
    work: W,
}

impl<W: FnMut(&mut Transfer<'_>) -> Result<End, End> + Send> Engine for Working<W> {
    fn caps(&self) -> Caps {
        self.caps
    }

    fn run(&mut self, job: &Job) -> Outcome {
        let mut transfer = Transfer::new(&*self.kernel, job);
        let end = match (self.work)(&mut transfer) {
            Ok(end) | Err(end) => end,
        };
        transfer.outcome(end)
    }
}

pub(super) struct Transfer<'a> {
    pub(super) kernel: &'a dyn Kernel,
    pub(super) job: &'a Job,
    pub(super) moved: Moved,
    hole: Hole,
    /// An error of the source that came after bytes that still had to be written.
    pending: Cell<Option<Errno>>,
}

impl<'a> Transfer<'a> {
    fn new(kernel: &'a dyn Kernel, job: &'a Job) -> Transfer<'a> {
        Transfer { kernel, job, moved: Moved::default(), hole: Hole::default(), pending: Cell::new(None) }
    }

    /// The offset of the next byte.
    pub(super) fn at(&self) -> u64 {
        self.job.offset.saturating_add(self.moved.total())
    }

    /// Bytes still wanted.
    pub(super) fn left(&self) -> u64 {
        self.job.len.saturating_sub(self.moved.total())
    }

    /// Bytes still wanted, at most `most`.
    pub(super) fn left_within(&self, most: usize) -> usize {
        usize::try_from(self.left()).map_or(most, |left| left.min(most))
    }

    fn outcome(&self, end: End) -> Outcome {
        // A stream reports an error once: the next job would take the source for ended.
        let end = match self.pending.take() {
            Some(errno) if matches!(end, End::Complete | End::SourceEnd) => failed(FailedOn::Read, errno),
            _ => end,
        };
        Outcome { moved: self.moved, end }
    }

    /// Refuses sides without offsets.
    pub(super) fn need_offsets(&self) -> Result<(), End> {
        let both = self.job.source.seekable && self.job.dest.seekable;
        if both { Ok(()) } else { Err(End::Refused(Refusal::NotSeekable)) }
    }

    /// Refuses a job whose zeros become holes: for engines that do not see bytes.
    pub(super) fn need_all_written(&self) -> Result<(), End> {
        if self.job.zeros == Zeros::Write { Ok(()) } else { Err(End::Refused(Refusal::BlindToBytes)) }
    }

    /// Zeros become holes: the block size in bytes.
    pub(super) fn hole_block(&self) -> Option<u32> {
        match self.job.zeros {
            Zeros::Skip(block) | Zeros::Punch(block) if self.job.dest.seekable => Some(block.max(1)),
            _ => None,
        }
    }

    /// Reads the next bytes once: their number, 0 at the end of the source.
    pub(super) fn read(&self, buffer: &mut [u8]) -> Result<usize, End> {
        self.read_at(buffer, self.at()).map_err(|errno| failed(FailedOn::Read, errno))
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
        let source = &self.job.source;
        if let Some(count) = self.read_elsewhere(buffer, at) {
            return Ok(count);
        }
        again(|| match source.seekable {
            true => self.kernel.pread(source.as_fd(), buffer, at),
            false => self.kernel.read(source.as_fd(), buffer),
        })
    }

    /// Asks those who may have read the source for bytes before its end, of which they know nothing.
    fn read_elsewhere(&self, buffer: &mut [u8], at: u64) -> Option<usize> {
        let source = &self.job.source;
        let elsewhere = source.elsewhere.as_ref().filter(|_| source.seekable)?;
        let left = usize::try_from(source.size?.saturating_sub(at)).unwrap_or(usize::MAX);
        let len = left.min(buffer.len());
        let wanted = buffer.get_mut(..len).filter(|wanted| !wanted.is_empty())?;
        elsewhere.read(wanted, at).map(NonZeroUsize::get)
    }

    /// Reads until the buffer is full or the source ends. An error after the first byte comes with the next call, or with
    /// the outcome.
    pub(super) fn fill(&self, buffer: &mut [u8]) -> Result<usize, End> {
        if let Some(errno) = self.pending.take() {
            return Err(failed(FailedOn::Read, errno));
        }
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(&mut buffer[filled..], self.at().saturating_add(filled as u64)) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(errno) if filled == 0 => return Err(failed(FailedOn::Read, errno)),
                Err(errno) => {
                    self.pending.set(Some(errno));
                    break;
                }
            }
        }
        Ok(filled)
    }

    /// Whether the source has another byte, learnt by reading it. Only for sources with offsets: a stream would lose it.
    pub(super) fn source_has_more(&self) -> Result<bool, End> {
        debug_assert!(self.job.source.seekable);
        Ok(self.read(&mut [0])? > 0)
    }

    /// Writes all the bytes. What was written before an error is counted.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), End> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let count =
                write_some(self.kernel, &self.job.dest, rest, self.at()).map_err(|e| failed(FailedOn::Write, e))?;
            self.moved.written += count as u64;
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Writes the bytes that were read, zeros as the job wants them.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), End> {
        self.put_by(bytes, Transfer::write)
    }

    /// The same; `write` writes what is to be written.
    pub(super) fn put_by(
        &mut self,
        bytes: &[u8],
        mut write: impl FnMut(&mut Self, &[u8]) -> Result<(), End>,
    ) -> Result<(), End> {
        let Some(block) = self.hole_block() else { return write(self, bytes) };
        for run in hole::runs(bytes, self.at(), block) {
            if !(run.zero && self.leave_hole(run.range.len() as u64)?) {
                write(self, &bytes[run.range])?;
            }
        }
        Ok(())
    }

    /// Makes a hole at the place where the job stands, or says that the zeros must be written.
    fn leave_hole(&mut self, len: u64) -> Result<bool, End> {
        let (at, job) = (self.at(), self.job);
        let left = self.hole.leave(self.kernel, &job.dest, at, len, job.zeros).map_err(End::Failed)?;
        if left {
            self.moved.holes += len;
        }
        Ok(left)
    }

    /// Moves the rest of the job through the buffer.
    pub(super) fn through(&mut self, buffer: &mut [u8]) -> Result<End, End> {
        while self.left() > 0 {
            let want = self.want(buffer.len());
            let buffer = &mut buffer[..want];
            // Zeros are looked for in whole blocks, so short counts must not cut them; without that, what a stream
            // has to give is passed on at once.
            let count = if self.hole_block().is_some() { self.fill(buffer)? } else { self.read(buffer)? };
            if count == 0 {
                return Ok(End::SourceEnd);
            }
            let seen = self.seen_end(count, want);
            self.put(&buffer[..count])?;
            if seen {
                return Ok(End::SourceEnd);
            }
        }
        Ok(End::Complete)
    }

    /// Whether a read of `want` bytes that gave `count` of them has met the end: it had room for more, and stopped exactly
    /// where the file is known to end. Spares every small file a read of nothing.
    pub(super) fn seen_end(&self, count: usize, want: usize) -> bool {
        let source = &self.job.source;
        count < want && source.seekable && source.size == self.at().checked_add(count as u64)
    }

    /// How much to read next: the whole buffer, but ending at a block's end where zeros become holes.
    pub(super) fn want(&self, buffer: usize) -> usize {
        let want = self.left_within(buffer);
        let Some(block) = self.hole_block() else { return want };
        // At most u32::MAX, so it fits.
        let over = (self.at().saturating_add(want as u64) % u64::from(block)) as usize;
        if over < want { want - over } else { want }
    }
}

pub(super) fn failed(on: FailedOn, errno: Errno) -> End {
    End::Failed(Failure { on, errno })
}
