//! Giving a part of the tree to another thread, and finishing a directory when its last part is done.
//!
//! What is created in a directory that this run made stands in nobody's way. Of the others those are shared in which nothing
//! depends on who comes first ([`look_ahead`]); the rest stays with the first thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_cluster::messages::{Message, WorkUnit};

use crate::context::Worker;
use crate::finish::naming;
use crate::peers::Away;
use crate::peers::paths::pair_of_place;
use crate::plan::Dereference;
use crate::schedule::pool::{Offer, Pool};
use crate::tree::look_ahead;
use crate::tree::walker::Walker;
use crate::work::directory::{Frame, Parked, ReplyHandle, Tally};
use crate::work::entry::Top;
use crate::work::task::Task;

/// Between two entries: gives work away if somebody waits for it, and rests if others are to go first.
pub(crate) fn share_and_rest(walker: &mut Walker<'_>, stack: &mut [Frame], top: &Top) {
    let cx = walker.worker.cx;
    let Some(pool) = walker.pool else { return };
    pool.count(1, 0);
    if pool.wants_work() {
        give_away(walker, stack, top);
    } else if cx.peers.is_some_and(|peers| peers.transport.is_asked_for_work()) {
        send_away(walker, stack, top);
    }
    pool.rest_if_needed(|| walker.sink.is_too_far_ahead(), || cx.cancelled());
}

/// Gives half of the names that are left in the outermost directory that can be shared to a thread that waits.
fn give_away(walker: &mut Walker<'_>, stack: &mut [Frame], top: &Top) {
    let Some(pool) = walker.pool else { return };
    let innermost = stack.len() - 1;
    let order = &walker.worker.cx.services.order;
    let has_names = |depth: usize, frame: &Frame| frame.has_names_to_share(depth < innermost);
    let is_free = |frame: &Frame| frame.place.fresh || order.may_share(frame.place.dest_inode.id);
    let donor = stack.iter().enumerate().position(|(depth, frame)| has_names(depth, frame) && is_free(frame));
    let Some(donor) = donor else {
        if stack.iter().enumerate().any(|(depth, frame)| has_names(depth, frame)) {
            have_looked_ahead(walker, pool, &stack[0]);
        }
        return;
    };
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
    let back = offer(walker, pool, Task::Names { frame: part, top: top.clone(), segment });
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

/// Gives a task to a thread that waits, or to a new one; gives it back if there is none.
fn offer(walker: &Walker<'_>, pool: &Pool<Task>, task: Task) -> Option<Task> {
    match pool.give(task) {
        Offer::Taken => None,
        Offer::ForNewThread(task) => {
            let back = (walker.spawn)(task);
            if back.is_some() {
                pool.could_not_spawn();
            }
            back
        }
        Offer::Back(task) => Some(task),
    }
}

/// Has the thread that waits look which existing directories may be shared: those below the operand, which is the `root` of the
/// first thread's stack.
fn have_looked_ahead(walker: &Walker<'_>, pool: &Pool<Task>, root: &Frame) {
    let cx = walker.worker.cx;
    let Some(sides) = root.sides.clone().filter(|_| !root.is_part && !root.place.fresh) else { return };
    if cx.peers.is_some() || !look_ahead::may_be_shared(cx.plan) || !cx.services.order.ask() {
        return;
    }
    if offer(walker, pool, Task::LookAhead(sides)).is_some() {
        cx.services.order.take_back();
    }
}

/// A part of a directory is done: finishes the directory if it was the last, and those above it that waited for it.
pub(crate) fn part_is_done(walker: &mut Walker<'_>, tally: Option<Arc<Tally>>) {
    let mut next = tally;
    while let Some(parked) = next.take().and_then(|tally| tally.remove()) {
        next = finish_parked(walker, *parked);
    }
}

/// The last part of a directory that waited for its parts is done; gives what waits for it above.
fn finish_parked(walker: &mut Walker<'_>, parked: Parked) -> Option<Arc<Tally>> {
    let before = walker.sink.enter(parked.segment);
    leave_to_queue(&mut walker.worker, parked.frame);
    walker.sink.switch_to(before);
    parked.above
}

/// A directory is full, or a part of one that another process has given us.
pub(crate) fn leave_to_queue(worker: &mut Worker<'_>, frame: Frame) {
    let Some(ReplyHandle { from, token }) = frame.reply else {
        return naming::directory_is_full(worker, frame.directory());
    };
    // Before its directory gets its attributes elsewhere, which giving a name would change again.
    naming::give_names(worker);
    if let Some(peers) = worker.cx.peers {
        peers.tell(Some((from, Message::NamesDone { token, given_back: false })));
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
        let above = finish_parked(walker, *parked);
        part_is_done(walker, above);
    }
    None
}

/// Between two entries: gives half of the names that are left in the outermost directory that can be shared to another
/// process that waits for work.
fn send_away(walker: &mut Walker<'_>, stack: &mut [Frame], top: &Top) {
    let cx = walker.worker.cx;
    let (Some(peers), Some(pool)) = (cx.peers, walker.pool) else { return };
    let innermost = stack.len() - 1;
    // Through links the order decides, as for threads.
    if cx.plan.dereference == Dereference::Always {
        return;
    }
    let shareable = |(depth, frame): (usize, &Frame)| {
        frame.place.fresh && !frame.place.stays.load(Ordering::Relaxed) && frame.has_names_to_share(depth < innermost)
    };
    let Some(donor) = stack.iter().enumerate().position(shareable) else { return };
    // Where too much waits already, others will have work of their own to give.
    let Some(parking) = pool.reserve_parking() else { return };
    let frame = &mut stack[donor];
    let mut part = frame.split();
    let Some(tally) = frame.tally.clone() else { return };
    tally.add();
    let token = peers.new_token();
    let message = Message::Names(WorkUnit {
        token,
        pair: pair_of_place(&part.place, top, peers),
        names: part.listing.names().map(|listed| (&*listed).into()).collect(),
    });
    let away = Away { frame: part, top: top.clone(), _parking: parking };
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
    tally.remove();
    stack[donor].listing.join(away.frame.listing);
}

#[cfg(test)]
#[path = "share_tests.rs"]
mod tests;
