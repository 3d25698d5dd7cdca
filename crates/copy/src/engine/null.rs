//! Moves nothing and says that it did, to measure what all the rest costs. Only for who asks for it by name.

use std::os::fd::AsFd;
use std::sync::Arc;

use haul_sys::kernel::Kernel;

use super::caps::Caps;
use super::contract::{End, Engine, FailedOn, Job, Submitted};
use super::transfer::{Transfer, failed};
use crate::plan::EngineName;

/// Claims to have written everything.
pub(super) struct Null {
    kernel: Arc<dyn Kernel>,
}

impl Null {
    pub(super) fn new(kernel: Arc<dyn Kernel>) -> Null {
        Null { kernel }
    }
}

impl Engine for Null {
    fn caps(&self) -> Caps {
        Caps {
            name: EngineName::Null,
            sees_bytes: true,
            keeps_holes: false,
            shares_extents: false,
            needs_alignment: false,
            streams: true,
            max_job: u64::MAX,
        }
    }

    fn submit(&mut self, job: Job) -> Submitted {
        let mut transfer = Transfer::new(&*self.kernel, &job);
        // It reads nothing, so a stream is as good as ended, and the size is believed.
        let size = if job.source.seekable { self.kernel.size(job.source.as_fd()) } else { Ok(0) };
        let end = match size {
            Ok(size) => {
                transfer.moved.written = size.saturating_sub(job.offset).min(job.len);
                if transfer.left() == 0 { End::Complete } else { End::SourceEnd }
            }
            Err(errno) => failed(FailedOn::Read, errno),
        };
        Submitted::Done(transfer.outcome(end))
    }
}
