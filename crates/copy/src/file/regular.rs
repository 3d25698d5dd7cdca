//! The way of one file, from what was seen of its source to the name of its copy: everything that happens to it, in order.
//!
//! Both sides are opened ([`open`]), the data is moved and, if that is asked for, read again ([`fill`]), the attributes are
//! set and the file is closed ([`close`]). Where the plan wants that, all this happens under a temporary name in the directory
//! of the final one ([`temporary_file`]), which the file gets at last: at once, or when it is on its device.

use std::os::fd::AsFd;
use std::time::Instant;

use crate::attributes::Set;
use crate::context::{RunContext, Worker};
use crate::decide::copied_as_regular;
use crate::facts::FileId;
use crate::file::{check, close, fill, open, special, temporary_file};
use crate::finish::{naming, shard, written};
use crate::report::Reported;
use crate::work::dest_state::DestState;
use crate::work::file_outcome::FileOutcome;
use crate::work::subject::Subject;
use crate::work::unfinished::Unfinished;

/// Makes the copy of what is neither a directory nor to be a link to the source, and says which file it is, if that is known.
pub(crate) fn make_file(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    subject: &mut Subject<'_>,
    state: &DestState,
) -> Result<Option<FileId>, Reported> {
    if !temporary_file::is_needed(cx, subject, state) {
        let outcome = copy(cx, worker, subject, state, &mut Unfinished::default())?;
        naming::tell_digest(&worker.report, subject.dest.path, &outcome.checked);
        return Ok(outcome.id);
    }
    let (temporary, new, mut unfinished) = temporary_file::begin(cx, &mut worker.report, subject, state)?;
    let spot = temporary.spot(subject.dest, &temporary.name);
    let sides = subject.sides.filter(|_| temporary.dir.is_none());
    let mut made = Subject { dest: spot, sides, opened: subject.opened.take(), ..*subject };
    let result = match copy(cx, worker, &mut made, &new, &mut unfinished) {
        Ok(outcome) => {
            let id = outcome.id;
            shard::note_for_other_names(cx, &mut worker.report, subject, spot);
            // A copy that is not what it must be gets its name, but no other ones. What waits for its name still needs
            // its backup.
            let backed_up = outcome.unsynced.is_some() && state.backup.is_some();
            let may_have_other_names = outcome.attributes_kept || backed_up;
            let published = temporary_file::publish_or_wait(cx, worker, &temporary, spot, subject, outcome);
            if published && may_have_other_names { Ok(id) } else { Err(Reported) }
        }
        Err(Reported) => {
            // A node whose attributes could not be kept. Everything else has gone already, or stays for the next run.
            if !unfinished.left {
                spot.unlink().ok();
            }
            Err(Reported)
        }
    };
    cx.session.partials.done();
    result
}

/// Copies contents and attributes into a new file of this name, or into what stands there.
fn copy(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    subject: &mut Subject<'_>,
    state: &DestState,
    unfinished: &mut Unfinished,
) -> Result<FileOutcome, Reported> {
    if !copied_as_regular(subject.inode.kind, cx.plan) {
        let id = special::make_special(cx, &mut worker.report, subject, state)?;
        return Ok(FileOutcome { id, attributes_kept: true, ..FileOutcome::default() });
    }
    let started = Instant::now();
    let files = open::both_sides(cx, worker, subject, state, unfinished)?;
    let (id, dest_inode, seen) = (files.known.then_some(files.dest_inode.id), files.dest_inode, files.source_inode);
    if files.created && unfinished.start == 0 {
        cx.attributes().prepare(&files.keep(subject, &seen), &mut worker.report);
    }

    let filled = fill::contents(cx, worker, subject, state, &files, unfinished);
    let moved = Instant::now();
    worker.report.stats.data_time += moved - started;
    let (copied, checked) = filled?;
    if !state.temporary {
        let dest = files.dest.as_fd();
        if !check::judge_in_place(cx, &mut worker.report, dest, &dest_inode, subject.dest.path, &checked) {
            return Err(Reported);
        }
    } else if unfinished.number.is_none() {
        // With `--resume` it stays for the next run.
        cx.session.partials.is_nameless(subject.dest, subject.sides, dest_inode.id);
    }
    worker.report.stats.regular += 1;

    let set = close::set_attributes(cx, &mut worker.report, subject, state, (&files, &copied), unfinished)?;
    let Set { kept: attributes_kept, deferred } = set;
    worker.report.stats.metadata_time += moved.elapsed();
    // A second attempt was of a source that nobody had seen settle.
    let copied_again = copied.changed != seen.changed || copied.modified != seen.modified;
    let as_seen = attributes_kept && deferred.is_none() && !copied_again;
    worker.deferred.extend(deferred);

    written::sync_early(cx, worker, &dest_inode);
    let unsynced = close::close(cx, &mut worker.report, subject, state, files, unfinished)?;
    if !attributes_kept && !state.temporary {
        return Err(Reported);
    }
    let source = unfinished.print.filter(|_| as_seen);
    Ok(FileOutcome { id, checked, attributes_kept, unsynced, source })
}
