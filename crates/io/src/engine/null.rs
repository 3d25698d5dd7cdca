//! Moves nothing and says that it did, to measure what all the rest costs. Only for who asks for it by name.

use std::os::fd::AsFd;
use std::sync::Arc;

use haul_sys::kernel::Kernel;

use super::caps::{Caps, Role};
use super::contract::{End, Engine, FailedOn, Job, Submitted};
use super::transfer::{done, failed};
use super::tuning::Tuning;

/// What it can do.
pub(super) const CAPS: Caps = Caps { role: Role::Dummy, streams: true, alone: true, ..Caps::BUFFERED };

/// Makes one.
pub(super) fn make(kernel: Arc<dyn Kernel>, _: &Tuning) -> Box<dyn Engine> {
    Box::new(Null { kernel })
}

/// Claims to have written everything.
struct Null {
    kernel: Arc<dyn Kernel>,
}

impl Engine for Null {
    fn caps(&self) -> Caps {
        CAPS
    }

    fn submit(&mut self, job: Job) -> Submitted {
        done(&*self.kernel, &job, |transfer| {
            // It reads nothing, so a stream is as good as ended, and the size is believed.
            let size = if job.source.seekable { self.kernel.size(job.source.as_fd()) } else { Ok(0) };
            let size = size.map_err(|errno| failed(FailedOn::Read, errno))?;
            transfer.moved.written = size.saturating_sub(job.offset).min(job.len);
            Ok(if transfer.left() == 0 { End::Complete } else { End::SourceEnd })
        })
    }
}
