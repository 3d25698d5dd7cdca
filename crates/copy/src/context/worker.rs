//! What one thread of a run owns.

use std::sync::Arc;

use haul_sys::inode::DeviceNumber;

use super::run_context::RunContext;
use crate::attributes::DeferredFlags;
use crate::journal::Record;
use crate::report::Reporter;
use crate::transfer::Mover;
use crate::walk::PathCursor;

/// What one thread of a run owns. Nothing in it is about one file.
pub(crate) struct Worker<'a> {
    pub report: Reporter<'a>,
    /// Moves data; owns the engines.
    pub mover: Mover,
    /// What was finished since the journal was written last.
    pub finished: Vec<Record>,
    /// Files whose last flags wait for their last hard link.
    pub deferred: Vec<DeferredFlags>,
    /// The filesystem that was written to last, where that matters.
    pub writes_to: Option<DeviceNumber>,
    /// Memory for the two paths of the next entry of a directory.
    pub paths: [PathCursor; 2],
}

impl<'a> Worker<'a> {
    /// Nothing is done yet.
    pub fn new(cx: RunContext<'a>) -> Worker<'a> {
        Worker {
            report: Reporter::new(cx.session, cx.plan.fail_fast),
            mover: Mover::new(Arc::clone(&cx.services.transfers)),
            finished: Vec::new(),
            deferred: Vec::new(),
            writes_to: None,
            paths: Default::default(),
        }
    }
}
