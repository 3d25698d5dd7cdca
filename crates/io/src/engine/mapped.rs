//! `write` straight from a mapping of the source, as Solaris cp does it: mapped in segments of 8 MiB, small files read
//! instead.
//!
//! The mapped pages are touched by the kernel alone, inside write(2), so a source that is truncated meanwhile gives a short
//! count or EFAULT, never SIGBUS.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::kernel::Kernel;
use haul_sys::map::Mapping;
use haul_sys::rustix::param::page_size;

use super::calls::again;
use super::caps::Caps;
use super::contract::{End, Engine, FailedOn};
use super::errnos::refuses_map;
use super::transfer::{Transfer, engine_of, failed};
use super::tuning::{Tuning, USEFUL_JOB, whole_buffers};
use crate::moved::Refusal;

/// The segment of Solaris cp (MAXMAPSIZE).
const SEGMENT: usize = 8 << 20;
/// Bytes of one write unless the user says otherwise: as large are the folios that the page cache takes for the copy, and
/// larger ones may be dear (see `read_write`; 4 GiB to XFS returned after 1.0 s, with writes of 1 MiB after 11.7 s).
const WRITE: usize = 128 << 10;
/// Files smaller than this are read: setting up a mapping costs more than copying them (SMALLFILESIZE of Solaris cp).
const SMALL: u64 = 32 << 10;
/// For what is read.
const BUFFER: usize = 64 << 10;

pub(super) const CAPS: Caps =
    Caps { sees_bytes: false, unit: Some(SEGMENT as u64), whole_pages: true, ..Caps::BUFFERED };

pub(super) fn make(kernel: Arc<dyn Kernel>, tuning: &Tuning) -> Box<dyn Engine> {
    let segment = tuning.buffer_size_or(SEGMENT).next_multiple_of(page_size());
    let write = if tuning.buffer_size.is_some() { segment } else { WRITE };
    let mut buffer = vec![0; BUFFER];
    let caps = Caps { max_job: whole_buffers(USEFUL_JOB, segment), ..CAPS };
    engine_of(kernel, caps, move |transfer| copy(transfer, (segment, write), &mut buffer))
}

fn copy(transfer: &mut Transfer<'_>, (segment, write): (usize, usize), buffer: &mut [u8]) -> Result<End, End> {
    let job = transfer.job;
    if !job.source.seekable {
        return Ok(End::Refused(Refusal::NotSeekable));
    }
    transfer.need_all_written()?;
    while transfer.left() > 0 {
        let size = source_size(transfer)?;
        if size < SMALL || size <= transfer.at() {
            // Also the end of every file, since only a read knows it.
            return transfer.through(buffer);
        }
        let room = usize::try_from(size - transfer.at()).unwrap_or(usize::MAX);
        let len = transfer.left_within(segment).min(room);
        // Mappings begin at a page; the remainder is smaller than one.
        let before = (transfer.at() % page_size() as u64) as usize;
        let refused = move_segment(transfer, before, len, |transfer, mapping| {
            write_mapping(transfer, mapping, before..before + len, write, buffer).map(|()| None)
        });
        if let Some(refusal) = refused? {
            return Ok(End::Refused(refusal));
        }
    }
    Ok(End::Complete)
}

fn write_mapping(
    transfer: &mut Transfer<'_>,
    mapping: &Mapping,
    range: Range<usize>,
    write: usize,
    buffer: &mut [u8],
) -> Result<(), End> {
    let (kernel, dest) = (transfer.kernel, &transfer.job.dest);
    let Range { mut start, end } = range;
    while start < end {
        let to = dest.seekable.then(|| transfer.at());
        let most = (end - start).min(write);
        match again(|| kernel.write_mapped(dest.as_fd(), mapping, start, most, to)) {
            Ok(0) => return Err(failed(FailedOn::Write, Errno::NOSPC)),
            Ok(count) => {
                transfer.moved.written += count as u64;
                start += count;
            }
            // A page is gone or cannot be read in. What read says about it is an error to report, the end, or bytes.
            Err(Errno::FAULT) => {
                let want = buffer.len().min(end - start).min(page_size());
                let count = transfer.read(&mut buffer[..want])?;
                if count == 0 {
                    return Err(failed(FailedOn::Truncated, Errno::NODATA));
                }
                transfer.write(&buffer[..count])?;
                start += count;
            }
            Err(errno) => return Err(failed(FailedOn::Write, errno)),
        }
    }
    Ok(())
}

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
