//! Giving a part of the tree to another thread, and finishing a directory when its last part is done.
//!
//! Only directories that this run made are shared: what is created there stands in nobody's way, so the result does not
//! depend on who comes first. Everything else is done by the first thread, in the order of a serial copy.

use std::sync::{Arc, Mutex, PoisonError};

use super::Run;
use super::entry::Top;
use super::ordered::Segment;
use super::peers::ChunkWork;
use super::peers::wire::WorkUnit;
use super::pool::{Offer, Parking};
use super::tree::Frame;

/// What a thread can do that has nothing else to do.
pub(super) enum Task {
    /// Names of a directory to be copied by whoever takes them.
    Names { frame: Frame, top: Top, segment: Option<Segment> },
    /// Names that another process has given to this one.
    WorkUnit(usize, Box<WorkUnit>),
    /// A part of a file, likewise.
    Chunk(usize, Box<ChunkWork>),
    /// A part that another process has done, of this directory.
    PartDone(Arc<Tally>),
}

/// How many parts of a directory are in other hands.
#[derive(Default)]
pub(super) struct Tally(Mutex<Parts>);

#[derive(Default)]
struct Parts {
    open: usize,
    parked: Option<Box<Parked>>,
}

/// A directory of which everything is done but the parts in other hands.
pub(super) struct Parked {
    frame: Frame,
    segment: Option<Segment>,
    above: Option<Arc<Tally>>,
    _parking: Parking,
}

impl Tally {
    pub(super) fn add(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).open += 1;
    }

    /// One part is done. If it was the last one, gives back the directory that waited for it.
    pub(super) fn remove(&self) -> Option<Box<Parked>> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.open -= 1;
        if parts.open == 0 { parts.parked.take() } else { None }
    }

    /// Leaves the directory to whoever does the last part; gives it back if there is none.
    fn park(&self, parked: Box<Parked>) -> Option<Box<Parked>> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if parts.open == 0 {
            return Some(parked);
        }
        parts.parked = Some(parked);
        None
    }

    fn is_done(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).open == 0
    }
}

impl Run<'_> {
    /// Between two entries: gives work away if somebody waits for it, and rests if others are to go first.
    pub(super) fn share_and_rest(&mut self, stack: &mut [Frame], top: &Top) {
        let Some(pool) = self.pool else { return };
        pool.count(1, 0);
        if pool.wants_work() {
            self.give_away(stack, top);
        } else if self.peers.is_some_and(|peers| peers.transport.is_asked_for_work()) {
            self.send_away(stack, top);
        }
        pool.rest_if_needed(|| self.sink.is_too_far_ahead(), || self.cx.cancelled());
    }

    /// Gives half of the names that are left in the outermost directory that can be shared to a thread that waits.
    fn give_away(&mut self, stack: &mut [Frame], top: &Top) {
        let Some(pool) = self.pool else { return };
        let innermost = stack.len() - 1;
        let shareable = |(depth, frame): (usize, &Frame)| frame.has_names_to_share(depth < innermost);
        let Some(donor) = stack.iter().enumerate().position(shareable) else { return };
        // Its names come after everything below it in this stack, which ends where the outermost of the frames below
        // goes on after what it has given away.
        let place = stack[donor + 1..].iter().find_map(|frame| frame.resume.as_ref());
        let frame = &stack[donor];
        let segment = match place {
            Some(place) => self.sink.insert_after(place),
            None => self.sink.insert_after_current(),
        };
        let resume = match (&frame.resume, &segment) {
            (None, Some(segment)) => self.sink.insert_after(segment),
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
                let back = (self.spawn)(task);
                if back.is_some() {
                    pool.could_not_spawn();
                }
                back
            }
            Offer::Back(task) => Some(task),
        };
        if let Some(Task::Names { frame: part, segment, .. }) = back {
            // Nobody wants it any more. Its segment stays where it is, empty.
            self.sink.close(segment);
            let frame = &mut stack[donor];
            frame.take_back(part);
            if let Some(tally) = &frame.tally {
                tally.remove();
            }
        }
    }

    /// Does what another thread, or another process, has given away.
    pub(super) fn do_task(&mut self, task: Task) {
        let (frame, mut top, segment) = match task {
            Task::Names { frame, top, segment } => (frame, top, segment),
            Task::WorkUnit(from, parcel) => return self.do_parcel(from, *parcel),
            Task::Chunk(from, chunk) => return self.do_chunk(from, &chunk),
            Task::PartDone(tally) => return self.part_is_done(Some(tally)),
        };
        let tally = frame.tally.clone();
        let before = self.sink.enter(segment);
        self.walk_tree(frame, &mut top);
        self.sink.switch_to(before);
        self.part_is_done(tally);
    }

    /// A part of a directory is done: finishes the directory if it was the last, and those above it that waited for it.
    fn part_is_done(&mut self, tally: Option<Arc<Tally>>) {
        let mut next = tally;
        while let Some(parked) = next.take().and_then(|tally| tally.remove()) {
            let Parked { frame, segment, above, .. } = *parked;
            let before = self.sink.enter(segment);
            self.directory_is_full(Box::new(frame));
            self.sink.switch_to(before);
            next = above;
        }
    }

    /// Whether the directory has to wait for parts in other hands; then it is left to them.
    pub(super) fn wait_for_parts(&mut self, mut frame: Frame, parent: Option<&mut Frame>) -> Option<Frame> {
        let Some(tally) = frame.tally.clone().filter(|tally| !tally.is_done()) else { return Some(frame) };
        // Without a pool nothing was given away; if it were, the directory would rather be finished early than never.
        let Some(pool) = self.pool else { return Some(frame) };
        let Some(parking) = pool.reserve_parking() else {
            pool.rest_until(|| tally.is_done());
            return Some(frame);
        };
        let above = parent.map(|parent| Arc::clone(parent.tally.get_or_insert_default()));
        if let Some(above) = &above {
            above.add();
        }
        // What is said when it is finished comes right here; this thread goes on behind it.
        let segment = self.sink.split_current();
        frame.resume = None;
        let parked = Box::new(Parked { frame, segment, above, _parking: parking });
        if let Some(parked) = tally.park(parked) {
            // The last part was done meanwhile.
            let Parked { frame, segment, above, .. } = *parked;
            let before = self.sink.enter(segment);
            self.directory_is_full(Box::new(frame));
            self.sink.switch_to(before);
            self.part_is_done(above);
        }
        None
    }

    /// Waits until nothing is in other hands, and helps; then everything gets its name. For the first thread, which alone meets what stood at the
    /// destination before.
    pub(super) fn drain(&mut self) {
        if let Some(pool) = self.pool {
            pool.drain(|task| self.do_task(task));
        }
        self.give_names();
    }
}
