//! Engines: ways to move byte ranges between two open files.
//!
//! An engine opens nothing, names nothing and sets no metadata. It either moves bytes and says how many went which
//! way, or refuses, and then the next engine goes on at the exact byte where this one stopped.

pub(crate) mod buffer;
pub(crate) mod calls;
mod caps;
mod clone;
mod contract;
mod copy_range;
mod direct;
mod dontcache;
mod errnos;
mod flight;
pub mod hole;
mod io_uring;
mod linux_aio;
mod mapped;
mod mapped_direct;
mod null;
pub mod parallel;
mod posix_aio;
mod queued;
mod read_write;
mod reference;
mod shape;
mod splice;
pub(crate) mod switch;
pub(crate) mod transfer;
mod tuning;
pub mod wrap;

use std::sync::Arc;

use haul_sys::kernel::{Kernel, Linux};

pub use self::caps::Caps;
pub use self::contract::{DirectAlign, End, Engine, FailedOn, Failure, Job, Outcome, Side, Submitted, Zeros, complete};
pub use self::direct::BUFFER as DIRECT_BUFFER;
pub use self::tuning::Tuning;
pub use crate::moved::{Moved, Refusal};
use crate::plan::EngineName;

/// Makes an engine: the list of all there are.
pub fn make(name: EngineName, tuning: &Tuning) -> Box<dyn Engine> {
    make_on(Arc::new(Linux), name, tuning)
}

/// Makes an engine that works on the given kernel, which tests replace.
pub fn make_on(kernel: Arc<dyn Kernel>, name: EngineName, tuning: &Tuning) -> Box<dyn Engine> {
    match name {
        EngineName::Reference => Box::new(reference::Reference::new(kernel)),
        EngineName::ReadWrite => Box::new(read_write::ReadWrite::new(kernel, tuning)),
        EngineName::CopyRange => Box::new(copy_range::CopyRange::new(kernel)),
        EngineName::Clone => Box::new(clone::Clone::new(kernel)),
        EngineName::Splice => Box::new(splice::Splice::new(kernel, tuning)),
        EngineName::Mapped => Box::new(mapped::Mapped::new(kernel, tuning)),
        EngineName::MappedDirect => Box::new(mapped_direct::MappedDirect::new(kernel, tuning)),
        EngineName::Direct => Box::new(direct::Direct::new(kernel, tuning)),
        EngineName::IoUring => Box::new(io_uring::new(kernel, tuning)),
        EngineName::LinuxAio => Box::new(linux_aio::new(kernel, tuning)),
        EngineName::PosixAio => Box::new(posix_aio::new(kernel, tuning)),
        EngineName::Dontcache => Box::new(dontcache::Dontcache::new(kernel, tuning)),
        EngineName::Null => Box::new(null::Null::new(kernel)),
    }
}
