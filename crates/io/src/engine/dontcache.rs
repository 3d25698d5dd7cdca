//! `preadv2` and `pwritev2` with RWF_DONTCACHE (Linux 6.14): through the page cache, but nothing stays there that was not
//! there before. Needs no alignment. Writing begins at once, so the copy is on the device little after the last byte.

use std::os::fd::AsFd;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::kernel::Kernel;
use haul_sys::rustix::param::page_size;

use super::calls::again;
use super::caps::{Caps, Needs, PageCache};
use super::contract::{End, Engine, FailedOn};
use super::transfer::{Transfer, engine_of, failed};
use super::tuning::{Tuning, USEFUL_JOB, whole_buffers};
use crate::moved::Refusal;

/// Larger than for ordinary buffered copies: each write starts its own request to the device.
const BUFFER: usize = 1 << 20;

pub(super) const CAPS: Caps = Caps { needs: Needs::Dontcache, page_cache: PageCache::Dropped, ..Caps::BUFFERED };

pub(super) fn make(kernel: Arc<dyn Kernel>, tuning: &Tuning) -> Box<dyn Engine> {
    let mut buffer = tuning.buffer(tuning.buffer_size_or(BUFFER), page_size());
    let caps = Caps { max_job: whole_buffers(USEFUL_JOB, buffer.len()), ..CAPS };
    engine_of(kernel, caps, move |transfer| copy(transfer, buffer.bytes()))
}

/// A side that lacks the flag is read or written as usual, as long as the other one has it.
struct Sides {
    read: bool,
    write: bool,
    refusal: Option<Refusal>,
}

impl Sides {
    /// A refusal once both sides lack it.
    fn check(&self) -> Result<(), End> {
        match self.refusal {
            Some(refusal) if !self.read && !self.write => Err(End::Refused(refusal)),
            _ => Ok(()),
        }
    }
}

/// The filesystem (EOPNOTSUPP), the kernel (EOPNOTSUPP before 6.14, ENOSYS before 4.6) or a sandbox has none of this.
fn lacks(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::PERM)
}

fn copy(transfer: &mut Transfer<'_>, buffer: &mut [u8]) -> Result<End, End> {
    transfer.need_offsets()?;
    let mut sides = Sides { read: true, write: true, refusal: None };
    while transfer.left() > 0 {
        sides.check()?;
        let want = transfer.want(buffer.len());
        let count = fill(transfer, &mut sides, &mut buffer[..want])?;
        if count == 0 {
            return Ok(End::SourceEnd);
        }
        transfer.put_by(&buffer[..count], |transfer, bytes| write(transfer, &mut sides, bytes))?;
    }
    Ok(End::Complete)
}

/// Reads until the buffer is full or the source ends. An error after the first byte is met again by the next read.
fn fill(transfer: &Transfer<'_>, sides: &mut Sides, buffer: &mut [u8]) -> Result<usize, End> {
    let (kernel, source) = (transfer.kernel, transfer.job.source.as_fd());
    let mut filled = 0;
    while filled < buffer.len() {
        let at = transfer.at().saturating_add(filled as u64);
        let rest = &mut buffer[filled..];
        let count = match sides.read {
            true => again(|| kernel.pread_dontcache(source, rest, at)),
            false => again(|| kernel.pread(source, rest, at)),
        };
        match count {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(errno) if sides.read && lacks(errno) => {
                sides.read = false;
                sides.refusal = Some(Refusal::Unsupported(errno));
                sides.check()?;
            }
            Err(errno) if filled == 0 => return Err(failed(FailedOn::Read, errno)),
            // Offsets allow to ask again: the error comes with the next read of that byte.
            Err(_) => break,
        }
    }
    Ok(filled)
}

fn write(transfer: &mut Transfer<'_>, sides: &mut Sides, bytes: &[u8]) -> Result<(), End> {
    let (kernel, dest) = (transfer.kernel, transfer.job.dest.as_fd());
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = transfer.at();
        let count = match sides.write {
            true => again(|| kernel.pwrite_dontcache(dest, rest, at)),
            false => again(|| kernel.pwrite(dest, rest, at)),
        };
        match count {
            Ok(0) => return Err(failed(FailedOn::Write, Errno::NOSPC)),
            Ok(count) => {
                transfer.moved.written += count as u64;
                rest = &rest[count..];
            }
            Err(errno) if sides.write && lacks(errno) => {
                sides.write = false;
                sides.refusal = Some(Refusal::Unsupported(errno));
                sides.check()?;
            }
            Err(errno) => return Err(failed(FailedOn::Write, errno)),
        }
    }
    Ok(())
}
