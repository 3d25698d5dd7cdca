//! `copy_file_range`: the kernel copies, a server copies, or extents are shared, as the filesystem likes.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use haul_sys::Errno;
use haul_sys::alarm::Alarm;
use haul_sys::kernel::Kernel;

use super::caps::{Caps, Needs, Shares, Way};
use super::contract::{End, Engine, FailedOn};
use super::errnos::refuses_offload;
use super::transfer::{Transfer, engine_of, failed};
use super::tuning::{Tuning, USEFUL_JOB};
use crate::moved::Refusal;

/// Most that is asked of one call. The kernel stops at 2,147,479,552 bytes; glibc 2.41 and 2.42 mangle counts above 2 GiB.
const MOST: usize = 1 << 30;

pub(super) const CAPS: Caps = Caps {
    needs: Needs::OneFilesystem,
    sees_bytes: false,
    // XFS and btrfs keep them; ext4, tmpfs and overlayfs fill them (Linux 6.18).
    keeps_holes: false,
    // It may share (XFS, btrfs) or not (ext4).
    shares: Shares::Perhaps,
    way: Way::Offloaded,
    piece: 16 << 20,
    ..Caps::BUFFERED
};

pub(super) fn make(kernel: Arc<dyn Kernel>, tuning: &Tuning) -> Box<dyn Engine> {
    let patience = tuning.patience;
    engine_of(kernel, Caps { max_job: 2 * USEFUL_JOB, ..CAPS }, move |transfer| copy(transfer, patience))
}

fn copy(transfer: &mut Transfer<'_>, patience: Option<Duration>) -> Result<End, End> {
    let job = transfer.job;
    transfer.need_offsets()?;
    transfer.need_all_written()?;
    while transfer.left() > 0 {
        let (at, want) = (transfer.at(), transfer.left_within(MOST));
        let kernel = transfer.kernel;
        let alarm = patience.and_then(Alarm::after);
        match kernel.copy_file_range(job.source.as_fd(), job.dest.as_fd(), at, want) {
            // What a server may still write there are the bytes that the next engine writes.
            Err(Errno::INTR) if alarm.is_some_and(|alarm| alarm.is_over()) => {
                return Ok(End::Refused(Refusal::NoAnswer));
            }
            Err(Errno::INTR) => {}
            // On virtual filesystems it moved nothing and said so without an error (Linux 5.3 to 5.18): only a read
            // knows the end.
            Ok(0) if transfer.source_has_more()? => return Ok(End::Refused(Refusal::NoProgress)),
            Ok(0) => return Ok(End::SourceEnd),
            Ok(count) => {
                let seen = transfer.seen_end(count, want);
                transfer.moved.offloaded += count as u64;
                // The kernel cuts the count to the size that it knows, which may be less than what a read gives (FUSE).
                if seen && transfer.source_has_more()? {
                    return Ok(End::Refused(Refusal::NoProgress));
                }
                if seen {
                    return Ok(End::SourceEnd);
                }
            }
            // At the largest offset of the filesystem it does not look whether there is anything to copy.
            Err(Errno::FBIG) if !transfer.source_has_more()? => return Ok(End::SourceEnd),
            Err(errno) if refuses_offload(errno) => return Ok(End::Refused(Refusal::Unsupported(errno))),
            Err(errno) => return Err(failed(FailedOn::Copy, errno)),
        }
    }
    Ok(End::Complete)
}
