//! Linux AIO with O_DIRECT: what is left of asynchronous requests where a container refuses io_uring.

use std::sync::Arc;

use haul_sys::kernel::Kernel;
use haul_sys::queue::QueueKind;

use super::caps::{Caps, Needs};
use super::contract::Engine;
use super::queued::{self, Queued};
use super::tuning::Tuning;

/// What it can do.
pub(super) const CAPS: Caps = Caps { needs: Needs::Direct, ..queued::CAPS };

/// Makes one; what it works with is made for its first job.
pub(super) fn make(kernel: Arc<dyn Kernel>, tuning: &Tuning) -> Box<dyn Engine> {
    Box::new(Queued::new(kernel, CAPS, QueueKind::LinuxAio, tuning))
}
