//! `FICLONE` and `FICLONERANGE`: the destination shares the extents of the source.

use std::os::fd::AsFd;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::kernel::Kernel;

use super::calls::again;
use super::caps::{Caps, Needs, Shares, Way};
use super::contract::{End, Engine, FailedOn};
use super::errnos::refuses_clone;
use super::transfer::{Transfer, engine_of, failed};
use super::tuning::Tuning;
use crate::moved::Refusal;

pub(super) const CAPS: Caps = Caps {
    needs: Needs::SharedExtents,
    sees_bytes: false,
    keeps_holes: true,
    shares: Shares::Always,
    needs_alignment: true,
    way: Way::Cloned,
    alone: true,
    ..Caps::BUFFERED
};

pub(super) fn make(kernel: Arc<dyn Kernel>, _: &Tuning) -> Box<dyn Engine> {
    engine_of(kernel, CAPS, share)
}

fn share(transfer: &mut Transfer<'_>) -> Result<End, End> {
    let (kernel, job) = (transfer.kernel, transfer.job);
    transfer.need_offsets()?;
    transfer.need_all_written()?;
    let size = kernel.size(job.source.as_fd()).map_err(|errno| failed(FailedOn::Read, errno))?;
    let dest_size = kernel.size(job.dest.as_fd()).map_err(|errno| failed(FailedOn::Write, errno))?;
    let whole_file = job.offset == 0 && job.len >= size && dest_size == 0;
    if size <= job.offset {
        // Nothing there to share, if the size does not lie as in /proc or of a device.
        if transfer.source_has_more()? {
            return Ok(End::Refused(Refusal::NoProgress));
        }
        // An empty file is shared all the same: whoever insists on it hears whether the filesystem can.
        if !whole_file {
            return Ok(End::SourceEnd);
        }
    }
    if whole_file {
        return share_file(transfer, size);
    }
    share_range(transfer, size, dest_size)
}

/// The whole file: works also where ranges would be misaligned (OpenZFS has blocks of up to 16 MiB).
fn share_file(transfer: &mut Transfer<'_>, size: u64) -> Result<End, End> {
    let (kernel, job) = (transfer.kernel, transfer.job);
    let shared = again(|| kernel.clone_file(job.source.as_fd(), job.dest.as_fd()));
    let gained = kernel.size(job.dest.as_fd()).map_err(|errno| failed(FailedOn::Write, errno))?;
    match shared {
        Ok(()) => {
            // XFS from 4.20 until the fix of 3fc9f5e40931 said success after ENOSPC or EDQUOT half way. A source that was cut
            // meanwhile gives less, too.
            let size_now = || kernel.size(job.source.as_fd()).map_err(|errno| failed(FailedOn::Read, errno));
            if gained < size && gained < size_now()? {
                return Err(failed(FailedOn::Copy, Errno::NOSPC));
            }
            // The source may have grown since its size was asked for, and the clone has it all.
            transfer.moved.cloned = gained.min(job.len);
            Ok(if gained >= job.len { End::Complete } else { End::SourceEnd })
        }
        // Only an untouched destination may go to another engine: OpenZFS leaves a failed clone undefined.
        Err(errno) if refuses_clone(errno) && gained == 0 => Ok(End::Refused(Refusal::Unsupported(errno))),
        Err(errno) => Err(failed(FailedOn::Copy, errno)),
    }
}

/// Whole blocks, and the rest of the last one if both files end there.
fn share_range(transfer: &mut Transfer<'_>, size: u64, dest_size: u64) -> Result<End, End> {
    let (kernel, job) = (transfer.kernel, transfer.job);
    let block = kernel.block_size(job.dest.as_fd()).map_err(|errno| failed(FailedOn::Write, errno))?.max(1);
    if job.offset % block != 0 {
        return Ok(End::Refused(Refusal::Misaligned));
    }
    let end = job.offset.saturating_add(job.len).min(size);
    // Behind a partial block the destination would lose bytes, and the kernel answers EINVAL.
    let end = if end == size && dest_size <= end { end } else { end - end % block };
    let len = end - job.offset;
    if len > 0 {
        match again(|| kernel.clone_range(job.source.as_fd(), job.dest.as_fd(), job.offset, len)) {
            Ok(()) => transfer.moved.cloned = len,
            Err(errno) if refuses_clone(errno) => return Ok(End::Refused(Refusal::Unsupported(errno))),
            Err(errno) => return Err(failed(FailedOn::Copy, errno)),
        }
    }
    if transfer.left() == 0 {
        return Ok(End::Complete);
    }
    Ok(if transfer.source_has_more()? { End::Refused(Refusal::Misaligned) } else { End::SourceEnd })
}
