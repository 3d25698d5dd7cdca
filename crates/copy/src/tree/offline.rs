//! Files that an archive has taken away, where the plan leaves them out: reading them would bring them back.

use crate::context::{RunContext, Worker};
use crate::decide;
use crate::events::{Action, Event, Planned, Reason};
use crate::work::entry::Subject;

/// Whether the copy would read a file whose contents are in an archive, and the plan does not want that.
pub(crate) fn is_left_out(cx: RunContext<'_>, subject: &Subject<'_>) -> bool {
    decide::is_left_to_archives(subject.inode.kind, cx.plan)
        && cx.services.offline.contain(subject.source, &subject.inode, subject.follow())
}

/// Says that a dry run would pass over such a file, of which nothing stands at the destination.
pub(crate) fn would_be_passed_over(worker: &mut Worker<'_>, subject: &Subject<'_>) -> bool {
    let is_left_out = is_left_out(worker.cx, subject);
    if is_left_out {
        worker.report.stats.skipped += 1;
        worker.report.stats.offline += 1;
        let planned = Planned::new(Action::Skip, subject.source.path, subject.dest.path);
        worker.report.tell(&Event::Planned(Planned { reason: Some(Reason::Offline), ..planned }));
    }
    is_left_out
}
