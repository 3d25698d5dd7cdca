//! `O_DIRECT` on each side that allows it, buffered on the other.
//!
//! Where a side brings an open file of its own for it, that one is used, and several jobs of one file may be under way.
//! Otherwise the flag is switched on and off with fcntl on the one open file, and at the end of a job it is as it was.
//! What cannot be direct (an unaligned head, the tail, a short count's remainder) goes through the page cache; the kernel
//! keeps the two coherent as long as they are not at work on the same page at the same time.

use std::sync::Arc;

use haul_sys::kernel::Kernel;

use super::caps::{Caps, Needs, PageCache};
use super::contract::{End, Engine, FailedOn};
use super::switch::{Switch, align_of, grain, write_failed};
use super::transfer::{Transfer, engine_of, failed};
use super::tuning::{Tuning, USEFUL_JOB, whole_buffers};
use crate::moved::Refusal;

/// Bytes of the buffer unless the user says otherwise. Large requests keep a device busy without a queue of our own (4 GiB
/// cold, ext4 on virtio, 4 workers: 7.2 s with 4 MiB, 5.9 to 6.4 with 8 MiB, 5.3 to 5.9 with 16 MiB; in huge pages 3.6 where
/// single ones took 6.9). Memory is taken only as far as it is used.
pub const BUFFER: usize = 16 << 20;

pub(super) const CAPS: Caps = Caps {
    needs: Needs::Direct,
    page_cache: PageCache::Bypassed,
    whole_pages: true,
    // There may be as many of them as threads.
    kept_buffer: Some(4 << 20),
    piece: BUFFER as u64,
    ..Caps::BUFFERED
};

pub(super) fn make(kernel: Arc<dyn Kernel>, tuning: &Tuning) -> Box<dyn Engine> {
    let tuning = *tuning;
    let buffer_for = move |align| tuning.buffer(tuning.buffer_size_or(BUFFER).next_multiple_of(align), align);
    let mut align = grain();
    let mut buffer = buffer_for(align);
    let caps = Caps { max_job: whole_buffers(USEFUL_JOB, buffer.len()), ..CAPS };
    engine_of(kernel, caps, move |transfer| {
        // The buffer suits both sides, whichever of them will be direct.
        let needed = align_of(&transfer.job.source).max(align_of(&transfer.job.dest));
        if needed > align {
            (align, buffer) = (needed, buffer_for(needed));
        }
        copy(transfer, buffer.bytes())
    })
}

fn copy(transfer: &mut Transfer<'_>, buffer: &mut [u8]) -> Result<End, End> {
    let (kernel, job) = (transfer.kernel, transfer.job);
    let mut source = Switch::new(kernel, &job.source).map_err(|errno| failed(FailedOn::Read, errno))?;
    let mut dest = Switch::new(kernel, &job.dest).map_err(write_failed)?;
    let end = match move_bytes(transfer, &mut source, &mut dest, buffer) {
        Ok(end) | Err(end) => end,
    };
    // A side left direct would make the next engine fail with EINVAL, so this is not passed over.
    let restored = source.restore(kernel).map_err(|errno| failed(FailedOn::Read, errno));
    let restored = restored.and(dest.restore(kernel).map_err(write_failed));
    match (end, restored) {
        (End::Failed(_), _) | (_, Ok(())) => Ok(end),
        (_, Err(failure)) => Err(failure),
    }
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
        transfer.put_by(&buffer[..count], |transfer, bytes| dest.write(transfer, bytes))?;
    }
    Ok(End::Complete)
}
