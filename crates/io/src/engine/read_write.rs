//! `pread` and `pwrite`, or `read` and `write` where there are no offsets, with a buffer of any size.

use std::sync::Arc;

use haul_sys::kernel::Kernel;
use haul_sys::rustix::param::page_size;

use super::caps::Caps;
use super::contract::Engine;
use super::transfer::engine_of;
use super::tuning::{Tuning, USEFUL_JOB, whole_buffers};

/// Large enough that system calls do not show, small enough to stay in the second-level cache.
///
/// Not more: ext4 and XFS (Linux 6.18) take the page cache in folios as large as the write, and in a virtual machine that
/// hands free memory back to its host large ones come from blocks that the host must fill in again. A warm copy of 4 GiB to
/// XFS returned after 0.9 to 1.1 s with 128 KiB and after 1.7 to 3.9 s, with three times the CPU time, with 256 KiB.
const BUFFER: usize = 128 << 10;

pub(super) const CAPS: Caps = Caps { streams: true, ..Caps::BUFFERED };

pub(super) fn make(kernel: Arc<dyn Kernel>, tuning: &Tuning) -> Box<dyn Engine> {
    let mut buffer = tuning.buffer(tuning.buffer_size_or(BUFFER), page_size());
    let caps = Caps { max_job: whole_buffers(USEFUL_JOB, buffer.len()), ..CAPS };
    engine_of(kernel, caps, move |transfer| transfer.through(buffer.bytes()))
}
