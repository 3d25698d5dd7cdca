//! A segment of the source that is mapped and moved, for the engines that write straight from a mapping.

use std::os::fd::AsFd;

use haul_sys::Errno;
use haul_sys::map::Mapping;

use super::contract::{End, FailedOn};
use super::errnos::refuses_map;
use super::transfer::{Transfer, failed};
use crate::moved::Refusal;

/// The size of the source now.
pub(super) fn source_size(transfer: &Transfer<'_>) -> Result<u64, End> {
    transfer.kernel.size(transfer.job.source.as_fd()).map_err(|errno| failed(FailedOn::Read, errno))
}

/// Maps the next `len` bytes of the source and `before` bytes in front of them, and lets `write` move them.
pub(super) fn move_segment<'a>(
    transfer: &mut Transfer<'a>,
    before: usize,
    len: usize,
    write: impl FnOnce(&mut Transfer<'a>, &Mapping) -> Result<Option<Refusal>, End>,
) -> Result<Option<Refusal>, End> {
    let (kernel, job, start) = (transfer.kernel, transfer.job, transfer.at());
    let mapping = match kernel.map(job.source.as_fd(), start - before as u64, before + len) {
        Ok(mapping) => mapping,
        Err(errno) if refuses_map(errno) => return Ok(Some(Refusal::Unsupported(errno))),
        Err(errno) => return Err(failed(FailedOn::Read, errno)),
    };
    let moved_before = transfer.moved;
    let written = write(transfer, &mapping);
    // The last page of a truncated file still gives zeros where the file has ended, so a full count proves nothing.
    let size = source_size(transfer)?;
    if size < start + len as u64 {
        let kept = size.saturating_sub(start).min(transfer.at() - start);
        transfer.moved = moved_before;
        transfer.moved.written += kept;
        return Err(failed(FailedOn::Truncated, Errno::NODATA));
    }
    written
}
