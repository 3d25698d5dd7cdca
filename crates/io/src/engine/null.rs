//! Moves nothing and says that it did, to measure what all the rest costs. Only for who asks for it by name.

use std::os::fd::AsFd;
use std::sync::Arc;

use haul_sys::kernel::Kernel;

use super::caps::{Caps, Role};
use super::contract::{End, Engine, FailedOn};
use super::transfer::{engine_of, failed};
use super::tuning::Tuning;

pub(super) const CAPS: Caps = Caps { role: Role::Dummy, streams: true, alone: true, ..Caps::BUFFERED };

pub(super) fn make(kernel: Arc<dyn Kernel>, _: &Tuning) -> Box<dyn Engine> {
    engine_of(kernel, CAPS, |transfer| {
        let job = transfer.job;
        // It reads nothing, so a stream is as good as ended, and the size is believed.
        let size = if job.source.seekable { transfer.kernel.size(job.source.as_fd()) } else { Ok(0) };
        let size = size.map_err(|errno| failed(FailedOn::Read, errno))?;
        transfer.moved.written = size.saturating_sub(job.offset).min(job.len);
        Ok(if transfer.left() == 0 { End::Complete } else { End::SourceEnd })
    })
}
