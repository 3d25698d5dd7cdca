//! Giving a part of the tree to another thread, and finishing a directory when its last part is done.
//!
//! Only directories that this run made are shared: what is created there stands in nobody's way, so the result does not
//! depend on who comes first. Everything else is done by the first thread, in the order of a serial copy.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_cluster::messages::{Message, WorkUnit};

use crate::context::{RunContext, Worker};
use crate::finish::naming;
use crate::peers::Away;
use crate::peers::paths::pair_of_place;
use crate::plan::Dereference;
use crate::schedule::pool::Offer;
use crate::tree::walker::Walker;
use crate::walk::Listing;
use crate::work::directory::{Frame, Parked, ReplyHandle, Tally};
use crate::work::entry::Top;
use crate::work::task::Task;

/// Between two entries: gives work away if somebody waits for it, and rests if others are to go first.
pub(crate) fn share_and_rest(walker: &mut Walker<'_>, stack: &mut [Frame], top: &Top) {
    let Some(pool) = walker.pool else { return };
    pool.count(1, 0);
    if pool.wants_work() {
        give_away(walker, stack, top);
    } else if walker.cx.peers.is_some_and(|peers| peers.transport.is_asked_for_work()) {
        send_away(walker, stack, top);
    }
    pool.rest_if_needed(|| walker.sink.is_too_far_ahead(), || walker.cx.cancelled());
}

/// Gives half of the names that are left in the outermost directory that can be shared to a thread that waits.
fn give_away(walker: &mut Walker<'_>, stack: &mut [Frame], top: &Top) {
    let Some(pool) = walker.pool else { return };
    let innermost = stack.len() - 1;
    let shareable = |(depth, frame): (usize, &Frame)| frame.has_names_to_share(depth < innermost);
    let Some(donor) = stack.iter().enumerate().position(shareable) else { return };
    // Its names come after everything below it in this stack, which ends where the outermost of the frames below
    // goes on after what it has given away.
    let place = stack[donor + 1..].iter().find_map(|frame| frame.resume.as_ref());
    let frame = &stack[donor];
    let segment = match place {
        Some(place) => Some(walker.sink.insert_after(place)),
        None => walker.sink.insert_after_current(),
    };
    let resume = match (&frame.resume, &segment) {
        (None, Some(segment)) => Some(walker.sink.insert_after(segment)),
        _ => None,
    };
    let frame = &mut stack[donor];
    frame.resume = frame.resume.take().or(resume);
    let part = frame.split();
    if let Some(tally) = &frame.tally {
        tally.add();
    }
    let back = match pool.give(Task::Names { frame: part, top: top.clone(), segment }) {
        Offer::Taken => None,
        Offer::ForNewThread(task) => {
            let back = (walker.spawn)(task);
            if back.is_some() {
                pool.could_not_spawn();
            }
            back
        }
        Offer::Back(task) => Some(task),
    };
    if let Some(Task::Names { frame: part, segment, .. }) = back {
        // Nobody wants it any more. Its segment stays where it is, empty.
        walker.sink.close(segment);
        let frame = &mut stack[donor];
        frame.listing.join(part.listing);
        if let Some(tally) = &frame.tally {
            tally.remove();
        }
    }
}

/// A part of a directory is done: finishes the directory if it was the last, and those above it that waited for it.
pub(crate) fn part_is_done(walker: &mut Walker<'_>, tally: Option<Arc<Tally>>) {
    let mut next = tally;
    while let Some(parked) = next.take().and_then(|tally| tally.remove()) {
        let Parked { frame, segment, above, .. } = *parked;
        let before = walker.sink.enter(segment);
        leave_to_queue(walker.cx, &mut walker.worker, frame);
        walker.sink.switch_to(before);
        next = above;
    }
}

/// A directory is full, or a part of one that another process has given us.
pub(crate) fn leave_to_queue(cx: RunContext<'_>, worker: &mut Worker<'_>, frame: Frame) {
    match frame.reply {
        Some(reply) => report_part(cx, worker, reply),
        None => naming::directory_is_full(cx, worker, frame.directory()),
    }
}

/// Whether the directory has to wait for parts in other hands; then it is left to them.
pub(crate) fn wait_for_parts(walker: &mut Walker<'_>, mut frame: Frame, parent: Option<&mut Frame>) -> Option<Frame> {
    let Some(tally) = frame.tally.clone().filter(|tally| !tally.is_done()) else { return Some(frame) };
    // Without a pool nothing was given away; if it were, the directory would rather be finished early than never.
    let Some(pool) = walker.pool else { return Some(frame) };
    let Some(parking) = pool.reserve_parking() else {
        pool.rest_until(|| tally.is_done());
        return Some(frame);
    };
    let above = parent.map(|parent| Arc::clone(parent.tally.get_or_insert_default()));
    if let Some(above) = &above {
        above.add();
    }
    // What is said when it is finished comes right here; this thread goes on behind it.
    let segment = walker.sink.split_current();
    frame.resume = None;
    let parked = Box::new(Parked { frame, segment, above, _parking: parking });
    if let Some(parked) = tally.park(parked) {
        // The last part was done meanwhile.
        let Parked { frame, segment, above, .. } = *parked;
        let before = walker.sink.enter(segment);
        leave_to_queue(walker.cx, &mut walker.worker, frame);
        walker.sink.switch_to(before);
        part_is_done(walker, above);
    }
    None
}

/// Between two entries: gives half of the names that are left in the outermost directory that can be shared to another
/// process that waits for work.
fn send_away(walker: &mut Walker<'_>, stack: &mut [Frame], top: &Top) {
    let (Some(peers), Some(pool)) = (walker.cx.peers, walker.pool) else { return };
    let innermost = stack.len() - 1;
    // Through links the order decides, as for threads.
    if walker.cx.plan.dereference == Dereference::Always {
        return;
    }
    let shareable = |(depth, frame): (usize, &Frame)| {
        !frame.place.stays.load(Ordering::Relaxed) && frame.has_names_to_share(depth < innermost)
    };
    let Some(donor) = stack.iter().enumerate().position(shareable) else { return };
    // Where too much waits already, others will have work of their own to give.
    let Some(parking) = pool.reserve_parking() else { return };
    let frame = &mut stack[donor];
    let mut part = frame.split();
    let Some(tally) = frame.tally.clone() else { return };
    tally.add();
    let names = part.listing.take_names();
    let token = peers.new_token();
    let message = Message::Names(WorkUnit {
        token,
        pair: pair_of_place(&part.place, top, peers),
        names: names.iter().map(Into::into).collect(),
    });
    let away = Away { frame: part, top: top.clone(), names, tally, _parking: parking };
    // Before it is sent: the answer may come at once.
    peers.keep(token, away);
    pool.one_more();
    if peers.transport.give(message.encode()).is_none() {
        walker.worker.report.stats.given_away += 1;
        return;
    }
    // Somebody else has served who waited.
    pool.one_fewer();
    let Some(away) = peers.take_back(token) else { return };
    away.tally.remove();
    stack[donor].listing.join(Listing::of(away.names));
}

/// Everything of a part that another process has given us is done.
fn report_part(cx: RunContext<'_>, worker: &mut Worker<'_>, reply: ReplyHandle) {
    // Before its directory gets its attributes elsewhere, which giving a name would change again.
    naming::give_names(cx, worker);
    if let Some(peers) = cx.peers {
        peers.tell(Some((reply.from, Message::NamesDone { token: reply.token, given_back: false })));
    }
}

#[cfg(test)]
#[path = "share_tests.rs"]
mod tests;
