//! What one thread of a run owns.

use std::borrow::Cow;
use std::sync::Arc;

use haul_io::transfer::Mover;
use haul_sys::inode::DeviceNumber;

use super::run_context::RunContext;
use crate::attributes::DeferredFlags;
use crate::events::{DataReport, Event};
use crate::journal::Record;
use crate::report::Reporter;
use crate::walk::PathCursor;
use crate::work::file_data::{Broken, FileData};

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

    /// Moves the data of a file, reports how that went, and counts.
    pub fn move_data(&mut self, cx: RunContext<'_>, job: &FileData<'_>) -> Result<(), Broken> {
        let (source, dest) = (job.source_path, job.dest_path);
        let observer = cx.session.observer;
        observer.event(&Event::DataStarted { source: source.into(), size: job.transfer.source_inode.size });
        let done = self.mover.move_data(&job.transfer, &cx.plan.data, cx.session.control());
        self.report.stats.count_data(&done);
        let steps = &done.steps;
        let tried =
            if done.known.is_empty() { Cow::from(&done.tried) } else { [&done.known[..], &done.tried].concat().into() };
        observer.event(&Event::DataDone(DataReport {
            source: source.into(),
            dest: dest.into(),
            reasons: Cow::Borrowed(&steps.reasons),
            profile: steps.profile.zip(done.profile_origin.as_deref().map(Cow::Borrowed)),
            tried,
            holes: steps.hole_search(),
            moved: done.moved,
            workers: done.workers,
            time: done.time,
            image: job.image.cloned().map(Arc::new),
        }));
        done.stopped.map_or(Ok(()), |stop| Err(Broken::of(stop, [source, dest])))
    }
}
