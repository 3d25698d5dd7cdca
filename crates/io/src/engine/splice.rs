//! `splice`: source to pipe to destination, without a copy in memory of this process; made for streams.

use std::iter;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::kernel::Kernel;

use super::calls::again;
use super::caps::{Caps, Way};
use super::contract::{End, Engine, FailedOn};
use super::errnos::refuses_splice;
use super::mapped::source_size;
use super::transfer::{Transfer, engine_of, failed};
use super::tuning::{Tuning, USEFUL_JOB, whole_buffers};
use crate::moved::{Moved, Refusal};

/// The size that pipes have anyway. Between warm files of 512 MiB (Linux 6.18) larger ones were slower: ext4 to XFS took
/// 0.7 of cp's time with 64 KiB and 1.1 with 256 KiB, ext4 to ext4 5 with 1 MiB, for the reason given at the buffer of
/// read-write. A noisy machine, n = 9: a rough guide.
const PIPE: usize = 64 << 10;

/// What a pipe holds as it is made.
const USUAL: usize = 1 << 16;

pub(super) const CAPS: Caps =
    Caps { sees_bytes: false, streams: true, way: Way::Offloaded, alone: true, ..Caps::BUFFERED };

pub(super) fn make(kernel: Arc<dyn Kernel>, tuning: &Tuning) -> Box<dyn Engine> {
    let size = tuning.buffer_size_or(PIPE);
    // Empty between jobs: a pipe that bytes were left in is thrown away.
    let mut pipe = None;
    let caps = Caps { max_job: whole_buffers(USEFUL_JOB, size), ..CAPS };
    engine_of(kernel, caps, move |transfer| move_pages(transfer, &mut pipe, size))
}

struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    size: usize,
}

fn move_pages(transfer: &mut Transfer<'_>, kept: &mut Option<Pipe>, size: usize) -> Result<End, End> {
    transfer.need_all_written()?;
    // Taken out for the time of the job, so that every way out but the good ones loses the pipe and what is in it.
    let pipe = match kept.take() {
        Some(pipe) => pipe,
        None => Pipe::new(transfer.kernel, size).map_err(|errno| failed(FailedOn::Copy, errno))?,
    };
    let end = loop {
        if transfer.left() == 0 {
            break End::Complete;
        }
        match pipe.fill(transfer)? {
            Filled::Bytes(count) => {
                let (start, before) = (transfer.at(), transfer.moved);
                let refused = pipe.empty(transfer, count)?;
                look_for_truncation(transfer, start, before)?;
                if let Some(refusal) = refused {
                    break End::Refused(refusal);
                }
            }
            Filled::Nothing(end) => break end,
        }
    };
    *kept = Some(pipe);
    Ok(end)
}

/// The pages in the pipe are those of the source: what was cut off meanwhile became zeros in them, too, and does not count.
fn look_for_truncation(transfer: &mut Transfer<'_>, start: u64, before: Moved) -> Result<(), End> {
    if transfer.job.source.size.is_none() {
        return Ok(());
    }
    let size = source_size(transfer)?;
    if size < transfer.at() {
        transfer.moved = before;
        transfer.moved.offloaded += size.saturating_sub(start);
        return Err(failed(FailedOn::Truncated, Errno::NODATA));
    }
    Ok(())
}

enum Filled {
    Bytes(usize),
    Nothing(End),
}

impl Pipe {
    fn new(kernel: &dyn Kernel, size: usize) -> Result<Pipe, Errno> {
        let (out, into) = kernel.pipe()?;
        // Refused (EPERM) beyond /proc/sys/fs/pipe-max-size, and to users who have many pipes already: half of it then, down
        // to what it is, 64 KiB as a rule.
        let halves = iter::successors(Some(size), |size| Some(size / 2)).take_while(|size| *size > USUAL);
        let granted = halves.map(|size| kernel.set_pipe_size(into.as_fd(), size)).find_map(Result::ok);
        let small = || kernel.set_pipe_size(into.as_fd(), size.min(USUAL)).unwrap_or(USUAL);
        let size = granted.unwrap_or_else(small);
        Ok(Pipe { out, into, size })
    }

    /// Moves bytes from the source into the pipe, which is empty.
    fn fill(&self, transfer: &Transfer<'_>) -> Result<Filled, End> {
        let source = &transfer.job.source;
        let from = source.seekable.then(|| transfer.at());
        let want = transfer.left_within(self.size);
        match again(|| transfer.kernel.splice((source.as_fd(), from), (self.into.as_fd(), None), want)) {
            Ok(0) if source.seekable && transfer.source_has_more()? => {
                Ok(Filled::Nothing(End::Refused(Refusal::NoProgress)))
            }
            Ok(0) => Ok(Filled::Nothing(End::SourceEnd)),
            Ok(count) => Ok(Filled::Bytes(count)),
            Err(errno) if refuses_splice(errno) => Ok(Filled::Nothing(End::Refused(Refusal::Unsupported(errno)))),
            Err(errno) => Err(failed(FailedOn::Read, errno)),
        }
    }

    /// Moves the `count` bytes in the pipe to the destination, by writing them where splice refuses: a stream could not
    /// give them a second time. In that case also tells why.
    fn empty(&self, transfer: &mut Transfer<'_>, count: usize) -> Result<Option<Refusal>, End> {
        let mut left = count;
        while left > 0 {
            let dest = &transfer.job.dest;
            let to = dest.seekable.then(|| transfer.at());
            match again(|| transfer.kernel.splice((self.out.as_fd(), None), (dest.as_fd(), to), left)) {
                Ok(0) => return self.drain(transfer, left).map(|()| Some(Refusal::NoProgress)),
                Ok(count) => {
                    transfer.moved.offloaded += count as u64;
                    left -= count;
                }
                Err(errno) if refuses_splice(errno) => {
                    return self.drain(transfer, left).map(|()| Some(Refusal::Unsupported(errno)));
                }
                Err(errno) => return Err(failed(FailedOn::Write, errno)),
            }
        }
        Ok(None)
    }

    fn drain(&self, transfer: &mut Transfer<'_>, mut left: usize) -> Result<(), End> {
        let mut buffer = vec![0; left.min(1 << 16)];
        while left > 0 {
            let want = left.min(buffer.len());
            let kernel = transfer.kernel;
            match again(|| kernel.read(self.out.as_fd(), &mut buffer[..want])) {
                // Both ends are ours, and the bytes are in it.
                Ok(0) => return Err(failed(FailedOn::Read, Errno::IO)),
                Ok(count) => {
                    transfer.write(&buffer[..count])?;
                    left -= count;
                }
                Err(errno) => return Err(failed(FailedOn::Read, errno)),
            }
        }
        Ok(())
    }
}
