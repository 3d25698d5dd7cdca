//! Linux AIO with O_DIRECT: what is left of asynchronous requests where a container refuses io_uring.

use std::sync::Arc;

use haul_sys::kernel::Kernel;
use haul_sys::queue::QueueKind;

use super::queued::Queued;
use super::tuning::Tuning;
use crate::plan::EngineName;

/// Makes the engine; what it works with is made for its first job.
pub(super) fn new(kernel: Arc<dyn Kernel>, tuning: &Tuning) -> Queued {
    Queued::new(kernel, EngineName::LinuxAio, QueueKind::LinuxAio, tuning)
}
