//! Files that an archive has taken away, where the plan leaves them out: reading them would bring them back.

use crate::context::{RunContext, Worker};
use crate::decide;
use crate::events::{Action, Event, Kept, Planned, Reason};
use crate::finish::moved;
use crate::tree::existing;
use crate::work::entry::Subject;

/// Whether the copy would read a file whose contents are in an archive, and the plan does not want that.
pub(crate) fn is_left_out(cx: RunContext<'_>, subject: &Subject<'_>) -> bool {
    decide::is_left_to_archives(subject.inode.kind, cx.plan)
        && cx.services.offline.contain(subject.source, &subject.inode, subject.follow())
}

/// Passes over such a file, of which nothing stands at the destination that would have to be decided about.
pub(crate) fn is_passed_over(worker: &mut Worker<'_>, subject: &Subject<'_>) -> bool {
    let is_left_out = is_left_out(worker.cx, subject);
    if is_left_out {
        existing::pass_over(&mut worker.report, subject, Kept::Offline);
        moved::let_stay(worker, &subject.inode, subject.level.dir);
    }
    is_left_out
}

/// The same in a dry run.
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
